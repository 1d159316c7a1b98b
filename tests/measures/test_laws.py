"""Distances and scores against POT and scoringrules, and against closed forms."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import scoringrules

from grokscope.measures import laws

RNG = np.random.default_rng(0)
ONE, OTHER = RNG.normal(size=(30, 4)), RNG.normal(0.5, 2.0, size=(45, 4))


def covariance(seed, size=5, rank=5):
    root = np.random.default_rng(seed).normal(size=(size, rank))
    return root @ root.T


@pytest.mark.parametrize("rank", [5, 2], ids=["full rank", "singular"])
def test_bures(rank):
    first, second = covariance(1, rank=rank), covariance(2)
    means = np.arange(5.0), np.ones(5)
    if rank == 5:  # POT takes a root of the first matrix's inverse
        expected = ot.gaussian.bures_wasserstein_distance(*means, first, second)
    else:
        root = laws._root(second)
        cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ first @ root), 0)).sum()
        squared = np.trace(first + second) - 2 * cross + np.sum((means[0] - means[1]) ** 2)
        expected = squared**0.5
    assert laws.bures(means[0], first, means[1], second) == pytest.approx(expected, rel=1e-6)


def test_bures_of_commuting_laws():
    """Diagonal covariances: the distance of the deviations."""
    one, other = np.array([1.0, 4.0, 0.0]), np.array([9.0, 1.0, 2.0])
    found = laws.bures(np.zeros(3), np.diag(one), np.zeros(3), np.diag(other))
    assert found == pytest.approx(np.linalg.norm(np.sqrt(one) - np.sqrt(other)))


def test_marginal_distances():
    first, second = laws.wasserstein(ONE, OTHER, 1, 2)
    for column in range(4):
        args = ONE[:, column], OTHER[:, column]
        assert first[column] == pytest.approx(ot.wasserstein_1d(*args, p=1))
        assert second[column] ** 2 == pytest.approx(ot.wasserstein_1d(*args, p=2))


def test_a_point_mass():
    """Its W2 is the root mean square distance of the sample."""
    point = np.full((1, 4), 0.3)
    expected = np.sqrt(np.mean((OTHER - 0.3) ** 2, axis=0))
    np.testing.assert_allclose(laws.wasserstein(point, OTHER, 2)[0], expected)


def test_sliced():
    directions = laws.draw_directions(4, 20)
    expected = ot.sliced_wasserstein_distance(ONE, OTHER, projections=directions)
    assert laws.sliced_wasserstein(ONE, OTHER, directions) == pytest.approx(expected)


def test_scores():
    energy = np.mean([scoringrules.es_ensemble(y, ONE) for y in OTHER])
    assert laws.energy_score(ONE, OTHER) == pytest.approx(energy, rel=1e-5)
    crps = scoringrules.crps_ensemble(OTHER, ONE.T[None].repeat(45, 0), estimator="nrg")
    np.testing.assert_allclose(laws.crps(ONE, OTHER), crps.mean(axis=0), rtol=1e-6)
    variogram = np.mean([scoringrules.vs_ensemble(y, ONE, p=0.5) for y in OTHER])
    assert laws.variogram_score(ONE, OTHER) == pytest.approx(variogram / 16, rel=1e-5)


def test_coverage_and_kurtosis():
    sample = RNG.normal(size=(40_000, 2))
    assert laws.coverage(sample[:20_000], sample[20_000:], 0.9) == pytest.approx(0.9, abs=0.01)
    assert laws.coverage(np.zeros((1, 2)), sample, 0.9) == 0
    np.testing.assert_allclose(laws.excess_kurtosis(sample), 0, atol=0.15)
    np.testing.assert_allclose(laws.excess_kurtosis(np.sign(sample)), -2, atol=0.01)


def test_covariance_errors():
    true = covariance(3)
    assert laws.covariance_error(true, true) == 0
    assert laws.covariance_error(0 * true, true) == 1
    alone = np.diag(np.diag(true))
    assert laws.correlation_error(alone, true) == pytest.approx(1)
    assert laws.correlation_error(4 * true, true) == pytest.approx(0, abs=1e-12)
