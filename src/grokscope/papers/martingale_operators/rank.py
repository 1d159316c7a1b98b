"""What does the rank buy? The linear equation knows the answer (T2)."""

from __future__ import annotations

import math

from grokscope.claims.judgements import Level, field_of
from grokscope.papers.martingale_operators.evaluation import compare_modes, trace_modes
from grokscope.papers.martingale_operators.figures import draw_ranks
from grokscope.papers.martingale_operators.judgements import Ratio, trend
from grokscope.papers.martingale_operators.settings import FIELDS, study

RANKS = (1, 2, 4, 8, 16)
COMPARED = {
    f"{loss}, rank {r}": {**FIELDS[loss], "operator.rank": r}
    for loss, ranks in (("moments", RANKS), ("diagonal", (1, 4, 16)))
    for r in ranks
}
MODES, LEAK = "error of the variances by frequency", "covariance between frequencies"
NAMES = {"w2": "pointwise W2", "bures": "joint W2", "covariance_error": "covariance error"}


def compared(
    loss: str, one: int, other: int, column: str, low: float, high: float = math.inf
) -> Ratio:
    """A number at one rank over that at another."""
    effect = f"rank {one} over rank {other}, {NAMES[column]}"
    return Ratio(
        f"{loss}, rank {one}", column, effect, low, high, reference=f"{loss}, rank {other}"
    )


rank_of = field_of("operator.rank", {"objective.kind": "moments"})
STUDY = study(
    "rank",
    ["heat"],
    COMPARED,
    {
        "with the diagonal likelihood, pointwise distance does not depend on the rank": compared(
            "diagonal", 4, 16, "w2", 0.8, 1.25
        ),
        "with moment matching it does not either": compared("moments", 1, 16, "w2", 0.8, 1.25),
        "joint distance depends on the rank": compared("moments", 1, 16, "bures", 2.0),
        "energy score falls with the rank": trend(
            rank_of, "the rank", "energy", "energy score", high=-0.3
        ),
        "covariance error falls with the rank": trend(
            rank_of, "the rank", "covariance_error", "covariance error", high=-0.3
        ),
        "moment matching finds the variances by frequency": Level(
            "moments, rank 16", "mode_error", MODES, high=0.1
        ),
        "the diagonal likelihood does not find the variances by frequency": Level(
            "diagonal, rank 16", "mode_error", MODES, low=0.25
        ),
        "moment matching keeps frequencies apart": Level(
            "moments, rank 16", "mode_leak", LEAK, high=0.1
        ),
        "the diagonal likelihood mixes frequencies": Level(
            "diagonal, rank 16", "mode_leak", LEAK, low=0.25
        ),
        **{
            f"reaches the limit at rank {r}": Ratio(
                f"moments, rank {r}",
                "beyond_limit",
                "covariance error beyond what the rank leaves",
                high=2.0,
                over="constant_covariance_error",
            )
            for r in RANKS
        },
        "rank 1 does not train": compared("diagonal", 1, 4, "w2", 3.0),
        "rank does not help the diagonal likelihood": compared(
            "diagonal", 16, 4, "covariance_error", 0.75
        ),
    },
    smoke="heat",
    draw=draw_ranks,
    curve_arms=("moments, rank 4", "moments, rank 16", "diagonal, rank 16"),
    summarise=compare_modes,
    trace=trace_modes,
)
