"""Two wells and a long time: where does a Gaussian head stop being enough?"""

from __future__ import annotations

from typing import Any

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Trend
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import (
    JOINT,
    PROSE,
    SEEDS,
    Fixed,
    Ratio,
    Slope,
    named,
    vary,
)

TIMES = (0.05, 0.25, 0.5, 1.0, 2.0)
ARMS: dict[str, dict[str, Any]] = {
    **{f"T = {t:g}": {**JOINT, "equation.time": t} for t in TIMES},
    **{f"flow, T = {t:g}": {"operator.kind": "flow", "equation.time": t} for t in (0.05, 1.0, 2.0)},
}
SATURATION = Event("excess_w2", "exceed", "pointwise W2 in excess of the sampling floor")


def time_of(arm: ArmRuns) -> float | None:
    spec: Any = arm.spec
    return spec.equation.time if spec.operator.kind == "gaussian" else None


STUDY = PROSE.study(
    "wells",
    {
        "distance grows with time": Trend(time_of, "the time", SATURATION, low=0.3, censored=False),
        "there are two peaks": Fixed(
            "T = 2", "kurtosis", "excess kurtosis of the truth", high=-1.0
        ),
        "the true moments are not enough": Fixed(
            "T = 2", "gaussian_excess", "true Gaussian over the sampling floor", low=3.0
        ),
        "the head does not fall behind the true moments": Slope(
            time_of, "the time", "w2", "gaussian_w2", high=0.1
        ),
        "the head is as good as the true moments": Ratio(
            "T = 2", "w2", "gaussian_w2", "the operator over the true Gaussian", high=1.5
        ),
        "a flow is better with two peaks": Ratio(
            "T = 2",
            "w2",
            "w2",
            "the operator over the flow, pointwise W2",
            1.25,
            reference="flow, T = 2",
        ),
        "a flow is no better with one": Ratio(
            "T = 0.05",
            "w2",
            "w2",
            "the operator over the flow, pointwise W2",
            high=1.0,
            reference="flow, T = 0.05",
        ),
    },
    settings=named({"double well": {"equation.kind": "well", "equation.amplitude": 0.05}}),
    arms=vary(ARMS),
    draw=figures.draw_wells,
    seeds=SEEDS,
)
