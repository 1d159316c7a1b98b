"""Figure 5c and d: a factor on the outputs at a fixed learning rate."""

from __future__ import annotations

from typing import Any

from grokscope.claims.evidence import ArmRuns
from grokscope.claims.judgements import Trend
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.judgements import Slope
from grokscope.papers.inductive_bias.quantities import first_step
from grokscope.papers.inductive_bias.settings import (
    GENERALISED,
    MOST,
    PILOTS,
    PLAIN,
    RUNS,
    TIMES,
    ask,
    base,
    changed,
    faster,
)
from grokscope.papers.inductive_bias.side_by_side import compare_readouts
from grokscope.spec import RunSpec

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)
KAIMING = "Kaiming, ε 0"
REGIMES: dict[str, dict[str, Any]] = {
    PLAIN: {},
    KAIMING: {"model.init": "kaiming", "optimiser.epsilon": 0.0},
}
SUBTRACTED = "initial outputs subtracted"
NAME = "α"


def settings(scale: ScaleName) -> list[Setting]:
    """With Adam's epsilon 0 and Kaiming's initialisation on a laptop only."""
    chosen = REGIMES if scale == "laptop" else {PLAIN: {}}
    return [Setting(scale, name, base(scale, **changes)) for name, changes in chosen.items()]


def arm(alpha: float, subtracted: bool = False) -> str:
    return f"α {alpha:g}" + f", {SUBTRACTED}" * subtracted


def scaled(alpha: float, subtracted: bool = False) -> dict[str, Any]:
    initial = {"model.initial_outputs": "subtracted"} if subtracted else {}
    return initial | ({"model.readout_scale": alpha} if alpha != 1 else {})


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = SCALES[::4] if setting.scale == "smoke" else SCALES
    found = {arm(alpha): changed(setting, seed, scaled(alpha)) for alpha in chosen}
    if setting.scale == "laptop":
        found |= {arm(a, True): changed(setting, seed, scaled(a, True)) for a in SCALES[::2]}
    return found


def alpha_of(one: ArmRuns) -> float | None:
    return None if SUBTRACTED in one.name else one.spec.model.readout_scale


def alpha_subtracted(one: ArmRuns) -> float | None:
    return one.spec.model.readout_scale if SUBTRACTED in one.name else None


STUDY = Study(
    name="readout",
    source="Figure 5c and d",
    title="A factor α on the outputs, at a fixed learning rate",
    paper_says="The gradient of cross-entropy grows like α, not α², and Adam divides it out, so "
    "that updates do not depend on α. At a fixed learning rate a larger α then generalises "
    "earlier: α acts like an inverse temperature, not like the laziness that it stands for in "
    "other work.",
    how="Logits are multiplied by α, in training and test. Once with the authors' initialisation "
    "and Adam's epsilon of 1e-8, once with Kaiming's and none. Some arms subtract the outputs of "
    "the initial weights from all later ones, which the authors have a script for but no data.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "larger α is faster",
            "At a fixed learning rate a larger α generalises earlier.",
            Trend(alpha_of, NAME, GENERALISED, high=-0.2),
        ),
        Claim(
            "update norms are comparable",
            "Early updates hardly depend on α.",
            Slope("early_update", "the mean early update norm", alpha_of, NAME, -0.25, 0.25),
        ),
        Claim(
            "the gradient grows like α",
            "The first gradient grows like α, not like α².",
            Slope("first_gradient", "the norm of the first gradient", alpha_of, NAME, 0.8, 1.2),
        ),
        Claim(
            "Adam's update does not depend on α",
            "The first update does not depend on α.",
            Slope("first_update", "the norm of the first update", alpha_of, NAME, -0.05, 0.05),
        ),
        Claim(
            "subtracting does not delay",
            "Subtracting the initial outputs hardly changes the time (α = 1): it does not delay …",
            faster(arm(1.0, True), arm(1.0), 0.8),
        ),
        Claim(
            "subtracting does not speed up",
            "… and does not speed up, by more than a fourth.",
            faster(arm(1.0), arm(1.0, True), 0.8),
        ),
        ask(
            "larger α is faster, subtracted",
            "With the initial outputs subtracted a larger α generalises earlier.",
            Trend(alpha_subtracted, NAME, GENERALISED, high=-0.2),
        ),
    ),
    draw=figures.over(
        lambda one: alpha_of(one) or alpha_subtracted(one), "Factor α on the outputs"
    ),
    caption=f"{TIMES} With the initial outputs subtracted: the other colour.",
    table=compare_readouts,
    curves=("test_loss",),
    curve_arms=tuple(map(arm, SCALES)),
    summarise=first_step,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
