"""Statistics of few seeds against SciPy, closed forms and hand-worked cases."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grokscope.claims import verdicts
from grokscope.claims.verdicts import Estimate

NEVER = math.inf
times = st.lists(
    st.one_of(st.integers(1, 100).map(float), st.just(NEVER)), min_size=1, max_size=9
).map(np.array)


@pytest.mark.parametrize(
    ("interval", "ruling"),
    [
        ((2.0, 3.0), "supported"),
        ((1.5, 3.0), "supported"),
        ((1.4, 3.0), "inconclusive"),
        ((0.2, 1.4), "contradicted"),
        ((1.6, NEVER), "supported"),
        ((-NEVER, NEVER), "inconclusive"),
    ],
)
def test_the_whole_interval_decides(interval, ruling):
    low, high = interval
    middle = low if math.isinf(high) else (low + high) / 2
    assert verdicts.within(Estimate(middle, low, high, 5), 1.5) == ruling
    mirrored = Estimate(-middle, -high, -low, 5)
    assert verdicts.within(mirrored, high=-1.5) == ruling


def test_no_number_supports_nothing():
    nothing = Estimate(math.nan, 2.0, 3.0, 5)
    assert verdicts.within(nothing, 1.0) == "inconclusive"
    assert verdicts.within(nothing, 1.0, 4.0) == "inconclusive"


def test_within_needs_both_sides():
    assert verdicts.within(Estimate(1.0, 0.8, 1.2, 5), 0.5, 2) == "supported"
    assert verdicts.within(Estimate(1.0, 0.4, 1.2, 5), 0.5, 2) == "inconclusive"
    assert verdicts.within(Estimate(0.2, 0.1, 0.4, 5), 0.5, 2) == "contradicted"
    assert verdicts.within(Estimate(3.0, 2.5, 4.0, 5), 0.5, 2) == "contradicted"


def test_every_resample_of_five_seeds_is_taken():
    index, weights = verdicts.resamples(5)
    everything = np.sort(list(itertools.product(range(5), repeat=5)), axis=1)  # 3,125 of them
    distinct, counts = np.unique(everything, axis=0, return_counts=True)
    np.testing.assert_array_equal(index, distinct)
    np.testing.assert_allclose(weights, counts / 3125)


def test_many_seeds_are_drawn_with_a_fixed_seed():
    index, weights = verdicts.resamples(12)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(index, verdicts.resamples(12)[0])


@pytest.mark.parametrize("n", [2, 3, 5])
def test_intervals_cover_the_mean_of_normal_data(n):
    """The plain percentile interval of five seeds covers about 83 %, of two 50 %."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        sample = rng.standard_normal(n)
        estimate = verdicts.bootstrap(lambda index, s=sample: float(s[index].mean()), n)
        covered += estimate.low <= 0 <= estimate.high
    assert 0.92 <= covered / 400 <= 0.99


def test_the_interval_of_a_mean_is_students():
    sample = np.array([1.0, 2.0, 4.0, 4.5, 7.0])
    estimate = verdicts.bootstrap(lambda index: float(sample[index].mean()), 5)
    low, high = stats.ttest_1samp(sample, 0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))


def test_one_seed_has_no_interval():
    estimate = verdicts.bootstrap(lambda index: 3.0, 1)
    assert (estimate.low, estimate.high) == (-NEVER, NEVER)
    assert verdicts.within(estimate, 1.0) == "inconclusive"


def test_resamples_without_a_number_widen_both_sides():
    values = np.array([1.0, 1.0, math.nan, math.nan, 1.0])
    estimate = verdicts.bootstrap(lambda index: float(values[index].mean()), 5)
    assert (estimate.low, estimate.high) == (-NEVER, NEVER)


def test_shares_against_the_binomial_distribution():
    estimate = verdicts.share_estimate(5, 5)
    assert estimate.low == pytest.approx(0.05 ** (1 / 5))  # all of n: P(5 of 5) = low^5 = 0.05
    assert estimate.high == 1.0
    assert verdicts.share_estimate(0, 5).high == pytest.approx(1 - 0.05 ** (1 / 5))
    some = verdicts.share_estimate(2, 7)
    assert stats.binom.sf(1, 7, some.low) == pytest.approx(0.05)
    assert stats.binom.cdf(2, 7, some.high) == pytest.approx(0.05)
    assert verdicts.within(verdicts.share_estimate(4, 5), 0.5) == "inconclusive"


@given(times)
def test_median_is_kaplan_meiers(given_times):
    """SciPy's survival function of the same data, censored at a budget beyond every event."""
    seen = given_times[np.isfinite(given_times)]
    never = np.full(len(given_times) - len(seen), 1000.0)
    median = verdicts.median_time(given_times)
    if not len(seen):
        assert math.isinf(median)
        return
    survival = stats.ecdf(stats.CensoredData(uncensored=seen, right=never)).sf
    below = survival.quantiles[survival.probabilities <= 0.5 + 1e-12]
    expected = below[below < 1000].min() if (below < 1000).any() else NEVER
    assert median == expected


def test_ratio_of_medians_with_runs_that_never_grok():
    fast = np.array([10.0, 11, 12, 13, 14])
    never = np.full(5, NEVER)
    estimate = verdicts.ratio_of_medians(never, fast)
    assert math.isinf(estimate.value)
    assert math.isinf(estimate.low)  # every resample says the same
    assert verdicts.within(estimate, 1.25) == "supported"
    assert verdicts.within(verdicts.ratio_of_medians(fast, never), 1.25) == "contradicted"
    assert verdicts.within(verdicts.ratio_of_medians(never, never), 1.25) == "inconclusive"


def test_log_rank_against_scipy_and_by_hand():
    first, second = np.array([1.0, 2, 3, 4, 5]), np.array([6.0, 7, NEVER, NEVER, NEVER])
    # Perfectly separated: only this labelling and its mirror image are as extreme.
    assert verdicts.log_rank(first, second) == pytest.approx(2 / 252)
    rng = np.random.default_rng(0)
    first, second = rng.exponential(1.0, 8), rng.exponential(1.6, 8)
    scipys = stats.logrank(first, second).pvalue
    assert verdicts.log_rank(first, second) == pytest.approx(scipys, abs=0.03)
    many = rng.exponential(1.0, 20), rng.exponential(1.6, 20)  # too many to try every labelling
    assert verdicts.log_rank(*many) == pytest.approx(stats.logrank(*many).pvalue, abs=0.03)


@given(times, times)
def test_log_rank_is_symmetric(first, second):
    if len(first) + len(second) <= 10:
        assert verdicts.log_rank(first, second) == pytest.approx(verdicts.log_rank(second, first))


def test_rank_correlation_is_kendalls_and_counts_never_as_last():
    doses = [0.1, 1.0, 10.0]
    falling = np.array([[9.0, NEVER], [5.0, 6.0], [1.0, 2.0]])
    estimate = verdicts.rank_correlation(doses, falling)
    flat = np.where(np.isinf(falling), 1e9, falling).ravel()
    assert estimate.value == pytest.approx(stats.kendalltau(np.repeat(doses, 2), flat).statistic)
    assert estimate.value < -0.8


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_power_law_is_recovered(exponent):
    doses = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    law = verdicts.PowerLaw(700.0, 30.0, exponent)
    fitted = verdicts.fit_power_law(doses, np.asarray(law(doses)), budget=1e9)
    assert fitted.exponent == pytest.approx(exponent, rel=0.05)
    assert fitted.floor == pytest.approx(700, rel=0.05)
    assert fitted.crossing == pytest.approx((30 / 700) ** (1 / exponent), rel=0.15)


def test_a_censored_dose_is_a_bound_and_not_a_time():
    doses = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    law = verdicts.PowerLaw(700.0, 100.0, 1.0)  # 10,700 epochs at the weakest dose
    times = np.asarray(law(doses))
    censored = np.where(times > 5000, NEVER, times)
    fitted = verdicts.fit_power_law(doses, censored, budget=5000)
    assert fitted.exponent == pytest.approx(1.0, rel=0.05)
    # Taken as a time, the budget would flatten the law.
    flattened = verdicts.fit_power_law(doses, np.minimum(times, 5000), budget=1e9)
    assert flattened.exponent < 0.9


def test_a_censored_dose_does_not_hold_a_steep_law_down():
    doses = np.array([0.01, 0.03, 0.1, 0.3, 1.0])
    law = verdicts.PowerLaw(750.0, 0.003, 4.0)  # 4,454 epochs at 0.03, 300,750 at 0.01
    times = np.asarray(law(doses))
    fitted = verdicts.fit_power_law(doses, np.where(times > 5000, NEVER, times), budget=5000)
    assert fitted.exponent > 3


def test_flat_times_tell_nothing_of_an_exponent():
    rng = np.random.default_rng(2)
    doses = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    estimate = verdicts.power_law_exponent(doses, rng.normal(2000, 60, (6, 5)), 5000)
    assert verdicts.within(estimate, 0.75, 1.33) == "inconclusive"


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(2.13, 1.6, 3.0, 5), "2.1 (1.6 to 3)"),
        (Estimate(NEVER, 1.8, NEVER, 5), "at least 1.8"),
        (Estimate(NEVER, NEVER, NEVER, 5), "∞: never against always"),
        (Estimate(2.0, 1.8, NEVER, 5), "2 (at least 1.8)"),
        (Estimate(2.0, -NEVER, NEVER, 1), "2 (no interval)"),
        (Estimate(0.0, 0.0, 0.45, 5), "0 (0 to 0.45)"),
        (Estimate(2.34e-5, -1e-7, 1.5e-4, 5), "0.000023 (-0.0000001 to 0.00015)"),
        (Estimate(123456.0, 1234.0, 9e6, 5), "123,456 (1,234 to 9,000,000)"),
        (Estimate(math.nan, -NEVER, NEVER, 5), "no number"),
    ],
)
def test_estimates_read_well(estimate, text):
    assert str(estimate) == text


def test_roc_area_is_mann_whitneys():
    rng = np.random.default_rng(3)
    above, below = rng.integers(0, 9, 7).astype(float), rng.integers(0, 6, 11).astype(float)
    statistic = stats.mannwhitneyu(above, below).statistic
    assert verdicts.roc_area(above, below) == pytest.approx(statistic / (7 * 11))
    assert math.isnan(verdicts.roc_area(above, np.array([])))
