"""Solvers of stochastic fields against closed forms, and their orders of convergence."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import grokscope as gs
from grokscope.spec.equations import EquationSpec, FieldSpec
from grokscope.tasks import fields


def draw(equation, count=4, noises=2000, seed=0):
    first, second = jax.random.split(jax.random.key(seed))
    coefficients = fields.draw_conditions(equation, first, count)
    return coefficients, np.asarray(fields.simulate(equation, second, coefficients, noises))


def moments(ends):  # (U, M, N)
    around = ends - ends.mean(axis=1, keepdims=True)
    pooled = np.einsum("umn,umk->nk", around, around) / (len(ends) * (ends.shape[1] - 1))
    return ends.mean(axis=1), pooled


@pytest.mark.parametrize(
    "equation",
    [
        EquationSpec(points=16),
        EquationSpec(points=16, steps=7),
        EquationSpec(points=8, dimensions=2, colour=0.0),
        EquationSpec(kind="log_variance", points=16),
        EquationSpec(kind="log_variance", points=16, hurst=0.5),
    ],
    ids=["heat", "heat in steps", "heat in 2-D", "log V", "log V, H = 1/2"],
)
def test_closed_forms(equation):
    coefficients, ends = draw(equation)
    mean, covariance = fields.known_law(equation, coefficients)
    seen, spread = moments(ends.reshape(*ends.shape[:2], -1).astype(float))
    unit = np.sqrt(np.diag(covariance))
    # Errors of a mean of 2,000, and of a covariance of 8,000: five standard deviations.
    assert np.abs((seen - mean) / unit).max() < 5 / 2000**0.5
    assert np.abs((spread - covariance) / np.outer(unit, unit)).max() < 5 * (2 / 8000) ** 0.5


def test_a_brownian_curve():
    """H = 1/2 makes Y a Brownian motion."""
    times = np.linspace(0.1, 1, 10)
    found = fields.volterra_covariance(times, 0.5)
    np.testing.assert_allclose(found, np.minimum.outer(times, times), rtol=1e-9)


def test_volterra_covariance_by_quadrature():
    from scipy.integrate import quad

    s, t, hurst = 0.3, 0.8, 0.1
    value, _ = quad(lambda x: (t - x) ** (hurst - 0.5), 0, s, weight="alg", wvar=(0, hurst - 0.5))
    found = fields.volterra_covariance(np.array([s, t]), hurst)
    assert found[0, 1] == pytest.approx(2 * hurst * value, rel=1e-6)


def test_the_price_is_a_martingale():
    _, ends = draw(EquationSpec(kind="log_price", points=16), noises=20_000)
    price = np.exp(ends.astype(float)).mean(axis=1)
    assert np.abs(price - 1).max() < 0.02
    assert np.isfinite(ends).all()


def test_phi4_is_as_specified():
    """Deviation of the linearised equation: 0.030 to 0.032 at each point, by summing its modes."""
    _, ends = draw(EquationSpec(kind="phi4", points=128), count=2, noises=1000)
    deviation = ends.std(axis=1)
    assert 0.028 < deviation.mean() < 0.034
    start = fields.evaluate_conditions(EquationSpec(kind="phi4", points=128), np.zeros((1, 21)))
    x = np.arange(128) / 128
    np.testing.assert_allclose(start[0], x * (1 - x), atol=1e-6)


def solve(equation, steps, finest):  # increments of the finest path, summed
    """The terminal field for one Brownian path, seen at `steps` steps of time T."""
    chosen, _ = fields.settled(equation)
    size = chosen.time / steps
    advance = jax.jit(fields.stepper(equation, size))
    increments = finest.reshape(steps, -1, *finest.shape[1:]).sum(axis=1)
    field = fields.evaluate_conditions(equation, jnp.ones((finest.shape[1], 21)) * 0.3)
    for increment in increments:
        field = advance(field, increment)
    return np.asarray(field, float)


@pytest.mark.parametrize(
    ("equation", "order"),
    [
        (EquationSpec(kind="burgers", points=16), 1.0),
        (EquationSpec(kind="burgers", points=16, multiplicative=0.5), 0.5),
        (EquationSpec(kind="well", points=16, time=0.2, noise=0.1), 1.0),
    ],
    ids=["additive", "multiplicative", "implicit"],
)
def test_strong_order_in_time(equation, order):
    """The error halves with the step for additive noise, and falls by sqrt(2) or more for
    multiplicative noise, on the same Brownian paths."""
    chosen, _ = fields.settled(equation)
    steps = 2048
    keys = jax.random.split(jax.random.key(0), steps)
    shape, size = (64, 16), chosen.time / steps
    finest = jax.vmap(lambda k: fields.draw_increment(equation, k, shape, size))(keys)
    best = solve(equation, steps, finest)
    errors = [np.sqrt(np.mean((solve(equation, n, finest) - best) ** 2)) for n in (64, 256)]
    observed = np.log(errors[0] / errors[1]) / np.log(4)
    assert order - 0.15 < observed < order + 0.45


def test_weak_order_of_implicit_euler():
    """The variance of a mode after n steps is known, sigma^2 h sum (1 + a h)^-2j: its error against
    the exact one halves with the step, and the solver has it."""
    time, rate = 0.05, (2 * np.pi) ** 2
    exact = (1 - np.exp(-2 * rate * time)) / (2 * rate)

    def discrete(steps):
        size = time / steps
        return size * np.sum((1 + rate * size) ** (-2.0 * np.arange(1, steps + 1)))

    errors = [abs(discrete(n) - exact) for n in (400, 800)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)
    _, ends = draw(EquationSpec(kind="phi4", points=16, noise=0.01), count=1, noises=8000)
    mode = np.fft.rfft(ends[0], axis=-1, norm="forward")[:, 1]
    growth = np.exp(2 * 3 * time)  # the drift 3u adds at most this factor around u = 0
    assert discrete(50) * 0.9 < mode.var() / 0.01**2 < discrete(50) * growth


def test_spatial_refinement():
    """Without noise a smooth solution of Burgers is resolved: 32 and 64 points agree."""
    coarse, fine = (EquationSpec(kind="burgers", points=n, noise=0.0) for n in (32, 64))
    coefficients = 0.3 * jnp.ones((1, 21))
    ends = [fields.simulate(e, jax.random.key(0), coefficients, 1)[0, 0] for e in (coarse, fine)]
    assert np.abs(ends[0] - ends[1][::2]).max() < 1e-3


@pytest.mark.parametrize(("kind", "order"), [("burgers", 1.5), ("well", 2.2)])
def test_strong_order_in_space(kind, order):
    """On one noise, cut to the frequencies of a grid, the error falls like n^-3/2: what is left out
    of a mode is gamma_k ~ k^-4, and the sum of that beyond n / 2 is n^-3. Implicit steps damp high
    frequencies further, towards k^-6 and n^-5/2."""
    fine, steps, paths = 128, 64, 16
    equation = EquationSpec(kind=kind, points=fine, time=0.2, noise=0.2)
    keys = jax.random.split(jax.random.key(1), steps)
    finest = jax.vmap(lambda k: fields.draw_increment(equation, k, (paths, fine), 0.2 / steps))(
        keys
    )
    best = solve(equation, steps, finest)
    errors = []
    for points in (16, 32):
        cut = finest[..., : points // 2 + 1].at[..., -1].set(0)
        found = solve(replace(equation, points=points), steps, cut)
        errors.append(np.sqrt(np.mean((found - best[:, :: fine // points]) ** 2)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["additive", "multiplicative"])
def test_the_mean_level_of_burgers(share):
    """Transport conserves the level, so it is a martingale; with additive noise its variance is
    sigma^2 q_0 T."""
    equation = EquationSpec(kind="burgers", points=16, multiplicative=share)
    coefficients, ends = draw(equation, count=2, noises=4000)
    start = np.asarray(fields.evaluate_conditions(equation, coefficients)).mean(axis=-1)
    level = ends.astype(float).mean(axis=-1)
    error = level.std(axis=1) / 4000**0.5
    assert np.all(np.abs(level.mean(axis=1) - start) < 4 * error)
    if not share:
        chosen, _ = fields.settled(equation)
        np.testing.assert_allclose(level.var(axis=1), chosen.noise**2 * chosen.time, rtol=0.1)


def test_the_expected_log_price():
    """E log S_T = -1/2 int xi_0, since E V_t = xi_0(t)."""
    equation = EquationSpec(kind="log_price", points=16)
    coefficients, ends = draw(equation, count=2, noises=20_000)
    fine = np.asarray(fields.evaluate_conditions(replace(equation, points=1024), coefficients))
    last = ends[..., -1].astype(float)
    error = last.std(axis=1) / 20_000**0.5
    expected = -np.exp(fine).mean(axis=-1) / 2
    assert np.all(np.abs(last.mean(axis=1) - expected) < 4 * error)
    assert np.all(error < 0.15 * -expected)  # so that a missing or doubled drift is seen


def test_the_roughest_price_on_a_finer_grid():
    """H = 0.05: the factor has the covariance of Y, and four times as many steps leave the law of
    the last price as it is."""
    times = np.arange(1, 65) / 64
    root = fields._volterra_root(64, 0.05, 1.0, False).astype(float)
    np.testing.assert_allclose(
        root @ root.T, fields.volterra_covariance(times, 0.05), rtol=0, atol=1e-5
    )
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    quantiles, spreads = [], []
    for points in (8, 32):
        equation = EquationSpec(kind="log_price", points=points, hurst=0.05)
        ends = fields.simulate(equation, jax.random.key(points), jnp.zeros((1, 5)), 20_000)
        last = np.asarray(ends)[0, :, -1]
        quantiles.append(np.quantile(last, shares))
        spreads.append(last.std())
    np.testing.assert_allclose(quantiles[0], quantiles[1], rtol=0, atol=0.08 * spreads[1])


def test_variance_of_the_implicit_steps_in_the_well():
    """Around 0 the drift is 3u, and a mode goes by u <- ((1 + 3h) u + sigma dW) / (1 + a h): its
    variance after n steps is a geometric sum."""
    equation = EquationSpec(kind="well", points=16, time=0.2, noise=1e-3)
    ends = fields.simulate(equation, jax.random.key(0), np.zeros((4, 21)), 4000)
    modes = np.fft.rfft(np.asarray(ends, float).reshape(-1, 16), axis=-1, norm="forward")
    chosen, _ = fields.settled(equation)
    size = chosen.time / chosen.steps
    for k in (0, 1, 3):
        held = 1 / (1 + chosen.diffusion * (2 * np.pi * k) ** 2 * size)
        growth = ((1 + 3 * size) * held) ** 2
        total = (growth**chosen.steps - 1) / (growth - 1)
        expected = chosen.noise**2 * size * held**2 * total / (1 + k**2)
        assert np.mean(np.abs(modes[:, k]) ** 2) == pytest.approx(expected, rel=0.06)


def test_a_white_sheet_grows_with_the_grid():
    """In two dimensions the variance of white noise has no limit; coloured noise has one."""

    def variance(points, colour):
        equation = EquationSpec(points=points, dimensions=2, colour=colour)
        return fields.known_law(equation, np.zeros((1, 49)))[1][0, 0]

    assert variance(32, 0.0) > 1.15 * variance(16, 0.0)
    assert variance(32, 1.5) < 1.02 * variance(16, 1.5)


def test_a_long_time_has_two_wells():
    equation = EquationSpec(kind="well", points=16, time=3.0)
    coefficients = np.zeros((1, 21))
    ends = np.asarray(fields.simulate(equation, jax.random.key(0), coefficients, 500))[0]
    levels = ends.mean(axis=-1)
    assert 0.3 < (levels > 0).mean() < 0.7
    assert (np.abs(levels) > 1).mean() > 0.8


def test_the_same_seed_gives_the_same_fields():
    one, other = (draw(EquationSpec(points=16), noises=5)[1] for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_sentences():
    with pytest.raises(gs.SpecError, match="must be even"):
        FieldSpec().replace(**{"equation.points": 15})
    with pytest.raises(gs.SpecError, match=r"a grid of 8 points has 5 frequencies"):
        FieldSpec().replace(**{"equation.points": 8})
    with pytest.raises(gs.SpecError, match="curve over maturities"):
        FieldSpec().replace(**{"equation.kind": "log_price", "equation.dimensions": 2})
    with pytest.raises(gs.SpecError, match="needs a factor"):
        FieldSpec().replace(**{"operator.rank": 0, "objective.kind": "joint"})
