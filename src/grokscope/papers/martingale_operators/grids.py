"""Does the law carry over to finer grids without training?"""

from __future__ import annotations

from typing import Any

from grokscope.claims.judgements import Level
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.evaluation import transfer
from grokscope.papers.martingale_operators.settings import DIAGONAL, PROSE, SEEDS, named, vary

SHEET: dict[str, Any] = {
    "equation.dimensions": 2,
    "equation.points": 16,
    "equation.conditions": 256,
    "operator.modes": 6,
}
GRIDS: dict[str, dict[str, Any]] = {
    "1-D, coloured": {},
    "1-D, white": {"equation.colour": 0.0},
    "2-D, coloured": {**SHEET, "equation.colour": 1.5},
    "2-D, white": {**SHEET, "equation.colour": 0.0},
}

STUDY = PROSE.study(
    "grids",
    {
        "mean carries over": Level(
            "diagonal", "mean_growth", "growth of the error of the mean", high=0.05
        ),
        "deviation carries over": Level(
            "diagonal", "std_growth", "growth of the error of the deviation", high=0.05
        ),
        "truth itself changes": Level(
            "diagonal", "true_growth", "true deviation, fine over coarse", low=1.1
        ),
    },
    settings=named(GRIDS),
    arms=vary({"diagonal": DIAGONAL}),
    draw=figures.draw_grids,
    summarise=transfer,
    seeds=SEEDS,
)
