"""Section 3: is the factor on the outputs a control of laziness? The control with SGD."""

from __future__ import annotations

from typing import Any

from grokscope.claims.evidence import ArmRuns
from grokscope.claims.studies import Setting
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.doses import rescaled
from grokscope.papers.inductive_bias.judgements import Slope
from grokscope.papers.inductive_bias.quantities import summarise_start
from grokscope.papers.inductive_bias.settings import PLAIN, regimes, study
from grokscope.spec import RunSpec

SCALES = (0.5, 1.0, 2.0, 4.0)
# Short, with the weights of every row kept: the question is how the training loss begins to fall
# and where the kernel is then, not whether it generalises.
SHORT = {"training.epochs": 300, "training.log_every": 1, "training.snapshots": 300}
# Gradient descent with momentum on the squared error, without decay: the theory's own setting. Of
# the rates tried on seed 456, which is judged, 0.1 is steady (the loss falls by 4 % in 400 steps),
# 2 diverges. It is slow, so that a row every 5 steps is exact enough.
DESCENT: dict[str, Any] = {
    "training.epochs": 600,
    "training.log_every": 5,
    "training.snapshots": 120,
    "optimiser.kind": "sgd",
    "optimiser.lr": 0.1,
    "optimiser.weight_decay": 0.0,
    "model.loss": "squared",
}
INITIAL = {"model.initial_outputs": "subtracted"}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    one = setting.baseline(seed).replace(**INITIAL)
    return {
        f"{name}, α {alpha:g}": start.replace(**rescaled(start.optimiser.lr, alpha))
        for name, start in (("SGD", one.replace(**DESCENT)), ("AdamW", one))
        for alpha in SCALES
    }


def by_descent(arm: ArmRuns) -> float | None:
    return arm.spec.model.readout_scale if arm.spec.optimiser.kind == "sgd" else None


def by_adam(arm: ArmRuns) -> float | None:
    return arm.spec.model.readout_scale if arm.spec.optimiser.kind == "adamw" else None


TIME = "the step at which 3 % of the training loss is gone"
KERNEL = "the kernel's drift by then"

STUDY = study(
    "laziness",
    {
        "SGD: the same speed": Slope("begun", TIME, by_descent, "α", -0.3, 0.3),
        "SGD: lazier": Slope("kernel_begun", KERNEL, by_descent, "α", high=-0.5),
        "AdamW: another speed": Slope("begun", TIME, by_adam, "α", low=0.5),
        "AdamW: lazier": Slope("kernel_begun", KERNEL, by_adam, "α", high=-0.5),
    },
    settings=regimes({PLAIN: SHORT}),
    arms=arms,
    draw=figures.draw_laziness,
    summarise=summarise_start,
)
