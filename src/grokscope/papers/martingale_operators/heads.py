"""Where does a Gaussian head stop being enough? In two wells after a long time, and for rough
volatility: it is right for log V and wrong for log S."""

from __future__ import annotations

from functools import partial
from typing import Any

from grokscope.claims.judgements import field_of
from grokscope.papers.martingale_operators.figures import Columns, scatter
from grokscope.papers.martingale_operators.judgements import Fixed, Ratio, Slope, trend
from grokscope.papers.martingale_operators.settings import FIELDS, study

KURTOSIS = "excess kurtosis of the truth"
AGAINST_GAUSSIAN: Columns = {"w2": ("Pointwise W2", "gaussian_w2", "floor_w2")}
WITH_KURTOSIS: Columns = {**AGAINST_GAUSSIAN, "kurtosis": (KURTOSIS.capitalize(),)}
EXCESS = "pointwise W2 in excess of the sampling floor"
OVER_GAUSSIAN = "the operator over the true Gaussian"
FLOW = "flow, "  # before the name of the same arm with an operator
OVER_FLOW = "the operator over the flow, pointwise W2"
TIMES = {
    **{f"T = {t:g}": {**FIELDS["joint"], "equation.time": t} for t in (0.05, 0.25, 0.5, 1.0, 2.0)},
    **{f"{FLOW}T = {t:g}": {**FIELDS["flow"], "equation.time": t} for t in (0.05, 1.0, 2.0)},
}
as_good = partial(Ratio, column="w2", effect=OVER_GAUSSIAN, over="gaussian_w2")


def over_flow(arm: str, **bounds: Any) -> Ratio:
    return Ratio(arm, "w2", OVER_FLOW, reference=FLOW + arm, **bounds)


time_of = field_of("equation.time", {"operator.kind": "gaussian"})
WELLS = study(
    "wells",
    ["double well"],
    TIMES,
    {
        "distance grows with time": trend(time_of, "the time", "excess_w2", EXCESS, low=0.3),
        "there are two peaks": Fixed("T = 2", "kurtosis", KURTOSIS, high=-1.0),
        "the true moments are not enough": Fixed(
            "T = 2", "gaussian_excess", "true Gaussian over the sampling floor", low=3.0
        ),
        "the head does not fall behind the true moments": Slope(
            time_of, "the time", "w2", "gaussian_w2", high=0.1
        ),
        "the head is as good as the true moments": as_good("T = 2", high=1.5),
        "a flow is better with two peaks": over_flow("T = 2", low=1.25),
        "a flow is no better with one": over_flow("T = 0.05", high=1.0),
    },
    draw=scatter(lambda arm: arm.spec.equation.time, "Time T", WITH_KURTOSIS),
)

HURSTS = {
    f"H = {h:g}": {**FIELDS["joint"], "equation.hurst": h} for h in (0.05, 0.1, 0.2, 0.35, 0.5)
}
VARIANCE, PRICE = "log variance", "log price"
ROUGHEST = "H = 0.05 over H = 0.5, pointwise W2"
OVER_FLOOR = "Gaussian with the true moments over the sampling floor"
fall_short = partial(
    Fixed, column="gaussian_w2", effect=OVER_FLOOR, low=1.5, over="floor_w2", regimes=(PRICE,)
)
keep_up = partial(as_good, high=1.1, regimes=(PRICE,))
ROUGHNESS = study(
    "roughness",
    [VARIANCE, PRICE],
    HURSTS,
    {
        "better than the Dirac at H = 0.1": Ratio(
            "H = 0.1", "dirac_w2", "the Dirac over the operator, pointwise W2", 2.6, over="w2"
        ),
        "better than a constant covariance at H = 0.1": Ratio(
            "H = 0.1", "constant_w2", "B2 over the operator, pointwise W2", 1.1, over="w2"
        ),
        "roughness does not matter for log V": Ratio(
            "H = 0.05", "w2", ROUGHEST, 0.8, 1.25, reference="H = 0.5", regimes=(VARIANCE,)
        ),
        **{f"the true moments are not enough for log S, {arm}": fall_short(arm) for arm in HURSTS},
        **{
            f"the head is as good as the true moments for log S, {arm}": keep_up(arm)
            for arm in HURSTS
        },
    },
    draw=scatter(lambda arm: arm.spec.equation.hurst, "H", AGAINST_GAUSSIAN),
)

STUDIES = (WELLS, ROUGHNESS)
