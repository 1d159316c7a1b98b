"""In-context runs of a second or two, for tests: by AdamW and by IVON, on the same task."""

from grokscope.spec import InContextSpec

SMALL = InContextSpec().replace(
    **{
        "task.modulus": 5,
        "task.tasks": 8,
        "task.triples": 4,
        "task.train_fraction": 0.6,
        "task.evaluated": 16,
        "task.seed": 0,
        "model.width": 8,
        "model.hidden": 16,
        "model.heads": 2,
        "optimiser.batch": 16,
        "optimiser.warmup": 5,
        "training.epochs": 40,
        "training.log_every": 10,
        "training.snapshots": 2,
    }
)
IVON = SMALL.replace(
    optimiser={
        "kind": "ivon",
        "lr": 0.1,
        "weight_decay": 1e-6,
        "beta2": 0.999,
        "sample_size": float(SMALL.task.sample_size),
        "clip_radius": 1e-3,
    },
    samples=8,
)
