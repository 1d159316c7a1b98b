"""T1 to T4 as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grokscope.measures import laws
from grokscope.papers.martingale_operators import theory
from grokscope.spec.equations import EquationSpec
from grokscope.tasks import fields

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_squared_error_and_the_point_mass(seed):
    """T1 on a finite law: W2^2 to a point mass is the mean squared error, least at the mean."""
    rng = np.random.default_rng(seed)
    law = rng.normal(size=(9, 3))
    guess = rng.normal(size=3)
    mean, covariance = law.mean(axis=0), np.cov(law.T, bias=True)
    found = theory.point_mass_distance(guess, mean, covariance)
    assert found**2 == pytest.approx(np.mean(np.sum((law - guess) ** 2, axis=1)))
    best = theory.point_mass_distance(mean, mean, covariance)
    assert best**2 == pytest.approx(np.trace(covariance))
    assert best <= found + 1e-12


@given(seeds, st.integers(0, 6))
def test_best_rank(seed, rank):
    """T2: the truncated factor is at the stated distances, and no random one of its rank is
    closer."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T
    values, vectors = np.linalg.eigh(covariance)
    kept = vectors[:, 6 - rank :] * np.sqrt(values[6 - rank :])
    best = kept @ kept.T
    zero = np.zeros(6)
    assert laws.bures(zero, covariance, zero, best) == pytest.approx(
        theory.rank_gap(values, rank), abs=1e-5
    )
    limit = theory.rank_gap(values, rank, "frobenius")
    assert np.linalg.norm(covariance - best) == pytest.approx(limit, abs=1e-8)
    other = rng.normal(size=(6, rank))
    assert np.linalg.norm(covariance - other @ other.T) >= limit - 1e-9
    assert (
        laws.bures(zero, covariance, zero, other @ other.T) >= theory.rank_gap(values, rank) - 1e-5
    )


def test_heat_eigenvalues_are_its_variances_by_mode():
    """T2: the covariance on the grid has the eigenvalues n gamma_k, twice for 0 < k < n / 2."""
    equation = EquationSpec(points=16)
    _, gamma = fields.heat_variances(equation)
    _, covariance = fields.known_law(equation, np.zeros((1, 21)))
    expected = 16 * np.concatenate([gamma[:1], np.repeat(gamma[1:-1], 2), gamma[-1:]])
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance), np.sort(expected), atol=1e-9)


@given(seeds)
def test_rotations_change_no_variance(seed):
    """T4: every variance stays, and correlations do not."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(3, 5))
    rotations = np.linalg.qr(rng.normal(size=(5, 3, 3)))[0]
    turned = theory.rotate_factor(factor, rotations)
    before, after = factor.T @ factor, turned.T @ turned
    np.testing.assert_allclose(np.diag(before), np.diag(after))
    assert np.abs(before - after).max() > 1e-3


def test_twins():
    """T4 as a counterexample: the same score at every point, opposite joint laws."""
    together, alone = theory.twin_factors(np.array([1.0, 2.0, 0.5]))
    first, second = together.T @ together, alone.T @ alone
    np.testing.assert_allclose(np.diag(first), np.diag(second))
    noise = np.random.default_rng(0).normal(size=(4000, 3))
    one, other = noise @ together, noise @ alone
    np.testing.assert_allclose(laws.wasserstein(one, other, 2), 0, atol=0.15)
    assert laws.correlation_error(second, first) == 1
    assert laws.bures(np.zeros(3), first, np.zeros(3), second) > 0.5
    truth = np.random.default_rng(1).normal(size=(500, 3)) @ together
    assert laws.energy_score(one[:500], truth) < laws.energy_score(other[:500], truth)


@given(seeds, st.integers(2, 3), st.integers(1, 4))
def test_doob(seed, branches, steps):
    """Any terminal value: the residual has mean zero, and its variance is the expected bracket."""
    terminal = np.random.default_rng(seed).normal(size=branches**steps) ** 3
    martingale = theory.doob_martingale(terminal, branches)
    np.testing.assert_allclose(martingale[0], terminal.mean())
    np.testing.assert_allclose(martingale[-1], terminal)
    assert theory.expected_bracket(martingale) == pytest.approx(terminal.var())
    for step in range(steps):  # N_s is the mean of N_{s+1} over the next branch
        now = martingale[step].reshape(branches**step, -1)[:, 0]
        then = martingale[step + 1].reshape(branches**step, branches, -1)[:, :, 0]
        np.testing.assert_allclose(then.mean(axis=1), now, atol=1e-12)


@given(seeds)
def test_the_distance_of_gaussians_is_one(seed):
    """T3: zero to itself, symmetric, no detour is shorter, and no rotation changes it."""
    rng = np.random.default_rng(seed)
    roots, means = rng.normal(size=(3, 4, 3)), rng.normal(size=(3, 4))  # singular ones, too
    given_laws = [(mean, root @ root.T) for mean, root in zip(means, roots, strict=True)]

    def apart(i, j):
        return laws.bures(*given_laws[i], *given_laws[j])

    assert apart(0, 0) == pytest.approx(0, abs=1e-6)
    assert apart(0, 1) == pytest.approx(apart(1, 0), abs=1e-6)
    assert apart(0, 2) <= apart(0, 1) + apart(1, 2) + 1e-6
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    turned = [(turn @ mean, turn @ covariance @ turn.T) for mean, covariance in given_laws]
    assert laws.bures(*turned[0], *turned[1]) == pytest.approx(apart(0, 1), abs=1e-6)


def test_doob_with_a_drift():
    """du = -u^3 dt + dW on a tree: the variance is Doob's bracket, not T, which is that of the
    martingale in the equation. The residual has the drift's randomness as well."""
    steps, size = 12, 0.1
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * steps, indexing="ij")).reshape(steps, -1)
    field = np.full(2**steps, 0.5)
    for sign in signs:
        field = field - size * field**3 + size**0.5 * sign
    martingale = theory.doob_martingale(field, 2)
    assert theory.expected_bracket(martingale) == pytest.approx(field.var())
    noise = size**0.5 * signs.sum(axis=0)
    assert noise.var() == pytest.approx(steps * size)
    assert field.var() < 0.8 * noise.var()
    drift = field - 0.5 - noise
    residual = martingale[-1] - martingale[0]
    np.testing.assert_allclose(residual, noise + drift - drift.mean(), atol=1e-12)


def test_the_bracket_of_the_linear_equation():
    """int_0^T sigma^2 q exp(-2 a (T - s)) ds = gamma_k: the residual is the martingale part."""
    from scipy.integrate import quad

    equation = EquationSpec(points=16)
    chosen, _ = fields.settled(equation)
    rate, gamma = fields.heat_variances(equation)
    decay = rate[2] / chosen.time
    value, _ = quad(lambda s: np.exp(-2 * decay * (chosen.time - s)), 0, chosen.time)
    assert gamma[2] == pytest.approx(chosen.noise**2 / 5 * value)


def test_the_sampling_floor_bounds_every_ratio():
    """A perfect sample of M beats a point mass by about M^1/2 over its floor, no more."""
    rng = np.random.default_rng(0)
    size = 1000
    sample, truth = rng.normal(size=(size, 50)), rng.normal(size=(20_000, 50))
    dirac = laws.wasserstein(np.zeros((1, 50)), truth, 2).mean()
    perfect = laws.wasserstein(sample, truth, 2).mean()
    floor = perfect * size**0.5
    assert dirac / perfect == pytest.approx(theory.largest_visible_ratio(size, floor), rel=0.02)
    assert dirac / perfect < 30
