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
    control: str = ""
    """An arm without which there is nothing to compare: half of its runs must grok."""
    effect: str = "speed-up"

    @property
    def superior(self) -> bool:
        """A claim of being as fast (least below 1) needs no difference."""
        return self.least > 1

    def describe(self) -> str:
        rank = f" and the log-rank test by permutation gives p ≤ {SIGNIFICANT}"
        return (
            f"Ratio of the median epochs to grokking, “{self.reference}” over “{self.arm}” "
            f"(runs that never grok count as infinite), bootstrapped over seeds. Supported if the "
            f"95 % interval lies at or above {self.least:g}{rank * self.superior}; contradicted if "
            f"it lies below.{_describe_control(self.control)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name in (self.arm, self.reference, self.control) if name]

    def judge(self, sample: Sample) -> Finding:
        if finding := _check_control(self.control, sample):
            return finding
        fast, slow = sample.arms[self.arm].times(), sample.arms[self.reference].times()
        estimate = verdicts.ratio_of_medians(slow, fast)
        ruling = verdicts.at_least(estimate, self.least)
        p = verdicts.log_rank(fast, slow)
        if ruling == "supported" and self.superior and p > SIGNIFICANT:
            ruling = "inconclusive"
        remark = f"{_count(fast)} against {_count(slow)}, log-rank p = {p:.2g}"
        if (np.isinf(fast) & np.isinf(slow)).any() and math.isinf(estimate.high):
            remark += "; a seed that groks in neither arm leaves the interval open"
        return Finding(ruling, estimate, remark)


def _count(times: np.ndarray) -> str:
    """Median epoch, and how many of the runs got there."""
    middle, n = verdicts.median_time(times), len(times)
    arrived = int(np.isfinite(times).sum())
    if math.isinf(middle):
        return f"{arrived} of {n} grok"
    return f"{middle:,.0f}" + (f" ({arrived} of {n})" if arrived < n else "")


def _check_control(control: str, sample: Sample) -> Finding | None:
    """Inconclusive if the arm that ought to grok does not."""
    if not control or math.isfinite(verdicts.median_time(sample.arms[control].times())):
        return None
    grokked = int(np.isfinite(sample.arms[control].times()).sum())
    n = len(sample.arms[control].rows)
    return Finding(
        "inconclusive", remark=f"nothing to compare with: {grokked} of {n} of “{control}” grok"
    )


def _describe_control(control: str) -> str:
    return f" Inconclusive unless half of “{control}” grok." if control else ""


@dataclass(frozen=True)
class Fastest:
    """An arm groks at least `least` times as fast as each of several others."""

    arm: str
    others: tuple[str, ...]
    least: float
    effect: str = "speed-up over the rival that decides"

    def _pairs(self) -> list[Faster]:
        return [Faster(self.arm, other, self.least) for other in self.others]

    def describe(self) -> str:
        names = ", ".join(f"“{other}”" for other in self.others)
        return (
            f"“{self.arm}” against each of {names}: ratio of the median epochs to grokking (runs "
            "that never grok count as infinite), bootstrapped over seeds. Supported if every 95 % "
            f"interval lies at or above {self.least:g}; contradicted if one lies below. The "
            "comparison that decides is shown."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [self.arm, *self.others]

    def judge(self, sample: Sample) -> Finding:
        found = {test.reference: test.judge(sample) for test in self._pairs()}
        order = ("contradicted", "inconclusive", "supported")

        def rank(item: tuple[str, Finding]) -> tuple[int, float]:
            finding = item[1]
            return order.index(finding.ruling), finding.estimate.value if finding.estimate else 0.0

        name, worst = min(found.items(), key=rank)
        return Finding(worst.ruling, worst.estimate, f"against “{name}”: {worst.remark}")


@dataclass(frozen=True)
class GainKept:
    """An arm saves at least the share `least` of the epochs that another saves."""

    arm: str
    best: str
    reference: str
    least: float
    effect: str = "share of the gain that is kept"

    def describe(self) -> str:
        return (
            f"(“{self.reference}” - “{self.arm}”) / (“{self.reference}” - “{self.best}”) of the "
            "median epochs to grokking, bootstrapped over seeds; a median that was never reached "
            "stands at the budget, which for the reference makes the share too small. Supported "
            f"if the 95 % interval lies at or above {self.least:g}, contradicted if it lies below "
            f"and the reference's median was reached. Inconclusive unless “{self.best}” itself is "
            "faster than the reference."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [self.arm, self.best, self.reference]

    def judge(self, sample: Sample) -> Finding:
        kept, best, slow = (sample.arms[name].times() for name in self.needs(sample))
        estimate = verdicts.gain_kept(slow, best, kept, sample.budget)
        counts = f"{_count(kept)}, {_count(best)} and {_count(slow)}"
        if math.isnan(estimate.value):
            return Finding("inconclusive", remark=f"there is no gain to keep: {counts}")
        ruling = verdicts.at_least(estimate, self.least)
        if ruling == "contradicted" and math.isinf(verdicts.median_time(slow)):
            ruling = "inconclusive"
        return Finding(ruling, estimate, counts)


@dataclass(frozen=True)
class Share:
    """Most runs of an arm grok, or most do not."""

    arm: str
    expected: Literal["grok", "do not grok"]
    column: str = "grokked"
    """The event that is counted: a run without a number there has not had it."""
    counted: str = "grok"
    control: str = ""
    """An arm that differs in the one thing the claim is about: half of its runs must grok."""
    effect: str = "share of seeds"

    def describe(self) -> str:
        sides = ("above", "below") if self.expected == "grok" else ("below", "above")
        return (
            f"Share of seeds of “{self.arm}” that {self.counted}, with Clopper-Pearson bounds, "
            f"each at 95 %. Supported if the bounds lie {sides[0]} one half, contradicted if they "
            f"lie {sides[1]} it (with five seeds: only if all agree)."
            f"{_describe_control(self.control)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name in (self.arm, self.control) if name]

    def judge(self, sample: Sample) -> Finding:
        arm = sample.arms[self.arm]
        count = int(np.isfinite(arm.times(self.column)).sum())
        estimate = verdicts.share_estimate(count, len(arm.rows))
        decide = verdicts.at_least if self.expected == "grok" else verdicts.at_most
        n, memorised = len(arm.rows), int(np.isfinite(arm.times("memorised")).sum())
        remark = f"{count} of {n} {self.counted}"
        if memorised < n:
            remark += f", {memorised} memorise"
        remark += f"; median final test accuracy {np.median(arm.values('test_accuracy')):.2f}"
        hard = arm.values("test_accuracy_unmirrored")
        if np.isfinite([hard, arm.values("test_accuracy_mirrored")]).all():
            remark += f", {np.median(hard):.2f} on pairs whose mirror image was not trained on"
        if finding := _check_control(self.control, sample):
            return Finding("inconclusive", estimate, f"{finding.remark}; {remark}")
        return Finding(decide(estimate, 0.5), estimate, remark)


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


def _bounds(low: float, high: float) -> str:
    if math.isinf(high):
        return f"at or above {low:g}"
    return f"at or below {high:g}" if math.isinf(low) else f"within {low:g} and {high:g}"


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
            f"if the 95 % interval lies {_bounds(self.low, self.high)}, contradicted if it lies "
            "outside."
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
            f"{self.low:g} and {self.high:g}, contradicted if it lies outside."
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


def state_crossing(law: verdicts.PowerLaw, doses: Sequence[float]) -> str:
    """From where the floor rules, as far as the doses can tell."""
    if law.crossing < min(doses):
        return "more than half of the time at every strength"
    if law.crossing > max(doses):
        return "less than half of the time at every strength"
    return f"more than half of the time above λ = {law.crossing:.2g}"
