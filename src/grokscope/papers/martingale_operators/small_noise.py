"""Noise that vanishes: where does a learned covariance stop helping? (The Gray-Scott failure.)"""

from __future__ import annotations

from typing import Any

import polars as pl

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Level, Trend
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import PHI4, PROSE, SEEDS, Ratio, only, vary
from grokscope.store import Run

NOISES = (0.1, 0.03, 0.01, 0.003, 0.001)
WIDE = 1e-3
ARMS: dict[str, dict[str, Any]] = {
    **{f"σ = {s:g}": {"equation.noise": s} for s in NOISES},
    **{
        f"σ = {s:g}, floor {WIDE:g}": {"equation.noise": s, "objective.floor": WIDE}
        for s in (0.1, 0.001)
    },
}
GAIN = "Dirac over operator, pointwise W2"


def noise_of(arm: ArmRuns) -> float | None:
    """Of the arms that differ in nothing else."""
    spec: Any = arm.spec
    return spec.equation.noise if spec.objective.floor < WIDE else None


def summarise(run: Run) -> dict[str, float]:
    return read_stability(run.curve)


def read_stability(curve: pl.DataFrame) -> dict[str, float]:
    """The loss before the first step, the largest error of the deviation on the way, and by what
    factor that error still falls in the last fifth of the training."""
    spread = curve["spread_error"]
    return {
        "start_loss": float(curve["train_loss"][0]),
        "largest_spread": float(spread.max()),  # type: ignore[arg-type]
        "unfinished": float(spread[4 * (len(spread) - 1) // 5] / spread[-1]),
    }


UNFINISHED = "error of the deviation after four fifths of the training over that at the end"

STUDY = PROSE.study(
    "small-noise",
    {
        "gain vanishes with the noise": Trend(
            noise_of, "the noise", Event("gain", "gain", GAIN), low=0.3, censored=False
        ),
        "no gain at the smallest noise": Level(
            "σ = 0.001", "gain", GAIN, 0.67, 1.5, logarithmic=True
        ),
        "one deviation still gains": Ratio(
            "σ = 0.001", "dirac_w2", "global_w2", "Dirac over B1, pointwise W2", 1.5
        ),
        "the likelihood starts further off": Trend(
            noise_of,
            "the noise",
            Event("start_loss", "start", "loss before the first step"),
            high=-0.8,
            censored=False,
        ),
        "the deviation overshoots": Level(
            "σ = 0.001", "largest_spread", "largest error of the deviation", low=3.0
        ),
        "it has not settled": Level(
            "σ = 0.001", "unfinished", UNFINISHED, low=1.1, logarithmic=True
        ),
        "at the usual noise it has": Level(
            "σ = 0.1", "unfinished", UNFINISHED, high=1.1, logarithmic=True
        ),
        "mean error takes over": Level(
            "σ = 0.001", "mean_error", "error of the mean in deviations", low=1.0
        ),
        "floor matters at the smallest noise": Ratio(
            "σ = 0.001, floor 0.001",
            "std_error",
            "std_error",
            "floor 10⁻³ over 10⁻⁶",
            1.5,
            reference="σ = 0.001",
        ),
        "floor does not matter at the usual noise": Ratio(
            "σ = 0.1, floor 0.001",
            "std_error",
            "std_error",
            "floor 10⁻³ over 10⁻⁶",
            0.8,
            1.25,
            "σ = 0.1",
        ),
    },
    settings=only((PHI4,)),
    arms=vary(ARMS),
    draw=figures.draw_noises,
    summarise=summarise,
    seeds=SEEDS,
)
