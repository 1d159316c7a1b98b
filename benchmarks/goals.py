"""What was promised, held against what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.comparison import MEMBERS, TESTED
from benchmarks.teams import median_ratio

OURS, ALONE = "grokscope", "grokscope, a single member"
FLOOR, TORCH_FLOOR = "floor", "floor in PyTorch"
LOOPS = {
    "every position": "PyTorch loop, all positions",
    "only what the last position needs": "PyTorch loop",
}
SHORT_CUTS = {
    "look-up and sum": "PyTorch short cut",
    "`embedding_bag`": "PyTorch short cut, embedding_bag",
    "compiled": "PyTorch short cut, compiled",
}
PLACEMENT, STEP, LAW = "LayerNorm placement", "operator, a step", "operator, a law"
IN_CONTEXT = ("in context, p 7, width 64", "in context, p 5, width 32")
# Networks of the other papers: slower and faster contender, bound, whether it is a least.
PROMISES: list[tuple[str, str, str, float, bool]] = [
    (PLACEMENT, "PyTorch loop, tested each step", OURS, 8.0, True),
    *((case, "PyTorch loop", OURS, 1.3, True) for case in IN_CONTEXT),
    *((case, "PyTorch loop, compiled", OURS, 1.0, True) for case in IN_CONTEXT),
    *((case, "grokscope, IVON", OURS, 1.25, False) for case in IN_CONTEXT),
    (STEP, "neuraloperator", OURS, 1.0, True),
    (LAW, "flow of 16 steps", OURS, 10.0, True),
]


@dataclass(frozen=True)
class Goal:
    """A number held against a bound that was set before anything was measured."""

    says: str
    value: float | None  # None: it could not be measured
    bound: float
    least: bool  # is the bound a least or a most?
    share: bool = False  # shown in per cent?
    rounds: Sequence[float] = ()  # the ratio in each round, of which the value is the median

    def holds(self, value: float) -> bool:
        return value >= self.bound if self.least else value <= self.bound

    @property
    def met(self) -> bool:
        return self.value is not None and self.holds(self.value)

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        word = "met" if self.met else "**missed**"
        held = sum(map(self.holds, self.rounds))
        return word if held in (0, len(self.rounds)) else f"{word}; {held} of {len(self.rounds)}"

    @property
    def measured(self) -> str:
        if self.value is None:
            return ""
        if self.share:
            return percent(self.value, 2)
        ends = f" ({min(self.rounds):.2f} to {max(self.rounds):.2f})" if self.rounds else ""
        return f"{self.value:.2f}×{ends}"


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


def _speed(
    comparison: Mapping[str, Any],
    says: str,
    first: str,
    second: str,
    members: int = 1,
    scale: str = "paper",
    **bound: Any,
) -> Goal:
    """A goal about the ratio of two contenders."""
    pair = [seconds_of(comparison, scale, members, name) for name in (first, second)]
    rounds = [a / b for a, b in zip(*pair, strict=True)] if all(pair) else []
    return Goal(says, ratio(comparison, members, first, second, scale), rounds=rounds, **bound)


def list_goals(measured: Mapping[str, Any]) -> list[Goal]:
    comparison, agreement = measured["comparison"], measured["agreement"]
    breakdown = measured["breakdown"]
    most = MEMBERS[-1]
    worst = max((row["difference"] for row in agreement["curves"]), default=None)
    idle = breakdown["seconds"]["idle"] / sum(breakdown["seconds"].values())
    return [
        *(
            _speed(
                comparison,
                f"at least 8 times as fast as the eager loop in PyTorch: {form}",
                name,
                OURS,
                bound=8.0,
                least=True,
            )
            for form, name in LOOPS.items()
        ),
        *(
            _speed(
                comparison,
                f"at least 1.5 times as fast as the short cut by hand in PyTorch: {form}",
                name,
                OURS,
                bound=1.5,
                least=True,
            )
            for form, name in SHORT_CUTS.items()
        ),
        _speed(
            comparison,
            "at most 1.35 times the floor in the same framework",
            OURS,
            FLOOR,
            bound=1.35,
            least=False,
        ),
        _speed(
            comparison,
            f"{most} members cost at most {most} times one",
            OURS,
            ALONE,
            members=most,
            bound=float(most),
            least=False,
        ),
        _speed(
            measured["block"],
            "one block: at least 12 times as fast as the eager loop in PyTorch over every "
            "position, tested each epoch",
            TESTED,
            OURS,
            scale="block",
            bound=12.0,
            least=True,
        ),
        *(
            _speed(
                measured[part],
                f"{name}: at most {bound:g} times the floor in the same framework",
                OURS,
                FLOOR,
                scale=part,
                bound=bound,
                least=False,
            )
            for part, name, bound in (("block", "one block", 1.6), ("general", "two layers", 2.0))
        ),
        *(
            _speed(
                measured["networks"],
                f"{network}: at least {bound:g} times as fast as {slow}"
                if least
                else f"{network}: {slow} takes at most {bound:g} times as long",
                slow,
                fast,
                scale=network,
                bound=bound,
                least=least,
            )
            for network, slow, fast, bound, least in PROMISES
        ),
        Goal(
            f"loss curves agree to {percent(agreement['tolerance'], 0)}",
            worst,
            agreement["tolerance"],
            False,
            share=True,
        ),
        Goal(
            f"`{breakdown['command']}` leaves the cores idle for less than 5 %",
            idle,
            0.05,
            False,
            share=True,
        ),
    ]


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"
