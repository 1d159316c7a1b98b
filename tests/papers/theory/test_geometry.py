import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grokscope.papers.structural_inference import theory

from .strategies import Swap, masses, networks, seeds, swaps, vectors


def centroid_of(swap: Swap):
    return theory.distractor_centroid(swap.attention, swap.values, swap.position)


@given(swap=swaps())
def test_difference_has_its_closed_form(swap):
    """Softmax and linear-ReLU, ties, no active score, full mass, one position."""
    centroids = centroid_of(swap)
    for centroid in centroids:  # the same for both inputs, so either serves
        difference = theory.pooled_difference(*swap.mass, *swap.value, centroid)
        np.testing.assert_allclose(difference, swap.pooled[1] - swap.pooled[0], atol=1e-9)


@given(swap=swaps())
def test_other_weights_share_one_factor(swap):
    before, after = np.delete(swap.attention, swap.position, axis=1)
    factor = theory.rescaling_factor(*swap.mass)
    # With 1 - a below rounding the factor is a quotient of rounding errors.
    if 1 - swap.mass[0] > 1e-6:
        np.testing.assert_allclose(after, factor * before, atol=1e-9)


def test_rescaling_edges():
    assert theory.rescaling_factor(0.5, 0.75) == pytest.approx(0.5)
    assert theory.rescaling_factor(1.0, 1.0) == 1
    assert theory.rescaling_factor(1.0, 0.5) == np.inf
    assert theory.rescaling_factor(0.0, 1.0) == 0


def test_centroid_by_hand():
    attention = np.array([0.5, 0.125, 0.375])
    values = np.array([[9.0], [4.0], [8.0]])
    assert theory.distractor_centroid(attention, values, 0).tolist() == [7.0]
    assert theory.distractor_centroid(np.eye(3)[0], values, 0).tolist() == [6.0]
    assert theory.distractor_centroid(np.ones(1), values[:1], 0).tolist() == [0.0]


def test_centroid_takes_a_position_for_each_input():
    generator = np.random.default_rng(0)
    attention, values = generator.dirichlet(np.ones(4), size=3), generator.normal(size=(3, 4, 2))
    places = np.array([2, 0, 3])
    together = theory.distractor_centroid(attention, values, places)
    for row, place in enumerate(places):
        apart = theory.distractor_centroid(attention[row], values[row], int(place))
        np.testing.assert_allclose(together[row], apart)


def test_closed_form_fails_when_the_query_changes():
    """The query token enters every score, so the other weights lose their common factor."""
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    changed = embeddings.copy()
    changed[2] = [2.0, -1.0]
    attention = np.stack(
        [theory.softmax_attention(inputs @ inputs[2]) for inputs in (embeddings, changed)]
    )
    swap = Swap(attention, np.stack([embeddings, changed]), 2)
    ratios = swap.attention[1, :2] / swap.attention[0, :2]
    assert abs(ratios[0] - ratios[1]) > 0.1
    difference = theory.pooled_difference(*swap.mass, *swap.value, centroid_of(swap)[0])
    assert np.abs(difference - (swap.pooled[1] - swap.pooled[0])).max() > 0.02


@given(swap=swaps())
def test_difference_stays_below_its_upper_bound(swap):
    moved = np.linalg.norm(swap.pooled[1] - swap.pooled[0])
    spread = theory.value_spread(*swap.value, centroid_of(swap)[0])
    assert moved <= theory.difference_upper_bound(*swap.mass, spread) + 1e-9
    if swap.attention.shape[1] > 1:  # with one position the centroid is a convention
        assert spread <= 2 * np.linalg.norm(swap.values, axis=-1).max() + 1e-9


@given(before=masses, after=masses, offset=vectors(2))
def test_upper_bound_is_attained_by_opposite_values(before, after, offset):
    moved = theory.pooled_difference(before, after, offset, -offset, np.zeros(2))
    spread = theory.value_spread(offset, -offset, np.zeros(2))
    bound = theory.difference_upper_bound(before, after, spread)
    assert np.linalg.norm(moved) == pytest.approx(bound)


@given(swap=swaps(), network=networks())
def test_separated_pairs_satisfy_the_pair_condition(swap, network):
    outputs = network(swap.pooled)
    separation = np.linalg.norm(outputs[1] - outputs[0])
    slope = float(theory.lipschitz_bound(network.hidden_weight, network.output_weight))
    spread = float(theory.value_spread(*swap.value, centroid_of(swap)[0]))
    if separation > 1e-6:
        threshold = theory.mass_threshold(separation, slope, spread)
        assert theory.pair_condition(*swap.mass, threshold * (1 - 1e-6))


@given(seed=seeds, classes=st.integers(2, 5))
def test_margin_implies_separation(seed, classes):
    generator = np.random.default_rng(seed)
    outputs = generator.normal(size=(2, classes))
    outputs[[0, 1], [0, 1]] += 3
    margin = min(outputs[row, row] - np.delete(outputs[row], row).max() for row in (0, 1))
    if margin > 0:
        separation = np.linalg.norm(outputs[0] - outputs[1])
        assert theory.separation_from_margin(margin) <= separation + 1e-9


def test_margin_bound_is_attained_with_two_classes():
    outputs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert theory.separation_from_margin(2.0) == pytest.approx(
        np.linalg.norm(outputs[0] - outputs[1])
    )


def test_mass_tau_on_every_input_is_not_necessary():
    """Theorem 4.3 asks for tau; here half of it separates two classes by all of m."""
    mass, slope = 0.2, 3.0
    attention = np.array([[mass, 1 - mass]] * 2)
    values = np.array([[[1.0], [0.0]], [[-1.0], [0.0]]])
    swap = Swap(attention, values, 0)
    hidden = np.array([[1.0], [-1.0]])  # relu(z) - relu(-z) = z, so that f is linear
    output = slope / np.sqrt(2) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    outputs = np.maximum(swap.pooled @ hidden.T, 0) @ output.T
    np.testing.assert_allclose(outputs, slope / np.sqrt(2) * swap.pooled * [1.0, -1.0])
    assert outputs.argmax(axis=1).tolist() == [0, 1]
    separation = float(np.linalg.norm(outputs[0] - outputs[1]))
    threshold = theory.mass_threshold(separation, slope, 1.0)
    assert threshold == pytest.approx(2 * mass)
    assert theory.pair_condition(*swap.mass, threshold * (1 - 1e-12))
    oracle = np.array([[1.0, 0.0]] * 2)
    assert not theory.structural_condition(attention, oracle, threshold).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.mass_threshold(1.0, 0.0, 1.0), "Lipschitz constant is"),
        (lambda: theory.mass_threshold(1.0, 1.0, -1.0), "spread is"),
        (lambda: theory.pair_condition(0.1, 0.1, 0.0), "threshold is"),
        (lambda: theory.separation_from_margin(-0.1), "margin is"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
