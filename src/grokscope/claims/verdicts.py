"""From runs to a verdict: exact statistics of few seeds and censored times, and one rule for all.

A claim names, before any run, an effect and the smallest value of it that would matter. Every test
turns the arms of a seed, which share their data, into one number: how many times earlier one arm
groks than the other, a level, a rank correlation. The number may be known only to lie between two
ends, since a run that has not grokked when its budget ends may do so later. What the seeds give is
the typical number with an interval:

    supported               the whole interval is at or beyond the smallest effect that matters
    smaller than claimed    the whole interval falls short of it
    larger than claimed     the whole interval is above what the claim allows
    opposite                it falls short even of no effect at all
    inconclusive            the interval holds the value: more seeds are needed
    untestable              no number of seeds would help: the control failed, there is nothing to
                            compare, or no room for the effect
    not run                 a run is missing

Bounds are order statistics of the seeds' numbers (the sign test), so they hold for every
distribution, however skewed, and for censored numbers: the lower bound is made from the lower ends,
the upper bound from the upper ends. Wilcoxon's signed ranks would need fewer seeds, but only where
the numbers lie symmetrically, which ratios of grok epochs do not: they would err in up to 12 % of
the cases. How often the rules err is counted in `grokscope.claims.simulation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from typing import Literal

import numpy as np
from scipy import stats

Ruling = Literal[
    "supported",
    "smaller than claimed",
    "larger than claimed",
    "opposite",
    "inconclusive",
    "untestable",
    "not run",
]
CONTRADICTED: tuple[Ruling, ...] = ("smaller than claimed", "larger than claimed", "opposite")


@dataclass(frozen=True)
class Estimate:
    """An effect with its interval. Ends may be infinite: times can be censored."""

    value: float
    low: float
    high: float
    n: int  # seeds behind it

    def __str__(self) -> str:
        """ "2.1 (1.6 to 3)"; open ends are "at least" and "at most"."""
        if math.isnan(self.value):
            return "no number"
        below, above = self.low == -math.inf, self.high == math.inf
        if self.low == math.inf:
            return "∞: never against always"
        if below and above:
            return f"{_figure(self.value)} (no interval)"
        if math.isinf(self.value):
            return f"at least {_figure(self.low)}" if above else f"at most {_figure(self.high)}"
        if above:
            return f"{_figure(self.value)} (at least {_figure(self.low)})"
        if below:
            return f"{_figure(self.value)} (at most {_figure(self.high)})"
        return f"{_figure(self.value)} ({_figure(self.low)} to {_figure(self.high)})"


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim in one setting."""

    ruling: Ruling
    estimate: Estimate | None = None
    remark: str = ""
    p: float | None = None
    """Chance of evidence as strong as this if the verdict were false, over all looks so far; of an
    inconclusive one, the smaller of the two. None where chance has no part."""
    seeds: int = 0  # at the look that decided, or at the last one

    @property
    def contradicted(self) -> bool:
        return self.ruling in CONTRADICTED


def _figure(value: float) -> str:
    """Two significant digits, never in powers of ten."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{Decimal(f'{value:.2g}'):,f}" if abs(value) < 1000 else f"{value:,.0f}"


def within(
    estimate: Estimate, low: float = -math.inf, high: float = math.inf, nothing: float = -math.inf
) -> Ruling:
    """The rule: does the effect lie between the two? `nothing` is what it would be without any
    effect: a claim of more is turned into its opposite by less than that (and a claim of less by
    more)."""
    if low <= estimate.low and estimate.high <= high:
        return "supported"
    if estimate.high < low:
        return "opposite" if estimate.high < nothing <= low else "smaller than claimed"
    if estimate.low > high:
        downwards = math.isinf(low) and high <= nothing
        return "opposite" if downwards and estimate.low > nothing else "larger than claimed"
    return "inconclusive"


@dataclass(frozen=True)
class PerSeed:
    """One number of each seed, between two ends; not a number where the seed has none."""

    lower: np.ndarray  # (seeds,)
    upper: np.ndarray  # (seeds,)

    @classmethod
    def known(cls, values: np.ndarray) -> PerSeed:  # (seeds,)
        return cls(values, values)

    @cached_property
    def present(self) -> np.ndarray:  # (seeds,) bool
        """The seeds that tell something: a number that may be anything does not."""
        anything = (self.lower == -math.inf) & (self.upper == math.inf)
        return ~(np.isnan(self.lower) | np.isnan(self.upper) | anything)

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:  # (numbers,) each, in order
        """The seeds' numbers by their lower and by their upper end, in order."""
        return np.sort(self.lower[self.present]), np.sort(self.upper[self.present])

    def estimate(self, error: float) -> Estimate:
        n = int(self.present.sum())
        if not n:
            return Estimate(math.nan, -math.inf, math.inf, 0)
        lower, upper = self._ends
        # So many numbers may lie beyond the true middle: the bound is the next one.
        beyond = int(np.searchsorted(_distribution(n), error, side="right"))
        low, high = (lower[beyond - 1], upper[-beyond]) if beyond else (-math.inf, math.inf)
        return Estimate(_middle(lower, upper), float(low), float(high), n)

    def p_above(self, value: float) -> float:
        """That the typical number is below `value` and yet so few seeds are."""
        return self._tail(np.searchsorted(self._ends[0], value, side="left"))

    def p_below(self, value: float) -> float:
        """That it is above `value` and yet so few are."""
        upper = self._ends[1]
        return self._tail(len(upper) - np.searchsorted(upper, value, side="right"))

    def _tail(self, count: int | np.intp) -> float:
        n = int(self.present.sum())
        return float(_distribution(n)[count]) if n else 1.0

    def p(self, ruling: Ruling, low: float, high: float) -> float:
        """The p-value of a ruling on whether the number lies between two bounds."""
        above = self.p_above(low) if low > -math.inf else 0.0
        below = self.p_below(high) if high < math.inf else 0.0
        # A number at a bound does not contradict it.
        against = [self.p_below(math.nextafter(low, -math.inf))] * (low > -math.inf)
        against += [self.p_above(math.nextafter(high, math.inf))] * (high < math.inf)
        if ruling == "supported":
            return max(above, below)
        return min(against) if ruling in CONTRADICTED else min(max(above, below), *against)


@cache
def _distribution(n: int) -> np.ndarray:  # (n + 1,)
    """Chance of at most k of n numbers below the true middle."""
    return stats.binom.cdf(np.arange(n + 1), n, 0.5)


def _middle(lower: np.ndarray, upper: np.ndarray) -> float:  # (numbers,) each, in order
    """The median, halfway between its two ends; infinite where it is censored, no number where
    nothing is known of it."""
    least, most = _median(lower), _median(upper)
    if math.isfinite(least) and math.isfinite(most):
        return (least + most) / 2
    if math.isinf(least) and math.isinf(most) and least != most:
        return math.nan
    return most if math.isinf(most) else least


def _median(ordered: np.ndarray) -> float:  # (numbers,)
    first, second = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float(first if first == second else (first + second) / 2)


@cache
def share_estimate(successes: int, n: int, error: float) -> Estimate:
    """A share with the bounds of Clopper and Pearson (1934), each wrong with a chance of at most
    `error`: quantiles of the beta distribution."""
    failures = n - successes
    low = stats.beta.ppf(error, successes, failures + 1) if successes else 0.0
    high = stats.beta.isf(error, successes + 1, failures) if failures else 1.0
    return Estimate(successes / n, float(low), float(high), n)


def median_time(times: np.ndarray) -> float:  # (n,), infinite where censored
    """Kaplan-Meier median: the first time by which half have had the event; infinite if never.
    Runs are censored only at the end of a common budget, so the estimator is the plain
    distribution function."""
    return float(np.sort(times)[math.ceil(len(times) / 2) - 1])


def median(values: np.ndarray) -> float:  # (n,)
    """Of those that are known; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def state_time(time: float) -> str:
    return "never" if math.isinf(time) else f"{time:,.0f}"


def log_ratios(
    slow: np.ndarray, fast: np.ndarray, budget: float
) -> tuple[np.ndarray, np.ndarray]:  # (..., seeds), infinite where censored -> the same, twice
    """log(slow / fast) of each seed, between two ends: a time that was not seen is later than the
    budget. Where neither was seen it may be anything."""
    ends = [np.log(np.minimum(each, budget)) for each in (slow, fast)]
    lower = np.where(np.isinf(fast), -math.inf, ends[0] - ends[1])
    upper = np.where(np.isinf(slow), math.inf, ends[0] - ends[1])
    return lower, upper


def more_often(
    fast: np.ndarray, slow: np.ndarray, factor: float, budget: float
) -> tuple[float, float]:  # (seeds,) each, infinite where censored
    """Fisher's exact test on who gets there at all: p-values for `fast` being more than `factor`
    times as early as `slow`, and for its being less. Both are watched up to a time that was
    observed in both, the slower for `factor` times as long. It ignores that arms share their
    seeds, which errs on the safe side where these make both late."""
    until, n = budget / max(factor, 1.0), len(fast)
    first, second = int(np.sum(fast <= until)), int(np.sum(slow <= until * factor))
    total = first + second
    ways = [math.comb(n, k) * math.comb(n, total - k) if total >= k else 0 for k in range(n + 1)]
    return sum(ways[first:]) / sum(ways), sum(ways[: first + 1]) / sum(ways)


def kept_shares(
    slow: np.ndarray, fast: np.ndarray, between: np.ndarray, budget: float
) -> tuple[np.ndarray, np.ndarray]:  # (..., seeds) each
    """(slow - between) / (slow - fast) of each seed, between two ends: the share of the epochs
    saved by `fast` that `between` saves too. No number where `fast` saves nothing.

    A time that was not seen is later than the budget: with a later `slow` the share moves to 1,
    with a later `between` it falls without limit."""
    late, early, mid = (np.minimum(each, budget) for each in (slow, fast, between))
    saved = np.where(early < late, late - early, math.nan)
    share = (late - mid) / saved
    open_end = np.isinf(slow)
    lower = np.where(open_end, np.minimum(share, 1.0), share)
    upper = np.where(open_end, np.maximum(share, 1.0), share)
    never = np.isinf(between)
    upper = np.where(never & open_end, 1.0, upper)
    return np.where(never & ~np.isnan(share), -math.inf, lower), upper


def rank_correlations(doses: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Kendall's tau-b between a dose and the time of an event over the arms of each seed; censored
    runs tie at the end. No number where all arms tie. The dose may be each seed's own.
    (doses, 1 or seeds), (..., doses, seeds) -> (..., seeds)"""
    first, second = np.triu_indices(len(doses), 1)
    ordered = [np.where(np.isinf(each), np.finfo(float).max, each) for each in (doses, times)]
    by_dose, by_time = (np.sign(each[..., first, :] - each[..., second, :]) for each in ordered)
    untied = np.sqrt((by_dose != 0).sum(axis=-2) * (by_time != 0).sum(axis=-2).astype(float))
    concordance = (by_dose * by_time).sum(axis=-2)
    return np.where(untied > 0, concordance / np.where(untied > 0, untied, 1.0), math.nan)


def roc_areas(outcome: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Area under the ROC curve over the arms of each seed: the share of pairs, one that had the
    event and one that had not, in which the number of the first is the larger one, ties counting
    half (Mann and Whitney's U over n m). No number if a kind is missing, or a value.
    (..., arms, seeds) bool, (..., arms, seeds) -> (..., seeds)"""
    pairs = outcome[..., :, None, :] & ~outcome[..., None, :, :]
    larger = (1 + np.sign(values[..., :, None, :] - values[..., None, :, :])) / 2
    count = pairs.sum(axis=(-3, -2))
    area = np.where(pairs, larger, 0.0).sum(axis=(-3, -2))
    return np.where(count > 0, area / np.maximum(count, 1), math.nan)


@dataclass(frozen=True)
class PowerLaw:
    """time = floor + scale * dose^-exponent. The floor dominates for doses above `crossing`, where
    the two terms are equal."""

    floor: float
    scale: float
    exponent: float

    def __call__(self, dose: np.ndarray | float) -> np.ndarray | float:
        return self.floor + self.scale * np.asarray(dose, float) ** -self.exponent

    @property
    def crossing(self) -> float:
        ratio = self.scale / self.floor if self.floor > 0 else math.inf
        return float(ratio ** (1 / self.exponent))


VISIBLE = 0.25  # of the floor: a delay that stays below it has no exponent to speak of
EXPONENTS = np.geomspace(0.05, 4.0, 61)  # the fit looks for the exponent on this grid


def fit_power_law(doses: np.ndarray, times: np.ndarray, budget: float) -> PowerLaw:
    """The law of one time per dose.  (doses,), (doses,)"""
    return PowerLaw(*(float(each[0]) for each in fit_power_laws(doses, times[None], budget)))


def fit_power_laws(
    doses: np.ndarray, times: np.ndarray, budget: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (doses,), (laws, doses) -> (laws,) each
    """Floor, scale and exponent by least squares of log times. A dose whose time is censored
    only asks that the law be at or beyond the budget there: it counts only if the law would fall
    short. For a given exponent the law is linear in its two other parameters, both kept
    non-negative, so a grid over exponents needs no starting guess; the best one is that with the
    smallest errors of log time."""
    grid = np.log(EXPONENTS)
    errors = np.stack([_fit_at(doses**-e, times, budget)[2] for e in EXPONENTS])  # (grid, laws)
    at = np.clip(errors.argmin(axis=0), 1, len(grid) - 2)
    before, best, after = (errors[at + step, np.arange(len(times))] for step in (-1, 0, 1))
    bend = before - 2 * best + after
    # The vertex of the parabola through the best three, unless the best is an end of the grid.
    inside = (bend > 0) & (best <= before) & (best <= after)
    shift = np.where(inside, (before - after) / (2 * np.where(inside, bend, 1.0)), 0.0)
    exponent = np.where(
        inside, np.exp(grid[at] + shift * (grid[1] - grid[0])), EXPONENTS[errors.argmin(axis=0)]
    )
    floor, scale, _ = _fit_at(doses ** -exponent[:, None], times, budget)
    return floor, scale, exponent


def _fit_at(
    slope: np.ndarray, times: np.ndarray, budget: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (doses,) or (laws, doses), (laws, doses)
    """Floor, scale and sum of squared errors for given exponents. The law falls with the dose, so
    if it is beyond the budget at the largest dose that is censored, it is so at all of them."""
    counts = np.isfinite(times)
    target = np.where(counts, times, budget)
    floor, scale, predicted = _fit_two(slope, target, counts)
    gentlest = np.where(counts, math.inf, slope)  # (laws, doses)
    last = ~counts & (gentlest == gentlest.min(axis=1, keepdims=True))
    short = last & (predicted < target)
    if short.any():
        counts = counts | short
        floor, scale, predicted = _fit_two(slope, target, counts)
    return floor, scale, np.sum(np.where(counts, np.log(predicted / target) ** 2, 0.0), axis=1)


NEWTON = 2  # steps from relative to logarithmic errors; a third changes no exponent


def _fit_two(
    slope: np.ndarray, target: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (doses,), (laws, doses), (laws, doses)
    """Non-negative floor and scale with the least squares of log((floor + scale * slope) / target),
    and the times that they predict: first of relative errors, then Gauss and Newton's steps."""
    predicted, wanted = target, np.ones_like(target)
    for step in range(NEWTON + 1):
        if step:
            wanted = 1 + np.log(target / predicted)
        weight = np.where(counts, 1 / predicted, 0.0)
        floor, scale = _least_squares(weight, weight * slope, np.where(counts, wanted, 0.0))
        predicted = np.maximum(floor[:, None] + scale[:, None] * slope, 1e-12)
    return floor, scale, predicted


def _least_squares(
    one: np.ndarray, other: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (laws, doses) each -> (laws,) each
    """Non-negative x and y with the least squares of x * one + y * other - wanted. If the free
    solution has a negative part, the best one has a part that is zero."""
    a, b, c = (one * one).sum(axis=1), (one * other).sum(axis=1), (other * other).sum(axis=1)
    u, v = (one * wanted).sum(axis=1), (other * wanted).sum(axis=1)
    determinant = a * c - b * b
    solvable = determinant > 1e-12 * a * c
    safe = np.where(solvable, determinant, 1.0)
    x, y = (u * c - v * b) / safe, (a * v - b * u) / safe
    alone = [np.maximum(s / np.where(t > 0, t, 1.0), 0.0) for s, t in ((u, a), (v, c))]
    free, first = solvable & (x >= 0) & (y >= 0), u * alone[0] >= v * alone[1]
    return (
        np.where(free, x, np.where(first, alone[0], 0.0)),
        np.where(free, y, np.where(first, 0.0, alone[1])),
    )


def exponents(
    doses: np.ndarray, times: np.ndarray, budget: float
) -> tuple[np.ndarray, np.ndarray]:  # (doses,), (laws, doses) -> (laws,) each
    """The exponent of each law between two ends, which differ only at the ends of the grid: they
    stand for whatever lies beyond. No number where fewer than three doses have a time, or where
    even the weakest dose hardly delays anything."""
    floor, scale, exponent = fit_power_laws(doses, times, budget)
    delay = scale * doses.min() ** -exponent
    told = (np.isfinite(times).sum(axis=1) >= 3) & (delay >= VISIBLE * floor)
    exponent = np.where(told, exponent, math.nan)
    upper = np.where(exponent >= EXPONENTS[-1], math.inf, exponent)
    return np.where(exponent <= EXPONENTS[0], 0.0, exponent), upper


def discovery_rates(p: np.ndarray) -> np.ndarray:  # (verdicts,) -> (verdicts,)
    """Benjamini and Hochberg's adjusted p-values (1995): the share of false verdicts to expect
    among those with a p-value at most as large."""
    return stats.false_discovery_control(p) if len(p) else p
