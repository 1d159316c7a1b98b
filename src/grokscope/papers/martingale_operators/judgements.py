"""Tests of this paper's own: ratios of distances, with the sampling floor beside them, numbers that
are the truth's own, and powers of a dose."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grokscope.claims import judgements
from grokscope.claims.evidence import Event, Sample
from grokscope.claims.judgements import Between, Dose, OfDoses, OfNamedArms, Trend
from grokscope.claims.verdicts import Estimate, Finding, PerSeed, median, within
from grokscope.papers.martingale_operators.evaluation import DEFINITIONS

RIVALS = re.compile("^(dirac|global|constant|ranked|coarse|oracle|gaussian)_")


@dataclass(frozen=True)
class _Quotient(Between, OfNamedArms):
    """A number of an arm's runs over another, between two bounds."""

    arm: str
    column: str
    effect: str
    low: float = -math.inf
    high: float = math.inf
    over: str = ""
    regimes: tuple[str, ...] = ()  # in which it is asked; empty: in all

    def needs(self, sample: Sample) -> Sequence[str]:
        if self.regimes and sample.setting.regime not in self.regimes:
            return []
        return super().needs(sample)


@dataclass(frozen=True)
class Ratio(_Quotient):
    """Of one run, or of the runs of two arms with the same seed, for the typical seed. Without
    `over` the column is the same; without a `reference` the arm is."""

    reference: str = ""

    def describe(self) -> str:
        other = f" of “{self.reference}” with the same seed" if self.reference else ""
        return (
            f"Median over seeds of {self.effect}: {self.column} of “{self.arm}” over "
            f"{self.over or self.column}{other}, with bounds by the sign test. "
            f"{judgements.state_rule(self.low, self.high)}"
        )

    def judge(self, sample: Sample) -> Finding:
        read = ((self.arm, self.column), (self.reference or self.arm, self.over or self.column))
        above, below = (sample.values(arm, column) for arm, column in read)
        ratios = np.where((above > 0) & (below > 0), above, np.nan) / below
        remark = f"{median(above):.2g} against {median(below):.2g} in the median"
        remark += say_floor(sample, *read)
        return judgements.settle(PerSeed.known(ratios), sample, self.interest, 1.0, remark)


def say_floor(sample: Sample, *read: tuple[str, str]) -> str:
    """The distance of a fresh sample of the truth, beside distances of these arms and columns."""
    found = []
    for arm, column in read:
        plain = RIVALS.sub("", column)
        if plain in DEFINITIONS and f"floor_{plain}" not in (name for _, name in read):
            floor = sample.arms[arm].median(f"floor_{plain}")
            found += [f"{floor:.2g}"] if math.isfinite(floor) else []
    return f"; sampling floor {' and '.join(dict.fromkeys(found))}" if found else ""


@dataclass(frozen=True)
class Fixed(_Quotient):
    """A number that is the truth's own, or nearly: seeds have no part in it, so it has neither an
    interval nor a p-value. Without `over` it is not divided."""

    def describe(self) -> str:
        over = f" over {self.over}" if self.over else ""
        bounds = [f"at least {self.low:g}"] * math.isfinite(self.low)
        bounds += [f"at most {self.high:g}"] * math.isfinite(self.high)
        return (
            f"The {self.effect}: {self.column}{over} of “{self.arm}”. Seeds have no part in it, or "
            "hardly any, so there is no interval, and it is not counted among the verdicts that "
            f"chance may make. Supported if it is {' and '.join(bounds)} in every run; "
            "contradicted if in none."
        )

    def judge(self, sample: Sample) -> Finding:
        values = sample.values(self.arm, self.column)
        values = values / sample.values(self.arm, self.over) if self.over else values
        known = values[np.isfinite(values)]
        if 2 * len(known) < len(values):
            return judgements.untestable(
                f"{len(values) - len(known)} of {len(values)} runs have no number"
            )
        ends = dict.fromkeys(f"{each:.3g}" for each in (known.min(), known.max()))
        remark = f"{' to '.join(ends)} in {len(known)} runs"
        whole = Estimate(float(np.median(known)), known.min(), known.max(), len(known))
        return Finding(within(whole, *self.interest), remark=remark)


@dataclass(frozen=True)
class Slope(Between, OfDoses):
    """How a ratio of two numbers of a run grows with a dose: the exponent of the power law through
    the arms of a seed."""

    dose: Dose
    dose_name: str
    column: str
    over: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def effect(self) -> str:
        return f"exponent of {self.column} over {self.over}"

    def describe(self) -> str:
        return (
            f"Least-squares slope of log({self.column} / {self.over}) over the logarithm of "
            f"{self.dose_name}, over the arms of each seed. Median over seeds with bounds by the "
            f"sign test. {judgements.state_rule(self.low, self.high)}"
        )

    def judge(self, sample: Sample) -> Finding:
        names = self.needs(sample)
        ratios = [sample.values(n, self.column) / sample.values(n, self.over) for n in names]
        numbers = PerSeed.known(self.slopes(sample, np.stack(ratios)))
        return judgements.settle(numbers, sample, self.interest, 0.0)


@dataclass(frozen=True)
class Growth(OfNamedArms):
    """How much an error grows on a finer grid. Both are told in deviations of the truth on the
    training grid: in two dimensions those of white noise grow, and would hide it."""

    column: str
    effect: str
    factor: int = 4
    arm = "diagonal"
    interest = -math.inf, 0.05

    def describe(self) -> str:
        return (
            f"Median over seeds of the {self.effect} of “{self.arm}” on a grid {self.factor} times "
            "as fine, in deviations on the training grid, with bounds by the sign test. "
            f"{judgements.state_rule(*self.interest)}"
        )

    def judge(self, sample: Sample) -> Finding:
        errors, units = (
            [sample.values(self.arm, f"{column}_{factor}x") for factor in (self.factor, 1)]
            for column in (self.column, "deviation")
        )
        growth = (errors[0] * units[0] - errors[1] * units[1]) / units[1]
        remark = f"{sample.arms[self.arm].median(f'{self.column}_1x'):.2g} on the training grid"
        return judgements.settle(PerSeed.known(growth), sample, self.interest, 0.0, remark)


def trend(dose: Dose, dose_name: str, column: str, name: str, **bounds: Any) -> Trend:
    """Does a number of the runs rise or fall with a dose? A run without it does not come last."""
    return Trend(dose, dose_name, Event(column, "err", name), censored=False, **bounds)
