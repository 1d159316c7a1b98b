"""One small run of each kind of task, model, optimiser, prior and intervention.

`python -m golden.record FOLDER STORE` (in `tests`) trains them with whatever version is installed;
the committed numbers in `runs/` were made by version 0.1.0, before the engine was taken apart into
problems.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import grokscope as gs

SMALL: dict[str, Any] = {
    "task.modulus": 13,
    "task.train_fraction": 0.6,
    "model.width": 16,
    "model.hidden": 32,
    "optimiser.lr": 3e-3,
    "training.epochs": 60,
    "training.log_every": 5,
    "seed": 3,
}
NOISE = {"task.alphabet": 13}
GENERAL: dict[str, Any] = {"model.kind": "transformer", "model.heads": 2}
BITS = {
    "task.modulus": 59,
    "task.kind": "parity",
    "task.bits": 8,
    "task.operands": 3,
    "task.examples": 200,
}
STREAM = {
    **BITS,
    **GENERAL,
    "task.kind": "parity_stream",
    "task.bits": 5,
    "optimiser.batch": 32,
}
PRE = "attention+mlp+final"

CASES: dict[str, dict[str, Any]] = {
    "addition": {},
    "subtraction": {"task.kind": "subtraction"},
    "multiplication": {"task.kind": "multiplication", "task.split": "mirror"},
    "division": {"task.kind": "division", "task.length": 6},
    "parity": BITS,
    "permutation": {"task.kind": "permutation", "task.symbols": 3, "task.modulus": 59},
    "three-operands": {"task.operands": 3, "task.modulus": 5},
    "random-positions": {"task.positions": "random", "task.distractors": "own", "task.alphabet": 3},
    "noise": NOISE,
    "heads": {"model.heads": 2, **NOISE},
    "linear-relu": {"model.attention": "linear_relu", **NOISE},
    "init-scale": {"model.init_scale": 2.0},
    "double-loss": {"model.loss_precision": "float64"},
    "sgd": {"optimiser.kind": "sgd", "optimiser.lr": 0.1, "optimiser.weight_decay": 0.01},
    "lion": {"optimiser.kind": "lion", "optimiser.lr": 3e-4},
    "muon": {"optimiser.kind": "muon"},
    "batch": {"optimiser.batch": 32, "optimiser.clip": 0.0, "optimiser.warmup": 0},
    "oracle": {"prior.kind": "oracle", **NOISE},
    "adversarial": {"prior.kind": "adversarial", **NOISE},
    "entropy": {"prior.kind": "entropy", "prior.strength": 0.1, **NOISE},
    "sparsity": {"prior.kind": "sparsity", "prior.strength": 0.1, **NOISE},
    "inferred": {"prior.kind": "inferred", **NOISE},
    "schedule": {"prior.kind": "oracle", "prior.start": 10, "prior.end": 40, **NOISE},
    "norm": {"interventions.mlp_norm": 4.0, "optimiser.weight_decay": 0.0},
    "query-key": {"interventions.query_key_penalty": 0.5},
    "frozen-oracle": {"interventions.frozen_attention": "oracle"},
    "frozen-uniform": {"interventions.frozen_attention": "uniform"},
    "frozen-adversarial": {"interventions.frozen_attention": "adversarial"},
    "random-mask": {"interventions.mask.kind": "random", "interventions.mask.keep": 0.4},
    "norm-mask": {
        "interventions.mask.kind": "random",
        "interventions.mask.keep": 0.4,
        "interventions.mask.effect": "norm",
    },
    "stops": {
        "training.stop": "grokked",
        "training.test_threshold": 0.01,
        "training.stop_after": 10,
    },
    "stream": STREAM,
    "two-layers": {**GENERAL, "model.layers": 2, "model.norm": PRE, "model.activation": "gelu"},
    "rotary": {**GENERAL, "model.layers": 2, "model.positions": "rotary", "model.norm": PRE},
    "no-positions": {**GENERAL, "model.layers": 2, "model.positions": "none"},
    "block": GENERAL,
    "block-pre-norm": {**GENERAL, "model.norm": PRE, "model.masking": "none"},
    "block-rms": {**GENERAL, "model.norm": "query_key+value+mlp", "model.norm_kind": "rms"},
    "block-post": {**GENERAL, "model.norm": "post", "model.residual": "no"},
    "block-readout": {**GENERAL, "model.readout_scale": 0.5, "model.positions": "rotary"},
    "block-prior": {**GENERAL, "prior.kind": "oracle", **NOISE},
    "block-frozen": {**GENERAL, "interventions.frozen_attention": "oracle"},
    "block-muon": {**GENERAL, "optimiser.kind": "muon", "model.norm": "mlp"},
}


def product(operands: np.ndarray, modulus: int) -> np.ndarray:  # (n, k) -> (n,)
    """The rule of the custom task."""
    return operands[:, 0] * operands[:, 1] % modulus


def make_specs() -> dict[str, gs.RunSpec]:
    """Every case by name. Those that need another run come last."""
    base = gs.RunSpec().replace(**SMALL)
    specs = {name: base.replace(**changes) for name, changes in CASES.items()}
    fields = {"modulus": 13, "train_fraction": 0.6}
    specs["custom"] = base.replace(task=gs.custom_task(product, **fields))
    teacher = specs["oracle"].id
    for name, changes in {
        "teacher": {"prior.kind": "teacher", "prior.teacher": teacher},
        "teacher-positions": {
            "prior.kind": "teacher",
            "prior.teacher": teacher,
            "prior.teacher_view": "position",
        },
        "frozen-teacher": {
            "interventions.frozen_attention": "teacher",
            "prior.teacher": teacher,
        },
        "ticket": {"interventions.mask.kind": "magnitude", "interventions.mask.source": teacher},
        "shuffled": {"interventions.mask.kind": "shuffled", "interventions.mask.source": teacher},
    }.items():
        specs[name] = base.replace(**changes, **NOISE)
    return specs
