"""Penalties that point nowhere: their gradients on the attention logits, by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope.papers.structural_inference import any_gradient
from grokscope.priors import divergence_penalty

LOGITS = jax.random.normal(jax.random.key(1), (40, 1, 5))
ORACLE = jnp.broadcast_to(jnp.array([0.5, 0.0, 0.5, 0.0, 0.0]), LOGITS.shape)


def gradient(penalty, logits=LOGITS):  # (n, T)
    return jax.grad(lambda z: penalty(jax.nn.softmax(z), ORACLE).sum())(logits)[:, 0]


def test_noise_is_as_long_as_the_oracles_gradient_and_has_no_direction():
    noise, oracle = gradient(any_gradient.noise_penalty), gradient(divergence_penalty)
    np.testing.assert_allclose(
        np.linalg.norm(noise, axis=1), np.linalg.norm(oracle, axis=1), rtol=1e-3
    )
    cosine = np.sum(noise * oracle, axis=1) / np.linalg.norm(oracle, axis=1) ** 2
    assert abs(cosine.mean()) < 3 / np.sqrt(len(cosine))
    # A small step draws it anew.
    moved = gradient(any_gradient.noise_penalty, LOGITS + 1e-3)
    other = gradient(any_gradient.noise_penalty, LOGITS.at[..., 0].add(0.01))
    assert abs(np.sum(noise * other) / np.sum(noise**2)) < 0.5
    np.testing.assert_allclose(moved.sum(axis=1), 0, atol=1e-5)


def test_shuffled_positions_are_as_many_and_stay():
    pull = gradient(any_gradient.shuffled_penalty)
    alpha = np.asarray(jax.nn.softmax(LOGITS))[:, 0]
    target = alpha - np.asarray(pull)  # the gradient is alpha - target (eq. 45)
    np.testing.assert_allclose(np.sort(target, axis=1), [[0, 0, 0, 0.5, 0.5]] * 40, atol=1e-5)
    again = alpha - np.asarray(gradient(any_gradient.shuffled_penalty))
    np.testing.assert_array_equal(target, again)
    right = (target[:, [0, 2]] > 0.25).all(axis=1).mean()
    assert right == pytest.approx(0.1, abs=0.15)  # one pair of ten is the oracle's
