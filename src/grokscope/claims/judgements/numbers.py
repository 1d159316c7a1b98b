"""Tests of a number that each run has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from grokscope.claims import verdicts
from grokscope.claims.evidence import ArmRuns, Sample
from grokscope.claims.verdicts import Finding


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
    absent: str = "have no number"
    """What it means if a run has none."""

    def describe(self) -> str:
        mean = "Geometric mean" if self.logarithmic else "Mean"
        return (
            f"{mean} over seeds of the {self.effect} of “{self.arm}”, bootstrapped. Supported if "
            f"the 95 % interval lies {state_bounds(self.low, self.high)}, contradicted if all of "
            "it lies outside."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return (self.arm,)

    def judge(self, sample: Sample) -> Finding:
        values = sample.arms[self.arm].values(self.column)
        known = values[np.isfinite(values)]
        lacking = len(values) - len(known)
        if lacking:
            return Finding("inconclusive", remark=f"{lacking} of {len(values)} runs {self.absent}")
        scaled = np.log(known) if self.logarithmic else known
        estimate = verdicts.bootstrap(lambda index: float(scaled[index].mean()), len(scaled))
        if self.logarithmic:
            estimate = verdicts.exponential(estimate)
        return Finding(verdicts.within(estimate, self.low, self.high), estimate)


@dataclass(frozen=True)
class Everywhere:
    """A number stays at or below a bound in every run of every arm: one run above it is enough to
    contradict, so there is no interval."""

    column: str
    effect: str
    most: float

    def describe(self) -> str:
        return (
            f"Largest {self.effect} over all runs of all arms. Supported if it is at or below "
            f"{self.most:g}, contradicted if a single run is above it."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        values = np.concatenate([arm.values(self.column) for arm in sample.arms.values()])
        known = values[~np.isnan(values)]  # an infinite ratio is one above every bound
        above = int((known > self.most).sum())
        remark = f"largest of {len(known)} runs {known.max(initial=-math.inf):.2g}"
        if above:
            return Finding("contradicted", remark=f"{above} runs are above it, {remark}")
        if lacking := len(values) - len(known):
            return Finding("inconclusive", remark=f"{lacking} of {len(values)} runs have no number")
        return Finding("supported", remark=remark)


@dataclass(frozen=True)
class Higher:
    """A number of each run is, on average over seeds, larger in one arm than in another."""

    arm: str
    reference: str
    column: str
    effect: str
    least: float

    def describe(self) -> str:
        return (
            f"Mean over seeds of the {self.effect}, “{self.arm}” less “{self.reference}” of the "
            f"same seed, bootstrapped. Supported if the 95 % interval lies at or above "
            f"{self.least:g}, contradicted if it lies below."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return (self.arm, self.reference)

    def judge(self, sample: Sample) -> Finding:
        more, less = (sample.arms[name].values(self.column) for name in self.needs(sample))
        gain = more - less
        if lacking := int(np.isnan(gain).sum()):
            return Finding("inconclusive", remark=f"{lacking} of {len(gain)} seeds have no number")
        estimate = verdicts.bootstrap(lambda index: float(gain[index].mean()), len(gain))
        remark = f"{more.mean():.2g} against {less.mean():.2g}"
        return Finding(verdicts.at_least(estimate, self.least), estimate, remark)


def state_bounds(low: float, high: float) -> str:
    if math.isinf(high):
        return f"at or above {low:g}"
    return f"at or below {high:g}" if math.isinf(low) else f"within {low:g} and {high:g}"


@dataclass(frozen=True)
class Separation:
    """A number of each run tells the runs that grok from those that do not, or does so better than
    a rival number."""

    column: str
    name: str
    least: float
    chosen: Callable[[ArmRuns], bool]
    """Which arms count."""
    rival: str = ""
    rival_name: str = ""

    @property
    def effect(self) -> str:
        return "difference of areas under the ROC curve" if self.rival else "area under the curve"

    def describe(self) -> str:
        area = (
            "Area under the ROC curve (the chance that a run that groks has the larger number than "
            f"one that does not, ties counting half) of {self.name}"
        )
        less = f", less that of {self.rival_name}" if self.rival else ""
        return (
            f"{area}{less}, over all runs of the arms concerned, bootstrapped over seeds. "
            f"Supported if the 95 % interval lies at or above {self.least:g}, contradicted if it "
            "lies below; inconclusive unless some grok and some do not."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.chosen(arm)]

    def judge(self, sample: Sample) -> Finding:
        arms = [sample.arms[name] for name in self.needs(sample)]
        grokked = np.stack([np.isfinite(arm.times()) for arm in arms])
        columns = [self.column, *([self.rival] if self.rival else [])]
        values = [np.stack([arm.values(column) for arm in arms]) for column in columns]
        lacking = int(np.isnan(values).any(axis=0).sum())
        if lacking:
            return Finding("inconclusive", remark=f"{lacking} runs have no number")
        count = f"{grokked.sum()} of {grokked.size} grok"
        if grokked.all() or not grokked.any():
            return Finding("inconclusive", remark=f"{count}: there is nothing to tell apart")
        estimate = verdicts.separation(grokked, *values)
        areas = [verdicts.roc_area(each[grokked], each[~grokked]) for each in values]
        named = zip((self.name, self.rival_name), areas, strict=False)
        remark = "; ".join([count, *(f"{area:.2f} for {name}" for name, area in named)])
        return Finding(verdicts.at_least(estimate, self.least), estimate, remark)
