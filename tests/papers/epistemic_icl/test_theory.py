"""T1 to T5: closed forms against an ODE solver, high-precision quadrature and random data."""

from __future__ import annotations

import math
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from grokscope.papers.epistemic_icl.theory import success
from grokscope.papers.epistemic_icl.theory.flow import Flow
from grokscope.papers.epistemic_icl.theory.spectrum import (
    Regime,
    delay,
    late_amplitude,
    late_delay,
    log_transient,
    log_transient_on_grid,
    time_at,
)


def make_flow(seed: int, n: int = 12, d: int = 4, wide: float = 1.0) -> Flow:
    rng = np.random.default_rng(seed)
    inputs, truth = rng.standard_normal((n, d)), rng.standard_normal(d)
    root = rng.standard_normal((d, d))
    return Flow(
        inputs,
        inputs @ truth + 0.3 * rng.standard_normal(n),
        truth,
        noise=0.7,
        prior=1.5,
        mean=rng.standard_normal(d),
        covariance=wide * (root @ root.T + 0.1 * np.eye(d)),
    )


@given(st.integers(0, 10_000), st.floats(0.01, 0.5))
@settings(max_examples=15, deadline=None)
def test_the_closed_form_solves_the_flow(seed, time):
    flow = make_flow(seed)
    d = len(flow.truth)

    def move(_, state):
        mean, covariance = state[:d], state[d:].reshape(d, d)
        spread = 2 * np.eye(d) - flow.precision @ covariance - covariance @ flow.precision
        return np.concatenate([flow.pull - flow.precision @ mean, spread.ravel()])

    start = np.concatenate([flow.mean, flow.covariance.ravel()])
    end = solve_ivp(move, (0, time), start, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(flow.mean_at(time), end[:d], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(flow.covariance_at(time).ravel(), end[d:], rtol=1e-7, atol=1e-9)


def risks(flow: Flow, time: float) -> tuple[float, float]:
    """Empirical risk and generalisation risk (without the noise of new labels), by definition."""
    mean, covariance = flow.mean_at(time), flow.covariance_at(time)
    residual, error = flow.targets - flow.inputs @ mean, mean - flow.truth
    spread = np.trace(flow.inputs.T @ flow.inputs @ covariance)
    empirical = (residual @ residual + spread) / (2 * len(flow.targets))
    return empirical, (error @ error + np.trace(covariance)) / 2


@given(st.integers(0, 10_000), st.floats(0.001, 1.0))
@settings(max_examples=30, deadline=None)
def test_the_excess_needs_its_cross_terms(seed, time):
    flow = make_flow(seed)
    exact = np.subtract(risks(flow, time), risks(flow, 1e4))
    np.testing.assert_allclose(flow.excess(time), exact, rtol=1e-8, atol=1e-10)
    nu, weights = flow.spectral_weights()
    np.testing.assert_allclose(
        np.sort(nu), np.linalg.eigvalsh(flow.inputs.T @ flow.inputs / len(flow.targets)), rtol=1e-8
    )
    fall = weights * np.exp(-2 * (len(flow.targets) / flow.noise * nu + 1 / flow.prior) * time) / 2
    without = flow.excess(time, cross_terms=False)
    np.testing.assert_allclose(without, [(nu * fall).sum(), fall.sum()], rtol=1e-8)


def test_what_is_dropped_dominates_in_the_end():
    """The dropped terms fall like e^{-at}, what is kept like e^{-2at}: with noise in the labels the
    true late rate of the test risk is half of the paper's."""
    flow = make_flow(3)
    slowest = np.linalg.eigvalsh(flow.precision).min()
    times = np.array([6.0, 7.0]) / slowest
    exact = np.log(np.abs([flow.excess(time)[1] for time in times]))
    kept = np.log([flow.excess(time, cross_terms=False)[1] for time in times])
    assert exact[0] - exact[1] == pytest.approx(1, abs=0.05)
    assert kept[0] - kept[1] == pytest.approx(2, abs=0.05)


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.001, 100.0]),
    st.lists(st.floats(0, 2), min_size=2, max_size=6, unique=True),
)
@settings(max_examples=30, deadline=None)
def test_regression_uncertainty_is_monotone(seed, wide, times):
    """Sigma_0 far below Sigma_inf rises, far above falls: no peak, no collapse."""
    flow = make_flow(seed, wide=wide)
    gaps = np.linalg.eigvalsh(flow.covariance - flow.final_covariance)
    if gaps.min() * gaps.max() < 0:
        return  # neither above nor below
    at = np.random.default_rng(seed).standard_normal(len(flow.truth))
    values = [flow.regression_uncertainty(time, at, 0.5) for time in sorted(times)]
    steps = np.diff(values) * (1 if gaps.max() <= 0 else -1)
    assert (steps >= -1e-12).all()


def mp_average(regime: Regime, time: float, side: str) -> mpmath.mpf:
    """The density as it stands in the books, by adaptive quadrature with 40 digits."""
    with mpmath.workdps(40):
        ratio, strength = mpmath.mpf(regime.ratio), mpmath.mpf(regime.strength)
        low, high = (1 - mpmath.sqrt(ratio)) ** 2, (1 + mpmath.sqrt(ratio)) ** 2

        def integrand(root):  # nu = nu- + root^2 removes the edge's square root only
            nu = low + root**2
            density = mpmath.sqrt(abs(high - nu) * root**2) / (2 * mpmath.pi * ratio * nu)
            power = nu if side == "train" else 1
            fall = -2 * (strength * nu + regime.damping) * time
            return 2 * root * density * power * mpmath.exp(fall)

        end = mpmath.sqrt(high - low)
        scale = 1 / mpmath.sqrt(2 * strength * time + 1)
        marks = sorted(
            {
                mpmath.mpf(0),
                end,
                *(
                    m
                    for m in (
                        mpmath.sqrt(low) / 4,
                        mpmath.sqrt(low),
                        4 * mpmath.sqrt(low),
                        scale,
                        4 * scale,
                        12 * scale,
                    )
                    if m < end
                ),
            }
        )
        return mpmath.quad(integrand, marks)


@pytest.mark.parametrize("side", ["train", "test"])
@pytest.mark.parametrize("ratio", [0.05, 0.6, 0.99])
@pytest.mark.parametrize("scaled", [0.0, 0.01, 1.0, 30.0])
def test_averages_to_eight_digits(side, ratio, scaled):
    regime = Regime(ratio, 200.0, 1.0)
    time = scaled / regime.slowest
    exact = mp_average(regime, time, side)
    assert abs(log_transient(regime, time, side) - float(mpmath.log(exact))) < 1e-8


def test_moments():
    """E[1] = 1 and E[nu] = 1 for every lambda."""
    for ratio in (0.01, 0.5, 0.9999):
        regime = Regime(ratio, 1.0, 0.0)
        assert log_transient(regime, 0.0, "test") == pytest.approx(0, abs=1e-12)
        assert log_transient(regime, 0.0, "train") == pytest.approx(0, abs=1e-12)


def test_the_limit_is_reached_by_random_matrices():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((1000, 400))
    nu = np.linalg.eigvalsh(inputs.T @ inputs / 1000)
    regime = Regime(0.4, 3.0, 0.2)
    for time in (0.1, 1.0):
        falls = np.exp(-2 * (3.0 * nu + 0.2) * time)
        assert math.log(falls.mean()) == pytest.approx(
            log_transient(regime, time, "test"), abs=0.02
        )
        assert math.log((nu * falls).mean()) == pytest.approx(
            log_transient(regime, time, "train"), abs=0.02
        )


@given(st.floats(0.05, 0.95))
@settings(max_examples=20, deadline=None)
def test_late_law(ratio):
    """Rate kappa, power -3/2 and both amplitudes; their ratio is (1 - sqrt(lambda))^-2."""
    regime = Regime(ratio, 10.0, 0.5)
    time = 4000 / (20 * min(regime.edge, math.sqrt(ratio)))
    for side in ("train", "test"):
        law = math.log(late_amplitude(regime, side)) - 1.5 * math.log(time) - regime.slowest * time
        assert log_transient(regime, time, side) == pytest.approx(law, abs=5e-3)
    ratio_of = late_amplitude(regime, "test") / late_amplitude(regime, "train")
    assert ratio_of == pytest.approx((1 - math.sqrt(ratio)) ** -2)


@pytest.mark.parametrize("side", ["train", "test"])
def test_times_are_right_however_small(side):
    """At figure 6's constants and lambda .03 the risk falls to a level at about 1e-7: the exact
    average is that level at the time that is found."""
    regime, level = Regime(0.03, 5.12e7, 1.0), success.PEAK / 1e4
    time = time_at(regime, level, side)
    assert time < 1e-6
    assert float(mpmath.log(mp_average(regime, time, side))) == pytest.approx(
        math.log(level), abs=1e-9
    )


def test_late_delay_holds_late_and_only_then():
    regime = Regime(0.6, 1e4, 1.0)
    late = delay(regime, 1e-200)
    assert late == pytest.approx(late_delay(regime), rel=0.02)
    assert delay(regime, 1e-4) < 0.8 * late_delay(regime)
    # The delay hardly depends on the level once it is late: accuracy and EU share it (T4).
    assert delay(regime, success.PEAK * 1e-200) == pytest.approx(
        delay(regime, success.THRESHOLD * 1e-200), rel=1e-3
    )


def test_a_uniform_grid_misses_the_edge():
    regime = Regime(0.99, 5.12e7, 1.0)
    exact = delay(regime, 1e-4)
    on_grid = partial(log_transient_on_grid, nodes=4000)
    grid = delay(regime, 1e-4, on_grid)
    assert grid < 0.2 * exact
    fine = delay(Regime(0.5, 5.12e7, 1.0), 1e-4, on_grid)
    assert fine == pytest.approx(delay(Regime(0.5, 5.12e7, 1.0), 1e-4), rel=0.01)


def test_thresholds():
    assert pytest.approx(1.09905, abs=1e-5) == success.PEAK
    assert success.closure(success.PEAK, 1.0) == pytest.approx(0.5)
    assert success.closure(success.THRESHOLD * 3.0, 3.0) == pytest.approx(math.erf(2**0.5))
    risks = np.geomspace(1e-3, 1e3, 2001)
    uncertainty = success.success_uncertainty(success.closure(risks, 1.0))
    assert risks[uncertainty.argmax()] == pytest.approx(success.PEAK, rel=0.01)
    assert uncertainty.max() == pytest.approx(math.log(2), abs=1e-4)


@given(st.floats(-3, 3), st.floats(0.01, 4), st.floats(0.01, 4))
@settings(max_examples=20, deadline=None)
def test_success_probability(offset, variance, eps):
    """Against draws of the weights' projection."""
    draws = offset + np.sqrt(variance) * np.random.default_rng(0).standard_normal(40_000)
    p = success.success_probability(np.array(offset), np.array(variance), eps)
    assert float(p) == pytest.approx((draws**2 <= eps).mean(), abs=0.015)


@given(st.floats(0.01, 0.99), st.floats(1, 1e6), st.floats(10, 1e6))
@settings(max_examples=25, deadline=None)
def test_the_peak_comes_first(ratio, strength, start):
    regime = Regime(ratio, strength, 1.0)
    peak = time_at(regime, success.PEAK / start, "test")
    assert peak < time_at(regime, success.THRESHOLD / start, "test")
