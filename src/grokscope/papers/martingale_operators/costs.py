"""What a law costs: one pass against a flow of many steps, and many initial conditions or many
noises at the same number of samples."""

from __future__ import annotations

from grokscope.claims.judgements import field_of
from grokscope.papers.martingale_operators import evaluation, figures
from grokscope.papers.martingale_operators.judgements import Ratio, trend
from grokscope.papers.martingale_operators.settings import FIELDS, study

TIME, DISTANCE = "time of the flow over one pass", "one pass over the flow"
SLICED = {"sliced": ("Sliced W2", "floor_sliced")}

SPEED = study(
    "speed",
    ["φ⁴", "Burgers, multiplicative noise"],
    ["joint", "diagonal", "flow"],
    {
        "three times as fast": Ratio("flow", "law_ms", TIME, 3.0, over="pass_ms"),
        "ten times as fast": Ratio("flow", "law_ms", TIME, 10.0, over="pass_ms"),
        "not at the price of accuracy, jointly": Ratio(
            "joint", "sliced", f"{DISTANCE}, sliced W2", high=1.0, reference="flow"
        ),
        "not at the price of accuracy, pointwise": Ratio(
            "joint", "w2", f"{DISTANCE}, pointwise W2", high=1.0, reference="flow"
        ),
    },
    draw=figures.scatter(lambda arm: arm.median("law_ms"), "Milliseconds per law", SLICED),
    summarise=evaluation.measure_speed,
)

SAMPLES, DOSE = 4096, "noises per condition"
DIVISIONS = {
    f"{SAMPLES // m} × {m}": {
        **FIELDS["diagonal"],
        "equation.conditions": SAMPLES // m,
        "equation.noises": m,
    }
    for m in (1, 4, 16, 64, 256)
}


noises_of = field_of("equation.noises")
BUDGET = study(
    "budget",
    ["Burgers, multiplicative noise"],
    DIVISIONS,
    {
        "more conditions are better": trend(noises_of, DOSE, "w2", "pointwise W2", low=0.3),
        "more conditions are better, jointly": trend(noises_of, DOSE, "bures", "joint W2", low=0.3),
        "more noises help the correlations": trend(
            noises_of, DOSE, "correlation_error", "error of the correlations", high=-0.3
        ),
        "one noise is enough": Ratio(
            "4096 × 1", "w2", "1 noise over 16", high=1.25, reference="256 × 16"
        ),
    },
    draw=figures.strips({"w2": "Pointwise W2", "mean_error": "Error of the mean"}),
)

STUDIES = (SPEED, BUDGET)
