"""Tests of how a time depends on a dose, over several arms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from grokscope.claims import verdicts
from grokscope.claims.evidence import ArmRuns, Sample
from grokscope.claims.judgements.numbers import state_bounds
from grokscope.claims.verdicts import Estimate, Finding


@dataclass(frozen=True)
class Trend:
    """Time to an event falls (or rises) with a dose, over all arms that have one."""

    dose: Callable[[ArmRuns], float | None]
    dose_name: str
    event: str = "grokked"
    event_name: str = "grok epoch"
    low: float = -math.inf
    high: float = math.inf
    censored: bool = True
    """Does a run without a number come last? If not, it leaves the question open."""
    effect: str = "rank correlation"

    def describe(self) -> str:
        return (
            f"Kendall's tau-b between {self.dose_name} and {self.event_name} over all arms and "
            f"seeds{' (never counts as last)' * self.censored}, bootstrapped over seeds. Supported "
            f"if the 95 % interval lies {state_bounds(self.low, self.high)}, contradicted if all "
            "of it lies outside."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm) is not None]

    def judge(self, sample: Sample) -> Finding:
        arms = [sample.arms[name] for name in self.needs(sample)]
        times = np.stack([arm.times(self.event) for arm in arms])
        if not self.censored and np.isinf(times).any():
            return Finding("inconclusive", remark=f"{np.isinf(times).sum()} runs have no number")
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
            f"over seeds; b is looked for between {verdicts.EXPONENTS[0]:g} and "
            f"{verdicts.EXPONENTS[-1]:g}, and is no number where even the weakest penalty delays "
            f"by less than a quarter of the floor. Supported if the 95 % interval of b lies within "
            f"{self.low:g} and {self.high:g}, contradicted if all of it lies outside."
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
        doses = [self.dose(arm) or math.inf for arm in arms]
        remark = f"floor {law.floor:,.0f} epochs, {state_crossing(law, doses)}"
        return Finding(verdicts.within(estimate, self.low, self.high), estimate, remark)


def state_crossing(law: verdicts.PowerLaw, doses: Sequence[float]) -> str:
    """From where the floor rules, as far as the doses can tell."""
    if law.crossing < min(doses):
        return "more than half of the time at every strength"
    if law.crossing > max(doses):
        return "less than half of the time at every strength"
    return f"more than half of the time above λ = {law.crossing:.2g}"
