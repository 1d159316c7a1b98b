import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grokscope.papers.structural_inference import theory

from .strategies import vectors

rates = st.floats(1e-3, 0.5)
decays = st.floats(0.1, 1.9)


@given(weights=vectors(4), update=vectors(4), rate=rates, decay=decays)
def test_one_step_of_decay_and_update(weights, update, rate, decay):
    after = np.linalg.norm((1 - rate * decay) * weights - rate * update)
    norm, bound = np.linalg.norm(weights), np.linalg.norm(update)
    linear = theory.norm_bound(norm, rate, decay, bound)
    squared = theory.squared_norm_bound(norm, rate, decay, bound)
    assert after <= linear + 1e-9
    assert linear**2 <= squared + 1e-9
    assert squared == pytest.approx((1 - rate * decay) * norm**2 + rate / decay * bound**2)


def test_contraction_bound_is_attained_at_the_floor():
    update = np.array([3.0, 4.0])
    weights = -update / 2.0
    after = np.linalg.norm((1 - 0.1 * 2) * weights - 0.1 * update)
    assert after**2 == pytest.approx(theory.squared_norm_bound(2.5, 0.1, 2.0, 5.0))
    assert after == pytest.approx(theory.norm_floor(2.0, 5.0))


@given(norm=st.floats(0, 10), rate=rates, decay=decays, bound=st.floats(0, 5))
def test_several_steps_are_repeated_single_steps(norm, rate, decay, bound):
    linear = squared = norm
    for _ in range(7):
        linear = theory.norm_bound(linear, rate, decay, bound)
        squared = math.sqrt(theory.squared_norm_bound(squared, rate, decay, bound))
    assert theory.norm_bound(norm, rate, decay, bound, 7) == pytest.approx(linear)
    assert theory.squared_norm_bound(norm, rate, decay, bound, 7) == pytest.approx(squared**2)


def test_contraction_is_vacuous_for_adamw_at_usual_norms():
    """The floor of the paper's own set-up lies far above the norms met in training."""
    bound = theory.adamw_update_bound((64, 256))
    assert theory.norm_floor(1.0, bound) == pytest.approx(930.6, abs=0.1)
    assert theory.squared_norm_bound(60.0, 1e-3, 1.0, bound) > 60.0**2


def count_steps(norm, target, rate, decay, update):
    """Simulated: steps until the norm is at most the target, with a signed update along W."""
    steps = 0
    while norm > target:
        norm = abs((1 - rate * decay) * norm - rate * update)
        steps += 1
        assert steps < 100_000
    return steps


@given(norm=st.floats(1, 50), target=st.floats(0.5, 20), rate=st.floats(0.01, 0.2), decay=decays)
def test_pure_decay_takes_exactly_the_lower_bound(norm, target, rate, decay):
    bound = float(theory.plateau_lower_bound(norm, target, rate, decay))
    steps = count_steps(norm, target, rate, decay, 0.0)
    assert bound - 1e-6 <= steps <= math.ceil(bound + 1e-6)
    assert theory.plateau_upper_estimate(norm, target, rate, decay) == pytest.approx(2 * bound)


@given(
    norm=st.floats(1, 50),
    target=st.floats(0.5, 20),
    update=st.floats(-1, 1),
    rate=st.floats(0.01, 0.2),
    decay=decays,
)
def test_plateau_lies_between_the_bounds(norm, target, update, rate, decay):
    arguments = (norm, target, rate, decay, abs(update))
    upper = float(theory.plateau_upper_estimate(*arguments))
    if update < 0 and math.isinf(upper):
        return  # an outward push that may hold the norm above the target for ever
    steps = count_steps(norm, target, rate, decay, update)
    assert theory.plateau_lower_bound(*arguments) - 1e-6 <= steps
    assert steps < upper + 1 + 1e-6


def test_published_lower_bound_fails_with_inward_updates():
    published = float(theory.plateau_lower_bound(10.0, 1.0, 0.01, 1.0))
    steps = count_steps(10.0, 1.0, 0.01, 1.0, update=5.0)
    assert steps < published / 2
    assert steps >= theory.plateau_lower_bound(10.0, 1.0, 0.01, 1.0, update_bound=5.0)


def test_plateau_edges():
    assert theory.plateau_lower_bound(1.0, 1.0, 0.1, 1.0) == 0
    assert theory.plateau_upper_estimate(1.0, 2.0, 0.1, 1.0, update_bound=9.0) == 0
    assert theory.plateau_upper_estimate(3.0, 2.0, 0.1, 1.0, update_bound=2.0) == math.inf
    # The usual approximation 1 / (eta lambda) for a fall by the factor e.
    assert theory.plateau_lower_bound(math.e, 1.0, 1e-3, 1.0) == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.norm_bound(1.0, 1.0, 1.0, 1.0), "strictly between 0 and 1"),
        (lambda: theory.squared_norm_bound(1.0, 0.1, 0.0, 1.0), "strictly between 0 and 1"),
        (lambda: theory.squared_norm_bound(1.0, 0.1, 1.0, -1.0), "update bound is"),
        (lambda: theory.plateau_lower_bound(1.0, 0.0, 0.1, 1.0), "target norm is"),
        (lambda: theory.plateau_upper_estimate(1.0, 1.0, 0.0, 1.0), "learning rate"),
        (lambda: theory.norm_floor(0.0, 1.0), "weight decay is"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
