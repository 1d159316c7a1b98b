import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import rel_entr

from grokscope.papers.structural_inference import theory

from .strategies import masses, rows


@given(row=rows())
def test_divergence_agrees_with_scipy(row):
    divergence = theory.structural_divergence(row.attention, row.oracle)
    assert divergence == pytest.approx(rel_entr(row.oracle, row.attention).sum(), abs=1e-12)
    assert divergence >= -1e-12


def test_divergence_edges():
    oracle = np.array([0.5, 0.5, 0.0, 0.0])
    assert theory.structural_divergence(oracle, oracle) == 0
    assert theory.structural_divergence(np.full(4, 0.25), oracle) == pytest.approx(math.log(2))
    assert theory.structural_divergence(np.array([1.0, 0, 0, 0]), oracle) == math.inf
    assert theory.structural_divergence(np.ones(1), np.ones(1)) == 0


@given(row=rows(), threshold=st.floats(1e-6, 1))
def test_structural_condition_bounds_the_divergence(row, threshold):
    assume(threshold * row.informative <= 1)
    if theory.structural_condition(row.attention, row.oracle, threshold):
        divergence = theory.structural_divergence(row.attention, row.oracle)
        assert divergence <= theory.divergence_bound(threshold, row.informative) + 1e-9


@pytest.mark.parametrize("informative", [1, 2, 3, 7])
def test_divergence_bound_is_attained(informative):
    threshold = 0.6 / informative
    attention = np.array([threshold] * informative + [0.4])
    oracle = np.array([1 / informative] * informative + [0.0])
    bound = theory.divergence_bound(threshold, informative)
    assert theory.structural_divergence(attention, oracle) == pytest.approx(bound)
    assert theory.divergence_bound(1 / informative, informative) == pytest.approx(0)


def test_small_divergence_does_not_imply_the_condition():
    """The converse that section D.4.3 relies on."""
    attention, oracle = np.array([0.1, 0.8, 0.1]), np.array([0.5, 0.5, 0.0])
    divergence = theory.structural_divergence(attention, oracle)
    assert divergence < theory.divergence_bound(0.25, 2)
    assert not theory.structural_condition(attention, oracle, 0.25)
    assert divergence > theory.sufficient_divergence(0.25, 2)


@given(row=rows(), threshold=masses)
def test_sufficient_divergence_implies_the_condition(row, threshold):
    assume(0 < threshold * row.informative <= 1)
    divergence = theory.structural_divergence(row.attention, row.oracle)
    if threshold < 1 and divergence < theory.sufficient_divergence(threshold, row.informative):
        assert theory.structural_condition(row.attention, row.oracle, threshold * (1 - 1e-9))


@pytest.mark.parametrize("informative", [2, 3, 7])
def test_sufficient_divergence_is_the_best_possible(informative):
    threshold = 0.3 / informative
    rest = (1 - threshold) / (informative - 1)
    attention = np.array([threshold] + [rest] * (informative - 1))
    divergence = theory.structural_divergence(attention, np.full(informative, 1 / informative))
    assert theory.sufficient_divergence(threshold, informative) == pytest.approx(divergence)


small_scores = hnp.arrays(np.float64, 4, elements=st.floats(-3, 3))


def make_oracle(informative):
    return np.where(np.arange(4) < informative, 1 / informative, 0.0)


def softmax_divergence(scores, oracle):
    return theory.structural_divergence(theory.softmax_attention(scores), oracle)


def relu_divergence(scores, oracle):
    return theory.structural_divergence(theory.relu_attention(scores), oracle)


AUTOMATIC = {
    function: jax.jit(jax.grad(function)) for function in (softmax_divergence, relu_divergence)
}


def automatic_gradient(function, scores, oracle):
    with jax.enable_x64(True):
        return np.asarray(AUTOMATIC[function](jnp.asarray(scores), jnp.asarray(oracle)))


def finite_difference(function, scores, oracle, width=1e-6):
    steps = width * np.eye(4)
    return np.array(
        [(function(scores + s, oracle) - function(scores - s, oracle)) / (2 * width) for s in steps]
    )


@given(scores=small_scores, informative=st.integers(1, 4))
def test_softmax_gradient_is_the_gap(scores, informative):
    oracle = make_oracle(informative)
    gradient = theory.divergence_gradient(theory.softmax_attention(scores), oracle)
    numeric = finite_difference(softmax_divergence, scores, oracle)
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)
    automatic = automatic_gradient(softmax_divergence, scores, oracle)
    np.testing.assert_allclose(gradient, automatic, atol=1e-10)


@given(
    scores=hnp.arrays(np.float64, 4, elements=st.floats(0.1, 3) | st.floats(-3, -0.1)),
    informative=st.integers(1, 4),
)
def test_relu_gradient(scores, informative):
    """The informative positions are active here; distractors may be switched off."""
    scores[:informative] = np.abs(scores[:informative])
    oracle = make_oracle(informative)
    gradient = theory.relu_divergence_gradient(scores, oracle)
    numeric = finite_difference(relu_divergence, scores, oracle)
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)
    automatic = automatic_gradient(relu_divergence, scores, oracle)
    np.testing.assert_allclose(gradient, automatic, atol=1e-10)


def test_relu_attention_cannot_correct_a_position_that_is_off():
    scores, oracle = np.array([-0.5, 1.0, 1.0]), np.array([0.5, 0.5, 0.0])
    assert theory.structural_divergence(theory.relu_attention(scores), oracle) == math.inf
    assert theory.relu_divergence_gradient(scores, oracle)[0] == 0
    published = theory.divergence_gradient(theory.relu_attention(scores), oracle)
    assert published[0] == -0.5
    assert theory.relu_divergence_gradient(np.zeros(3), oracle).tolist() == [0, 0, 0]


@pytest.mark.parametrize("bound", [theory.divergence_bound, theory.sufficient_divergence])
def test_impossible_arguments_are_named(bound):
    with pytest.raises(ValueError, match="threshold is"):
        bound(0.0, 2)
    with pytest.raises(ValueError, match=r"can be at most 0\.5"):
        bound(0.6, 2)
    with pytest.raises(ValueError, match="at least one is needed"):
        bound(0.6, 0)
