"""Tests of this paper's own: label-free alarms at a false-alarm rate that is fixed beforehand, and
the two methods compared over a whole map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grokscope.claims.evidence import Sample
from grokscope.claims.judgements import Interest, settle, state_rule, untestable
from grokscope.claims.verdicts import Finding, PerSeed
from grokscope.papers.epistemic_icl.quantities import LEVELS, SIGNALS

FALSE_ALARMS = 0.2


@dataclass(frozen=True)
class AlarmLead:
    """An alarm goes off when a signal has fallen by a share of its running maximum. The smallest
    share at which at most a fifth of the runs that never generalise raise it is chosen; the lead is
    the part of a run's wait that is left when it goes off: 1 - alarm / generalisation, 0 for runs
    that it misses or that it tells of too late."""

    signal: str
    rival: str = ""
    least: float = 0.0
    effect: str = "lead"

    @property
    def interest(self) -> Interest:
        return self.least, math.inf

    def describe(self) -> str:
        less = f", minus that of {SIGNALS[self.rival]}" if self.rival else ""
        return (
            f"Mean lead over the runs that generalise of an alarm on {SIGNALS[self.signal]}{less}, "
            "of a seed, as a share of the wait; the median over seeds with bounds by the sign "
            "test. The alarm's level is the smallest at "
            f"which at most {FALSE_ALARMS:.0%} of the other runs raise it. "
            f"{state_rule(self.least)} Untestable unless some generalise and some do not."
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        times = np.stack([sample.times(name) for name in sample.arms])  # (arms, seeds)
        happened = np.isfinite(times)
        count = f"{happened.sum()} of {happened.size} generalise to unseen tasks"
        if happened.all() or not happened.any():
            return untestable(f"{count}: there is nothing to tell apart")
        remark, gain = [count], np.zeros(int(happened.sum()))
        for signal, sign in ((self.signal, 1), (self.rival, -1)):
            if not signal:
                continue
            alarms = np.stack(
                [
                    [arm.times(f"alarm_{signal}_{place}") for arm in sample.arms.values()]
                    for place in range(len(LEVELS))
                ]
            )  # (levels, arms, seeds)
            lead = lead_of(alarms.reshape(len(LEVELS), -1), times.ravel())
            remark.append(f"{lead.mean():.2f} for {SIGNALS[signal]}")
            gain = gain + sign * lead
        leads = np.full(times.shape, math.nan)
        leads[happened] = gain
        seeds = [each[~np.isnan(each)] for each in leads.T]
        numbers = np.array([each.mean() if len(each) else math.nan for each in seeds])
        absent = "do not generalise in any arm"
        remarks = "; ".join(remark)
        return settle(PerSeed.known(numbers), sample, self.interest, 0.0, remarks, absent)


def lead_of(alarms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Lead of each run that generalises, at the chosen level; 0 for all if none is quiet enough.
    (levels, runs), (runs,) -> (runs that generalise,)"""
    happened = np.isfinite(times)
    false = np.isfinite(alarms[:, ~happened]).mean(axis=1)
    quiet = np.flatnonzero(false <= FALSE_ALARMS)
    if not len(quiet):
        return np.zeros(int(happened.sum()))
    return np.clip(1 - alarms[quiet[0], happened] / times[happened], 0, 1)


@dataclass(frozen=True)
class OverTheMap:
    """The mean over all numbers of tasks and shares of pairs of a final number, by AdamW minus by
    IVON."""

    column: str
    effect: str
    low: float = 0.0

    @property
    def interest(self) -> Interest:
        return self.low, math.inf

    def describe(self) -> str:
        return (
            f"Mean over the map of {self.effect}, AdamW minus IVON, of a seed; the median over "
            f"seeds with bounds by the sign test. {state_rule(self.low)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return list(sample.arms)

    def judge(self, sample: Sample) -> Finding:
        levels: dict[str, list[np.ndarray]] = {}
        for arm in sample.arms.values():
            levels.setdefault(arm.spec.optimiser.kind, []).append(arm.values(self.column))
        adamw, ivon = (np.mean(levels[kind], axis=0) for kind in ("adamw", "ivon"))  # (seeds,)
        remark = f"{np.nanmedian(adamw):.2f} against {np.nanmedian(ivon):.2f}"
        return settle(PerSeed.known(adamw - ivon), sample, self.interest, 0.0, remark)
