"""Losses of a low-rank Gaussian law against PyTorch and against plain formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope.measures import likelihoods
from grokscope.papers.martingale_operators import theory

RNG = np.random.default_rng(0)
RESIDUAL = jnp.asarray(RNG.normal(size=(3, 7, 6)), jnp.float32)
FACTOR = jnp.asarray(RNG.normal(size=(3, 2, 6)), jnp.float32)
DIAGONAL = jnp.asarray(RNG.uniform(0.3, 1, size=(3, 6)), jnp.float32)


def test_joint_likelihood_against_pytorch():
    torch = pytest.importorskip("torch")
    law = torch.distributions.LowRankMultivariateNormal(
        torch.zeros(3, 1, 6),
        torch.from_numpy(np.array(FACTOR)).swapaxes(1, 2)[:, None],
        torch.from_numpy(np.array(DIAGONAL))[:, None],
    )
    score = -law.log_prob(torch.from_numpy(np.array(RESIDUAL))).mean().item() / 6
    found = likelihoods.joint_likelihood(RESIDUAL, FACTOR, DIAGONAL)
    assert float(found) == pytest.approx(score - np.log(2 * np.pi) / 2, abs=1e-5)


def test_joint_likelihood_against_dense_algebra():
    covariance = np.einsum("urn,urk->unk", FACTOR, FACTOR) + np.stack(
        [np.diag(d) for d in DIAGONAL]
    )
    terms = []
    for matrix, residual in zip(covariance, np.asarray(RESIDUAL), strict=True):
        quadratic = np.einsum("mn,nk,mk->m", residual, np.linalg.inv(matrix), residual)
        terms.append((np.linalg.slogdet(matrix)[1] + quadratic).mean())
    found = likelihoods.joint_likelihood(RESIDUAL, FACTOR, DIAGONAL)
    assert float(found) == pytest.approx(np.mean(terms) / 12, abs=1e-5)


def test_without_a_factor_both_likelihoods_agree():
    empty = jnp.zeros((3, 0, 6))
    joint, alone = (
        f(RESIDUAL, empty, DIAGONAL)
        for f in (likelihoods.joint_likelihood, likelihoods.diagonal_likelihood)
    )
    assert float(joint) == pytest.approx(float(alone), abs=1e-6)


def test_diagonal_likelihood_cannot_see_rotations():
    """T4: equal diagonal scores, different joint ones."""
    rotations = np.linalg.qr(RNG.normal(size=(6, 2, 2)))[0]
    turned = jnp.stack(
        [jnp.asarray(theory.rotate_factor(np.asarray(f), rotations), jnp.float32) for f in FACTOR]
    )
    noise, rest = RNG.normal(size=(3, 400, 2)), RNG.normal(size=(3, 400, 6))
    drawn = noise @ np.asarray(FACTOR) + 0.1 * rest
    pairs = [
        [
            float(loss(jnp.asarray(drawn, jnp.float32), factor, 0.01 + 0 * DIAGONAL))
            for factor in (FACTOR, turned)
        ]
        for loss in (likelihoods.diagonal_likelihood, likelihoods.joint_likelihood)
    ]
    assert pairs[0][0] == pytest.approx(pairs[0][1], abs=1e-5)
    assert pairs[1][0] < pairs[1][1] - 1


def test_moment_distance():
    seen = np.einsum("umn,umk->unk", RESIDUAL, RESIDUAL) / 7
    model = np.einsum("urn,urk->unk", FACTOR, FACTOR) + np.stack([np.diag(d) for d in DIAGONAL])
    expected = np.mean((model - seen) ** 2) * 6
    found = likelihoods.moment_distance(RESIDUAL, FACTOR, DIAGONAL)
    assert float(found) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("scale", [0.5, 2.0], ids=["too narrow", "too wide"])
def test_energy_score_is_proper(scale):
    """The true law scores better than one that is half or twice as wide."""
    key = jax.random.key(0)
    factor = jnp.asarray(RNG.normal(size=(200, 2, 6)), jnp.float32)
    noise = jax.random.normal(jax.random.key(1), (200, 50, 2))
    residual = jnp.einsum("umr,urn->umn", noise, factor)
    floor = jnp.full((200, 6), 1e-6)
    true = likelihoods.energy_score(residual, factor, floor, key)
    assert float(true) < float(likelihoods.energy_score(residual, scale * factor, floor, key))
