"""The tests that claims choose from. Each states its statistic and its rule before the runs; the
rule itself (an interval against the smallest effect of interest) is in `grokscope.claims.verdicts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from grokscope.claims import verdicts
from grokscope.claims.evidence import GROKKING, ArmRuns, Event, Sample
from grokscope.claims.verdicts import Finding, median_time

SIGNIFICANT = 0.05
Dose = Callable[[ArmRuns], float | None]


def state_rule(low: float = -math.inf, high: float = math.inf, also: str = "") -> str:
    """When the verdict is which, for an effect that the claim puts between two bounds."""
    if math.isinf(high):
        where, otherwise = f"at or above {low:g}", "it lies below"
    elif math.isinf(low):
        where, otherwise = f"at or below {high:g}", "it lies above"
    else:
        where, otherwise = f"between {low:g} and {high:g}", "all of it lies outside"
    return f"Supported if the 95 % interval lies {where}{also}; contradicted if {otherwise}."


def _without_number(values: np.ndarray, what: str, absent: str = "have no number") -> Finding:
    lacking = np.count_nonzero(~np.isfinite(values))
    return Finding("inconclusive", remark=f"{lacking} of {values.size} {what} {absent}")


def _count(times: np.ndarray, event: Event) -> str:
    """Median epoch, and how many of the runs got there."""
    middle, n, arrived = median_time(times), len(times), int(np.isfinite(times).sum())
    if math.isinf(middle):
        return f"{arrived} of {n} {event.verb}"
    return f"{middle:,.0f}" + (f" ({arrived} of {n})" if arrived < n else "")


def _check_control(control: str, event: Event, sample: Sample) -> Finding | None:
    """Inconclusive if the arm that ought to have the event does not."""
    if not control or math.isfinite(median_time(times := sample.arms[control].times(event))):
        return None
    count = f"{np.isfinite(times).sum()} of {len(times)} of “{control}” {event.verb}"
    return Finding("inconclusive", remark=f"nothing to compare with: {count}")


def _describe_control(control: str, event: Event) -> str:
    return f" Inconclusive unless half of “{control}” {event.verb}." if control else ""


class _OfNamedArms:
    def needs(self, sample: Sample) -> Sequence[str]:
        named = [getattr(self, field, "") for field in ("arm", "best", "reference", "control")]
        return [name for each in named for name in _each(each) if name]


def _each(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@dataclass(frozen=True)
class Faster(_OfNamedArms):
    """An arm has the event at least `least` times as early as another, or as each of several."""

    arm: str
    reference: str | tuple[str, ...]
    least: float
    control: str = ""
    """An arm without which there is nothing to compare: half of its runs must have the event."""
    event: Event = GROKKING
    effect: str = "speed-up"

    def describe(self) -> str:
        rivals = _each(self.reference)
        # A claim of being as fast (least below 1) needs no difference.
        rank = f" and a log-rank test by permutation gives p ≤ {SIGNIFICANT}" * (self.least > 1)
        return (
            f"Median {self.event.name} of {'each of ' * (len(rivals) > 1)}"
            f"{', '.join(f'“{name}”' for name in rivals)} over that of “{self.arm}” (infinite for "
            f"runs that never {self.event.verb}), bootstrapped over seeds. "
            f"{state_rule(self.least, also=rank)}{_describe_control(self.control, self.event)}"
            f"{' The rival that is hardest to beat decides, and is shown.' * (len(rivals) > 1)}"
        )

    def judge(self, sample: Sample) -> Finding:
        if finding := _check_control(self.control, self.event, sample):
            return finding
        found = {rival: self._compare(sample, rival) for rival in _each(self.reference)}

        def rank(rival: str) -> tuple[int, float]:
            ruling, estimate = found[rival].ruling, found[rival].estimate
            return verdicts.RULINGS.index(ruling), estimate.value if estimate else 0.0

        worst = min(found, key=rank)
        remark = f"against “{worst}”: " * (len(found) > 1) + found[worst].remark
        return replace(found[worst], remark=remark)

    def _compare(self, sample: Sample, rival: str) -> Finding:
        fast, slow = (sample.arms[name].times(self.event) for name in (self.arm, rival))
        estimate = verdicts.ratio_of_medians(slow, fast)
        ruling = verdicts.within(estimate, self.least)
        p = verdicts.log_rank(fast, slow)
        if ruling == "supported" and self.least > 1 and p > SIGNIFICANT:
            ruling = "inconclusive"
        remark = f"{_count(fast, self.event)} against {_count(slow, self.event)}"
        remark += f", log-rank p = {p:.2g}"
        if (np.isinf(fast) & np.isinf(slow)).any() and math.isinf(estimate.high):
            remark += f"; some seeds {self.event.verb} in neither arm, so the interval is open"
        return Finding(ruling, estimate, remark)


@dataclass(frozen=True)
class GainKept(_OfNamedArms):
    """An arm saves at least the share `least` of the epochs that another saves."""

    arm: str
    best: str
    reference: str
    least: float
    event: Event = GROKKING
    effect: str = "share of the gain that is kept"

    def describe(self) -> str:
        return (
            f"(“{self.reference}” - “{self.arm}”) / (“{self.reference}” - “{self.best}”) of the "
            f"median {self.event.name}s, bootstrapped over seeds. A median that was never reached "
            "is set to the budget: for the reference this makes the share too small, for the arm "
            f"it leaves no share. {state_rule(self.least)[:-1]} and the reference's median was "
            f"reached. Inconclusive unless “{self.best}” itself is faster than the reference."
        )

    def judge(self, sample: Sample) -> Finding:
        kept, best, slow = (sample.arms[name].times(self.event) for name in self.needs(sample))
        estimate = verdicts.gain_kept(slow, best, kept, sample.budget)
        first, second, third = (_count(times, self.event) for times in (kept, best, slow))
        counts = f"{first}, {second} and {third}"
        if math.isnan(estimate.value):
            return Finding("inconclusive", remark=f"there is no gain to keep: {counts}")
        ruling = verdicts.within(estimate, self.least)
        if ruling == "contradicted" and math.isinf(median_time(slow)):
            ruling = "inconclusive"
        return Finding(ruling, estimate, counts)


@dataclass(frozen=True)
class Share(_OfNamedArms):
    """Most runs of an arm have the event, or few do."""

    arm: str
    expected: Literal["most", "few"]
    event: Event = GROKKING
    control: str = ""
    """An arm that differs in the one thing the claim is about: half of its runs must grok."""
    given: Event | None = None  # the question is open unless half of the runs have had this event
    detail: Callable[[ArmRuns], str] | None = None  # what else to say of the arm, after the count
    effect: str = "share of seeds"

    def describe(self) -> str:
        sides = ("above", "below") if self.expected == "most" else ("below", "above")
        given = f" Inconclusive unless half {self.given.verb}." if self.given else ""
        return (
            f"Share of seeds of “{self.arm}” that {self.event.verb}, with Clopper-Pearson bounds "
            f"of 95 % each. Supported if both bounds lie {sides[0]} one half; contradicted if both "
            f"lie {sides[1]} it (with five seeds: only if all agree)."
            f"{_describe_control(self.control, GROKKING)}{given}"
        )

    def judge(self, sample: Sample) -> Finding:
        arm, n = sample.arms[self.arm], len(sample.arms[self.arm].rows)
        count = int(np.isfinite(arm.times(self.event)).sum())
        remark = f"{count} of {n} {self.event.verb}" + (self.detail(arm) if self.detail else "")
        # An effect next to a claim that it cannot decide would only mislead.
        if finding := _check_control(self.control, GROKKING, sample):
            return Finding("inconclusive", remark=f"{finding.remark}; {remark}")
        if self.given and 2 * np.isfinite(arm.times(self.given)).sum() < n:
            return Finding("inconclusive", remark=f"fewer than half {self.given.verb}: {remark}")
        estimate = verdicts.share_estimate(count, n)
        bound = {"most": {"low": 0.5}, "few": {"high": 0.5}}[self.expected]
        return Finding(verdicts.within(estimate, **bound), estimate, remark)


@dataclass(frozen=True)
class Level(_OfNamedArms):
    """A number of each run (or its lead over the reference's of the same seed) lies, on average
    over seeds, between two bounds."""

    arm: str
    column: str
    effect: str
    low: float = -math.inf
    high: float = math.inf
    logarithmic: bool = False
    """Average the logarithms (ratios), and give the effect as a ratio again."""
    absent: str = "have no number"  # what it means if a run has none
    reference: str = ""

    def describe(self) -> str:
        mean = "Geometric mean" if self.logarithmic else "Mean"
        less = f" minus that of “{self.reference}” of the same seed" if self.reference else ""
        return (
            f"{mean} over seeds of the {self.effect} of “{self.arm}”{less}, bootstrapped. "
            f"{state_rule(self.low, self.high)}"
        )

    def judge(self, sample: Sample) -> Finding:
        values, *others = (sample.arms[name].values(self.column) for name in self.needs(sample))
        gain = values - sum(others)
        if not np.isfinite(gain).all():
            return _without_number(gain, "seeds" if others else "runs", self.absent)
        estimate = verdicts.mean(gain, self.logarithmic)
        remark = "".join(f"{values.mean():.2g} against {less.mean():.2g}" for less in others)
        return Finding(verdicts.within(estimate, self.low, self.high), estimate, remark)


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
            f"{self.most:g}; contradicted if a single run is above it."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        values = np.concatenate([arm.values(self.column) for arm in sample.arms.values()])
        known = values[~np.isnan(values)]  # an infinite ratio is above every bound
        above = int((known > self.most).sum())
        remark = f"largest of {len(known)} runs {known.max(initial=-math.inf):.2g}"
        if above:
            return Finding("contradicted", remark=f"{above} above the bound, {remark}")
        if len(known) < len(values):
            return _without_number(values, "runs")
        return Finding("supported", remark=remark)


@dataclass(frozen=True)
class Separation:
    """A number of each run tells runs that have the event from those that do not, or does so better
    than a rival number."""

    column: str
    name: str
    least: float
    chosen: Callable[[ArmRuns], bool]  # which arms count
    rival: str = ""
    rival_name: str = ""
    event: Event = GROKKING

    @property
    def effect(self) -> str:
        return "difference of areas under the ROC curve" if self.rival else "area under the curve"

    def describe(self) -> str:
        verb, less = self.event.verb, f", minus that of {self.rival_name}" if self.rival else ""
        return (
            f"Area under the ROC curve (the chance that a run that does {verb} has the larger "
            f"number than one that does not, ties counting half) of {self.name}{less}, over all "
            f"runs of the arms concerned, bootstrapped over seeds. {state_rule(self.least)} "
            f"Inconclusive unless some {verb} and some do not."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.chosen(arm)]

    def judge(self, sample: Sample) -> Finding:
        arms = [sample.arms[name] for name in self.needs(sample)]
        happened = np.stack([np.isfinite(arm.times(self.event)) for arm in arms])
        columns = [self.column, *([self.rival] if self.rival else [])]
        values = [np.stack([arm.values(column) for arm in arms]) for column in columns]
        if np.isnan(values).any():
            return _without_number(np.sum(values, axis=0), "runs")
        count = f"{happened.sum()} of {happened.size} {self.event.verb}"
        if happened.all() or not happened.any():
            return Finding("inconclusive", remark=f"{count}: there is nothing to tell apart")
        areas = [verdicts.roc_area(each[happened], each[~happened]) for each in values]
        named = zip((self.name, self.rival_name), areas, strict=False)
        remark = "; ".join([count, *(f"{area:.2f} for {name}" for name, area in named)])
        estimate = verdicts.separation(happened, *values)
        return Finding(verdicts.within(estimate, self.least), estimate, remark)


@dataclass(frozen=True)
class Trend:
    """The time of an event falls (or rises) with a dose, over all arms that have one."""

    dose: Dose
    dose_name: str
    event: Event = GROKKING
    low: float = -math.inf
    high: float = math.inf
    censored: bool = True
    """Does a run without a number come last? If not, it leaves the question open."""
    effect: str = "rank correlation"

    def describe(self) -> str:
        return (
            f"Kendall's tau-b between {self.dose_name} and {self.event.name} over all arms and "
            f"seeds{' (never counts as last)' * self.censored}, bootstrapped over seeds. "
            f"{state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm) is not None]

    def judge(self, sample: Sample) -> Finding:
        doses, times = _dose_times(self, sample)
        if not self.censored and np.isinf(times).any():
            return _without_number(times, "runs")
        if len(np.unique(times)) < 2:
            return Finding("inconclusive", remark="all runs agree: there is nothing to rank")
        estimate = verdicts.rank_correlation(doses, times)
        return Finding(verdicts.within(estimate, self.low, self.high), estimate)


def _dose_times(test: Trend | InverseLaw, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Dose of each arm, and its event times.  (doses,), (doses, seeds)"""
    arms = [sample.arms[name] for name in test.needs(sample)]
    doses = np.array([test.dose(arm) or 0.0 for arm in arms])
    return doses, np.stack([arm.times(test.event) for arm in arms])


@dataclass(frozen=True)
class InverseLaw:
    """time = floor + scale / dose^exponent, with the exponent near one."""

    dose: Dose
    event: Event = GROKKING
    low: float = 0.75
    high: float = 1.33
    effect: str = "exponent"

    def describe(self) -> str:
        grid = verdicts.EXPONENTS
        return (
            f"{self.event.name.capitalize()} = floor + c / λ^b fitted to the medians over seeds (a "
            "median that was never reached only has to be at or beyond the budget), bootstrapped "
            f"over seeds. b is searched between {grid[0]:g} and {grid[-1]:g}, and is no number "
            "where even the weakest penalty delays by less than a quarter of the floor. "
            f"{state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm)]

    def fit(self, sample: Sample) -> tuple[verdicts.PowerLaw, str]:
        """The law fitted to the medians of all seeds, and where its floor dominates, as far as the
        doses can tell."""
        doses, times = _dose_times(self, sample)
        medians = np.array([median_time(row) for row in times])
        law = verdicts.fit_power_law(doses, medians, sample.budget)
        if law.crossing < doses.min():
            return law, "is more than half of the time at every strength"
        if law.crossing > doses.max():
            return law, "is less than half of the time at every strength"
        return law, f"is more than half of the time above λ = {law.crossing:.2g}"

    def judge(self, sample: Sample) -> Finding:
        doses, times = _dose_times(self, sample)
        if sum(math.isfinite(median_time(row)) for row in times) < 3:
            return Finding("inconclusive", remark=f"fewer than three strengths {self.event.verb}")
        estimate = verdicts.power_law_exponent(doses, times, sample.budget)
        law, floor_is = self.fit(sample)
        if math.isnan(estimate.value):
            floor_is = f"dominates everywhere: even λ = {doses.min():g} hardly delays anything"
        remark = f"the floor of {law.floor:,.0f} epochs {floor_is}"
        return Finding(verdicts.within(estimate, self.low, self.high), estimate, remark)
