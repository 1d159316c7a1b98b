import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import rel_entr

from grokscope.papers.structural_inference import theory

from .strategies import score_values, seeds

HEAD = 3


def make_scores(embeddings, query, key):
    """Textbook query-key scores of the last position."""
    return (embeddings @ key.T) @ (query @ embeddings[-1]) / np.sqrt(HEAD)


@given(seed=seeds, positions=st.integers(1, 6), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_variance_is_bounded_by_the_interaction(seed, positions, scale):
    generator = np.random.default_rng(seed)
    embeddings = generator.normal(size=(positions, 4))
    query, key = scale * generator.normal(size=(2, HEAD, 4))
    variance = theory.score_variance(make_scores(embeddings, query, key))
    interaction = query.T @ key
    length = np.linalg.norm(embeddings, axis=-1)
    spread = theory.context_spread(embeddings)
    for norm in (theory.parameter_norm(interaction), theory.spectral_norm(interaction)):
        bound = theory.score_variance_bound(norm, length[-1], spread, HEAD)
        assert variance <= bound * (1 + 1e-9) + 1e-12
    assert spread <= length.max() ** 2 + 1e-9
    assert theory.score_variance_bound(2.0, length.max(), length.max() ** 2, HEAD) == pytest.approx(
        4 * length.max() ** 4 / HEAD
    )


def test_variance_bound_is_attained():
    """Opposite embeddings along the one direction that a rank-one interaction sees."""
    embeddings = np.array([[-2.0, 0.0], [2.0, 0.0]])
    query = key = np.zeros((HEAD, 2))
    query = query.copy()
    key = key.copy()
    query[0, 0], key[0, 0] = 1.5, 2.0
    variance = theory.score_variance(make_scores(embeddings, query, key))
    assert theory.context_spread(embeddings) == 4
    assert variance == pytest.approx(theory.score_variance_bound(3.0, 2.0, 4.0, HEAD))


@given(scores=hnp.arrays(np.float64, st.integers(1, 6), elements=score_values))
def test_variance_does_not_see_a_shift(scores):
    variance = theory.score_variance(scores)
    assert variance == pytest.approx(np.var(scores), abs=1e-12)
    assert theory.score_variance(scores + 7) == pytest.approx(variance, abs=1e-9)


@pytest.mark.parametrize("factors", [2, 4])
def test_decay_contracts_the_variance(factors):
    """Step by step on the matrices, with and without decay of the embeddings."""
    generator = np.random.default_rng(0)
    embeddings = generator.normal(size=(5, 4))
    query, key = generator.normal(size=(2, HEAD, 4))
    start = theory.score_variance(make_scores(embeddings, query, key))
    rate, decay = 0.05, 0.8
    for _ in range(6):
        query, key = (1 - rate * decay) * query, (1 - rate * decay) * key
        if factors == 4:
            embeddings = (1 - rate * decay) * embeddings
    end = theory.score_variance(make_scores(embeddings, query, key))
    factor = theory.variance_contraction(rate, decay, 6, decayed_factors=factors)
    assert end / start == pytest.approx(factor)


@given(scores=hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-3, 3)))
def test_small_variance_means_uniform_attention(scores):
    positions = len(scores)
    uniform = np.full(positions, 1 / positions)
    divergence = rel_entr(uniform, theory.softmax_attention(scores)).sum()
    bound = theory.uniformity_bound(theory.score_variance(scores), positions)
    assert divergence <= bound + 1e-12


def test_uniformity_bound_is_nearly_attained_by_two_positions():
    scores = np.array([-0.01, 0.01])
    divergence = rel_entr(0.5, theory.softmax_attention(scores)).sum()
    assert divergence == pytest.approx(
        theory.uniformity_bound(theory.score_variance(scores), 2), rel=1e-3
    )


def test_uniform_attention_is_not_the_oracle():
    oracle = np.array([0.5, 0.5, 0.0, 0.0, 0.0])
    for shrink in (1.0, 1e-3, 1e-6):
        attention = theory.softmax_attention(shrink * np.array([1.0, 2.0, 3.0, 0.0, 1.0]))
    assert theory.structural_divergence(attention, oracle) == pytest.approx(np.log(2.5), abs=1e-5)


@given(
    scores=hnp.arrays(np.float64, st.integers(1, 6), elements=score_values),
    shrink=st.floats(1e-3, 1),
)
def test_decay_never_moves_relu_attention(scores, shrink):
    np.testing.assert_allclose(
        theory.relu_attention(shrink * scores), theory.relu_attention(scores), atol=1e-12
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.score_variance_bound(1.0, 1.0, 1.0, 0), "head dimension is"),
        (lambda: theory.variance_contraction(2.0, 1.0), "strictly between 0 and 1"),
        (lambda: theory.variance_contraction(0.1, 1.0, -1), "number of steps is"),
        (lambda: theory.uniformity_bound(-1.0, 3), "variance is"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
