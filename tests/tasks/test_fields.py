"""Solvers of stochastic fields against closed forms, and their orders of convergence."""

from __future__ import annotations

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
        EquationSpec(kind="log_price", dimensions=2).check()
    with pytest.raises(gs.SpecError, match="needs a factor"):
        FieldSpec().replace(**{"operator.rank": 0, "objective.kind": "joint"})
