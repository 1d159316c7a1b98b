"""The tests that claims choose from. Each states its statistic and its rule before the runs; the
rule itself (an interval against the smallest effect of interest) is in `grokscope.claims.verdicts`.

Every test but `Share` and `Everywhere` makes one number of each seed, since the arms of a seed
share their data. A seed without a number is left out; where fewer than half have one, the claim is
untestable: more seeds would not help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from grokscope.claims import verdicts
from grokscope.claims.evidence import GROKKING, ArmRuns, Event, Sample
from grokscope.claims.looks import ERRORS, LOOKS
from grokscope.claims.verdicts import Estimate, Finding, PerSeed, Ruling, median_time

Dose = Callable[[ArmRuns], float | None]
Interest = tuple[float, float]  # between which an effect supports the claim
FIRST = LOOKS[0]  # seeds


def field_of(path: str, where: Mapping[str, Any] | None = None) -> Dose:
    """A field of an arm's spec, by path; None if other fields are not what `where` says."""

    def dose(arm: ArmRuns) -> float | None:
        chosen = all(attrgetter(p)(arm.spec) == value for p, value in (where or {}).items())
        return float(attrgetter(path)(arm.spec)) if chosen else None

    return dose


def state_rule(low: float = -math.inf, high: float = math.inf) -> str:
    """When the verdict is which, for an effect that the claim puts between two bounds."""
    if math.isinf(high):
        where, otherwise = f"at or above {low:g}", "it lies below"
    elif math.isinf(low):
        where, otherwise = f"at or below {high:g}", "it lies above"
    else:
        where, otherwise = f"between {low:g} and {high:g}", "all of it lies outside"
    return f"Supported if the interval lies {where}; contradicted if {otherwise}."


MANY = (
    " The rival that is hardest to beat decides, and is shown; a contradiction by one of several "
    "has so much less error to spend."
)


def untestable(remark: str) -> Finding:
    return Finding("untestable", remark=remark)


def _count(times: np.ndarray, event: Event) -> str:
    """Median epoch, and how many of the runs got there."""
    times = times[~np.isnan(times)]
    n, arrived = len(times), int(np.isfinite(times).sum())
    middle = median_time(times) if n else math.inf
    if math.isinf(middle):
        return f"{arrived} of {n} {event.verb}"
    return f"{middle:,.0f}" + (f" ({arrived} of {n})" if arrived < n else "")


def _check_control(control: str, event: Event, sample: Sample) -> Finding | None:
    """Untestable if the arm that ought to have the event does not."""
    if not control:
        return None
    times = sample.times(control, event)
    if 2 * np.isfinite(times).sum() >= np.count_nonzero(~np.isnan(times)):
        return None
    count = f"{np.isfinite(times).sum()} of {len(times)} of “{control}” {event.verb}"
    return untestable(f"nothing to compare with: {count}")


def _describe_control(control: str, event: Event) -> str:
    return f" Untestable unless half of “{control}” {event.verb}." if control else ""


def settle(
    numbers: PerSeed,
    sample: Sample,
    interest: Interest,
    nothing: float,
    remark: str = "",
    absent: str = "have no number",
) -> Finding:
    """The verdict on one number per seed."""
    present = numbers.present
    lacking = present.size - present.sum()
    if lacking:
        said = f"{lacking} of {present.size} seeds {absent}"
        remark = f"{remark}; {said}" if remark else said
    if 2 * present.sum() < present.size:
        return untestable(remark)
    estimate = numbers.estimate(sample.error)
    ruling = verdicts.within(estimate, *interest, nothing)
    return Finding(ruling, estimate, remark, numbers.p(ruling, *interest))


class Between:
    """A test whose effect is to lie between two bounds."""

    low: float
    high: float

    @property
    def interest(self) -> Interest:
        return self.low, self.high


class AtLeast:
    """A test whose effect is to be at least so large."""

    least: float

    @property
    def interest(self) -> Interest:
        return self.least, math.inf


class OfDoses:
    """A test of all arms that have a dose."""

    dose: Dose

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm) is not None]

    def read(self, sample: Sample, event: Event) -> tuple[np.ndarray, np.ndarray]:
        """Dose of each arm, and its event times for the seeds that all of them have: a claim that
        is open may have asked some arms for more.  (doses,), (doses, seeds)"""
        names = self.needs(sample)
        doses = np.array([self.dose(sample.arms[name]) or 0.0 for name in names])
        times = [sample.times(name, event) for name in names]
        return doses, np.stack([each[: min(map(len, times))] for each in times])

    def slopes(self, sample: Sample, values: np.ndarray) -> np.ndarray:
        """Of log value on log dose, by least squares for each seed.  (doses, seeds) -> (seeds,)"""
        doses = np.log([self.dose(sample.arms[name]) or math.nan for name in self.needs(sample)])
        centred = doses - doses.mean()
        return centred @ np.log(np.where(values > 0, values, math.nan)) / (centred @ centred)


class OfShares:
    """A test of whether most seeds have an event, or few."""

    expected: Literal["most", "few"]
    event: Event

    @property
    def interest(self) -> Interest:
        return (0.5, math.inf) if self.expected == "most" else (-math.inf, 0.5)

    def _count(self, times: np.ndarray) -> str:
        n = np.count_nonzero(~np.isnan(times))
        return f"{np.isfinite(times).sum()} of {n} {self.event.verb}"

    def _rule_on(self, times: np.ndarray, sample: Sample, remark: str) -> Finding:
        """The verdict on event times (seeds,), which failed runs do not have."""
        happened = np.isfinite(times[~np.isnan(times)])
        n = len(happened)
        if 2 * n < times.size:
            return untestable(f"{times.size - n} of {times.size} runs failed")
        estimate = verdicts.share_estimate(int(happened.sum()), n, sample.error)
        ruling = verdicts.within(estimate, *self.interest, nothing=0.5)
        p = PerSeed.known(happened.astype(float)).p(ruling, *self.interest)
        return Finding(ruling, estimate, remark, p)


class OfNamedArms:
    """A test of the arms that its fields name."""

    def needs(self, sample: Sample) -> Sequence[str]:
        named = [getattr(self, field, "") for field in ("arm", "best", "reference", "control")]
        return [name for each in named for name in _each(each) if name]


def _each(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@dataclass(frozen=True)
class Faster(AtLeast, OfNamedArms):
    """An arm has the event at least `least` times as early as another, or as each of several; with
    a `least` below 1 it is as fast."""

    arm: str
    reference: str | tuple[str, ...]
    least: float
    control: str = ""
    """An arm without which there is nothing to compare: half of its runs must have the event."""
    event: Event = GROKKING
    effect: str = "speed-up"

    def describe(self) -> str:
        rivals = _each(self.reference)
        return (
            f"{self.event.name.capitalize()} of {'each of ' * (len(rivals) > 1)}"
            f"{', '.join(f'“{name}”' for name in rivals)} over that of “{self.arm}” of the same "
            f"seed; a run that does not {self.event.verb} is later than its budget. Their median "
            f"with bounds by the sign test. {state_rule(self.least)} Decided as well if one arm "
            f"has more runs that {self.event.verb} at all (Fisher's exact test). Untestable if in "
            "more than half of the seeds neither does."
            f"{_describe_control(self.control, self.event)}{MANY * (len(rivals) > 1)}"
        )

    def judge(self, sample: Sample) -> Finding:
        if finding := _check_control(self.control, self.event, sample):
            return finding
        rivals = _each(self.reference)
        found = {rival: self._compare(sample, rival, len(rivals)) for rival in rivals}

        def rank(rival: str) -> tuple[int, float]:
            finding = found[rival]
            order = 0 if finding.contradicted else 1 if finding.ruling != "supported" else 2
            return order, finding.estimate.value if finding.estimate else 0.0

        worst = min(found, key=rank)
        remark = f"against “{worst}”: " * (len(found) > 1) + found[worst].remark
        return replace(found[worst], remark=remark)

    def _compare(self, sample: Sample, rival: str, rivals: int) -> Finding:
        """To beat all of several rivals each has to be beaten; to lose against one of them by luck
        is so many times as likely as against a single one."""
        finding = self._compare_alone(sample, rival)
        if rivals == 1 or not finding.contradicted:
            return finding
        strict = self._compare_alone(replace(sample, error=sample.error / rivals), rival)
        p = None if finding.p is None else min(1.0, rivals * finding.p)
        return replace(finding, ruling=strict.ruling, estimate=strict.estimate, p=p)

    def _compare_alone(self, sample: Sample, rival: str) -> Finding:
        fast, slow = (sample.times(name, self.event) for name in (self.arm, rival))
        remark = f"{_count(fast, self.event)} against {_count(slow, self.event)}"
        ends = verdicts.log_ratios(slow, fast, sample.budget)
        numbers = PerSeed(*ends)
        absent = f"{self.event.verb} in neither arm"
        interest = (math.log(self.least), math.inf)
        finding = settle(numbers, sample, interest, 0.0, remark, absent)
        if finding.estimate:
            finding = replace(finding, estimate=_ratio(finding.estimate))
        if finding.ruling in ("inconclusive", "untestable"):
            whole = ~(np.isnan(fast) | np.isnan(slow))
            ruling, p = self._who_gets_there(fast[whole], slow[whole], sample)
            if p <= sample.error:
                return replace(finding, ruling=ruling, p=p)
        return finding

    def _who_gets_there(
        self, fast: np.ndarray, slow: np.ndarray, sample: Sample
    ) -> tuple[Ruling, float]:
        more, less = verdicts.more_often(fast, slow, self.least, sample.budget)
        if more < less:
            return "supported", more
        _, even = verdicts.more_often(fast, slow, 1.0, sample.budget)
        opposite = even <= sample.error and self.least >= 1
        return "opposite" if opposite else "smaller than claimed", less


def _ratio(estimate: Estimate) -> Estimate:
    """An estimate of logarithms as one of ratios."""
    ends = (estimate.value, estimate.low, estimate.high)
    value, low, high = (math.inf if end > 700 else math.exp(end) for end in ends)
    return Estimate(value, low, high, estimate.n)


@dataclass(frozen=True)
class GainKept(AtLeast, OfNamedArms):
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
            f"{self.event.name}s of each seed; a time that was not seen is later than the budget. "
            f"Their median with bounds by the sign test. {state_rule(self.least)} Untestable "
            f"unless “{self.best}” is faster than the reference in half of the seeds."
        )

    def judge(self, sample: Sample) -> Finding:
        kept, best, slow = (sample.times(name, self.event) for name in self.needs(sample))
        first, second, third = (_count(times, self.event) for times in (kept, best, slow))
        numbers = PerSeed(*verdicts.kept_shares(slow, best, kept, sample.budget))
        remark = f"{first}, {second} and {third}"
        return settle(numbers, sample, self.interest, 0.0, remark, "have no gain to keep")


@dataclass(frozen=True)
class Share(OfShares, OfNamedArms):
    """Most runs of an arm have the event, or few do."""

    arm: str
    expected: Literal["most", "few"]
    event: Event = GROKKING
    control: str = ""
    """An arm that differs in the one thing the claim is about: half of its runs must grok."""
    given: Event | None = None  # untestable unless half of the runs have had this event
    detail: Callable[[ArmRuns], str] | None = None  # what else to say of the arm, after the count
    effect: str = "share of seeds"

    def describe(self) -> str:
        sides = ("above", "below") if self.expected == "most" else ("below", "above")
        given = f" Untestable unless half {self.given.verb}." if self.given else ""
        return (
            f"Share of seeds of “{self.arm}” that {self.event.verb}, with Clopper-Pearson bounds. "
            f"Supported if both bounds lie {sides[0]} one half; contradicted if both "
            f"lie {sides[1]} it (with five seeds: only if all agree)."
            f"{_describe_control(self.control, GROKKING)}{given}"
        )

    def judge(self, sample: Sample) -> Finding:
        arm, times = sample.arms[self.arm], sample.times(self.arm, self.event)
        remark = self._count(times) + (self.detail(arm) if self.detail else "")
        # An effect next to a claim that it cannot decide would only mislead.
        if finding := _check_control(self.control, GROKKING, sample):
            return untestable(f"{finding.remark}; {remark}")
        known = np.count_nonzero(~np.isnan(times))
        if self.given and 2 * np.isfinite(arm.times(self.given)).sum() < known:
            return untestable(f"fewer than half {self.given.verb}: {remark}")
        return self._rule_on(times, sample, remark)


@dataclass(frozen=True)
class ShareAtBest(OfShares):
    """Most seeds have the event at the best dose, or few do. The dose is chosen on the seeds of the
    first look and judged on those that are added later: seeds that choose cannot also testify,
    since of several doses one does well by luck."""

    dose: Dose  # of the arms among which the best is chosen
    dose_name: str
    expected: Literal["most", "few"]
    tested: Callable[[float], str] | None = None
    """The arm that is asked at the chosen dose; by default the one that was chosen."""
    event: Event = GROKKING
    effect: str = "share of seeds"

    def describe(self) -> str:
        control = f" Untestable unless half of the first {FIRST} do." * bool(self.tested)
        return (
            f"Share of seeds that {self.event.verb} at the {self.dose_name} at which most of the "
            f"first {FIRST} seeds do (the middle one where several are equal), counted on later "
            "seeds alone, with Clopper-Pearson bounds. Supported if both bounds lie "
            f"{'above' if self.expected == 'most' else 'below'} one half; contradicted if both lie "
            f"on the other side.{control}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        """All doses on the first seeds; then the chosen one."""
        names = self._doses(sample)
        if any(row is None for name in names.values() for row in sample.arms[name].rows[:FIRST]):
            asked = map(self.tested, names) if self.tested else ()
            return [*names.values(), *asked]
        return [self._choose(sample)[1]]

    def judge(self, sample: Sample) -> Finding:
        dose, asked, share = self._choose(sample)
        if self.tested and share < 0.5:
            return untestable(f"at no {self.dose_name} do half of the seeds {self.event.verb}")
        later = sample.times(asked, self.event)[FIRST:]
        chosen = f"{self.dose_name} chosen on the first {FIRST} seeds: {dose:g}"
        if not later.size:
            return Finding("inconclusive", remark=f"{chosen}; later seeds are to judge it")
        # The first look could decide nothing, so this one has its error.
        before = dict(zip(LOOKS[1:], ERRORS, strict=False))
        error = before.get(later.size + FIRST, sample.error)
        remark = f"{self._count(later)}, {chosen}"
        return self._rule_on(later, replace(sample, error=error), remark)

    def _doses(self, sample: Sample) -> dict[float, str]:
        found = {self.dose(arm): name for name, arm in sample.arms.items()}
        return {dose: found[dose] for dose in sorted(filter(None, found))}

    def _choose(self, sample: Sample) -> tuple[float, str, float]:
        """The best dose, the arm that is asked there, and the share of first seeds that got there
        at it."""
        names = self._doses(sample)
        times = [sample.times(name, self.event)[:FIRST] for name in names.values()]
        shares = np.isfinite(np.stack(times)).mean(axis=1)
        best = np.flatnonzero(shares == shares.max())
        dose = list(names)[best[len(best) // 2]]
        return dose, self.tested(dose) if self.tested else names[dose], float(shares.max())


@dataclass(frozen=True)
class Level(Between, OfNamedArms):
    """A number of each run (or its lead over the reference's of the same seed) lies, for the
    typical seed, between two bounds."""

    arm: str
    column: str
    effect: str
    low: float = -math.inf
    high: float = math.inf
    logarithmic: bool = False
    """The number is a ratio: without effect it is 1, not 0; and a lead is a ratio as well."""
    absent: str = "have no number"  # what it means if a run has none
    reference: str = ""
    ceiling: float = math.inf
    """What the number cannot exceed: untestable where half of the references leave no room for a
    lead of `low`."""

    def describe(self) -> str:
        relation = "over" if self.logarithmic else "minus"
        less = f" {relation} that of “{self.reference}” of the same seed" if self.reference else ""
        room = (
            f" Untestable unless half of “{self.reference}” stay below {self.ceiling - self.low:g}."
        )
        return (
            f"Median over seeds of the {self.effect} of “{self.arm}”{less}, with bounds by the "
            f"sign test. {state_rule(self.low, self.high)}{room * math.isfinite(self.ceiling)}"
        )

    def judge(self, sample: Sample) -> Finding:
        values, *others = (sample.values(name, self.column) for name in self.needs(sample))
        remark = ""
        for less in others:
            if not (np.isnan(values).all() or np.isnan(less).all()):
                remark = f"{np.nanmedian(values):.2g} against {np.nanmedian(less):.2g}"
            if 2 * np.count_nonzero(less + self.low > self.ceiling) > less.size:
                return untestable(f"no room for a lead of {self.low:g}: {remark}")
            values = values / less if self.logarithmic else values - less
        nothing = 1.0 if self.logarithmic else 0.0
        return settle(PerSeed.known(values), sample, self.interest, nothing, remark, self.absent)


@dataclass(frozen=True)
class Ahead(AtLeast, OfNamedArms):
    """One event comes before another in the same run, by at least the share `least` of the time of
    the second."""

    arm: str
    first: Event
    then: Event
    least: float
    after: Event | None = None  # untestable where half of the runs had the first by then
    effect: str = "lead"

    def describe(self) -> str:
        after = self.after
        early = f", or where half {self.first.verb} before they {after.verb}" if after else ""
        return (
            f"({self.then.name} - {self.first.name}) / {self.then.name} of each run of "
            f"“{self.arm}”. Median over seeds with bounds by the sign test. "
            f"{state_rule(self.least)} Untestable where fewer than half {self.then.verb}{early}."
        )

    def judge(self, sample: Sample) -> Finding:
        first, then = (sample.times(self.arm, event) for event in (self.first, self.then))
        remark = f"{_count(first, self.first)} against {_count(then, self.then)}"
        if self.after:
            early = first <= sample.times(self.arm, self.after)
            if 2 * early.sum() >= early.size:
                count = f"{int(early.sum())} of {early.size} {self.first.verb}"
                return untestable(f"{count} before they {self.after.verb}")
        told = np.isfinite(then)
        lead = np.full((2, then.size), math.nan)
        ends = np.minimum(first, sample.budget)[told]
        lead[:, told] = (then[told] - ends) / then[told]
        lead[0, told & np.isinf(first)] = -math.inf
        numbers, absent = PerSeed(lead[0], lead[1]), f"do not {self.then.verb}"
        return settle(numbers, sample, self.interest, 0.0, remark, absent)


@dataclass(frozen=True)
class Everywhere:
    """A number stays at or below a bound in every run of every arm: one run above it is enough to
    contradict, so there is no interval."""

    column: str
    effect: str
    most: float

    @property
    def interest(self) -> Interest:
        return -math.inf, self.most

    def describe(self) -> str:
        return (
            f"Largest {self.effect} over all runs of all arms. Supported if it is at or below "
            f"{self.most:g}; contradicted if a single run is above it. Untestable if fewer than "
            "four fifths of the runs have the number."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        values = np.concatenate([sample.values(name, self.column) for name in sample.arms])
        known = values[~np.isnan(values)]  # an infinite ratio is above every bound
        above = int((known > self.most).sum())
        remark = f"largest of {len(known)} runs {known.max(initial=-math.inf):.2g}"
        if above:
            return Finding("larger than claimed", remark=f"{above} above the bound, {remark}")
        if len(known) < 0.8 * len(values):
            return untestable(f"{len(values) - len(known)} of {len(values)} runs have no number")
        return Finding("supported", remark=remark)


@dataclass(frozen=True)
class Separation(AtLeast):
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
            f"Area under the ROC curve (the chance that, of two arms of a seed, one that does "
            f"{verb} has the larger number than one that does not, ties counting half) of "
            f"{self.name}{less}. Median over seeds with bounds by the sign test. "
            f"{state_rule(self.least)} Untestable unless in half of the seeds some {verb} and some "
            "do not."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.chosen(arm)]

    def judge(self, sample: Sample) -> Finding:
        names = self.needs(sample)
        happened = np.stack([np.isfinite(sample.times(name, self.event)) for name in names])
        columns = [self.column, *([self.rival] if self.rival else [])]
        areas = []
        for column in columns:
            values = np.stack([sample.values(name, column) for name in names])
            lacking = np.isnan(values).any(axis=0)
            areas.append(np.where(lacking, math.nan, verdicts.roc_areas(happened, values)))
        described = zip((self.name, self.rival_name), areas, strict=False)
        count = f"{happened.sum()} of {happened.size} {self.event.verb}"
        told = [f"{np.nanmedian(a):.2f} for {n}" for n, a in described if not np.isnan(a).all()]
        numbers = PerSeed.known(areas[0] - sum(areas[1:]))
        nothing = 0.0 if self.rival else 0.5
        remark, absent = "; ".join([count, *told]), "have nothing to tell apart"
        return settle(numbers, sample, self.interest, nothing, remark, absent)


@dataclass(frozen=True)
class Trend(Between, OfDoses):
    """The time of an event falls (or rises) with a dose, over all arms that have one."""

    dose: Dose
    dose_name: str
    event: Event = GROKKING
    low: float = -math.inf
    high: float = math.inf
    censored: bool = True
    """Does a run without a number come last? If not, its seed has no correlation."""
    effect: str = "rank correlation"

    def describe(self) -> str:
        return (
            f"Kendall's tau-b between {self.dose_name} and {self.event.name} over the arms of each "
            f"seed{' (never counts as last)' * self.censored}. Median over seeds with bounds by "
            f"the sign test. {state_rule(self.low, self.high)}"
        )

    def judge(self, sample: Sample) -> Finding:
        doses, times = self.read(sample, self.event)
        lacking = np.isnan(times) if self.censored else ~np.isfinite(times)
        known = np.nan_to_num(times, nan=0.0, posinf=math.inf)
        taus = verdicts.rank_correlations(doses[:, None], known)
        numbers = PerSeed.known(np.where(lacking.any(axis=0), math.nan, taus))
        absent = "have no correlation: a number is missing, or all arms agree"
        return settle(numbers, sample, self.interest, 0.0, absent=absent)


@dataclass(frozen=True)
class InverseLaw(Between, OfDoses):
    """time = floor + scale / dose^exponent, with the exponent near one."""

    dose: Dose
    event: Event = GROKKING
    low: float = 0.75
    high: float = 1.33
    effect: str = "exponent"
    symbol: str = "λ"
    """What the dose is called."""

    def describe(self) -> str:
        grid = verdicts.EXPONENTS
        return (
            f"{self.event.name.capitalize()} = floor + c / {self.symbol}^b fitted to the arms of "
            "each seed (a time that was not seen only has to be at or beyond the budget). b is "
            f"searched between {grid[0]:g} and {grid[-1]:g}, and is no number where even the "
            "weakest dose delays by less than a quarter of the floor, or where fewer than three "
            f"arms {self.event.verb}. Median over seeds with bounds by the sign test. "
            f"{state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm)]

    def fit(self, sample: Sample) -> tuple[verdicts.PowerLaw, str]:
        """The law fitted to the medians of all seeds, and where its floor dominates, as far as the
        doses can tell."""
        doses, times = self.read(sample, self.event)
        medians = np.array([median_time(row[~np.isnan(row)]) for row in times])
        law = verdicts.fit_power_law(doses, medians, sample.budget)
        if law.crossing < doses.min():
            return law, "is more than half of the time at every strength"
        if law.crossing > doses.max():
            return law, "is less than half of the time at every strength"
        return law, f"is more than half of the time above {self.symbol} = {law.crossing:.2g}"

    def exponents(self, sample: Sample) -> PerSeed:
        doses, times = self.read(sample, self.event)
        whole = ~np.isnan(times).any(axis=0)
        lower, upper = np.full((2, times.shape[1]), math.nan)
        lower[whole], upper[whole] = verdicts.exponents(doses, times[:, whole].T, sample.budget)
        return PerSeed(lower, upper)

    def judge(self, sample: Sample) -> Finding:
        absent = (
            f"have no exponent: the smallest {self.symbol} hardly delays anything, or fewer than "
            f"three arms {self.event.verb}"
        )
        finding = settle(self.exponents(sample), sample, self.interest, 0.0, absent=absent)
        if finding.estimate is None:
            return finding
        law, floor_is = self.fit(sample)
        floor = f"the floor of {law.floor:,.0f} epochs {floor_is}"
        return replace(finding, remark="; ".join(filter(None, [floor, finding.remark])))
