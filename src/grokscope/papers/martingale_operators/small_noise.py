"""Noise that vanishes: where does a learned covariance stop helping? (The Gray-Scott failure.)"""

from __future__ import annotations

from functools import partial
from typing import Any

from grokscope.claims.evidence import ArmRuns
from grokscope.claims.judgements import Level
from grokscope.papers.martingale_operators.figures import scatter
from grokscope.papers.martingale_operators.judgements import Ratio, trend
from grokscope.papers.martingale_operators.settings import study
from grokscope.store import Run

USUAL, LEAST = "σ = 0.1", "σ = 0.001"
WIDE, LONG = ", floor 0.001", f"{LEAST}, 6,000 steps"
ARMS = {
    **{f"σ = {s:g}": {"equation.noise": s} for s in (0.1, 0.03, 0.01, 0.003, 0.001)},
    USUAL + WIDE: {"equation.noise": 0.1, "objective.floor": 1e-3},
    LEAST + WIDE: {"equation.noise": 0.001, "objective.floor": 1e-3},
    LONG: {"equation.noise": 0.001, "training.epochs": 6000},
}
GAIN = "Dirac over operator, pointwise W2"
UNFINISHED = "error of the deviation after four fifths of the training over that at the end"
DRAWN = {
    "gain": (GAIN,),
    "mean_error": ("Error of the mean, in deviations",),
    "std_error": ("Error of the deviation",),
    "start_loss": ("Likelihood loss at the start",),
}
FLOORS = "floor 10⁻³ over 10⁻⁶"


def noise_of(arm: ArmRuns) -> float | None:
    """Of the arms that differ in nothing else."""
    return None if "," in arm.name else arm.spec.equation.noise


def summarise(run: Run) -> dict[str, float]:
    """The loss before the first step, the largest error of the deviation on the way, and by what
    factor that error still falls in the last fifth of the training."""
    spread = run.curve["spread_error"].to_list()
    return {
        "start_loss": run.curve["train_loss"][0],
        "largest_spread": max(spread),
        "unfinished": spread[4 * (len(spread) - 1) // 5] / spread[-1],
    }


unfinished = partial(Level, column="unfinished", effect=UNFINISHED, logarithmic=True)


def with_floor(arm: str, **bounds: Any) -> Ratio:
    return Ratio(arm + WIDE, "std_error", FLOORS, reference=arm, **bounds)


STUDY = study(
    "small-noise",
    ["φ⁴"],
    ARMS,
    {
        "gain vanishes with the noise": trend(noise_of, "the noise", "gain", GAIN, low=0.3),
        "no gain at the smallest noise": Level(LEAST, "gain", GAIN, 0.67, 1.5, logarithmic=True),
        "one deviation still gains": Ratio(
            LEAST, "dirac_w2", "Dirac over B1, pointwise W2", 1.5, over="global_w2"
        ),
        "the likelihood starts further off": trend(
            noise_of, "the noise", "start_loss", "loss before the first step", high=-0.8
        ),
        "the deviation overshoots": Level(
            LEAST, "largest_spread", "largest error of the deviation", low=3.0
        ),
        "it has not settled": unfinished(LEAST, low=1.1),
        "at the usual noise it has": unfinished(USUAL, high=1.1),
        "more steps settle it": Ratio(
            LONG, "std_error", "6,000 steps over 1,500", high=0.1, reference=LEAST
        ),
        "with more steps no gain is lost": Level(LONG, "gain", GAIN, 0.67, logarithmic=True),
        "mean error takes over": Level(
            LEAST, "mean_error", "error of the mean in deviations", low=1.0
        ),
        "floor matters at the smallest noise": with_floor(LEAST, low=1.5),
        "floor does not matter at the usual noise": with_floor(USUAL, low=0.8, high=1.25),
    },
    draw=scatter(lambda arm: arm.spec.equation.noise, "Noise σ", DRAWN, rule=1.0),
    summarise=summarise,
)
