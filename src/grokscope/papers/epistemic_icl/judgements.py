"""Tests of this paper's own: label-free alarms at a false-alarm rate that is fixed beforehand, and
the two methods compared over a whole map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grokscope.claims.evidence import Sample
from grokscope.claims.judgements import AtLeast, settle, state_rule, untestable
from grokscope.claims.verdicts import Finding, PerSeed, median
from grokscope.papers.epistemic_icl.quantities import RULES, SIGNALS
from grokscope.papers.epistemic_icl.settings import Question

FALSE_ALARMS = 0.2


@dataclass(frozen=True)
class AlarmLead(AtLeast):
    """An alarm goes off when a signal has fallen or risen by a share (`RULES`). It is false in a
    run that never generalises. For each seed the rule is chosen on all other seeds: the longest
    mean lead among those with false alarms in at most a fifth of the runs that never generalise.
    The lead is the part of a run's wait that is left: 1 - alarm / generalisation, 0 for runs that
    it misses or tells of too late."""

    question: Question
    signal: str
    rival: str = ""
    least: float = 0.0
    late: bool = False  # from the end of the warm-up on
    effect: str = "lead"

    def describe(self) -> str:
        less = f", minus that of {SIGNALS[self.rival]}" if self.rival else ""
        late = " Only rows from the end of the warm-up on are looked at." * self.late
        return (
            f"Mean lead of an alarm on {SIGNALS[self.signal]}{less}, over the runs of a seed that "
            "generalise, as a share of the wait; the median over seeds with bounds by the sign "
            "test. For each seed the alarm's rule (fall or rise, and by how much) is the one with "
            f"the longest lead on the other seeds among those that at most {FALSE_ALARMS:.0%} of "
            f"their runs that never generalise raise.{late} "
            f"{state_rule(self.least)} Untestable unless some generalise and some do not."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        event = self.question.event
        times = np.stack([sample.times(name, event) for name in sample.arms])  # (arms, seeds)
        happened, ended = np.isfinite(times), ~np.isnan(times)
        count = f"{happened.sum()} of {ended.sum()} generalise to {self.question.words}"
        if (happened == ended).all() or not happened.any():
            return untestable(f"{count}: there is nothing to tell apart")
        remark, numbers = [count], np.zeros(times.shape[1])
        for signal, sign in ((self.signal, 1), (self.rival, -1)):
            if not signal:
                continue
            alarms = alarms_of(sample, self.question.cell, signal, self.late)
            if (np.isnan(alarms) & ended).any():
                what = f"alarms on {SIGNALS[signal]} for every run"
                return Finding("not run", remark=f"the tables do not have {what} yet")
            leads = lead_of(alarms, times)
            remark.append(f"{np.nanmean(leads):.2f} for {SIGNALS[signal]}")
            numbers = numbers + sign * leads
        absent = "do not generalise in any arm"
        return settle(PerSeed.known(numbers), sample, self.interest, 0.0, "; ".join(remark), absent)


def alarms_of(sample: Sample, cell: str, signal: str, late: bool = False) -> np.ndarray:
    """When each rule's alarm goes off: infinite for never, no number where that is unknown.
    (rules, arms, seeds)"""
    start = f"{cell}_{'late_' * late}alarm_{signal}"
    columns = [f"{start}_{place}" for place in range(len(RULES))]
    return np.stack([[arm.values(name) for arm in sample.arms.values()] for name in columns])


def heed(alarms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The alarm of each run by the rule that is best on the other seeds; infinite if none is quiet
    enough there. The time of generalisation is infinite for a run that never does, and no number
    for one that failed.  (rules, arms, seeds), (arms, seeds) -> (arms, seeds)"""
    never = np.isinf(times)
    false, lead = np.isfinite(alarms) & never, leads_of(alarms, times)
    heard = np.full(times.shape, math.inf)
    for seed in range(times.shape[1]):
        others = np.arange(times.shape[1]) != seed
        rate = false[:, :, others].sum(axis=(1, 2)) / max(never[:, others].sum(), 1)
        gain = np.where(rate <= FALSE_ALARMS, np.nansum(lead[:, :, others], axis=(1, 2)), -1.0)
        if gain.max() >= 0:
            heard[:, seed] = alarms[gain.argmax(), :, seed]
    return heard


def leads_of(alarms: np.ndarray, times: np.ndarray) -> np.ndarray:  # (..., arms, seeds)
    """The part of the wait that is left; no number for runs that do not generalise."""
    left = np.clip(1 - alarms / np.where(np.isfinite(times), times, 1.0), 0, 1)
    return np.where(np.isfinite(times), left, math.nan)


def lead_of(alarms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Mean lead of each seed over its runs that generalise; NaN if none does.
    (rules, arms, seeds), (arms, seeds) -> (seeds,)"""
    happened = np.isfinite(times).sum(axis=0)
    total = np.nansum(leads_of(heed(alarms, times), times), axis=0)
    return np.where(happened, total / np.maximum(happened, 1), math.nan)


@dataclass(frozen=True)
class OverArms(AtLeast):
    """A final number over all arms of a method, by AdamW minus by IVON: their mean, or the best."""

    column: str
    effect: str
    least: float = 0.0
    best: bool = False

    def describe(self) -> str:
        chosen = "Highest" if self.best else "Mean"
        return (
            f"{chosen} {self.effect} over the arms of a method, AdamW minus IVON, of a seed; the "
            f"median over seeds with bounds by the sign test. {state_rule(self.least)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        levels: dict[str, list[np.ndarray]] = {}
        for name, arm in sample.arms.items():
            values = sample.values(name, self.column)
            levels.setdefault(arm.spec.optimiser.kind, []).append(values)
        over = np.max if self.best else np.mean
        adamw, ivon = (over(levels[kind], axis=0) for kind in ("adamw", "ivon"))  # (seeds,)
        remark = f"{median(adamw):.2f} against {median(ivon):.2f}"
        return settle(PerSeed.known(adamw - ivon), sample, self.interest, 0.0, remark)
