"""Rough volatility: a Gaussian head is right for log V and wrong for log S."""

from __future__ import annotations

from typing import Any

from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import (
    JOINT,
    PROSE,
    SEEDS,
    Fixed,
    Ratio,
    named,
    vary,
)

HURSTS = (0.05, 0.1, 0.2, 0.35, 0.5)
ARMS = {f"H = {h:g}": {**JOINT, "equation.hurst": h} for h in HURSTS}
VARIANCE, PRICE = "log variance", "log price"
CURVES: dict[str, dict[str, Any]] = {
    VARIANCE: {"equation.kind": "log_variance"},
    PRICE: {"equation.kind": "log_price"},
}
ROUGHEST = "H = 0.05 over H = 0.5, pointwise W2"

STUDY = PROSE.study(
    "roughness",
    {
        "better than the Dirac at H = 0.1": Ratio(
            "H = 0.1", "dirac_w2", "w2", "the Dirac over the operator, pointwise W2", 2.6
        ),
        "better than a constant covariance at H = 0.1": Ratio(
            "H = 0.1", "constant_w2", "w2", "B2 over the operator, pointwise W2", 1.1
        ),
        "roughness does not matter for log V": Ratio(
            "H = 0.05", "w2", "w2", ROUGHEST, 0.8, 1.25, "H = 0.5", regimes=(VARIANCE,)
        ),
        **{
            f"the true moments are not enough for log S, {arm}": Fixed(
                arm,
                "gaussian_w2",
                "Gaussian with the true moments over the sampling floor",
                1.5,
                over="floor_w2",
                regimes=(PRICE,),
            )
            for arm in ARMS
        },
        **{
            f"the head is as good as the true moments for log S, {arm}": Ratio(
                arm,
                "w2",
                "gaussian_w2",
                "the operator over the true Gaussian",
                high=1.1,
                regimes=(PRICE,),
            )
            for arm in ARMS
        },
    },
    settings=named(CURVES),
    arms=vary(ARMS),
    draw=figures.draw_roughness,
    seeds=SEEDS,
)
