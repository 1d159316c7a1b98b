"""What was promised, held against what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.comparison import MEMBERS
from benchmarks.teams import median_ratio

OURS, FLOOR = "grokscope", "floor"
LOOPS = {
    "every position": "PyTorch loop, all positions",
    "only what the last position needs": "PyTorch loop",
}
SHORT_CUTS = {
    "look-up and sum": "PyTorch short cut",
    "`embedding_bag`": "PyTorch short cut, embedding_bag",
    "compiled": "PyTorch short cut, compiled",
}


@dataclass(frozen=True)
class Goal:
    """A number held against a bound that was set before anything was measured."""

    says: str
    value: float | None  # None: it could not be measured
    bound: float
    least: bool  # is the bound a least or a most?
    share: bool = False  # shown in per cent?

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        met = self.value >= self.bound if self.least else self.value <= self.bound
        return "met" if met else "**missed**"

    @property
    def measured(self) -> str:
        if self.value is None:
            return ""
        return percent(self.value, 2) if self.share else f"{self.value:.2f}×"


def seconds_of(comparison: Mapping[str, Any], scale: str, members: int, name: str) -> list[float]:
    """Seconds of one epoch of all members, in each round; empty if it was not measured."""
    for row in comparison["times"]:
        if (row["scale"], row["members"], row["contender"]) == (scale, members, name):
            return row["seconds"]
    return []


def ratio(
    comparison: Mapping[str, Any], members: int, first: str, second: str, scale: str = "paper"
) -> float | None:
    """How many times longer the first contender takes; None where one is missing."""
    pair = [seconds_of(comparison, scale, members, name) for name in (first, second)]
    return median_ratio(*pair) if all(pair) else None


def list_goals(measured: Mapping[str, Any]) -> list[Goal]:
    comparison, agreement = measured["comparison"], measured["agreement"]
    breakdown = measured["breakdown"]
    most = MEMBERS[-1]
    one, many = (seconds_of(comparison, "paper", count, OURS) for count in (1, most))
    scaling = statistics.median(many) / statistics.median(one) if one and many else None
    worst = max((row["difference"] for row in agreement["curves"]), default=None)
    idle = breakdown["seconds"]["idle"] / sum(breakdown["seconds"].values())
    return [
        *(
            Goal(
                f"at least 8 times as fast as the eager loop in PyTorch: {form}",
                ratio(comparison, 1, name, OURS),
                8.0,
                True,
            )
            for form, name in LOOPS.items()
        ),
        *(
            Goal(
                f"at least 1.5 times as fast as the short cut by hand in PyTorch: {form}",
                ratio(comparison, 1, name, OURS),
                1.5,
                True,
            )
            for form, name in SHORT_CUTS.items()
        ),
        Goal(
            "at most 1.35 times the floor",
            ratio(comparison, 1, OURS, FLOOR),
            1.35,
            False,
        ),
        Goal(f"{most} members cost at most {most} times one", scaling, float(most), False),
        Goal(
            f"loss curves agree to {percent(agreement['tolerance'], 0)}",
            worst,
            agreement["tolerance"],
            False,
            share=True,
        ),
        Goal(
            "a reproduction leaves the cores idle for less than 5 %", idle, 0.05, False, share=True
        ),
    ]


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
