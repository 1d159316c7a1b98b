"""Every array function gives the same numbers for NumPy and for traced JAX arrays."""

from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope.papers.structural_inference import theory

GENERATOR = np.random.default_rng(0)
INPUTS, POSITIONS, WIDTH, HEADS = 6, 4, 3, 2
SCORES = GENERATOR.normal(size=(INPUTS, POSITIONS))
SCORES[0] = -1.0  # no active score
ATTENTION = theory.softmax_attention(SCORES)
HEAD_ATTENTION = np.stack([ATTENTION, ATTENTION[::-1]], axis=1)
ORACLE = np.tile([0.5, 0.5, 0.0, 0.0], (INPUTS, 1))
VALUES = GENERATOR.normal(size=(INPUTS, POSITIONS, WIDTH))
POOLED, CENTROID, BEFORE, AFTER = GENERATOR.normal(size=(4, INPUTS, WIDTH))
MASS, OTHER, LOSS, LENGTH = GENERATOR.uniform(0.05, 0.95, size=(4, INPUTS))
MATRIX, SECOND = GENERATOR.normal(size=(2, 5, WIDTH))
SMALL = np.full(INPUTS, 0.1)

# Arrays are traced; whatever else a call needs is fixed in it.
CASES = {
    "aligned_lower_bound": (theory.aligned_lower_bound, MASS, OTHER, LENGTH, LENGTH, LOSS),
    "context_spread": (theory.context_spread, VALUES),
    "delay_bound": (lambda d, m: theory.delay_bound(d, 0.1, m, 2, 3, 0.5), LOSS, MASS),
    "difference_lower_bound": (theory.difference_lower_bound, MASS, OTHER, LENGTH, LENGTH, LOSS),
    "difference_upper_bound": (theory.difference_upper_bound, MASS, OTHER, LENGTH),
    "distractor_centroid": (lambda a, v: theory.distractor_centroid(a, v, 1), ATTENTION, VALUES),
    "divergence_bound": (lambda t: theory.divergence_bound(t, 2), SMALL),
    "divergence_gradient": (theory.divergence_gradient, ATTENTION, ORACLE),
    "explaining_away_bound": (
        lambda a, v, z, loss: theory.explaining_away_bound(a, v, z, 2.0, loss),
        ATTENTION,
        VALUES,
        POOLED,
        LOSS,
    ),
    "exponential_delay": (lambda d, c: theory.exponential_delay(d, 0.1, c, 0.5), LOSS, MASS),
    "exponential_envelope": (lambda d, c: theory.exponential_envelope(d, c, 0.5, 3), LOSS, MASS),
    "hyperbolic_envelope": (
        lambda d, m: theory.hyperbolic_envelope(d, m, 2, 3, 0.5, 4.0),
        LOSS,
        MASS,
    ),
    "weakest_weight": (theory.weakest_weight, ATTENTION, ORACLE),
    "lipschitz_bound": (lambda w, u: theory.lipschitz_bound(w, u.T), MATRIX, SECOND),
    "lipschitz_bound_from_norm": (theory.lipschitz_bound_from_norm, LENGTH),
    "loose_explaining_away_bound": (
        lambda a, loss: theory.loose_explaining_away_bound(a, 2.0, loss, 3.0),
        ATTENTION,
        LOSS,
    ),
    "mass_threshold": (theory.mass_threshold, MASS, OTHER, LENGTH),
    "mismatched_lower_bound": (theory.mismatched_lower_bound, MASS, OTHER, LENGTH, LENGTH, LOSS),
    "multihead_upper_bound": (theory.multihead_upper_bound, BEFORE, AFTER, CENTROID),
    "norm_bound": (theory.norm_bound, LENGTH, SMALL, MASS, OTHER, LOSS),
    "norm_condition": (lambda n: theory.norm_condition(n, 0.2, 0.6), LENGTH),
    "norm_floor": (theory.norm_floor, MASS, OTHER),
    "output_error_bound": (theory.output_error_bound, LOSS),
    "pair_condition": (theory.pair_condition, MASS, OTHER, LENGTH),
    "parameter_norm": (theory.parameter_norm, MATRIX, MASS),
    "pinsker_error_bound": (theory.pinsker_error_bound, LOSS),
    "plateau_lower_bound": (theory.plateau_lower_bound, LENGTH, MASS, SMALL, OTHER, SMALL),
    "plateau_upper_estimate": (theory.plateau_upper_estimate, LENGTH, MASS, SMALL, OTHER, SMALL),
    "polyak_lojasiewicz_constant": (theory.polyak_lojasiewicz_constant, ATTENTION, ORACLE),
    "polyak_lojasiewicz_ratio": (theory.polyak_lojasiewicz_ratio, ATTENTION, ORACLE),
    "pooled_condition": (lambda a, o: theory.pooled_condition(a, o, 0.3), HEAD_ATTENTION, ORACLE),
    "pooled_difference": (theory.pooled_difference, MASS, OTHER, BEFORE, AFTER, CENTROID),
    "pooled_mass": (theory.pooled_mass, HEAD_ATTENTION),
    "relu_attention": (theory.relu_attention, SCORES),
    "relu_divergence_gradient": (theory.relu_divergence_gradient, SCORES, ORACLE),
    "relu_explaining_away_bound": (
        lambda s, v, z, loss: theory.relu_explaining_away_bound(s, v, z, 2.0, loss),
        SCORES,
        VALUES,
        POOLED,
        LOSS,
    ),
    "relu_score_gradient": (theory.relu_score_gradient, SCORES, VALUES, POOLED, BEFORE),
    "rescaling_factor": (theory.rescaling_factor, MASS, OTHER),
    "score_gradient": (theory.score_gradient, ATTENTION, VALUES, POOLED, BEFORE),
    "score_variance": (theory.score_variance, SCORES),
    "score_variance_bound": (theory.score_variance_bound, LENGTH, MASS, OTHER, LOSS),
    "separation_from_margin": (theory.separation_from_margin, LENGTH),
    "sgd_update_bound": (lambda g: theory.sgd_update_bound(g, 0.9), LENGTH),
    "sharp_explaining_away_bound": (
        lambda a, v, z, loss: theory.sharp_explaining_away_bound(a, v, z, 2.0, loss),
        ATTENTION,
        VALUES,
        POOLED,
        LOSS,
    ),
    "softmax_attention": (theory.softmax_attention, SCORES),
    "spectral_norm": (theory.spectral_norm, MATRIX),
    "squared_difference": (theory.squared_difference, MASS, OTHER, BEFORE, AFTER),
    "squared_gap": (theory.squared_gap, ATTENTION, ORACLE),
    "squared_gap_bound": (lambda d, m: theory.squared_gap_bound(d, m, 2, 3), LOSS, MASS),
    "squared_norm_bound": (theory.squared_norm_bound, LENGTH, SMALL, MASS, OTHER, LOSS),
    "structural_condition": (
        lambda a, o: theory.structural_condition(a, o, 0.2),
        ATTENTION,
        ORACLE,
    ),
    "structural_divergence": (theory.structural_divergence, ATTENTION, ORACLE),
    "structural_summary": (lambda a, o: theory.structural_summary(a, o, 0.2), ATTENTION, ORACLE),
    "sufficient_divergence": (lambda t: theory.sufficient_divergence(t, 2), SMALL),
    "uniform_start_delay": (lambda d: theory.uniform_start_delay(d, 2, 3, 0.5), LOSS),
    "uniformity_bound": (lambda v: theory.uniformity_bound(v, 3), LENGTH),
    "value_spread": (theory.value_spread, BEFORE, AFTER, CENTROID),
    "variance_contraction": (theory.variance_contraction, SMALL, MASS, OTHER),
}
# These take shapes and constants, never arrays.
NUMBERS_ONLY = {
    "adam_ratio_bound",
    "adamw_update_bound",
    "lion_update_bound",
    "muon_update_bound",
}


def test_every_function_is_covered():
    functions = {name for statement in theory.STATEMENTS for name in statement.functions}
    assert functions | {"softmax_attention", "relu_attention"} == set(CASES) | NUMBERS_ONLY


@pytest.mark.parametrize("name", CASES)
def test_numpy_and_jax_agree(name):
    function, *arrays = CASES[name]
    expected = function(*arrays)
    with jax.enable_x64(True):
        traced = [jnp.asarray(array) for array in arrays]
        result = jax.jit(function)(*traced)
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for left, right in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(left), right, rtol=1e-9)


if find_spec("torch"):  # not a dependency of the core: tested where it is there

    @pytest.mark.parametrize("name", CASES)
    def test_numpy_and_torch_agree(name):
        import torch

        function, *arrays = CASES[name]
        expected = jax.tree.leaves(function(*arrays))
        result = jax.tree.leaves(function(*(torch.tensor(np.array(a)) for a in arrays)))
        for left, right in zip(result, expected, strict=True):
            assert isinstance(left, torch.Tensor)
            np.testing.assert_allclose(np.asarray(left), right, rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_single_precision_stays_single(name):
    function, *arrays = CASES[name]
    for result in jax.tree.leaves(function(*(array.astype(np.float32) for array in arrays))):
        assert result.dtype in (np.float32, np.bool_)


def test_numpy_constants_join_traced_arrays():
    result = jax.jit(lambda attention: theory.structural_divergence(attention, ORACLE))(
        jnp.asarray(ATTENTION, dtype=jnp.float32)
    )
    np.testing.assert_allclose(
        result, theory.structural_divergence(ATTENTION, ORACLE), rtol=1e-5, atol=1e-6
    )


def test_functions_map_and_differentiate():
    divergence = lambda scores, oracle: theory.structural_divergence(  # noqa: E731
        theory.softmax_attention(scores), oracle
    )
    with jax.enable_x64(True):
        gradient = jax.jit(jax.vmap(jax.grad(divergence)))(jnp.asarray(SCORES), jnp.asarray(ORACLE))
        gradient = np.asarray(gradient)
    np.testing.assert_allclose(gradient, theory.divergence_gradient(ATTENTION, ORACLE), atol=1e-12)
