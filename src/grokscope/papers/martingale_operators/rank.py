"""What does the rank buy? The linear equation knows the answer (T2)."""

from __future__ import annotations

from typing import Any

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Level, Trend
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.evaluation import compare_modes, trace_modes
from grokscope.papers.martingale_operators.settings import (
    DIAGONAL,
    HEAT,
    PROSE,
    SEEDS,
    Ratio,
    only,
    vary,
)

RANKS, COMPARED = (1, 2, 4, 8, 16), (1, 4, 16)
MOMENTS = {"objective.kind": "moments"}
ARMS: dict[str, dict[str, Any]] = {
    **{f"moments, rank {r}": {**MOMENTS, "operator.rank": r} for r in RANKS},
    **{f"diagonal, rank {r}": {**DIAGONAL, "operator.rank": r} for r in COMPARED},
}


def rank_of(arm: ArmRuns) -> float | None:
    spec: Any = arm.spec
    return spec.operator.rank if spec.objective.kind == "moments" else None


def falls(column: str, name: str) -> Trend:
    return Trend(rank_of, "the rank", Event(column, "err", name), high=-0.3, censored=False)


MODES, LEAK = "error of the variances by frequency", "covariance between frequencies"

STUDY = PROSE.study(
    "rank",
    {
        "with the diagonal likelihood, pointwise distance does not depend on the rank": Ratio(
            "diagonal, rank 4",
            "w2",
            "w2",
            "rank 4 over rank 16, pointwise W2",
            0.8,
            1.25,
            "diagonal, rank 16",
        ),
        "with moment matching it does not either": Ratio(
            "moments, rank 1",
            "w2",
            "w2",
            "rank 1 over rank 16, pointwise W2",
            0.8,
            1.25,
            "moments, rank 16",
        ),
        "joint distance depends on the rank": Ratio(
            "moments, rank 1",
            "bures",
            "bures",
            "rank 1 over rank 16, joint W2",
            2.0,
            reference="moments, rank 16",
        ),
        "energy score falls with the rank": falls("energy", "energy score"),
        "covariance error falls with the rank": falls("covariance_error", "covariance error"),
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
                "constant_covariance_error",
                "covariance error beyond what the rank leaves",
                high=2.0,
            )
            for r in RANKS
        },
        "rank 1 does not train": Ratio(
            "diagonal, rank 1",
            "w2",
            "w2",
            "rank 1 over rank 4, pointwise W2",
            3.0,
            reference="diagonal, rank 4",
        ),
        "rank does not help the diagonal likelihood": Ratio(
            "diagonal, rank 16",
            "covariance_error",
            "covariance_error",
            "rank 16 over rank 4, covariance error",
            0.75,
            reference="diagonal, rank 4",
        ),
    },
    settings=only((HEAT,), smoke=(HEAT,)),
    arms=vary(ARMS),
    draw=figures.draw_ranks,
    curve_arms=("moments, rank 4", "moments, rank 16", "diagonal, rank 16"),
    summarise=compare_modes,
    trace=trace_modes,
    seeds=SEEDS,
)
