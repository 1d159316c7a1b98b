"""Statistics of few seeds against SciPy, closed forms and hand-worked cases."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grokscope.claims import looks, verdicts
from grokscope.claims.verdicts import Estimate, PerSeed

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
        ((1.1, 1.4), "smaller than claimed"),
        ((0.8, 1.4), "smaller than claimed"),
        ((0.2, 0.9), "opposite"),
        ((1.6, NEVER), "supported"),
        ((-NEVER, NEVER), "inconclusive"),
    ],
)
def test_the_whole_interval_decides(interval, ruling):
    """The claim asks for 1.5 or more, and without an effect there would be 1."""
    low, high = interval
    assert verdicts.within(Estimate(1.0, low, high, 5), 1.5, nothing=1.0) == ruling
    mirrored = Estimate(-1.0, -high, -low, 5)
    below = verdicts.within(mirrored, high=-1.5, nothing=-1.0)
    assert below == ruling.replace("smaller", "larger")


def test_within_needs_both_sides():
    assert verdicts.within(Estimate(1.0, 0.8, 1.2, 5), 0.5, 2) == "supported"
    assert verdicts.within(Estimate(1.0, 0.4, 1.2, 5), 0.5, 2) == "inconclusive"
    assert verdicts.within(Estimate(0.2, 0.1, 0.4, 5), 0.5, 2, 0) == "smaller than claimed"
    assert verdicts.within(Estimate(-0.2, -0.4, -0.1, 5), 0.5, 2, 0) == "opposite"
    assert verdicts.within(Estimate(3.0, 2.5, 4.0, 5), 0.5, 2, 0) == "larger than claimed"


@pytest.mark.parametrize("n", [5, 8, 10, 20, 40])
def test_bounds_of_the_median_are_scipys(n):
    values = np.random.default_rng(n).standard_cauchy(n)
    estimate = PerSeed.known(values).estimate(0.05)
    for side, bound in (("less", estimate.high), ("greater", estimate.low)):
        test = stats.quantile_test(values, p=0.5, alternative=side)
        interval = test.confidence_interval(0.95)
        assert bound == (interval.high if side == "less" else interval.low)
    assert estimate.value == np.median(values)
    below = stats.quantile_test(values, q=0.3, p=0.5, alternative="greater")
    assert PerSeed.known(values).p_above(0.3) == pytest.approx(below.pvalue)


def test_five_seeds_decide_only_together():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    estimate = PerSeed.known(values).estimate(looks.ERRORS[0])
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (3.0, 1.0, 5.0, 5)
    assert PerSeed.known(values[:4]).estimate(0.05).low == -NEVER
    assert PerSeed.known(values).p_above(0.5) == 1 / 32


def test_seeds_without_a_number_are_left_out():
    numbers = PerSeed.known(np.array([1.0, math.nan, 2.0, 3.0, 4.0, 5.0]))
    assert numbers.estimate(0.05).n == 5
    assert numbers.estimate(0.05).low == 1.0
    nothing = PerSeed(np.array([-NEVER, math.nan]), np.array([NEVER, 1.0]))
    assert math.isnan(nothing.estimate(0.05).value)
    assert nothing.p_above(0.0) == 1.0


@given(times, st.integers(0, 10))
def test_a_censored_time_widens_and_never_narrows(given_times, seed):
    """Whatever a run that was not seen would have done, the bounds hold the ones that it gives."""
    slow = np.minimum(given_times, 100.0)
    fast = np.random.default_rng(seed).uniform(1, 50, len(slow))
    censored = np.where(slow > 50, NEVER, slow)
    lower, upper = verdicts.log_ratios(censored, fast, 50.0)
    truth = np.log(slow / fast)
    assert (lower <= truth + 1e-12).all()
    assert (truth <= upper + 1e-12).all()
    seen = np.isfinite(censored)
    np.testing.assert_allclose(lower[seen], truth[seen])
    np.testing.assert_allclose(upper[seen], truth[seen])


def test_log_ratios_by_hand():
    slow, fast = np.array([40.0, NEVER, 20.0, NEVER]), np.array([10.0, 10.0, NEVER, NEVER])
    lower, upper = verdicts.log_ratios(slow, fast, 100.0)
    np.testing.assert_allclose(lower, [np.log(4), np.log(10), -NEVER, -NEVER])
    np.testing.assert_allclose(upper, [np.log(4), NEVER, np.log(0.2), NEVER])
    assert PerSeed(lower, upper).present.tolist() == [True, True, True, False]


def test_who_gets_there_at_all_is_fishers():
    fast, slow = np.array([10.0, 20, 30, 90, NEVER]), np.array([50.0, NEVER, NEVER, NEVER, NEVER])
    more, less = verdicts.more_often(fast, slow, 1.0, 100.0)
    table = [[4, 1], [1, 4]]
    assert more == pytest.approx(stats.fisher_exact(table, "greater").pvalue)
    assert less == pytest.approx(stats.fisher_exact(table, "less").pvalue)
    # Twice as early: the faster arm is watched for 50 epochs, the slower for 100.
    more, _ = verdicts.more_often(fast, slow, 2.0, 100.0)
    assert more == pytest.approx(stats.fisher_exact([[3, 2], [1, 4]], "greater").pvalue)
    # Half as early: the faster for 100, the slower for 50.
    more, _ = verdicts.more_often(fast, slow, 0.5, 100.0)
    assert more == pytest.approx(stats.fisher_exact([[4, 1], [1, 4]], "greater").pvalue)


def test_shares_against_the_binomial_distribution():
    estimate = verdicts.share_estimate(5, 5, 0.05)
    assert estimate.low == pytest.approx(0.05 ** (1 / 5))  # all of n: P(5 of 5) = low^5 = 0.05
    assert estimate.high == 1.0
    for successes, n in ((0, 5), (2, 7), (19, 20)):
        ours = verdicts.share_estimate(successes, n, 0.05)
        scipys = stats.binomtest(successes, n).proportion_ci(0.9, method="exact")
        assert (ours.low, ours.high) == (pytest.approx(scipys.low), pytest.approx(scipys.high))
    assert verdicts.within(verdicts.share_estimate(5, 5, looks.ERRORS[0]), 0.5) == "supported"
    assert verdicts.within(verdicts.share_estimate(4, 5, 0.05), 0.5) == "inconclusive"


def test_each_look_spends_what_it_may():
    """The levels against SciPy's distribution of a Brownian motion at the looks."""
    seeds = np.array(looks.LOOKS)
    correlation = np.sqrt(np.minimum.outer(seeds, seeds) / np.maximum.outer(seeds, seeds))
    edges = stats.norm.isf(looks.ERRORS)
    for k, spent in enumerate(looks.SPENT, start=1):
        motion = stats.multivariate_normal(np.zeros(k), correlation[:k, :k])
        assert 1 - motion.cdf(edges[:k]) == pytest.approx(spent, abs=5e-4)


def test_the_sign_test_spends_less_than_5_percent_over_all_looks():
    """Exactly, by the distribution of counts that have not been decided yet."""
    alive, spent, before = {0: 1.0}, 0.0, 0
    for look in looks.looks_up_to(40):
        new = look.seeds - before
        counts: dict[int, float] = {}
        for (have, chance), extra in itertools.product(alive.items(), range(new + 1)):
            total = have + extra
            counts[total] = counts.get(total, 0.0) + chance * stats.binom.pmf(extra, new, 0.5)
        decided = {c for c in counts if stats.binom.sf(c - 1, look.seeds, 0.5) <= look.error}
        spent += sum(counts[c] for c in decided)
        alive = {c: chance for c, chance in counts.items() if c not in decided}
        before = look.seeds
    assert 0.03 < spent < 0.05


def test_a_number_that_is_no_look_is_looked_at_once():
    assert looks.looks_up_to(7) == [looks.Look(7, 0.05, 0.0)]
    assert [look.seeds for look in looks.looks_up_to(20)] == [5, 10, 20]
    assert looks.looks_up_to(10)[1] == looks.Look(10, looks.ERRORS[1], looks.SPENT[0])
    assert looks.next_look(5, 40) == 10
    assert looks.next_look(10, 10) is None
    assert looks.next_look(7, 40) is None


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


def test_the_share_of_a_gain_by_hand():
    slow = np.array([1000.0, 1000.0, NEVER, NEVER, 1000.0, 500.0, NEVER])
    fast = np.array([200.0, 200.0, 200.0, 200.0, 200.0, 600.0, 200.0])
    between = np.array([600.0, 1000.0, 600.0, 100.0, NEVER, 400.0, NEVER])
    lower, upper = verdicts.kept_shares(slow, fast, between, 1200.0)
    # The third keeps (1,200 - 600) / (1,200 - 200), or more if the slow run would take longer.
    np.testing.assert_allclose(lower[:4], [0.5, 0.0, 0.6, 1.0])
    np.testing.assert_allclose(upper[:4], [0.5, 0.0, 1.0, 1.1])
    assert (lower[4], upper[4]) == (-NEVER, pytest.approx(-0.25))
    assert np.isnan([lower[5], upper[5]]).all()
    assert (lower[6], upper[6]) == (-NEVER, 1.0)


def test_rank_correlations_are_kendalls_and_count_never_as_last():
    doses = np.array([0.0, 0.1, 1.0, 10.0])
    falling = np.array([[9.0, NEVER], [9.0, NEVER], [5.0, 6.0], [1.0, 6.0]])
    found = verdicts.rank_correlations(doses[:, None], falling)
    for seed in range(2):
        flat = np.where(np.isinf(falling[:, seed]), 1e9, falling[:, seed])
        assert found[seed] == pytest.approx(stats.kendalltau(doses, flat).statistic)
    assert np.isnan(verdicts.rank_correlations(doses[:, None], np.full((4, 1), NEVER))).all()


def test_roc_areas_are_mann_whitneys():
    rng = np.random.default_rng(3)
    values, outcome = rng.integers(0, 9, (18, 2)).astype(float), rng.random((18, 2)) < 0.4
    for seed, area in enumerate(verdicts.roc_areas(outcome, values)):
        above = values[outcome[:, seed], seed]
        below = values[~outcome[:, seed], seed]
        statistic = stats.mannwhitneyu(above, below).statistic
        assert area == pytest.approx(statistic / (len(above) * len(below)))
    assert np.isnan(verdicts.roc_areas(np.ones((3, 1), bool), np.zeros((3, 1)))).all()


DOSES = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_power_law_is_recovered(exponent):
    law = verdicts.PowerLaw(700.0, 30.0, exponent)
    fitted = verdicts.fit_power_law(DOSES, np.asarray(law(DOSES)), budget=1e9)
    assert fitted.exponent == pytest.approx(exponent, rel=0.01)
    assert fitted.floor == pytest.approx(700, rel=0.02)
    assert fitted.crossing == pytest.approx((30 / 700) ** (1 / exponent), rel=0.05)


def test_the_fit_is_the_least_squares_of_log_times():
    """Against SciPy's, from the truth as its starting point."""
    from scipy.optimize import least_squares

    rng = np.random.default_rng(4)
    times = (500 + 40 / DOSES) * np.exp(rng.normal(0, 0.1, len(DOSES)))
    law = verdicts.fit_power_law(DOSES, times, 1e9)

    def residuals(x):
        return np.log((x[0] + x[1] * DOSES ** -x[2]) / times)

    best = least_squares(residuals, (500, 40, 1), x_scale=(500, 40, 1)).x
    ours = (law.floor, law.scale, law.exponent)
    assert ours == pytest.approx(tuple(best), rel=0.02)


def test_a_censored_dose_is_a_bound_and_not_a_time():
    law = verdicts.PowerLaw(700.0, 100.0, 1.0)  # 10,700 epochs at the weakest dose
    times = np.asarray(law(DOSES))
    censored = np.where(times > 5000, NEVER, times)
    fitted = verdicts.fit_power_law(DOSES, censored, budget=5000)
    assert fitted.exponent == pytest.approx(1.0, rel=0.05)
    # Taken as a time, the budget would flatten the law.
    flattened = verdicts.fit_power_law(DOSES, np.minimum(times, 5000), budget=1e9)
    assert flattened.exponent < 0.9


def test_a_censored_dose_does_not_hold_a_steep_law_down():
    law = verdicts.PowerLaw(750.0, 0.003, 4.0)  # 4,454 epochs at 0.03, 300,750 at 0.01
    times = np.asarray(law(DOSES[:5]))
    fitted = verdicts.fit_power_law(DOSES[:5], np.where(times > 5000, NEVER, times), budget=5000)
    assert fitted.exponent > 3


def test_exponents_of_several_laws():
    doses = DOSES
    steep = np.where(doses < 0.1, NEVER, 700.0)  # nothing between never and the floor
    rows = np.stack([700 + 40 / doses, np.full(6, 700.0), np.full(6, NEVER), steep])
    lower, upper = verdicts.exponents(doses, rows, 5000)
    assert lower[0] == upper[0] == pytest.approx(1.0, rel=0.01)
    assert np.isnan([lower[1], lower[2]]).all()  # no delay, and no times
    assert upper[3] == NEVER  # it is steeper than the grid can tell
    assert lower[3] == verdicts.EXPONENTS[-1]


def test_false_discoveries_by_hand():
    """Of four p-values the third counts for 4 / 3 of itself, unless a larger one has less."""
    rates = verdicts.discovery_rates(np.array([0.01, 0.04, 0.03, 0.5]))
    np.testing.assert_allclose(rates, [0.04, 0.16 / 3, 0.16 / 3, 0.5])


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(2.13, 1.6, 3.0, 5), "2.1 (1.6 to 3)"),
        (Estimate(NEVER, 1.8, NEVER, 5), "at least 1.8"),
        (Estimate(NEVER, NEVER, NEVER, 5), "∞: never against always"),
        (Estimate(2.0, 1.8, NEVER, 5), "2 (at least 1.8)"),
        (Estimate(2.0, -NEVER, NEVER, 1), "2 (no interval)"),
        (Estimate(-NEVER, -NEVER, 0.3, 5), "at most 0.3"),
        (Estimate(0.0, 0.0, 0.45, 5), "0 (0 to 0.45)"),
        (Estimate(2.34e-5, -1e-7, 1.5e-4, 5), "0.000023 (-0.0000001 to 0.00015)"),
        (Estimate(123456.0, 1234.0, 9e6, 5), "123,456 (1,234 to 9,000,000)"),
        (Estimate(math.nan, -NEVER, NEVER, 5), "no number"),
    ],
)
def test_estimates_read_well(estimate, text):
    assert str(estimate) == text
