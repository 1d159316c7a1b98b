"""From runs to a verdict: the statistics of few seeds and censored times, and one rule for all.

A claim names, before any run, an effect and the smallest value of it that would matter. What the
runs give is an estimate with an interval:

    supported      the whole interval is at or beyond that value
    contradicted   the whole interval falls short of it
    inconclusive   the interval holds it, or a run failed or has no number, or a control failed
    not run        a run is missing

Seeds are resampled jointly, since arms of equal seed share their data. An event that was not seen
within a run's budget has an infinite time; it is never dropped, and never set to the budget (except
in `gain_kept`, which says in which direction that errs).

SciPy's bootstrap neither takes every resample of a few seeds nor knows infinite times, and its
log-rank test relies on a normal approximation that five seeds do not allow: those two are ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np
from scipy import stats
from scipy.optimize import nnls

Ruling = Literal["contradicted", "inconclusive", "supported", "not run"]
RULINGS: tuple[Ruling, ...] = ("contradicted", "inconclusive", "supported", "not run")

CONFIDENCE = 0.95
EXHAUSTIVE = 8  # up to this many seeds every resample is taken; their order does not matter
DRAWS = 10_000
LABELLINGS = 20_000  # of the log-rank test: all of them up to eight seeds per arm


@dataclass(frozen=True)
class Estimate:
    """An effect with its interval. Ends may be infinite: times can be censored."""

    value: float
    low: float
    high: float
    n: int  # seeds (or runs) behind it

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
            return f"at least {_figure(self.low)}"
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


def _figure(value: float) -> str:
    """Two significant digits, never in powers of ten."""
    return f"{Decimal(f'{value:.2g}'):,f}" if abs(value) < 1000 else f"{value:,.0f}"


def within(estimate: Estimate, low: float = -math.inf, high: float = math.inf) -> Ruling:
    """The rule: does the effect lie between the two?"""
    if math.isnan(estimate.value):
        return "inconclusive"
    if low <= estimate.low and estimate.high <= high:
        return "supported"
    outside = estimate.high < low or estimate.low > high
    return "contradicted" if outside else "inconclusive"


def resamples(n: int) -> tuple[np.ndarray, np.ndarray]:  # (resamples, n), (resamples,)
    """Every bootstrap resample of n seeds without regard to order, with its probability; many
    seeded draws where n is large."""
    if n > EXHAUSTIVE:
        return np.random.default_rng(0).integers(n, size=(DRAWS, n)), np.full(DRAWS, 1 / DRAWS)
    index = np.array(list(itertools.combinations_with_replacement(range(n), n)))
    counts = np.stack([(index == seed).sum(axis=1) for seed in range(n)], axis=1)
    ways = [math.factorial(n) / math.prod(map(math.factorial, row)) for row in counts.tolist()]
    return index, np.array(ways) / n**n


def bootstrap(
    statistic: Callable[[np.ndarray], float], n: int, confidence: float = CONFIDENCE
) -> Estimate:
    """Estimate and expanded percentile interval of a statistic of seeds, given by their indices.
    The plain percentile interval of a few seeds is too short; the expanded one (Hesterberg 2015,
    "What teachers should know about the bootstrap") takes the quantiles Phi(-+ sqrt(n / (n - 1))
    t), t the quantile of Student's distribution. It still cannot leave the range of the seeds, so
    the interval is widened to value -+ t s, s the standard deviation of the resamples times
    sqrt(n / (n - 1)), which is Student's own for means, wherever that is finite. A resample without
    a number widens the interval on both sides. One seed gives no interval at all."""
    value = statistic(np.arange(n))
    if n < 2:
        return Estimate(value, -math.inf, math.inf, n)
    chosen, weights = resamples(n)
    drawn = np.array([statistic(index) for index in chosen])
    quantile = math.sqrt(n / (n - 1)) * stats.t.ppf((1 - confidence) / 2, n - 1)
    share = stats.norm.cdf(quantile)
    low = _order_statistic(np.where(np.isnan(drawn), -math.inf, drawn), weights, share)
    high = -_order_statistic(np.where(np.isnan(drawn), -math.inf, -drawn), weights, share)
    if np.isfinite(drawn).all():
        middle = float(weights @ drawn)
        spread = math.sqrt(float(weights @ (drawn - middle) ** 2))
        low, high = min(low, value + quantile * spread), max(high, value - quantile * spread)
    return Estimate(value, low, high, n)


def _order_statistic(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The smallest value with more than `share` of the weight at or below it. Never between two
    values: interpolating between infinities gives no number."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, share, side="right")])


def mean(values: np.ndarray, logarithmic: bool = False) -> Estimate:  # (seeds,)
    """The mean over seeds, or the geometric one."""
    scaled = np.log(values) if logarithmic else values
    estimate = bootstrap(lambda index: float(scaled[index].mean()), len(scaled))
    return exponential(estimate) if logarithmic else estimate


def exponential(estimate: Estimate) -> Estimate:
    """An estimate of logarithms as one of ratios."""
    ends = (estimate.value, estimate.low, estimate.high)
    value, low, high = (math.inf if end > 700 else math.exp(end) for end in ends)
    return Estimate(value, low if estimate.low > -math.inf else -math.inf, high, estimate.n)


def share_estimate(successes: int, n: int, confidence: float = CONFIDENCE) -> Estimate:
    """A share with Clopper-Pearson bounds, each one-sided at the given confidence, so that five of
    five exclude one half (0.549) and four of five do not."""
    bounds = stats.binomtest(successes, n).proportion_ci(2 * confidence - 1, method="exact")
    return Estimate(successes / n, float(bounds.low), float(bounds.high), n)


def median_time(times: np.ndarray) -> float:  # (n,), infinite where censored
    """Kaplan-Meier median: the first time by which half have had the event; infinite if never.
    Runs are censored only at the end of a common budget, so the estimator is the plain
    distribution function."""
    return float(np.sort(times)[math.ceil(len(times) / 2) - 1])


def ratio_of_medians(slower: np.ndarray, faster: np.ndarray) -> Estimate:  # (seeds,), (seeds,)
    """median(slower) / median(faster): how many times faster. Infinite if only the slower never
    got there, no number if neither did."""

    def log_ratio(index: np.ndarray) -> float:
        above, below = median_time(slower[index]), median_time(faster[index])
        if math.isinf(above) or math.isinf(below):
            return math.nan if above == below else math.inf if math.isinf(above) else -math.inf
        return math.log(above / below)

    return exponential(bootstrap(log_ratio, len(slower)))


def gain_kept(
    slow: np.ndarray, fast: np.ndarray, between: np.ndarray, budget: float
) -> Estimate:  # (seeds,) each
    """(slow - between) / (slow - fast) of the median times: the share of the epochs saved by `fast`
    that `between` saves too. No number where `fast` saves nothing.

    A median that was never reached is set to the budget. For `slow` this can only make a share
    below 1 too small, for `between` only too large."""

    def share(index: np.ndarray) -> float:
        times = (median_time(each[index]) for each in (slow, fast, between))
        last, first, middle = (min(time, budget) for time in times)
        return (last - middle) / (last - first) if first < last else math.nan

    return bootstrap(share, len(slow))


def log_rank(first: np.ndarray, second: np.ndarray) -> float:  # (n,), (m,)
    """Two-sided p-value of the log-rank test over permutations of the labels, all of them where
    there are few enough. The statistic is the distance between the observed and the expected number
    of events in the first group."""
    if min(len(first), len(second)) < 2:
        return 1.0  # a single run decides nothing
    times = np.concatenate([first, second])
    events = np.unique(times[np.isfinite(times)])[:, None]  # (events, 1)
    share_now = (times == events).sum(axis=-1) / (times >= events).sum(axis=-1)

    def excess(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:  # (..., n), (..., m)
        chosen = one[..., None, :]
        expected = (chosen >= events).sum(axis=-1) * share_now
        return np.abs(((chosen == events).sum(axis=-1) - expected).sum(axis=-1))

    options = {"n_resamples": LABELLINGS, "batch": 2000, "rng": 0}
    test = stats.permutation_test((first, second), excess, alternative="greater", **options)
    return float(test.pvalue)


def rank_correlation(doses: np.ndarray, times: np.ndarray) -> Estimate:  # (doses,), (doses, seeds)
    """Kendall's tau-b between a dose and the time of an event, over all runs; censored runs tie at
    the end. Seeds are resampled."""
    ordered = np.where(np.isinf(times), np.finfo(float).max, times)

    def tau(index: np.ndarray) -> float:
        chosen = ordered[:, index]
        return float(stats.kendalltau(np.repeat(doses, len(index)), chosen.ravel()).statistic)

    return _clipped(bootstrap(tau, times.shape[1]), -1.0)


def _clipped(estimate: Estimate, least: float) -> Estimate:
    """The same, with its interval between what is possible: `least` and 1."""
    low, high = max(estimate.low, least), min(estimate.high, 1.0)
    return Estimate(estimate.value, low, high, estimate.n)


def roc_area(above: np.ndarray, below: np.ndarray) -> float:  # (n,), (m,)
    """Area under the ROC curve: the share of pairs in which the number of the first kind is the
    larger one, ties counting half (Mann and Whitney's U over n m). No number if a kind is missing.
    """
    if not len(above) or not len(below):
        return math.nan
    return float((1 + np.sign(above[:, None] - below[None, :]).mean()) / 2)


def separation(outcome: np.ndarray, values: np.ndarray, *rival: np.ndarray) -> Estimate:
    """ROC area of the values over all runs, less that of the rival's if there is one. Seeds are
    resampled, all arms of a seed together.  (arms, seeds) bool, (arms, seeds) each"""

    def area(index: np.ndarray) -> float:
        chosen, each = outcome[:, index], [array[:, index] for array in (values, *rival)]
        areas = [roc_area(array[chosen], array[~chosen]) for array in each]
        return areas[0] - sum(areas[1:])

    return _clipped(bootstrap(area, outcome.shape[1]), -1.0 if rival else 0.0)


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
EXPONENTS = np.geomspace(0.05, 4.0, 121)  # the fit looks for the exponent on this grid


def fit_power_law(doses: np.ndarray, times: np.ndarray, budget: float) -> PowerLaw:
    """Least squares of relative errors on the median times of each dose.  (doses,), (doses,)
    A dose whose median is censored only asks that the law be at or beyond the budget there: it
    counts only if the law would fall short. For a given exponent the law is linear in its two other
    parameters, both kept non-negative, so a grid over exponents needs no starting guess; the best
    exponent is that with the smallest errors of log time."""
    target = np.where(np.isfinite(times), times, budget)
    best, least = PowerLaw(math.nan, math.nan, math.nan), math.inf
    for exponent in EXPONENTS:
        design = np.stack([np.ones_like(doses), doses**-exponent], axis=1)
        counts = np.isfinite(times)
        while True:
            # Dividing by the target turns relative into absolute errors: close to a fit of logs.
            relative = design[counts] / target[counts, None]
            solution, _ = nnls(relative, np.ones(counts.sum()))
            predicted = np.maximum(design @ solution, 1e-12)
            short = ~counts & (predicted < target)
            if not short.any():
                break
            counts |= short
        error = float(np.sum(np.log(predicted / target)[counts] ** 2))
        if error < least - 1e-12:
            floor, scale = map(float, solution)
            best, least = PowerLaw(floor, scale, float(exponent)), error
    return best


def power_law_exponent(doses: np.ndarray, times: np.ndarray, budget: float) -> Estimate:
    """The exponent with its interval over seeds.  (doses,), (doses, seeds)
    Where even the weakest dose hardly delays anything, it is no number."""
    known: dict[bytes, float] = {}

    def exponent(index: np.ndarray) -> float:
        medians = np.array([median_time(row[index]) for row in times])
        key = medians.tobytes()  # few resamples have medians of their own
        if key not in known:
            known[key] = _visible_exponent(doses, medians, budget)
        return known[key]

    return bootstrap(exponent, times.shape[1])


def _visible_exponent(doses: np.ndarray, times: np.ndarray, budget: float) -> float:
    if np.isfinite(times).sum() < 3:
        return math.nan
    law = fit_power_law(doses, times, budget)
    delay = law.scale * doses.min() ** -law.exponent
    if delay < VISIBLE * law.floor:
        return math.nan
    # The end of the grid stands for whatever lies beyond it.
    return math.inf if law.exponent >= EXPONENTS[-1] else law.exponent
