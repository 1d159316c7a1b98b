import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grokscope.papers.structural_inference import theory

from .strategies import masses, networks, rows, seeds, vectors


@given(row=rows(), threshold=st.floats(0.01, 1))
def test_structural_condition_is_its_definition(row, threshold):
    informative = [mass for mass, truth in zip(*row[:2], strict=True) if truth > 0]
    assert theory.weakest_weight(row.attention, row.oracle) == min(informative)
    holds = all(mass >= threshold for mass in informative)
    assert bool(theory.structural_condition(row.attention, row.oracle, threshold)) is holds


def test_mass_equal_to_the_threshold_satisfies_the_condition():
    attention, oracle = np.array([0.25, 0.75]), np.array([1.0, 0.0])
    assert theory.structural_condition(attention, oracle, 0.25)
    assert theory.pooled_condition(attention[None], oracle, 0.25)
    assert theory.pair_condition(0.25, 0.5, 0.75)


def test_nothing_can_be_missed_without_informative_positions():
    assert theory.weakest_weight(np.array([0.2, 0.8]), np.zeros(2)) == 1
    assert theory.pooled_condition(np.array([[0.2, 0.8]]), np.zeros(2), 1.5)


@given(smallest=st.lists(masses, min_size=1, max_size=12), threshold=st.floats(0.01, 1))
def test_summary_describes_the_inputs(smallest, threshold):
    attention = np.array([[mass, 1 - mass] for mass in smallest])
    oracle = np.broadcast_to(np.array([1.0, 0.0]), attention.shape)
    levels = (0.0, 0.05, 0.5, 1.0)
    summary = theory.structural_summary(attention, oracle, threshold, levels)
    np.testing.assert_allclose(summary.quantiles, np.quantile(smallest, levels), atol=1e-12)
    assert summary.share == pytest.approx(np.mean(np.array(smallest) >= threshold))
    assert summary.minimum == min(smallest)
    assert summary.mean == pytest.approx(np.mean(smallest))
    assert (summary.share == 1) == (summary.minimum >= threshold)


def test_mean_hides_the_failing_input():
    mass = np.array([0.5] * 99 + [0.01])
    attention = np.stack([mass, 1 - mass], axis=-1)
    summary = theory.structural_summary(attention, np.full((100, 2), 0.5), 0.4)
    assert summary.mean > 0.49
    assert summary.minimum == 0.01
    assert summary.share == pytest.approx(0.99)


@given(network=networks(), start=vectors(2), end=vectors(2))
def test_network_is_lipschitz(network, start, end):
    slope = theory.lipschitz_bound(network.hidden_weight, network.output_weight)
    assert (
        np.linalg.norm(network(start) - network(end))
        <= slope * np.linalg.norm(start - end) * (1 + 1e-9) + 1e-9
    )
    norm = theory.parameter_norm(*network)
    assert slope <= theory.lipschitz_bound_from_norm(norm) * (1 + 1e-9)


def test_lipschitz_bounds_are_attained():
    """One active hidden unit and two matrices of equal norm."""
    hidden, output = np.array([[3.0, 4.0]]), np.array([[5.0]])
    slope = theory.lipschitz_bound(hidden, output)
    direction = np.array([0.6, 0.8])
    assert (output @ np.maximum(hidden @ direction, 0)).item() == pytest.approx(slope)
    assert theory.lipschitz_bound_from_norm(theory.parameter_norm(hidden, output)) == pytest.approx(
        slope
    )


@given(seed=seeds, shape=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_norms_agree_with_numpy(seed, shape):
    matrix = np.random.default_rng(seed).normal(size=shape)
    bias = matrix[0]
    assert theory.spectral_norm(matrix) == pytest.approx(np.linalg.norm(matrix, 2))
    stacked = np.concatenate([matrix.ravel(), bias])
    assert theory.parameter_norm(matrix, bias) == pytest.approx(np.linalg.norm(stacked))


def test_norm_condition_includes_its_ends():
    holds = theory.norm_condition(np.array([0.9, 1.0, 1.5, 2.0, 2.1]), 1.0, 2.0)
    assert holds.tolist() == [False, True, True, True, False]


@given(row=rows(), threshold=st.floats(0.01, 1))
def test_one_head_pools_to_itself(row, threshold):
    single = theory.pooled_condition(row.attention[None], row.oracle, threshold)
    assert bool(single) is bool(theory.structural_condition(row.attention, row.oracle, threshold))


def test_heads_may_share_the_work():
    """Neither head covers both positions, together they do."""
    attention = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    oracle = np.array([0.5, 0.5, 0.0])
    assert not theory.structural_condition(attention, np.stack([oracle] * 2), 0.5).any()
    assert theory.pooled_condition(attention, oracle, 1.0)
    assert not theory.pooled_condition(attention, oracle, 1.01)
    assert theory.pooled_mass(attention).tolist() == [1.0, 1.0, 0.0]


@given(
    seed=seeds,
    before=st.lists(masses, min_size=1, max_size=3),
    after=st.lists(masses, min_size=3, max_size=3),
)
def test_multihead_difference_is_bounded_by_pooled_mass(seed, before, after):
    heads = len(before)
    before, after = np.array(before), np.array(after[:heads])
    generator = np.random.default_rng(seed)
    old, new, centroid = generator.normal(size=(3, heads, 2))
    projections = generator.normal(size=(heads, 2, 2))
    per_head = theory.pooled_difference(before, after, old, new, centroid)
    moved = np.linalg.norm(np.einsum("hij,hj->i", projections, per_head))
    project = lambda vectors: np.einsum("hij,hj->hi", projections, vectors)  # noqa: E731
    spread = theory.value_spread(project(old), project(new), project(centroid))
    assert moved <= theory.multihead_upper_bound(before, after, spread) + 1e-9


def test_pooled_mass_does_not_suffice_when_heads_cancel():
    """Two heads look at nothing but the informative token, and the representation ignores it."""
    attention = np.array([[1.0, 0.0], [1.0, 0.0]])
    projection = np.stack([np.eye(2), -np.eye(2)])
    for token in ([1.0, 2.0], [-3.0, 5.0]):
        values = np.array([token, [0.5, 0.5]])
        pooled = np.einsum("hij,ht,tj->i", projection, attention, values)
        assert pooled.tolist() == [0.0, 0.0]
    assert theory.pooled_condition(attention, np.array([1.0, 0.0]), 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.structural_condition(np.ones(1), np.ones(1), 0.0), "threshold is"),
        (lambda: theory.structural_summary(np.ones(1), np.ones(1), 0.1, (1.5,)), "quantile is"),
        (lambda: theory.norm_condition(1.0, 2.0, 1.0), "lies above"),
        (lambda: theory.pooled_condition(np.ones((1, 1)), np.ones(1), -1.0), "threshold is"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
