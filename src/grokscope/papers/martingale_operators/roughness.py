"""Rough volatility: a Gaussian head is right for log V and wrong for log S."""

from __future__ import annotations

from typing import Any

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Level, Trend
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import JOINT, PROSE, SEEDS, Ratio, named, vary

HURSTS = (0.05, 0.1, 0.2, 0.35, 0.5)
ARMS = {f"H = {h:g}": {**JOINT, "equation.hurst": h} for h in HURSTS}
CURVES: dict[str, dict[str, Any]] = {
    "log variance": {"equation.kind": "log_variance"},
    "log price": {"equation.kind": "log_price"},
}
LOSS = Event("excess_w2", "exceed", "pointwise W2 in excess of the sampling floor")


def hurst_of(arm: ArmRuns) -> float:
    return arm.spec.equation.hurst


STUDY = PROSE.study(
    "roughness",
    {
        "better than the Dirac at H = 0.1": Ratio(
            "H = 0.1", "dirac_w2", "w2", "the Dirac over the operator, pointwise W2", 2.6
        ),
        "better than a constant covariance at H = 0.1": Ratio(
            "H = 0.1", "constant_w2", "w2", "B2 over the operator, pointwise W2", 1.1
        ),
        "roughness does not matter": Trend(hurst_of, "H", LOSS, -0.3, 0.3, censored=False),
        "a Gaussian is not enough": Level(
            "H = 0.05",
            "gaussian_excess",
            "true Gaussian over the sampling floor",
            low=1.5,
            logarithmic=True,
        ),
    },
    settings=named(CURVES),
    arms=vary(ARMS),
    draw=figures.draw_roughness,
    seeds=SEEDS,
)
