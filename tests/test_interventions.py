"""Interventions on the weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope import interventions
from grokscope.measures.weights import mlp_norm
from grokscope.models import minimal
from grokscope.spec import MaskSpec

SHAPE = minimal.Shape(12, 5, 11, 8, 16, 1, "softmax")


@pytest.fixture
def params():
    return minimal.init(jax.random.key(0), SHAPE)


def test_norm_matching_moves_only_the_mlp(params):
    matched = interventions.match_norm(params, jnp.float32(3.5))
    assert mlp_norm(matched) == pytest.approx(3.5, rel=1e-5)
    assert (matched["query"] == params["query"]).all()
    ratio = matched["hidden"] / params["hidden"]
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-5)  # a projection keeps the direction
    off = interventions.match_norm(params, jnp.float32(0))
    assert all((off[name] == params[name]).all() for name in params)


def test_query_key_penalty(params):
    expected = 0.5 * (np.sum(params["query"] ** 2) + np.sum(params["key"] ** 2))
    np.testing.assert_allclose(interventions.query_key_penalty(params, 0.5), expected, rtol=1e-5)


@pytest.fixture
def weights(params):
    return {name: np.asarray(array) for name, array in params.items()}


def test_magnitude_mask_keeps_the_largest(weights):
    mask = interventions.make_mask(MaskSpec("magnitude", "x", keep=0.25), weights, 0)
    kept = np.concatenate([np.abs(weights[n])[mask[n] == 1].ravel() for n in ("hidden", "readout")])
    dropped = np.concatenate(
        [np.abs(weights[n])[mask[n] == 0].ravel() for n in ("hidden", "readout")]
    )
    assert kept.min() >= dropped.max()
    assert len(kept) / (len(kept) + len(dropped)) == pytest.approx(0.25, abs=0.01)
    assert mask["query"].all()  # scope is the MLP
    assert mask["hidden_bias"].all()  # biases are never masked
    every = interventions.make_mask(MaskSpec("magnitude", "x", 0.25, "all"), weights, 0)
    assert not every["query"].all()


def test_shuffled_mask_is_another_mask_of_the_same_density(weights):
    """A peer's shuffle silently does nothing."""
    straight = interventions.make_mask(MaskSpec("magnitude", "x", 0.25), weights, 0)
    shuffled = interventions.make_mask(MaskSpec("shuffled", "x", 0.25), weights, 0)
    for name in ("hidden", "readout"):
        assert straight[name].sum() == shuffled[name].sum()
        assert (straight[name] != shuffled[name]).mean() > 0.2


def test_random_mask_is_seeded(weights):
    one, same, other = (
        interventions.make_mask(MaskSpec("random", keep=0.3), weights, seed) for seed in (0, 0, 1)
    )
    assert (one["hidden"] == same["hidden"]).all()
    assert (one["hidden"] != other["hidden"]).any()
    total = one["hidden"].size + one["readout"].size
    assert (one["hidden"].sum() + one["readout"].sum()) / total == pytest.approx(0.3, abs=0.01)


def test_no_mask_is_all_ones(weights):
    mask = interventions.make_mask(MaskSpec(), weights, 0)
    assert all(array.all() for array in mask.values())
