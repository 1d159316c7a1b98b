"""Noise that vanishes: where does a learned covariance stop helping? (The Gray-Scott failure.)"""

from __future__ import annotations

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Level, Trend
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import PHI4, PROSE, SEEDS, Ratio, only, vary

NOISES = (0.1, 0.03, 0.01, 0.003, 0.001)
WIDE = 1e-3
ARMS = {
    **{f"σ = {s:g}": {"equation.noise": s} for s in NOISES},
    **{
        f"σ = {s:g}, floor {WIDE:g}": {"equation.noise": s, "objective.floor": WIDE}
        for s in (0.1, 0.001)
    },
}
GAIN = "Dirac over operator, pointwise W2"


def noise_of(arm: ArmRuns) -> float | None:
    spec: object = arm.spec
    floor, noise = spec.objective.floor, spec.equation.noise  # type: ignore[attr-defined]
    return noise if floor < WIDE else None


STUDY = PROSE.study(
    "small-noise",
    {
        "gain vanishes with the noise": Trend(
            noise_of, "the noise", Event("gain", "gain", GAIN), low=0.3, censored=False
        ),
        "no gain at the smallest noise": Level(
            "σ = 0.001", "gain", GAIN, high=1.5, logarithmic=True
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
    seeds=SEEDS,
)
