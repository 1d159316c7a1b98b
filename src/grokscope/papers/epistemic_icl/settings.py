"""Scales of the in-context studies, and how their networks are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from grokscope.claims.evidence import Event
from grokscope.claims.studies import Claim, ScaleName, Setting
from grokscope.spec import InContextSpec

REGIME = "many tasks"
REGIMES = {
    REGIME: "Most of the tasks and pairs are trained on: the regime in which the paper's networks "
    "generalise to unseen tasks.",
}
ADAMW, IVON, FEW_ADAMW, FEW_IVON = "AdamW", "IVON", "AdamW, few tasks", "IVON, few tasks"
GENERALISE = Event("grokked", "generalise to unseen tasks", "step of generalisation")
MEMORISE = Event("memorised", "memorise", "step of memorisation")
ask = partial(Claim, ours=True)  # a question of our own

# The paper's number of examples for IVON's variance. Seen pairs times seen tasks would be some two
# hundred times smaller here, and the noise of the draws as large as the weights.
SAMPLE_SIZE = 344_576.0

SMOKE: dict[str, Any] = {
    "task.modulus": 5,
    "task.tasks": 16,
    "task.triples": 4,
    "task.train_fraction": 0.6,
    "task.evaluated": 32,
    "model.width": 8,
    "model.hidden": 16,
    "model.heads": 2,
    "optimiser.batch": 16,
    "optimiser.warmup": 10,
    "training.epochs": 60,
    "training.log_every": 6,
    "training.snapshots": 4,
    "samples": 4,
}
# From the pilots: the smallest setting in which accuracy on unseen tasks was seen to rise.
LAPTOP: dict[str, Any] = {
    "task.modulus": 7,
    "task.tasks": 40,
    "task.triples": 8,
    "task.train_fraction": 0.8,
    "model.hidden": 128,
    "optimiser.batch": 80,
    "optimiser.lr": 2e-3,
    "optimiser.weight_decay": 0.1,
    "optimiser.schedule": "cosine",
    "optimiser.schedule_floor": 0.1,
    "training.epochs": 30_000,
    "training.log_every": 500,
    "training.snapshots": 30,
}
PAPER: dict[str, Any] = {
    "task.modulus": 29,
    "task.tasks": 512,
    "task.triples": 32,
    "task.train_fraction": 0.8,
    "task.evaluated": 1024,
    "model.layers": 6,
    "model.width": 512,
    "model.hidden": 2048,
    "optimiser.batch": 1024,
    "optimiser.lr": 1.5e-4,
    "optimiser.weight_decay": 1.0,
    "optimiser.warmup": 1000,
    "optimiser.schedule": "cosine",
    "optimiser.schedule_floor": 0.1,
    "training.epochs": 200_000,
    "training.log_every": 1000,
    "training.snapshots": 50,
}
SCALES: dict[ScaleName, dict[str, Any]] = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}
# Seen tasks of the map, and of the arms that see few; shares of pairs of the map.
DIVERSITY: dict[ScaleName, tuple[int, ...]] = {
    "smoke": (8, 16),
    "laptop": (8, 16, 20, 40),
    "paper": (32, 64, 128, 256, 512),
}
SHARES: dict[ScaleName, tuple[float, ...]] = {
    "smoke": (0.6,),
    "laptop": (0.6, 0.8),
    "paper": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
}


def base(scale: ScaleName) -> InContextSpec:
    """By AdamW; the tasks, the split and the measured sequences are the same for all seeds, so that
    seeds make an ensemble."""
    return InContextSpec().replace(**{**SCALES[scale], "task.seed": 0})


def by_ivon(spec: InContextSpec, **changes: Any) -> InContextSpec:
    """The same by IVON with the paper's numbers."""
    return spec.replace(
        **{
            "optimiser.kind": "ivon",
            "optimiser.lr": 0.5,
            "optimiser.weight_decay": 1e-6,
            "optimiser.beta2": 0.99999,
            "optimiser.clip": 0.0,
            "optimiser.clip_radius": 1e-3,
            "optimiser.vector_decay": 1.0,
            "optimiser.sample_size": SAMPLE_SIZE,
            **changes,
        }
    )


def with_tasks(spec: InContextSpec, scale: ScaleName, tasks: int, **changes: Any) -> InContextSpec:
    """Another number of seen tasks. The batch stays as large as equal turns allow."""
    size = SCALES[scale]["optimiser.batch"]
    return spec.replace(
        **{"task.tasks": tasks, "optimiser.batch": size // tasks * tasks, **changes}
    )


def settings(*scales: ScaleName) -> Callable[[ScaleName], Sequence[Setting]]:
    """The one regime at the scales named, by default at all."""
    return lambda scale: (
        [Setting(scale, REGIME, base(scale))] if scale in (scales or tuple(SCALES)) else []
    )


def main_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    """Both methods with many and with few tasks; all train to the end of the budget."""
    scale, many = setting.scale, setting.baseline(seed)
    few = with_tasks(many, scale, DIVERSITY[scale][0])
    return {ADAMW: many, IVON: by_ivon(many), FEW_ADAMW: few, FEW_IVON: by_ivon(few)}
