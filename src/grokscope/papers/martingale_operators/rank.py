"""What does the rank buy? The linear equation knows the answer (T2)."""

from __future__ import annotations

from functools import partial
from typing import Any

from grokscope.claims.judgements import Level, field_of
from grokscope.papers.martingale_operators import evaluation, figures
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


def compared(loss: str, one: int, other: int, column: str, **bounds: Any) -> Ratio:
    """A number at one rank over that at another."""
    effect = f"rank {one} over rank {other}, {NAMES[column]}"
    arm, reference = (f"{loss}, rank {rank}" for rank in (one, other))
    return Ratio(arm, column, effect, reference=reference, **bounds)


rank_of = field_of("operator.rank", {"objective.kind": "moments"})
with_rank = partial(trend, rank_of, "the rank")
matched, diagonal = (partial(Level, f"{loss}, rank 16") for loss in ("moments", "diagonal"))
BEYOND = "covariance error beyond what the rank leaves"
at_limit = partial(
    Ratio, column="beyond_limit", effect=BEYOND, high=2.0, over="constant_covariance_error"
)
STUDY = study(
    "rank",
    ["heat"],
    COMPARED,
    {
        "with the diagonal likelihood, pointwise distance does not depend on the rank": compared(
            "diagonal", 4, 16, "w2", low=0.8, high=1.25
        ),
        "with moment matching it does not either": compared(
            "moments", 1, 16, "w2", low=0.8, high=1.25
        ),
        "joint distance depends on the rank": compared("moments", 1, 16, "bures", low=2.0),
        "energy score falls with the rank": with_rank("energy", "energy score", high=-0.3),
        "covariance error falls with the rank": with_rank(
            "covariance_error", NAMES["covariance_error"], high=-0.3
        ),
        "moment matching finds the variances by frequency": matched("mode_error", MODES, high=0.1),
        "the diagonal likelihood does not find the variances by frequency": diagonal(
            "mode_error", MODES, low=0.25
        ),
        "moment matching keeps frequencies apart": matched("mode_leak", LEAK, high=0.1),
        "the diagonal likelihood mixes frequencies": diagonal("mode_leak", LEAK, low=0.25),
        **{f"reaches the limit at rank {r}": at_limit(f"moments, rank {r}") for r in RANKS},
        "rank 1 does not train": compared("diagonal", 1, 4, "w2", low=3.0),
        "rank does not help the diagonal likelihood": compared(
            "diagonal", 16, 4, "covariance_error", low=0.75
        ),
    },
    smoke="heat",
    draw=figures.draw_ranks,
    curve_arms=("moments, rank 4", "moments, rank 16", "diagonal, rank 16"),
    summarise=evaluation.compare_modes,
    trace=evaluation.trace_modes,
)
