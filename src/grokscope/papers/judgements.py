"""The tests that claims choose from. Each states its statistic and its rule before the runs; the
rule itself (interval against the smallest effect of interest) is in `grokscope.verdicts`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from grokscope import verdicts
from grokscope.papers.evidence import ArmRuns, Sample
from grokscope.verdicts import Estimate, Finding

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Faster:
    """An arm groks at least `least` times as fast as another."""

    arm: str
    reference: str
    least: float
    event: str = "grokked"
    effect: str = "speed-up"

    def describe(self) -> str:
        return (
            f"Ratio of the median epochs to grokking, “{self.reference}” over “{self.arm}” "
            f"(runs that never grok count as infinite), bootstrapped over seeds. Supported if the "
            f"95 % interval lies at or above {self.least:g} and the log-rank test by permutation "
            f"gives p ≤ {SIGNIFICANT}; contradicted if it lies below."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return (self.arm, self.reference)

    def judge(self, sample: Sample) -> Finding:
        arm, reference = sample.arms[self.arm], sample.arms[self.reference]
        fast, slow = arm.times(self.event), reference.times(self.event)
        estimate = verdicts.ratio_of_medians(slow, fast)
        ruling = verdicts.at_least(estimate, self.least)
        p = verdicts.log_rank(fast, slow)
        # A non-inferiority claim (least < 1) needs no difference.
        if ruling == "supported" and self.least > 1 and p > SIGNIFICANT:
            ruling = "inconclusive"
        counts = f"{_count(fast)} against {_count(slow)}"
        return Finding(ruling, estimate, f"{counts}, log-rank p = {p:.2g}")


def _count(times: np.ndarray) -> str:
    """Median epoch, and how many of the runs got there."""
    middle, n = verdicts.median_time(times), len(times)
    arrived = int(np.isfinite(times).sum())
    if math.isinf(middle):
        return f"{arrived} of {n} grok"
    return f"{middle:,.0f}" + (f" ({arrived} of {n})" if arrived < n else "")


@dataclass(frozen=True)
class Share:
    """Most runs of an arm grok, or most do not."""

    arm: str
    expected: Literal["grok", "do not grok"]
    column: str = "grokked"
    """The event that is counted: a run without a number there has not had it."""
    counted: str = "grok"
    effect: str = "share of seeds"

    def describe(self) -> str:
        sides = ("above", "below") if self.expected == "grok" else ("below", "above")
        return (
            f"Share of seeds of “{self.arm}” that {self.counted}, with Clopper-Pearson bounds, "
            f"each at 95 %. Supported if the bounds lie {sides[0]} one half, contradicted if they "
            f"lie {sides[1]} it (with five seeds: only if all agree)."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return (self.arm,)

    def judge(self, sample: Sample) -> Finding:
        arm = sample.arms[self.arm]
        count = int(np.isfinite(arm.times(self.column)).sum())
        estimate = verdicts.share_estimate(count, len(arm.rows))
        decide = verdicts.at_least if self.expected == "grok" else verdicts.at_most
        accuracy = np.median(arm.values("test_accuracy"))
        return Finding(
            decide(estimate, 0.5),
            estimate,
            f"{count} of {len(arm.rows)} {self.counted}; median final test accuracy {accuracy:.2f}",
        )


@dataclass(frozen=True)
class Level:
    """A number of each run lies, on average over seeds, between two bounds."""

    arm: str
    column: str
    effect: str
    low: float = -math.inf
    high: float = math.inf
    logarithmic: bool = False
    """Average the logarithms (ratios), and give the effect as a ratio again."""

    def describe(self) -> str:
        mean = "Geometric mean" if self.logarithmic else "Mean"
        return (
            f"{mean} over seeds of the {self.effect} of “{self.arm}”, bootstrapped. Supported if "
            f"the 95 % interval lies {_bounds(self.low, self.high)}, contradicted if it lies "
            "outside."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return (self.arm,)

    def judge(self, sample: Sample) -> Finding:
        values = sample.arms[self.arm].values(self.column)
        known = values[np.isfinite(values)]
        lacking = len(values) - len(known)
        if lacking:
            return Finding("inconclusive", remark=f"{lacking} of {len(values)} runs have no number")
        scaled = np.log(known) if self.logarithmic else known
        estimate = verdicts.bootstrap(lambda index: float(scaled[index].mean()), len(scaled))
        if self.logarithmic:
            estimate = Estimate(
                _exponential(estimate.value),
                _exponential(estimate.low),
                _exponential(estimate.high),
                estimate.n,
            )
        return Finding(verdicts.within(estimate, self.low, self.high), estimate)


def _bounds(low: float, high: float) -> str:
    if math.isinf(high):
        return f"at or above {low:g}"
    return f"at or below {high:g}" if math.isinf(low) else f"within {low:g} and {high:g}"


def _exponential(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)


@dataclass(frozen=True)
class Trend:
    """Time to an event falls (or rises) with a dose, over all arms that have one."""

    dose: Callable[[ArmRuns], float | None]
    dose_name: str
    event: str = "grokked"
    event_name: str = "grok epoch"
    low: float = -math.inf
    high: float = math.inf
    effect: str = "rank correlation"

    def describe(self) -> str:
        return (
            f"Kendall's tau-b between {self.dose_name} and {self.event_name} over all arms and "
            f"seeds (never counts as last), bootstrapped over seeds. Supported if the 95 % "
            f"interval lies {_bounds(self.low, self.high)}, contradicted if it lies outside."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm) is not None]

    def judge(self, sample: Sample) -> Finding:
        arms = [sample.arms[name] for name in self.needs(sample)]
        times = np.stack([arm.times(self.event) for arm in arms])
        if len(np.unique(times)) < 2:
            return Finding("inconclusive", remark="all runs agree: there is nothing to rank")
        estimate = verdicts.rank_correlation([self.dose(arm) or 0.0 for arm in arms], times)
        return Finding(verdicts.within(estimate, self.low, self.high), estimate)


@dataclass(frozen=True)
class InverseLaw:
    """time = floor + scale / dose^exponent, with the exponent near one."""

    dose: Callable[[ArmRuns], float | None]
    event: str = "grokked"
    event_name: str = "grok epoch"
    low: float = 0.75
    high: float = 1.33
    effect: str = "exponent"

    def describe(self) -> str:
        return (
            f"{self.event_name.capitalize()} = floor + c / λ^b fitted to the medians over seeds "
            "(a median that was never reached asks only for at least the budget), bootstrapped "
            f"over seeds. Supported if the 95 % interval of b lies within {self.low:g} and "
            f"{self.high:g}, contradicted if it lies outside."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm)]

    def fit(self, sample: Sample) -> tuple[Estimate, verdicts.PowerLaw]:
        arms = [sample.arms[name] for name in self.needs(sample)]
        doses = [self.dose(arm) or math.nan for arm in arms]
        times = np.stack([arm.times(self.event) for arm in arms])
        return verdicts.power_law_exponent(doses, times, sample.budget)

    def judge(self, sample: Sample) -> Finding:
        arms = [sample.arms[name] for name in self.needs(sample)]
        medians = [verdicts.median_time(arm.times(self.event)) for arm in arms]
        if np.isfinite(medians).sum() < 3:
            return Finding("inconclusive", remark="fewer than three strengths grok")
        estimate, law = self.fit(sample)
        if math.isnan(estimate.value):
            weakest = min(self.dose(arm) or math.inf for arm in arms)
            return Finding(
                "inconclusive",
                estimate,
                f"the floor of {law.floor:,.0f} epochs rules everywhere: even λ = {weakest:g} "
                "hardly delays anything",
            )
        return Finding(
            verdicts.within(estimate, self.low, self.high),
            estimate,
            f"floor {law.floor:,.0f} epochs, which rules above λ = {law.crossing:.2g}",
        )
