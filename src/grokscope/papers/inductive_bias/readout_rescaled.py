"""Figure 5a and b: the same factor with the learning rate divided by its square."""

from __future__ import annotations

from typing import Any

from grokscope.claims.judgements import Trend
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.judgements import Slope
from grokscope.papers.inductive_bias.readout import NAME, SCALES, alpha_of, arm, scaled, settings
from grokscope.papers.inductive_bias.settings import GENERALISED, MOST, PILOTS, RUNS, TIMES, changed
from grokscope.papers.inductive_bias.side_by_side import compare_rescaled
from grokscope.spec import RunSpec


def rescaled(rate: float, alpha: float) -> dict[str, Any]:
    """With the rate of the lazy limit of gradient descent, lr / α²."""
    slower = {"optimiser.lr": float(f"{rate / alpha**2:.6g}")}
    return scaled(alpha) | (slower if alpha != 1 else {})


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = SCALES[::4] if setting.scale == "smoke" else SCALES
    rate = setting.base.optimiser.lr
    return {arm(alpha): changed(setting, seed, rescaled(rate, alpha)) for alpha in chosen}


STUDY = Study(
    name="readout-rescaled",
    source="Figure 5a and b",
    title="A factor α on the outputs, with the learning rate divided by α²",
    paper_says="With the learning rate that suits gradient descent, lr / α², a larger α "
    "generalises later. That is no sign of laziness: update norms diverge, since Adam needs no "
    "division.",
    how="As before, with the learning rate divided by α². Weight decay, which is multiplied by it, "
    "weakens as well.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "larger α is slower",
            "With lr / α² a larger α generalises later.",
            Trend(alpha_of, NAME, GENERALISED, low=0.2),
        ),
        Claim(
            "update norms diverge",
            "Early updates shrink with α, at least like 1/α.",
            Slope("early_update", "the mean early update norm", alpha_of, NAME, high=-1.0),
        ),
    ),
    draw=figures.over(alpha_of, "Factor α on the outputs"),
    caption=TIMES,
    table=compare_rescaled,
    curves=("test_loss",),
    curve_arms=tuple(map(arm, SCALES)),
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
