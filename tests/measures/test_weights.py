"""Norms against NumPy, frequencies against planted ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope.measures import weights as measures
from grokscope.models import minimal

SHAPE = minimal.Shape(12, 5, 11, 8, 16, 2, "softmax")


@pytest.fixture
def params():
    return minimal.init(jax.random.key(0), SHAPE)


def test_norms(params):
    flat = np.concatenate([np.ravel(array) for array in params.values()])
    assert measures.frobenius_norm(params) == pytest.approx(np.linalg.norm(flat), rel=1e-5)
    parts = [params[n].ravel() for n in ("hidden", "hidden_bias", "readout", "readout_bias")]
    assert measures.mlp_norm(params) == pytest.approx(
        np.linalg.norm(np.concatenate(parts)), rel=1e-5
    )
    expected = np.linalg.norm(params["hidden"], 2) * np.linalg.norm(params["readout"], 2)
    assert measures.lipschitz_bound(params) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("size", [(5, 5), (64, 256), (256, 113), (1, 9)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 8.0])
def test_spectral_norm_errs_upwards_and_little(size, spread):
    """Equal singular values (the worst case), random ones, and one that dominates."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in size)
    singular = np.exp(-spread * np.arange(min(size)) / min(size)) * 7
    matrix = (left[:, : len(singular)] * singular) @ right[: len(singular)]
    found = measures.spectral_norm(jnp.asarray(matrix, jnp.float32))
    assert 1 - 2e-6 <= found / 7 <= 1 + 4e-5


def test_spectral_norm_of_nothing_is_nothing():
    assert measures.spectral_norm(jnp.zeros((4, 6))) < 1e-15


def test_lipschitz_bound_holds(params):
    z = np.random.default_rng(0).normal(size=(2, 200, 8)).astype(np.float32)
    outputs = [minimal.classify(params, jnp.asarray(side)) for side in z]
    ratio = np.linalg.norm(outputs[0] - outputs[1], axis=1) / np.linalg.norm(z[0] - z[1], axis=1)
    assert ratio.max() <= measures.lipschitz_bound(params)


def test_interaction_norm(params):
    total = 0.0
    for h in range(2):
        part = slice(4 * h, 4 * h + 4)
        product = np.asarray(params["query"])[:, part] @ np.asarray(params["key"])[:, part].T
        total += np.sum(product**2)
    assert measures.interaction_norm(params, 2) == pytest.approx(np.sqrt(total), rel=1e-5)


def test_planted_frequencies_are_found():
    p = 31
    angle = 2 * np.pi * np.arange(p)[:, None] * np.array([[3, 7, 12]]) / p
    embedding = np.concatenate([np.cos(angle), np.sin(angle)], axis=1) @ np.random.default_rng(
        0
    ).normal(size=(6, 20))
    found, share = measures.key_frequencies(jnp.asarray(embedding + 5.0), jnp.arange(p))
    assert {3, 7, 12} <= set(np.asarray(found, int).tolist())
    assert share > 0.999
    # In another order of the tokens the same embedding has no few frequencies.
    shuffled = jnp.asarray(np.random.default_rng(1).permutation(p))
    assert measures.key_frequencies(jnp.asarray(embedding), shuffled)[1] < 0.7


def test_no_cycle_gives_nan(params):
    found, share = measures.key_frequencies(params["embedding"], jnp.array([], jnp.int32))
    assert jnp.isnan(share)
    assert jnp.isnan(found).all()
