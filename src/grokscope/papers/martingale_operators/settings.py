"""Scales and regimes of the studies on martingale operators, and the test most claims share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grokscope.claims.evidence import ArmRuns, Sample
from grokscope.claims.judgements import Dose, Interest, settle, state_rule, untestable
from grokscope.claims.prose import Prose
from grokscope.claims.studies import ScaleName, Setting
from grokscope.claims.verdicts import Finding, PerSeed
from grokscope.papers.martingale_operators.evaluation import DEFINITIONS
from grokscope.spec import FieldSpec, Spec

PROSE = Prose.read(__package__)
HEAT, PHI4, BURGERS = "heat", "φ⁴", "Burgers"
MULTIPLICATIVE = "Burgers, multiplicative noise"
REGIMES = {
    HEAT: "The linear stochastic heat equation: a Gaussian law with one covariance for every "
    "initial condition, known in closed form.",
    PHI4: "The φ⁴ equation over a short time, as SPDEBench has it, but with many noises for "
    "every initial condition: nearly Gaussian.",
    BURGERS: "The Burgers equation with coloured additive noise.",
    MULTIPLICATIVE: "The same with noise times (1 + u) / 2: the covariance depends on the "
    "initial condition.",
}
CHANGES: dict[str, dict[str, Any]] = {
    HEAT: {},
    PHI4: {"equation.kind": "phi4"},
    BURGERS: {"equation.kind": "burgers"},
    MULTIPLICATIVE: {"equation.kind": "burgers", "equation.multiplicative": 0.5},
}
# Conditions, noises, steps of training and their cadence.
SIZES: dict[ScaleName, dict[str, Any]] = {
    "smoke": {
        "equation.points": 32,
        "equation.conditions": 64,
        "equation.noises": 8,
        "operator.width": 8,
        "operator.modes": 8,
        "training.epochs": 40,
        "training.log_every": 10,
    },
    "laptop": {},
    "paper": {},
}
SEEDS: Mapping[ScaleName, int] = {"smoke": 1, "laptop": 5, "paper": 5}
JOINT, DIAGONAL = {"objective.kind": "joint"}, {"objective.kind": "diagonal"}


def base(scale: ScaleName, changes: Mapping[str, Any]) -> FieldSpec:
    return FieldSpec().replace(**{**SIZES[scale], **changes})


def only(
    laptop: Sequence[str], smoke: Sequence[str] = (), more: Mapping[str, Any] | None = None
) -> Callable[[ScaleName], list[Setting]]:
    """Settings with the named regimes, and whatever else all of their runs have."""

    def settings(scale: ScaleName) -> list[Setting]:
        chosen = {"smoke": smoke, "laptop": laptop, "paper": ()}[scale]
        return [Setting(scale, r, base(scale, {**CHANGES[r], **(more or {})})) for r in chosen]

    return settings


def named(
    regimes: Mapping[str, Mapping[str, Any]], smoke: Sequence[str] = ()
) -> Callable[[ScaleName], list[Setting]]:
    """Settings of a study's own, by name: what differs from the base."""
    chosen = {"smoke": smoke, "laptop": tuple(regimes), "paper": ()}
    return lambda scale: [Setting(scale, r, base(scale, regimes[r])) for r in chosen[scale]]


def vary(arms: Mapping[str, Mapping[str, Any]]) -> Callable[[Setting, int], dict[str, Spec]]:
    """Arms by name: what differs from the setting's base. At smoke scale the first two."""

    def make(setting: Setting, seed: int) -> dict[str, Spec]:
        chosen = list(arms.items())[: 2 if setting.scale == "smoke" else None]
        return {n: setting.base.replace(**{"seed": seed, **changes}) for n, changes in chosen}

    return make


@dataclass(frozen=True)
class Ratio:
    """A number of each run over another number, of the same run or of another arm's run with the
    same seed, lies between two bounds for the typical seed."""

    arm: str
    column: str
    over: str
    effect: str
    low: float = -math.inf
    high: float = math.inf
    reference: str = ""  # the arm that `over` is read from; empty: the same
    regimes: tuple[str, ...] = ()  # in which it is asked; empty: in all

    @property
    def interest(self) -> Interest:
        return self.low, self.high

    def describe(self) -> str:
        other = f" of “{self.reference}” with the same seed" if self.reference else ""
        return (
            f"Median over seeds of {self.effect}: {self.column} of “{self.arm}” over {self.over}"
            f"{other}, with bounds by the sign test. {state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        if self.regimes and sample.setting.regime not in self.regimes:
            return []
        return [self.arm, *([self.reference] if self.reference else [])]

    def judge(self, sample: Sample) -> Finding:
        above = sample.values(self.arm, self.column)
        below = sample.values(self.reference or self.arm, self.over)
        ratios = np.where((above > 0) & (below > 0), above, np.nan) / below
        remark = f"{np.nanmedian(above):.2g} against {np.nanmedian(below):.2g} in the median"
        read = ((self.arm, self.column), (self.reference or self.arm, self.over))
        return settle(
            PerSeed.known(ratios), sample, self.interest, 1.0, remark + say_floor(sample, *read)
        )


RIVALS = re.compile("^(dirac|global|constant|ranked|coarse|oracle|gaussian)_")


def say_floor(sample: Sample, *read: tuple[str, str]) -> str:
    """The distance of a fresh sample of the truth, beside distances of these arms and columns."""
    found = []
    for arm, column in read:
        plain = RIVALS.sub("", column)
        if plain in DEFINITIONS and f"floor_{plain}" not in (name for _, name in read):
            floor = middle(sample.arms[arm], f"floor_{plain}")
            found += [f"{floor:.2g}"] if math.isfinite(floor) else []
    return f"; sampling floor {' and '.join(dict.fromkeys(found))}" if found else ""


@dataclass(frozen=True)
class Fixed:
    """A number that is the truth's own, or nearly: seeds have no part in it, so it has neither an
    interval nor a p-value."""

    arm: str
    column: str
    effect: str
    low: float = -math.inf
    high: float = math.inf
    over: str = ""  # what it is divided by
    regimes: tuple[str, ...] = ()

    @property
    def interest(self) -> Interest:
        return self.low, self.high

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

    def needs(self, sample: Sample) -> Sequence[str]:
        return [] if self.regimes and sample.setting.regime not in self.regimes else [self.arm]

    def judge(self, sample: Sample) -> Finding:
        values = sample.values(self.arm, self.column)
        values = values / sample.values(self.arm, self.over) if self.over else values
        known = values[np.isfinite(values)]
        if 2 * len(known) < len(values):
            return untestable(f"{len(values) - len(known)} of {len(values)} runs have no number")
        ends = dict.fromkeys(f"{each:.3g}" for each in (known.min(), known.max()))
        remark = f"{' to '.join(ends)} in {len(known)} runs"
        inside = (known >= self.low) & (known <= self.high)
        if inside.any():
            return Finding("supported" if inside.all() else "inconclusive", remark=remark)
        below = bool((known < self.low).all())
        return Finding("smaller than claimed" if below else "larger than claimed", remark=remark)


@dataclass(frozen=True)
class Slope:
    """How a ratio of two numbers of a run grows with a dose: the exponent of the power law through
    the arms of a seed."""

    dose: Dose
    dose_name: str
    column: str
    over: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def interest(self) -> Interest:
        return self.low, self.high

    @property
    def effect(self) -> str:
        return f"exponent of {self.column} over {self.over}"

    def describe(self) -> str:
        return (
            f"Least-squares slope of log({self.column} / {self.over}) over the logarithm of "
            f"{self.dose_name}, over the arms of each seed. Median over seeds with bounds by the "
            f"sign test. {state_rule(self.low, self.high)}"
        )

    def needs(self, sample: Sample) -> Sequence[str]:
        return [name for name, arm in sample.arms.items() if self.dose(arm) is not None]

    def judge(self, sample: Sample) -> Finding:
        names = self.needs(sample)
        doses = np.log([self.dose(sample.arms[name]) or math.nan for name in names])
        ratios = [sample.values(n, self.column) / sample.values(n, self.over) for n in names]
        around = doses - doses.mean()
        slopes = around @ np.log(np.stack(ratios)) / (around @ around)
        return settle(PerSeed.known(slopes), sample, self.interest, 0.0)


def middle(arm: ArmRuns, column: str) -> float:
    """Median over the finished runs; NaN if there are none."""
    values = arm.values(column)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def typical(arm: ArmRuns, column: str, over: str) -> float:
    """Median over the seeds of a ratio, as the verdicts have it; NaN if there is none."""
    ratios = arm.values(column) / arm.values(over)
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if len(known) else math.nan
