"""Does the law carry over to finer grids without training?"""

from __future__ import annotations

from grokscope.papers.martingale_operators import evaluation, figures
from grokscope.papers.martingale_operators.judgements import Fixed, Growth
from grokscope.papers.martingale_operators.settings import study

GRIDS = ("1-D, coloured", "1-D, white", "2-D, coloured", "2-D, white")
MEAN, DEVIATION = "growth of the error of the mean", "growth of the error of the deviation"
ERRORS = {f"std_error_{f}x": f"Error of the deviation, grid × {f}" for f in (1, 2, 4)}

STUDY = study(
    "grids",
    GRIDS,
    ["diagonal"],
    {
        "mean carries over": Growth("mean_error", MEAN),
        "deviation carries over": Growth("std_error", DEVIATION),
        "deviation carries over to a grid twice as fine": Growth("std_error", DEVIATION, 2),
        "truth itself changes": Fixed(
            "diagonal", "true_growth", "true deviation, fine over coarse", low=1.1
        ),
    },
    draw=figures.strips(ERRORS),
    summarise=evaluation.transfer,
)
