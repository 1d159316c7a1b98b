"""One pass against a flow of many steps."""

from __future__ import annotations

from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.evaluation import measure_speed
from grokscope.papers.martingale_operators.settings import (
    DIAGONAL,
    JOINT,
    MULTIPLICATIVE,
    PHI4,
    PROSE,
    SEEDS,
    Ratio,
    only,
    vary,
)

STUDY = PROSE.study(
    "speed",
    {
        "three times as fast": Ratio(
            "flow", "law_ms", "pass_ms", "time of the flow over one pass", 3.0
        ),
        "ten times as fast": Ratio(
            "flow", "law_ms", "pass_ms", "time of the flow over one pass", 10.0
        ),
        "not at the price of accuracy, jointly": Ratio(
            "joint",
            "sliced",
            "sliced",
            "one pass over the flow, sliced W2",
            high=1.0,
            reference="flow",
        ),
        "not at the price of accuracy, pointwise": Ratio(
            "joint", "w2", "w2", "one pass over the flow, pointwise W2", high=1.0, reference="flow"
        ),
    },
    settings=only((PHI4, MULTIPLICATIVE)),
    arms=vary({"joint": JOINT, "diagonal": DIAGONAL, "flow": {"operator.kind": "flow"}}),
    draw=figures.draw_speeds,
    summarise=measure_speed,
    seeds=SEEDS,
)
