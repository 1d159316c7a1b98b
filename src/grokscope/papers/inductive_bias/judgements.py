"""Events and tests that only this paper's claims need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from grokscope.claims import judgements
from grokscope.claims.evidence import Event, Sample
from grokscope.claims.judgements import Between, Dose, Interest, OfDoses, OfNamedArms, OfShares
from grokscope.claims.verdicts import Finding, PerSeed, log_ratios, rank_correlations

GENERALISED = Event("generalised", "generalise", "step of test accuracy 0.995")
faster = partial(judgements.Faster, event=GENERALISED)
most = partial(judgements.Share, expected="most", event=GENERALISED)


@dataclass(frozen=True)
class Few(OfShares, OfNamedArms):
    """Few runs of an arm generalise, where half of those do that differ in the one thing the claim
    is about."""

    arm: str
    control: str
    expected: Literal["most", "few"] = "few"
    event: Event = GENERALISED
    effect: str = "share of seeds"

    def describe(self) -> str:
        control = f"Untestable unless half of “{self.control}” {self.event.verb}."
        return f"{self._alone.describe()} {control}"

    def judge(self, sample: Sample) -> Finding:
        found, times = self._alone.judge(sample), sample.times(self.control, self.event)
        if 2 * np.isfinite(times).sum() >= np.count_nonzero(~np.isnan(times)):
            return found
        count = f"{self._count(times)} of “{self.control}”"
        return judgements.untestable(
            f"nothing to compare with: {count}; {found.remark} of “{self.arm}”"
        )

    @property
    def _alone(self) -> judgements.Share:
        return judgements.Share(self.arm, self.expected, event=self.event)


@dataclass(frozen=True)
class Association(Between):
    """Arms that are early (or low) in one thing are early in another."""

    first: Event
    second: Event
    low: float = -math.inf
    high: float = math.inf
    arms: tuple[str, ...] = ()  # all if none is named
    censored: bool = True  # does a run without a number come last? If not, its seed is left out
    effect: str = "rank correlation"

    def describe(self) -> str:
        return (
            f"Kendall's tau-b between {self.first.name} and {self.second.name} over the arms of "
            f"each seed{' (never counts as last)' * self.censored}; the median over seeds with "
            f"bounds by the sign test. {judgements.state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return self.arms or tuple(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        names = self.needs(sample)
        first, second = (
            np.stack([sample.times(name, event) for name in names])
            for event in (self.first, self.second)
        )  # (arms, seeds) each
        if not self.censored:
            first, second = (np.where(np.isinf(each), math.nan, each) for each in (first, second))
        medians = [[float(np.median(row)) for row in times] for times in (first, second)]
        order = [[names[i] for i in np.argsort(each, kind="stable")] for each in medians]
        remark = f"medians in the order {', '.join(order[0])} and {', '.join(order[1])}"
        numbers = PerSeed.known(rank_correlations(first, second))
        return judgements.settle(
            numbers, sample, self.interest, 0.0, remark, "have nothing to rank"
        )


@dataclass(frozen=True)
class Slope(Between, OfDoses):
    """A number of each run goes with a power of a dose: log number = slope * log dose + c, fitted
    for each seed over the arms that have a dose."""

    column: str
    name: str
    dose: Dose
    dose_name: str
    low: float = -math.inf
    high: float = math.inf
    effect: str = "exponent"

    def describe(self) -> str:
        return (
            f"Slope of the logarithm of {self.name} on that of {self.dose_name}, by least squares "
            f"over the arms of each seed; the median over seeds with bounds by the sign test. "
            f"{judgements.state_rule(self.low, self.high)}"
        )

    def judge(self, sample: Sample) -> Finding:
        values = np.stack([sample.values(name, self.column) for name in self.needs(sample)])
        ends = [row[np.isfinite(row)] for row in values[[0, -1]]]
        first, last = (f"{np.median(end):.3g}" if len(end) else "no number" for end in ends)
        remark = f"{first} at the first dose, {last} at the last"
        numbers = PerSeed.known(self.slopes(sample, values))
        return judgements.settle(numbers, sample, self.interest, 0.0, remark)


@dataclass(frozen=True)
class HelpsMore:
    """What is done to one arm speeds it up by at least `least` times as much as another."""

    one: tuple[str, str]  # with help, and without
    other: tuple[str, str]
    least: float
    event: Event
    effect: str = "log of the ratio of speed-ups"

    @property
    def interest(self) -> Interest:
        return round(math.log(self.least), 3), math.inf

    def describe(self) -> str:
        ratios = [f"“{alone}” over “{helped}”" for helped, alone in (self.one, self.other)]
        return (
            f"Logarithm of the {self.event.name} of {ratios[0]}, minus that of {ratios[1]}, of "
            "each seed; a time that was not seen is later than the budget. The median over seeds "
            f"with bounds by the sign test. {judgements.state_rule(*self.interest)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [*self.one, *self.other]

    def judge(self, sample: Sample) -> Finding:
        (low, high), (other_low, other_high) = (
            log_ratios(
                sample.times(alone, self.event), sample.times(helped, self.event), sample.budget
            )
            for helped, alone in (self.one, self.other)
        )
        numbers = PerSeed(low - other_high, high - other_low)
        return judgements.settle(numbers, sample, self.interest, 0.0)
