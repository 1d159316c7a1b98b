"""Tests of when, and whether, runs grok."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from grokscope.claims import verdicts
from grokscope.claims.evidence import Sample
from grokscope.claims.verdicts import Finding

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
            "stands at the budget, which for the reference makes the share too small, and for the "
            f"arm none at all. Supported if the 95 % interval lies at or above {self.least:g}, "
            "contradicted if it lies below and the reference's median was reached. Inconclusive "
            f"unless “{self.best}” itself is faster than the reference."
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
    only_if_memorised: bool = False
    """Is the question open unless half of the runs memorise?"""
    effect: str = "share of seeds"

    def describe(self) -> str:
        sides = ("above", "below") if self.expected == "grok" else ("below", "above")
        return (
            f"Share of seeds of “{self.arm}” that {self.counted}, with Clopper-Pearson bounds, "
            f"each at 95 %. Supported if the bounds lie {sides[0]} one half, contradicted if they "
            f"lie {sides[1]} it (with five seeds: only if all agree)."
            f"{_describe_control(self.control)}"
            f"{' Inconclusive unless half memorise.' * self.only_if_memorised}"
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
        # An effect beside a claim that cannot be decided by it would only mislead.
        if finding := _check_control(self.control, sample):
            return Finding("inconclusive", remark=f"{finding.remark}; {remark}")
        if self.only_if_memorised and 2 * memorised < n:
            return Finding("inconclusive", remark=f"there is nothing to delay: {remark}")
        return Finding(decide(estimate, 0.5), estimate, remark)
