"""Does the law carry over to finer grids without training?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grokscope.claims.evidence import Sample
from grokscope.claims.judgements import Interest, settle, state_rule
from grokscope.claims.verdicts import Finding, PerSeed
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.evaluation import transfer
from grokscope.papers.martingale_operators.settings import (
    DIAGONAL,
    PROSE,
    SEEDS,
    Fixed,
    named,
    vary,
)

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


@dataclass(frozen=True)
class Growth:
    """How much an error grows on a finer grid. Both are told in deviations of the truth on the
    training grid: in two dimensions those of white noise grow, and would hide it."""

    column: str
    effect: str
    factor: int = 4
    high: float = 0.05
    arm: str = "diagonal"

    @property
    def interest(self) -> Interest:
        return -math.inf, self.high

    def describe(self) -> str:
        return (
            f"Median over seeds of the {self.effect} of “{self.arm}” on a grid {self.factor} times "
            "as fine, in deviations on the training grid, with bounds by the sign test. "
            f"{state_rule(high=self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [self.arm]

    def judge(self, sample: Sample) -> Finding:
        fine, coarse = (
            sample.values(self.arm, f"{self.column}_{f}x")
            * sample.values(self.arm, f"deviation_{f}x")
            for f in (self.factor, 1)
        )
        growth = (fine - coarse) / sample.values(self.arm, "deviation_1x")
        first = PerSeed.known(sample.values(self.arm, f"{self.column}_1x")).estimate(sample.error)
        remark = f"{first.value:.2g} on the training grid"
        return settle(PerSeed.known(growth), sample, self.interest, 0.0, remark)


MEAN, DEVIATION = "growth of the error of the mean", "growth of the error of the deviation"

STUDY = PROSE.study(
    "grids",
    {
        "mean carries over": Growth("mean_error", MEAN),
        "deviation carries over": Growth("std_error", DEVIATION),
        "deviation carries over to a grid twice as fine": Growth("std_error", DEVIATION, 2),
        "truth itself changes": Fixed(
            "diagonal", "true_growth", "true deviation, fine over coarse", low=1.1
        ),
    },
    settings=named(GRIDS),
    arms=vary({"diagonal": DIAGONAL}),
    draw=figures.draw_grids,
    summarise=transfer,
    seeds=SEEDS,
)
