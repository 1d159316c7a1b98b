"""Tests that only this paper's claims need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from grokscope.claims.evidence import ArmRuns, Event, Sample
from grokscope.claims.judgements import Interest, settle, state_rule
from grokscope.claims.verdicts import Finding, PerSeed


@dataclass(frozen=True)
class Association:
    """Arms that are early (or low) in one thing are early in another."""

    first: Event
    second: Event
    low: float = -math.inf
    high: float = math.inf
    arms: tuple[str, ...] = ()  # all if none is named
    effect: str = "rank correlation"

    @property
    def interest(self) -> Interest:
        return self.low, self.high

    def describe(self) -> str:
        return (
            f"Kendall's tau-b between {self.first.name} and {self.second.name} over the arms of "
            "each seed (never counts as last); the median over seeds with bounds by the sign test. "
            f"{state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return self.arms or tuple(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        names = self.needs(sample)
        pairs = [
            np.stack([sample.times(name, event) for name in names])
            for event in (self.first, self.second)
        ]  # (arms, seeds) each
        taus = [_rank_correlation(*each) for each in zip(pairs[0].T, pairs[1].T, strict=True)]
        medians = [[float(np.median(row)) for row in times] for times in pairs]
        order = [[names[i] for i in np.argsort(each, kind="stable")] for each in medians]
        remark = f"medians in the order {', '.join(order[0])} and {', '.join(order[1])}"
        numbers = PerSeed.known(np.array(taus))
        return settle(numbers, sample, self.interest, 0.0, remark, "have nothing to rank")


def _rank_correlation(first: np.ndarray, second: np.ndarray) -> float:  # (arms,), (arms,)
    """Kendall's tau-b; no number where a run has failed or all of them agree."""
    if np.isnan([first, second]).any() or min(len(np.unique(first)), len(np.unique(second))) < 2:
        return math.nan
    ranks = [stats.rankdata(each) for each in (first, second)]
    return float(stats.kendalltau(*ranks).statistic)


@dataclass(frozen=True)
class Slope:
    """A number of each run goes with a power of a dose: log number = slope * log dose + c, fitted
    for each seed over the arms that have a dose."""

    column: str
    name: str
    dose: Callable[[ArmRuns], float | None]
    dose_name: str
    low: float = -math.inf
    high: float = math.inf
    effect: str = "exponent"

    @property
    def interest(self) -> Interest:
        return self.low, self.high

    def describe(self) -> str:
        return (
            f"Slope of the logarithm of {self.name} on that of {self.dose_name}, by least squares "
            f"over the arms of each seed; the median over seeds with bounds by the sign test. "
            f"{state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm)]

    def judge(self, sample: Sample) -> Finding:
        names = self.needs(sample)
        values = np.stack([sample.values(name, self.column) for name in names])  # (doses, seeds)
        logs = np.log(np.where(values > 0, values, math.nan))
        doses = np.log([self.dose(sample.arms[name]) or math.nan for name in names])
        centred = doses - doses.mean()
        slopes = centred @ logs / (centred @ centred)  # (seeds,)
        ends = [row[np.isfinite(row)] for row in values[[0, -1]]]
        first, last = (f"{np.median(end):.3g}" if len(end) else "no number" for end in ends)
        remark = f"{first} at the first dose, {last} at the last"
        return settle(PerSeed.known(slopes), sample, self.interest, 0.0, remark)
