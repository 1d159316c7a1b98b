import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grokscope.papers.structural_inference import theory

from .strategies import rows


def smallest_mass(row):
    return theory.polyak_lojasiewicz_constant(row.attention, row.oracle)


@given(row=rows(distractors=False))
def test_inequality_without_distractors(row):
    gap = theory.squared_gap(row.attention, row.oracle)
    divergence = theory.structural_divergence(row.attention, row.oracle)
    constant = smallest_mass(row)
    if math.isfinite(divergence):
        assert gap >= 2 * constant * divergence - 1e-12
        ratio = theory.polyak_lojasiewicz_ratio(row.attention, row.oracle)
        assert ratio >= constant - 1e-6 or divergence < 1e-9


@given(weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=5), seed=st.integers(0, 999))
def test_inequality_holds_for_any_full_oracle(weights, seed):
    oracle = np.array(weights) / sum(weights)
    attention = np.random.default_rng(seed).dirichlet(np.ones(len(weights)))
    constant = theory.polyak_lojasiewicz_constant(attention, oracle)
    divergence = theory.structural_divergence(attention, oracle)
    assert theory.squared_gap(attention, oracle) >= 2 * constant * divergence - 1e-12


@given(row=rows())
def test_squared_gap_bound_holds_with_distractors(row):
    gap = theory.squared_gap(row.attention, row.oracle)
    divergence = theory.structural_divergence(row.attention, row.oracle)
    distractors = len(row.oracle) - row.informative
    bound = theory.squared_gap_bound(divergence, smallest_mass(row), row.informative, distractors)
    assert bound <= gap + 1e-12
    if distractors == 0 and math.isfinite(divergence):
        assert bound == pytest.approx(2 * smallest_mass(row) * max(divergence, 0), abs=1e-12)


@pytest.mark.parametrize("informative", [2, 3, 5])
def test_published_constant_is_the_limit_at_the_oracle(informative):
    oracle = np.full(informative, 1 / informative)
    offset = np.zeros(informative)
    offset[:2] = [1e-4, -1e-4]
    ratio = theory.polyak_lojasiewicz_ratio(oracle + offset, oracle)
    assert ratio == pytest.approx(1 / informative, rel=1e-4)


@pytest.mark.parametrize("offset", [1e-3, 0.1, 0.4])
def test_published_constant_fails_next_to_the_oracle(offset):
    oracle = np.array([0.5, 0.5])
    attention = oracle + np.array([-offset, offset])
    assert theory.polyak_lojasiewicz_ratio(attention, oracle) < 0.5 * (1 - offset**2)
    assert theory.structural_divergence(attention, oracle) == pytest.approx(
        -math.log1p(-4 * offset**2) / 2
    )


@pytest.mark.parametrize("mass", [1e-2, 1e-4, 1e-6])
def test_no_constant_for_a_sparse_oracle(mass):
    """However near the oracle, mass on a distractor makes the ratio as small as that mass."""
    attention, oracle = np.array([1 - mass, mass]), np.array([1.0, 0.0])
    assert theory.polyak_lojasiewicz_ratio(attention, oracle) == pytest.approx(mass, rel=0.02)


def test_ratio_edges():
    oracle = np.array([0.5, 0.5, 0.0])
    assert theory.polyak_lojasiewicz_ratio(oracle, oracle) == math.inf
    assert theory.polyak_lojasiewicz_ratio(np.array([0.0, 0.5, 0.5]), oracle) == 0
    assert theory.squared_gap_bound(math.inf, 0.0, 2, 1) == 0
    assert theory.squared_gap_bound(0.0, 0.5, 2, 0) == 0


class Flow:
    """The gradient flow of the penalty on the scores, integrated by Runge-Kutta."""

    def __init__(self, scores, informative, strength=1.0, span=60.0, steps=3000):
        positions = len(scores)
        self.informative, self.distractors = informative, positions - informative
        self.oracle = np.where(np.arange(positions) < informative, 1 / informative, 0.0)
        self.strength = strength
        self.time = np.linspace(0, span, steps + 1)
        width = span / steps

        def slope(point):
            return -strength * (theory.softmax_attention(point) - self.oracle)

        trail = [np.asarray(scores, dtype=float)]
        for _ in range(steps):
            point = trail[-1]
            first = slope(point)
            second = slope(point + width / 2 * first)
            third = slope(point + width / 2 * second)
            fourth = slope(point + width * third)
            trail.append(point + width / 6 * (first + 2 * second + 2 * third + fourth))
        self.attention = theory.softmax_attention(np.stack(trail))
        self.divergence = theory.structural_divergence(self.attention, self.oracle)
        self.mass = theory.weakest_weight(self.attention, self.oracle)

    def reach(self, target):
        return self.time[np.argmax(self.divergence <= target)]


@pytest.fixture(
    scope="module",
    params=[
        ([0.0, 0.0, 0.0, 0.0, 0.0], 2, 1.0),
        ([-2.0, 1.0, 3.0, 0.0], 2, 2.0),
        ([-1.0, 0.0], 1, 0.5),
        ([-3.0, 0.0, 2.0], 3, 1.0),
        ([-0.2, 0.2], 2, 0.2),
    ],
    ids=["uniform", "starved", "single", "full", "near"],
)
def flow(request):
    scores, informative, strength = request.param
    return Flow(scores, informative, strength)


def test_divergence_falls_at_the_rate_of_the_squared_gap(flow):
    measured = -np.gradient(flow.divergence, flow.time)[1:-1]
    expected = flow.strength * theory.squared_gap(flow.attention, flow.oracle)[1:-1]
    np.testing.assert_allclose(measured, expected, rtol=1e-2, atol=1e-9)


def test_smallest_mass_never_falls(flow):
    assert np.all(np.diff(flow.mass) >= -1e-12)


def test_divergence_stays_below_the_hyperbola(flow):
    envelope = theory.hyperbolic_envelope(
        flow.divergence[0],
        flow.mass[0],
        flow.informative,
        flow.distractors,
        flow.strength,
        flow.time,
    )
    assert np.all(flow.divergence <= envelope * (1 + 1e-6))


def test_exponential_envelope_needs_full_support(flow):
    """True with k = T; a sparse oracle leaves the curve of eq. (52) even with the smallest mass."""
    envelope = theory.exponential_envelope(
        flow.divergence[0], flow.mass[0], flow.strength, flow.time
    )
    if flow.distractors == 0:
        assert np.all(flow.divergence <= envelope * (1 + 1e-6) + 1e-12)
    else:
        published = theory.exponential_envelope(
            flow.divergence[0], 1 / flow.informative, flow.strength, flow.time
        )
        assert flow.divergence[-1] > 1000 * published[-1]


def test_exponential_rate_is_right_near_the_oracle():
    flow = Flow([-0.02, 0.02], 2, strength=0.2)
    envelope = theory.exponential_envelope(flow.divergence[0], flow.mass[0], 0.2, flow.time[300])
    assert 0.9 * envelope < flow.divergence[300] <= envelope


def test_sparse_oracle_is_approached_like_one_over_time(flow):
    if flow.distractors:
        scale = flow.informative * flow.distractors / (flow.informative + flow.distractors)
        last = flow.divergence[-1] * flow.strength * flow.time[-1]
        assert last == pytest.approx(scale, rel=0.25)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_delay_bound_is_no_less_than_the_delay(flow, share):
    target = share * flow.divergence[0]
    bound = theory.delay_bound(
        flow.divergence[0],
        target,
        flow.mass[0],
        flow.informative,
        flow.distractors,
        flow.strength,
    )
    delay = flow.reach(target)
    assert 0 < delay <= bound + flow.time[1]
    if flow.distractors == 0:
        exponential = theory.exponential_delay(
            flow.divergence[0], target, flow.mass[0], flow.strength
        )
        assert exponential == pytest.approx(bound)


@pytest.mark.parametrize(("informative", "distractors"), [(2, 3), (1, 1), (3, 1)])
def test_delay_from_uniform_attention_is_exact(informative, distractors):
    strength = 2.0
    flow = Flow(np.zeros(informative + distractors), informative, strength)
    for target in (0.2, 0.05, 0.02):
        exact = float(theory.uniform_start_delay(target, informative, distractors, strength))
        assert np.interp(exact, flow.time, flow.divergence) == pytest.approx(target, rel=1e-3)
        published = theory.exponential_delay(flow.divergence[0], target, 1 / informative, strength)
        assert exact > published


def test_published_target_does_not_establish_the_condition():
    """When D crosses log(1 / (k tau)) a mass is still below tau; at the other target it is not."""
    flow = Flow([-2.0, 2.0, 0.0], 2)
    threshold = 0.3
    published = np.argmax(flow.divergence <= theory.divergence_bound(threshold, 2))
    sufficient = np.argmax(flow.divergence < theory.sufficient_divergence(threshold, 2))
    assert 0 < published < sufficient
    assert flow.mass[published] < threshold
    assert np.all(flow.mass[sufficient:] >= threshold)


@given(strength=st.floats(0.01, 10), target=st.floats(0.01, 3), initial=st.floats(0.01, 3))
def test_delays_are_inverse_in_the_strength(strength, target, initial):
    general = lambda s: theory.delay_bound(initial, target, 0.1, 2, 3, s)  # noqa: E731
    published = lambda s: theory.exponential_delay(initial, target, 0.5, s)  # noqa: E731
    uniform = lambda s: theory.uniform_start_delay(target, 2, 3, s)  # noqa: E731
    for delay in (general, published, uniform):
        assert delay(strength) * strength == pytest.approx(delay(1.0))
    assert (general(1.0) == 0) == (initial <= target)
    assert (uniform(1.0) == 0) == (target >= math.log(2.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.exponential_delay(1.0, 0.0, 0.5, 1.0), "target divergence is"),
        (lambda: theory.delay_bound(1.0, 0.1, 0.0, 2, 3, 1.0), "mass is"),
        (lambda: theory.delay_bound(1.0, 0.1, 0.1, 2, -3, 1.0), "distractors is"),
        (lambda: theory.hyperbolic_envelope(1.0, 0.1, 2, 3, 0.0, 1.0), "strength is"),
        (lambda: theory.exponential_envelope(1.0, 0.0, 1.0, 1.0), "constant is"),
        (lambda: theory.uniform_start_delay(0.1, 2, 0, 1.0), "distractors is"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
