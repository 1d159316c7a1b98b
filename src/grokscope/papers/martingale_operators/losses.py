"""Does the diagonal likelihood learn any correlation (T4), and which loss does?"""

from __future__ import annotations

from grokscope.claims.judgements import Level
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import (
    DIAGONAL,
    HEAT,
    JOINT,
    MULTIPLICATIVE,
    PHI4,
    PROSE,
    SEEDS,
    Ratio,
    only,
    vary,
)

ARMS = {
    "diagonal": DIAGONAL,
    "joint": JOINT,
    "moments": {"objective.kind": "moments"},
    "energy": {"objective.kind": "energy"},
}
ERROR = "error of the correlations"

STUDY = PROSE.study(
    "losses",
    {
        "diagonal likelihood gets the variances right": Level(
            "diagonal", "std_error", "error of the deviation", high=0.15
        ),
        "diagonal likelihood leaves the correlations wrong": Level(
            "diagonal", "correlation_error", ERROR, low=0.25
        ),
        "some correlation is learned all the same": Level(
            "diagonal", "correlation_error", ERROR, high=0.9
        ),
        "joint likelihood learns the correlations": Ratio(
            "diagonal",
            "correlation_error",
            "correlation_error",
            "diagonal over joint",
            2.0,
            reference="joint",
        ),
        "moments learn the correlations": Ratio(
            "diagonal",
            "correlation_error",
            "correlation_error",
            "diagonal over moments",
            2.0,
            reference="moments",
        ),
        "energy score learns the correlations": Ratio(
            "diagonal",
            "correlation_error",
            "correlation_error",
            "diagonal over energy",
            2.0,
            reference="energy",
        ),
        "scores of points do not tell": Ratio(
            "diagonal", "w2", "w2", "diagonal over joint, pointwise W2", 0.8, 1.25, "joint"
        ),
    },
    settings=only((HEAT, PHI4, MULTIPLICATIVE), smoke=(HEAT,)),
    arms=vary(ARMS),
    draw=figures.draw_losses,
    seeds=SEEDS,
)
