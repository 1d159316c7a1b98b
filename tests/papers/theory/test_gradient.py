"""Statement 9 on a real small model: scores, attention, pooling, ReLU network, cross-entropy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grokscope.papers.structural_inference import theory

from .strategies import ATTENTIONS, make_network

POSITIONS, WIDTH, CLASSES = 4, 2, 3
LABEL = 0


def pool(kind, scores, values):
    return ATTENTIONS[kind](scores) @ values


def classify(pooled, network):
    hidden_weight, hidden_bias, output_weight, output_bias = network
    hidden = jnp.maximum(hidden_weight @ pooled + hidden_bias, 0)
    return -jax.nn.log_softmax(output_weight @ hidden + output_bias)[LABEL]


@partial(jax.jit, static_argnums=0)
def differentiate(kind, scores, values, network):
    """Loss, dL/dz and dL/da by automatic differentiation."""
    pooled_gradient = jax.grad(classify)(pool(kind, scores, values), network)
    loss, gradient = jax.value_and_grad(
        lambda scores: classify(pool(kind, scores, values), network)
    )(scores)
    return loss, pooled_gradient, gradient


class Example:
    """One input through the model, with its gradients as NumPy arrays."""

    def __init__(self, kind, seed, scale, scores):
        generator = np.random.default_rng(seed)
        self.scores = scores
        self.values = scale * generator.normal(size=(POSITIONS, WIDTH))
        self.network = make_network(seed, WIDTH, classes=CLASSES, scale=scale)
        self.attention = ATTENTIONS[kind](scores)
        self.pooled = self.attention @ self.values
        with jax.enable_x64(True):
            arrays = jax.tree.map(jnp.asarray, (scores, self.values, tuple(self.network)))
            derived = differentiate(kind, *arrays)
            self.loss, self.pooled_gradient, self.gradient = map(np.asarray, derived)
        self.lipschitz = theory.lipschitz_bound(
            self.network.hidden_weight, self.network.output_weight
        )

    @property
    def context(self):
        return self.values, self.pooled, self.lipschitz, self.loss


# Scores keep away from the kink of relu, where there is no derivative to compare.
away_from_zero = st.floats(0.05, 4) | st.floats(-4, -0.05) | st.sampled_from([1.0, 20.0])


@st.composite
def examples(draw, kind):
    scores = draw(hnp.arrays(np.float64, POSITIONS, elements=away_from_zero))
    scale = draw(st.sampled_from([0.3, 1.0, 4.0]))
    return Example(kind, draw(st.integers(0, 10_000)), scale, scores)


@given(example=examples("softmax"))
def test_softmax_gradient_has_its_closed_form(example):
    closed = theory.score_gradient(
        example.attention, example.values, example.pooled, example.pooled_gradient
    )
    np.testing.assert_allclose(closed, example.gradient, atol=1e-9)


@given(example=examples("relu"))
def test_relu_gradient_has_its_closed_form(example):
    closed = theory.relu_score_gradient(
        example.scores, example.values, example.pooled, example.pooled_gradient
    )
    np.testing.assert_allclose(closed, example.gradient, rtol=1e-9, atol=1e-9)


def numeric_loss(kind, example, scores):
    outputs = example.network(ATTENTIONS[kind](scores) @ example.values)
    return np.log(np.exp(outputs - outputs[LABEL]).sum())


@pytest.mark.parametrize("kind", ["softmax", "relu"])
@pytest.mark.parametrize("seed", range(5))
def test_closed_forms_agree_with_finite_differences(kind, seed):
    scores = np.array([0.4, -0.7, 1.3, 0.9])
    example = Example(kind, seed, 1.0, scores)
    steps = 1e-6 * np.eye(POSITIONS)
    numeric = [
        (numeric_loss(kind, example, scores + s) - numeric_loss(kind, example, scores - s)) / 2e-6
        for s in steps
    ]
    if kind == "softmax":
        gradient, first = theory.score_gradient, example.attention
    else:
        gradient, first = theory.relu_score_gradient, scores
    closed = gradient(first, example.values, example.pooled, example.pooled_gradient)
    np.testing.assert_allclose(closed, numeric, atol=1e-7)


@given(example=examples("softmax"))
def test_gradient_obeys_the_three_bounds_in_order(example):
    sharp = theory.sharp_explaining_away_bound(example.attention, *example.context)
    each = theory.explaining_away_bound(example.attention, *example.context)
    radius = np.linalg.norm(example.values, axis=-1).max()
    loose = theory.loose_explaining_away_bound(
        example.attention, example.lipschitz, example.loss, radius
    )
    for smaller, larger in [(np.abs(example.gradient), sharp), (sharp, each), (each, loose)]:
        assert np.all(smaller <= larger * (1 + 1e-9) + 1e-12)


@given(example=examples("relu"))
def test_relu_gradient_obeys_its_bound(example):
    bound = theory.relu_explaining_away_bound(example.scores, *example.context)
    assert np.all(np.abs(example.gradient) <= bound * (1 + 1e-9) + 1e-12)
    assert np.all(bound[example.scores <= 0] == 0)


@given(outputs=hnp.arrays(np.float64, st.integers(2, 5), elements=st.floats(-20, 20)))
def test_output_error_bounds(outputs):
    shifted = outputs - outputs.max()
    log_probability = shifted - np.log(np.exp(shifted).sum())
    error = np.exp(log_probability)
    error[LABEL] -= 1
    loss = -log_probability[LABEL]
    sharp = theory.output_error_bound(loss)
    assert np.linalg.norm(error) <= sharp + 1e-9
    assert np.abs(error).sum() <= theory.pinsker_error_bound(loss) + 1e-9
    assert sharp <= theory.pinsker_error_bound(loss) + 1e-12
    if len(outputs) == 2:
        assert np.linalg.norm(error) == pytest.approx(sharp, abs=1e-9)


def test_starvation_is_linear_in_the_loss():
    """A loss a hundred times smaller: the sharp bound falls by 100, the published one by 10."""
    losses = np.array([1e-4, 1e-6])
    sharp, published = theory.output_error_bound(losses), theory.pinsker_error_bound(losses)
    assert sharp[0] / sharp[1] == pytest.approx(100, rel=1e-3)
    assert published[0] / published[1] == pytest.approx(10)


def make_bright_example(kind, scores, size):
    """Two values of norm `size`, one saturated linear classifier of slope L_f on the first axis."""
    values = np.array([[size, 0.0], [-size, 0.0]])
    attention = ATTENTIONS[kind](scores)
    pooled = attention @ values
    slope = 1.0
    # f(z) = slope * (z_1, -z_1) / sqrt(2) through a pair of hidden units, label 1.
    margin = np.sqrt(2) * slope * pooled[0]
    probability = 1 / (1 + np.exp(-margin))  # of the wrong class, and the error
    loss = np.log1p(np.exp(margin))
    pooled_gradient = np.array([np.sqrt(2) * slope * probability, 0.0])
    return values, attention, pooled, pooled_gradient, slope, loss


def test_published_bound_fails_for_large_values():
    scores = np.array([0.0, 0.0])
    values, attention, pooled, pooled_gradient, slope, loss = make_bright_example(
        "softmax", scores, size=10.0
    )
    gradient = np.abs(theory.score_gradient(attention, values, pooled, pooled_gradient))
    published = theory.loose_explaining_away_bound(attention, slope, loss)
    assert np.all(gradient > 2 * published)
    assert np.all(gradient <= theory.loose_explaining_away_bound(attention, slope, loss, 10.0))


def test_published_bound_fails_for_relu_attention():
    """Values of norm 1, as the lemma asks, but small scores: the gradient grows like 1 / S."""
    scores = np.array([0.01, 0.01])
    values, attention, pooled, pooled_gradient, slope, loss = make_bright_example(
        "relu", scores, size=1.0
    )
    gradient = np.abs(theory.relu_score_gradient(scores, values, pooled, pooled_gradient))
    assert np.all(gradient > 10 * theory.loose_explaining_away_bound(attention, slope, loss))
    bound = theory.relu_explaining_away_bound(scores, values, pooled, slope, loss)
    assert np.all(gradient <= bound * (1 + 1e-9))


def test_batch_means_do_not_bound_the_mean_gradient():
    """Starved where the loss is, and not where it is not: means miss the product."""
    attention, loss = np.array([[0.5], [0.0]]), np.array([4.0, 0.0])
    values, pooled = np.array([[[1.0]], [[1.0]]]), np.array([[-1.0], [-1.0]])
    each = theory.explaining_away_bound(attention, values, pooled, 1.0, loss)
    of_means = theory.loose_explaining_away_bound(attention.mean(axis=0), 1.0, loss.mean())
    assert each.mean() > 1.3 * of_means.item()


@pytest.mark.parametrize("scores", [[0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, -1.0, 0.0]])
def test_no_active_score_means_uniform_attention_and_no_gradient(scores):
    example = Example("relu", 0, 1.0, np.array(scores))
    np.testing.assert_allclose(example.attention, 0.25)
    assert np.all(example.gradient == 0)
    closed = theory.relu_score_gradient(
        example.scores, example.values, example.pooled, example.pooled_gradient
    )
    assert np.all(closed == 0)
    assert np.all(theory.relu_explaining_away_bound(example.scores, *example.context) == 0)


def test_full_mass_leaves_no_gradient():
    example = Example("softmax", 1, 1.0, np.array([800.0, 0.0, 0.0, 0.0]))
    assert example.attention[0] == 1
    assert np.all(theory.sharp_explaining_away_bound(example.attention, *example.context) < 1e-12)
    np.testing.assert_allclose(example.gradient, 0, atol=1e-12)


def test_impossible_arguments_are_named():
    with pytest.raises(ValueError, match="loss is"):
        theory.output_error_bound(-1.0)
    with pytest.raises(ValueError, match="loss is"):
        theory.pinsker_error_bound(-1.0)
    with pytest.raises(ValueError, match="value bound is"):
        theory.loose_explaining_away_bound(np.ones(1), 1.0, 1.0, -1.0)
