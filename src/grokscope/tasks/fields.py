"""Laws of stochastic fields at a later time T, given the initial condition.

Four equations on the unit torus, solved mode by mode (k is the frequency, a_k = nu |2 pi k|^2):

    heat      u_t = nu u_xx + noise                     Gaussian, known in closed form
    phi4      u_t = u_xx + 3u - u^3 + noise             SPDEBench's phi^4_1, short time
    well      the same with smaller diffusion and long time: two wells, +-sqrt(3)
    burgers   u_t + u u_x = nu u_xx + noise

and the rough Bergomi model (Bayer, Friz, Gatheral 2016) as curves over maturities t:

    log V_t = log xi_0(t) + eta Y_t - eta^2 t^(2H) / 2,  Y_t = sqrt(2H) int (t - s)^(H - 1/2) dW_s
    d log S_t = sqrt(V_t) dB_t - V_t dt / 2,             d<W, B> = rho dt

Noise is sigma ((1 - m) + m u) Q^(1/2) dW with q_k = (1 + |k|^2)^-colour. A step of size h is

    u_k <- E_k u_k + F_k h N_k(u) + S_k dW_k

with E = F = S = 1 / (1 + a h) for implicit Euler (as SPDEBench has it), or the exponential scheme
E = exp(-a h), F = (1 - E) / (a h), S = ((1 - E^2) / (2 a h))^(1/2), exact for the heat equation.
Orders in h, checked by tests: weak 1 (implicit, linear part), strong 1 for additive and 1/2 for
multiplicative noise.

U initial conditions, M noises, n points per dimension, K coefficients of an initial condition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.errors import SpecError
from grokscope.spec.equations import ROUGH, EquationSpec

ETA, RHO = 1.9, -0.7  # of rough Bergomi
REFINED = 4  # times per maturity at which the variance is known when the price is integrated
HIGHEST = 10  # frequency of an initial condition


class Equation(NamedTuple):
    """What a kind of equation is when its spec does not say otherwise."""

    drift: Callable[[Any, Grid], Any]  # field (..., n) -> coefficients of the drift
    diffusion: float
    noise: float
    time: float
    colour: float
    steps: int
    implicit: bool
    amplitude: float  # of the random part of the initial condition
    parabola: bool = False  # x (1 - x) plus the random part less its left value


class Grid(NamedTuple):
    """Frequencies of the half spectrum on the unit torus, and axes of the transform."""

    frequencies: tuple[Any, ...]  # one array per dimension, shaped to be added
    points: int

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.frequencies), 0))

    @property
    def squared(self) -> Any:  # (n, ..., n // 2 + 1)
        return sum(k**2 for k in self.frequencies)

    def forward(self, field: Any) -> Any:
        """Coefficients, normalised so that they do not depend on the grid."""
        return jnp.fft.rfftn(field, axes=self.axes, norm="forward")

    def back(self, coefficients: Any) -> Any:
        shape = (self.points,) * len(self.frequencies)
        return jnp.fft.irfftn(coefficients, s=shape, axes=self.axes, norm="forward")


def make_grid(points: int, dimensions: int) -> Grid:
    whole, half = np.fft.fftfreq(points, 1 / points), np.arange(points // 2 + 1.0)
    if dimensions == 1:
        return Grid((half,), points)
    return Grid((whole[:, None], half[None, :]), points)


def _rest(field: Any, grid: Grid) -> Any:
    return jnp.zeros_like(grid.forward(field))


def _wells(field: Any, grid: Grid) -> Any:
    return grid.forward(3 * field - field**3)


def _transport(field: Any, grid: Grid) -> Any:
    """-(u^2 / 2)_x, without the upper third of the frequencies, where products are aliased."""
    slope = -1j * jnp.pi * grid.frequencies[-1] * grid.forward(field**2)
    return jnp.where(abs(grid.frequencies[-1]) <= grid.points / 3, slope, 0)


EQUATIONS: dict[str, Equation] = {
    "heat": Equation(_rest, 0.02, 0.5, 0.5, 1.0, 1, False, 1.0),
    "phi4": Equation(_wells, 1.0, 0.1, 0.05, 0.0, 50, True, 0.1, parabola=True),
    "well": Equation(_wells, 0.1, 0.3, 1.0, 1.0, 200, True, 0.3),
    "burgers": Equation(_transport, 0.03, 0.3, 0.5, 1.0, 160, False, 0.5),
}


def settled(equation: EquationSpec) -> tuple[Equation, Grid]:
    """The equation with the spec's choices in place of its own."""
    own = EQUATIONS[equation.kind]
    chosen = own._replace(
        noise=own.noise if equation.noise < 0 else equation.noise,
        time=equation.time or own.time,
        colour=own.colour if equation.colour < 0 else equation.colour,
        steps=equation.steps or own.steps,
        amplitude=own.amplitude if equation.amplitude < 0 else equation.amplitude,
    )
    return chosen, make_grid(equation.points, equation.dimensions)


def maturities(equation: EquationSpec, count: int) -> np.ndarray:  # (count,)
    """Of rough volatility, evenly up to T, which is 1 if the spec does not say."""
    return (equation.time or 1.0) * np.arange(1, count + 1) / count


# Initial conditions


def draw_conditions(equation: EquationSpec, key: jax.Array, count: int) -> jax.Array:
    """Coefficients of random initial conditions; they know nothing of the grid.  (U, K)"""
    return jax.random.normal(key, (count, len(_functions(equation, 2))))


def evaluate_conditions(equation: EquationSpec, coefficients: Any) -> jax.Array:
    """Initial conditions on the grid (for rough volatility log xi_0).  (U, K) -> (U, n, ...)"""
    values = jnp.tensordot(coefficients, _functions(equation, equation.points), axes=1)
    if equation.kind in ROUGH:
        return np.log(0.04) + 0.5 * values
    own = settled(equation)[0]
    if not own.parabola or equation.dimensions == 2:
        return own.amplitude * values
    x = jnp.arange(equation.points) / equation.points
    return x * (1 - x) + own.amplitude * (values - values[:, :1])


@cache
def _functions(equation: EquationSpec, points: int) -> np.ndarray:  # (K, n, ...)
    """Functions of an initial condition with their weights 1 / (1 + k^2)."""
    if equation.kind in ROUGH:
        t = np.arange(1, points + 1) / points
        return np.stack([np.cos(np.pi * k * t) / (1 + k**2) for k in range(5)])
    x = np.arange(points) / points
    if equation.dimensions == 1:
        waves = [(k, 2 * np.pi * k * x) for k in range(HIGHEST + 1)]
    else:
        grid = np.meshgrid(x, x, indexing="ij")
        kept = [(i, j) for i in range(-3, 4) for j in range(4) if j > 0 or i >= 0]
        waves = [(np.hypot(i, j), 2 * np.pi * (i * grid[0] + j * grid[1])) for i, j in kept]
    pairs = [f(angle) / (1 + k**2) for k, angle in waves for f in (np.cos, np.sin)]
    return np.stack([pairs[0], *pairs[2:]])  # the sine of frequency 0 is nothing


# Terminal fields


def simulate(equation: EquationSpec, key: jax.Array, coefficients: Any, noises: int) -> jax.Array:
    """Independent terminal fields of every initial condition.  (U, K) -> (U, M, n, ...)"""
    if equation.kind in ROUGH:
        return _simulate_rough(equation, key, coefficients, noises)
    return _simulate_torus(equation, key, coefficients, noises)


@partial(jax.jit, static_argnames=("equation", "noises"))
def _simulate_torus(equation: EquationSpec, key: Any, coefficients: Any, noises: int) -> jax.Array:
    chosen = settled(equation)[0]
    start = jnp.repeat(evaluate_conditions(equation, coefficients)[:, None], noises, axis=1)
    size = chosen.time / chosen.steps
    advance = stepper(equation, size)

    def step(field: Any, key: Any) -> tuple[Any, None]:
        return advance(field, draw_increment(equation, key, field.shape, size)), None

    return jax.lax.scan(step, start, jax.random.split(key, chosen.steps))[0]


def draw_increment(equation: EquationSpec, key: Any, shape: tuple[int, ...], size: float) -> Any:
    """Coefficients of Q^(1/2) dW over a step of this size: E |dW_k|^2 = q_k h."""
    chosen, grid = settled(equation)
    cells = grid.points ** len(grid.axes)
    white = jax.random.normal(key, shape) * jnp.sqrt(cells * size)
    return grid.forward(white) * jnp.sqrt(noise_weights(equation, chosen, grid))


def noise_weights(equation: EquationSpec, chosen: Equation, grid: Grid) -> Any:
    """q_k on the half spectrum."""
    weights = (1 + grid.squared) ** -chosen.colour
    if equation.kind == "phi4" and equation.dimensions == 1:
        # 129 sines and cosines on 128 points: the last sine vanishes there, the last cosine counts
        # twice as much as a mode of white noise on the grid.
        weights[-1] *= 2
    return weights


def stepper(equation: EquationSpec, size: float) -> Callable[[Any, Any], Any]:
    """One step of the solver: (field, coefficients of the increment) -> field."""
    chosen, grid = settled(equation)
    decay = chosen.diffusion * (2 * np.pi) ** 2 * grid.squared * size  # a h
    if chosen.implicit:
        keep = push = spread = 1 / (1 + decay)
    else:
        keep, push, spread = np.exp(-decay), _faded(decay), np.sqrt(_faded(2 * decay))
    share = equation.multiplicative

    def advance(field: Any, increment: Any) -> Any:
        if share:
            increment = grid.forward(((1 - share) + share * field) * grid.back(increment))
        moved = keep * grid.forward(field) + push * size * chosen.drift(field, grid)
        return grid.back(moved + spread * chosen.noise * increment)

    return advance


def _faded(decay: np.ndarray) -> np.ndarray:
    """(1 - exp(-a)) / a, which is 1 at 0: the mean of exp(-a s) for s from 0 to 1."""
    safe = np.where(decay > 0, decay, 1.0)
    return np.where(decay > 0, -np.expm1(-safe) / safe, 1.0)


def _simulate_rough(equation: EquationSpec, key: Any, coefficients: Any, noises: int) -> jax.Array:
    kept, time = REFINED if equation.kind == "log_price" else 1, equation.time or 1.0
    times = equation.points * kept
    root = jnp.asarray(_volterra_root(times, equation.hurst, time, kept > 1))
    curves = evaluate_conditions(EquationSpec(equation.kind, points=times), coefficients)
    variance = ETA**2 * maturities(equation, times) ** (2 * equation.hurst)
    return _draw_rough(key, root, curves, jnp.asarray(variance), noises, kept, time)


@partial(jax.jit, static_argnames=("noises", "kept"))
def _draw_rough(
    key: Any, root: Any, curves: Any, variance: Any, noises: int, kept: int, time: Any
) -> jax.Array:
    """Log-variance (kept = 1) or log-price at every kept-th time."""
    count, times = curves.shape
    first, second = jax.random.split(key)
    drawn = jax.random.normal(first, (count, noises, len(root))) @ root.T
    log_variance = curves[:, None] + ETA * drawn[..., :times] - variance / 2
    if kept == 1:
        return log_variance
    # The price moves with the variance at the beginning of a step: S stays a martingale.
    start = jnp.broadcast_to(curves[:, None, :1], (count, noises, 1))
    before = jnp.exp(jnp.concatenate([start, log_variance[..., :-1]], -1))
    size = time / times
    other = jax.random.normal(second, before.shape) * jnp.sqrt(size)
    moves = RHO * drawn[..., times:] + jnp.sqrt(1 - RHO**2) * other
    path = jnp.cumsum(jnp.sqrt(before) * moves - before * size / 2, axis=-1)
    return path[..., kept - 1 :: kept]


def volterra_covariance(times: np.ndarray, hurst: float) -> np.ndarray:  # (n,) -> (n, n)
    """E Y_s Y_t = 2H s^(H + 1/2) t^(H - 1/2) F(1/2 - H, 1; H + 3/2; s/t) / (H + 1/2), s <= t."""
    from scipy.special import hyp2f1

    s, t = np.minimum.outer(times, times), np.maximum.outer(times, times)
    power = s ** (hurst + 0.5) * t ** (hurst - 0.5) * 2 * hurst / (hurst + 0.5)
    found = power * hyp2f1(0.5 - hurst, 1.0, hurst + 1.5, s / t)
    np.fill_diagonal(found, times ** (2 * hurst))  # the series converges slowly at 1
    return found


@cache
def _volterra_root(count: int, hurst: float, time: float, price: bool) -> np.ndarray:
    """Cholesky factor of Y at all times, for a price followed by the increments of W."""
    times = time * np.arange(1, count + 1) / count
    covariance = volterra_covariance(times, hurst)
    if price:
        power = hurst + 0.5
        ends, starts = np.minimum.outer(times, times), np.minimum.outer(times, times - times[0])
        left = (times[:, None] - starts) ** power - (times[:, None] - ends) ** power
        across = np.sqrt(2 * hurst) / power * left  # E Y_t (W_end - W_start)
        covariance = np.block([[covariance, across], [across.T, times[0] * np.eye(count)]])
    jitter = 1e-9 * np.eye(len(covariance))
    return np.linalg.cholesky(covariance + jitter).astype(np.float32)


# Closed forms


def known_law(equation: EquationSpec, coefficients: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and covariance where they are known; None elsewhere.  (U, N), (N, N), N = n^dimensions

    Heat: mean exp(-a_k T) u_k, variance gamma_k = sigma^2 q_k (1 - exp(-2 a_k T)) / (2 a_k), and
    sigma^2 q_0 T for k = 0. Log-variance: see the head of the file."""
    start = np.asarray(evaluate_conditions(equation, coefficients), float)
    if equation.kind == "log_variance":
        times = maturities(equation, equation.points)
        lowered = start - ETA**2 * times ** (2 * equation.hurst) / 2
        return lowered, ETA**2 * volterra_covariance(times, equation.hurst)
    if equation.kind != "heat" or equation.multiplicative:
        return None
    rate, gamma = heat_variances(equation)
    shape, axes = start.shape[1:], tuple(range(1, start.ndim))
    faded = np.fft.rfftn(start, axes=axes) * np.exp(-rate)
    mean = np.fft.irfftn(faded, s=shape, axes=axes).reshape(len(start), -1)
    row = np.fft.irfftn(gamma * mean.shape[1], s=shape, axes=range(len(shape)))  # with the origin
    index = np.indices(shape).reshape(len(shape), -1)  # (dimensions, N)
    apart = (index[:, :, None] - index[:, None, :]) % equation.points
    return mean, row[tuple(apart)]


def heat_variances(equation: EquationSpec) -> tuple[np.ndarray, np.ndarray]:
    """a_k T and gamma_k on the half spectrum."""
    if equation.kind != "heat":
        raise SpecError(f"Only the heat equation has variances by mode, not {equation.kind}.")
    chosen, grid = settled(equation)
    rate = chosen.diffusion * (2 * np.pi) ** 2 * grid.squared * chosen.time
    weights = noise_weights(equation, chosen, grid)
    return rate, chosen.noise**2 * weights * chosen.time * _faded(2 * rate)
