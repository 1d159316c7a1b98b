"""Laws to compare, the operator's and the baselines' B0 to B7, under one contract: `Law`. And the
truth they are held against.

The mean of an operator is that of an operator trained on squared errors alone, so B0 to B2 need no
training of their own: they are what the same mean gives with another law around it.

u initial conditions, N grid points, s samples of a law, k samples of the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.problems.fields import (
    Fields,
    Numbers,
    set_up,
    standardise,
)  # fmt: skip
from grokscope.spec.equations import ROUGH, EquationSpec, FieldSpec
from grokscope.store import Run
from grokscope.tasks import fields

CONDITIONS = 8  # unseen initial conditions that laws are compared on, the same for every run
SAMPLES, REFERENCE = 2_000, 10_000  # of a law, of the truth
STEPS = 16  # of a flow
PASSES = 200  # of dropout
COARSER = 4  # grid and steps of the coarse solver
TRUTH = 2**21  # seed of the reference


class Law(NamedTuple):
    """The law of the field for each initial condition, in the equation's units."""

    mean: np.ndarray  # (u, N)
    covariance: np.ndarray  # (u, N, N)
    samples: np.ndarray  # (u, s, N)


class Truth(NamedTuple):
    coefficients: Any  # (u, K) of the initial conditions
    given: np.ndarray  # (u, N)
    reference: np.ndarray  # (u, k, N)
    fresh: np.ndarray  # (u, s, N): more of the same, for the sampling floor
    mean: np.ndarray  # (u, N)
    covariance: np.ndarray  # (u, N, N)
    unit: float  # root mean variance: all distances are told in it


def find_truth(equation: EquationSpec) -> Truth:
    """Moments in closed form where there is one, else of the reference."""
    return _truth(replace(equation, conditions=2, noises=1))


@lru_cache(maxsize=6)
def _truth(equation: EquationSpec) -> Truth:
    first, second = jax.random.split(jax.random.key(TRUTH))
    coefficients = fields.draw_conditions(equation, first, CONDITIONS)
    given = np.asarray(fields.evaluate_conditions(equation, coefficients)).reshape(CONDITIONS, -1)
    count = REFERENCE if equation.dimensions == 1 else SAMPLES
    drawn = fields.simulate(equation, second, coefficients, count + SAMPLES)
    ends = np.asarray(drawn).reshape(CONDITIONS, count + SAMPLES, -1)
    reference = ends[:, :count]
    known = fields.known_law(equation, coefficients)
    if known is None:
        moments = from_samples(reference)
        mean, covariance = moments.mean, moments.covariance
    else:
        mean, covariance = known[0], np.broadcast_to(known[1], (CONDITIONS, *known[1].shape))
    unit = float(np.sqrt(np.trace(covariance, axis1=1, axis2=2).mean() / given.shape[1]))
    return Truth(coefficients, given, reference, ends[:, count:], mean, covariance, unit)


def from_samples(samples: np.ndarray) -> Law:  # (u, s, N)
    mean = samples.mean(axis=1)
    centred = (samples - mean[:, None]).astype(float)
    covariance = np.einsum("usn,usk->unk", centred, centred, optimize=True)
    return Law(mean, covariance / max(samples.shape[1] - 1, 1), samples)


def gaussian(mean: np.ndarray, covariance: np.ndarray, seed: int = 0) -> Law:
    """Samples through the eigenvectors, since covariances may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    noise = np.random.default_rng(seed).normal(size=(len(mean), SAMPLES, mean.shape[-1]))
    return Law(mean, covariance, mean[:, None] + np.einsum("unk,usk->usn", root, noise))


class Trained(NamedTuple):
    """A run's operator, ready to answer."""

    spec: FieldSpec
    params: Any
    problem: Fields
    data: Any
    scales: Any
    numbers: Numbers

    def scaled(self, given: np.ndarray) -> Any:  # (u, N) -> (u, N, 1)
        return jnp.asarray(standardise(given, self.scales.given)[..., None])

    def moments(self, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (u, N), (u, N, N)
        """Mean and covariance in one forward pass, on any grid."""
        shift, scale = self.scales.fields
        law = self.problem.predict(self.params, self.scaled(given), self.numbers)
        factor, rest = np.asarray(law.factor, float), np.asarray(law.diagonal, float)
        covariance = np.einsum("urn,urk->unk", factor, factor)
        covariance += rest[..., None] * np.eye(rest.shape[-1])
        return np.asarray(law.mean, float) * scale + shift, covariance * scale**2


def open_run(run: Run) -> Trained:
    spec: Any = run.spec
    params: dict[str, dict[str, Any]] = {}
    for name, array in run.weights().items():
        trunk, _, rest = name.partition(".")
        params.setdefault(trunk, {})[rest] = jnp.asarray(array)
    return Trained(spec, params, *set_up(spec))


def operator_law(trained: Trained, truth: Truth) -> Law:
    """What the run predicts: a Gaussian (B3 if its rank is 0), a flow (B5), or many passes with
    dropout (B4)."""
    if trained.problem.flow:
        return from_samples(flow_sampler(trained, SAMPLES, STEPS)(truth.given))
    if trained.problem.drops:
        return from_samples(sample_dropout(trained, truth.given))
    return gaussian(*trained.moments(truth.given))


def flow_sampler(
    trained: Trained, count: int, steps: int
) -> Callable[[np.ndarray], np.ndarray]:  # (u, N) -> (u, count, N)
    """Samples of the learned flow, from white noise to the field."""
    shift, scale = trained.scales.fields
    flow = partial(_flow, trained.problem, count, steps, trained.params, trained.numbers)

    def sample(given: np.ndarray) -> np.ndarray:
        keys = jax.random.split(jax.random.key(0), len(given))
        pairs = zip(keys, trained.scaled(given), strict=True)
        return np.stack([np.asarray(flow(key, one)) for key, one in pairs]) * scale + shift

    return sample


def pass_sampler(trained: Trained, count: int) -> Callable[[np.ndarray], np.ndarray]:
    """Samples of the Gaussian law, from one pass: (u, N) -> (u, count, N)."""
    shift, scale = trained.scales.fields
    draw = partial(_pass, trained.problem, count, trained.params, trained.numbers)

    def sample(given: np.ndarray) -> np.ndarray:
        return np.asarray(draw(jax.random.key(0), trained.scaled(given))) * scale + shift

    return sample


@partial(jax.jit, static_argnums=(0, 1))
def _pass(problem: Fields, count: int, params: Any, numbers: Numbers, key: Any, given: Any) -> Any:
    law = problem.predict(params, given, numbers)
    first, second = jax.random.split(key)
    along = jax.random.normal(first, (len(given), count, law.factor.shape[1]))
    apart = jax.random.normal(second, (len(given), count, given.shape[1]))
    return law.mean[:, None] + along @ law.factor + apart * jnp.sqrt(law.diagonal)[:, None]


@partial(jax.jit, static_argnums=(0, 1, 2))
def _flow(
    problem: Fields, count: int, steps: int, params: Any, numbers: Numbers, key: Any, one: Any
) -> Any:  # (N, 1) -> (count, N)
    """Euler steps along the learned velocity; compiled once for all runs of a shape."""
    start = jax.random.normal(key, (count, one.shape[0]))
    inputs = jnp.broadcast_to(one, (count, *one.shape))

    def step(index: Any, at: Any) -> Any:
        times = jnp.full(count, index / steps)
        return at + problem.velocity(params, inputs, at, times) / steps

    mean = problem.predict(params, one[None], numbers).mean
    return mean + numbers.spread * jax.lax.fori_loop(0, steps, step, start)


def sample_dropout(trained: Trained, given: np.ndarray) -> np.ndarray:  # -> (u, PASSES, N)
    shift, scale = trained.scales.fields
    scaled = trained.scaled(given)

    keys = jax.random.split(jax.random.key(0), PASSES)
    found = [
        np.asarray(_drop(trained.problem, trained.params, scaled, trained.numbers, key))
        for key in keys
    ]
    return np.stack(found, axis=1) * scale + shift


@partial(jax.jit, static_argnums=0)
def _drop(problem: Fields, params: Any, scaled: Any, numbers: Numbers, key: Any) -> Any:
    return problem.predict(params, scaled, numbers, key).mean


def dirac(mean: np.ndarray) -> Law:
    """B0: the mean and nothing around it."""
    flat = np.zeros((len(mean), mean.shape[1], mean.shape[1]))
    return Law(mean, flat, mean[:, None])


def residuals(trained: Trained) -> np.ndarray:  # (conditions * noises, N)
    """Of the mean on the training set."""
    side, scale = trained.data.train, trained.scales.fields[1]
    mean = trained.problem.predict(trained.params, jnp.asarray(side.given), trained.numbers).mean
    around = np.asarray(side.fields) - np.asarray(mean)[:, None]
    return around.reshape(-1, around.shape[-1]) * scale


def global_spread(mean: np.ndarray, around: np.ndarray) -> Law:
    """B1: independent noise of one size, the deviation of all training residuals."""
    return gaussian(mean, _everywhere(np.mean(around**2) * np.eye(mean.shape[1]), mean))


def constant_covariance(mean: np.ndarray, around: np.ndarray, rank: int = 0) -> Law:
    """B2: the covariance of the training residuals, the same for every initial condition. With a
    rank, what an operator of that rank could say of it: its first components, and at every point
    the variance that they leave out."""
    found = around.T @ around / len(around)
    if rank:
        values, vectors = np.linalg.eigh(found)
        first = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
        found = first + np.diag(np.diag(found - first))
    return gaussian(mean, _everywhere(found, mean))


def _everywhere(covariance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return np.broadcast_to(covariance.astype(float), (len(mean), *covariance.shape))


def coarse_solver(equation: EquationSpec, operations: float, truth: Truth) -> Law | None:
    """B6: as many solutions on a coarser grid with fewer steps as have so many operations, those of
    one forward pass, put on the fine grid by trigonometric interpolation. None for rough
    volatility, which is drawn and not solved."""
    if equation.kind in ROUGH or equation.dimensions > 1:
        return None
    own = fields.settled(equation)[0]
    points, steps = max(equation.points // COARSER, 8), max(own.steps // COARSER, 1)
    coarse = replace(equation, points=points, steps=steps)
    # A step: two transforms each way of about 5 n log2 n, and ten operations per point.
    each = steps * points * (4 * 5 * np.log2(points) + 10)
    count = max(int(operations / each), 2)
    drawn = fields.simulate(coarse, jax.random.key(1), truth.coefficients, count)
    return from_samples(interpolate(np.asarray(drawn), equation.points))


def interpolate(coarse: np.ndarray, points: int) -> np.ndarray:  # (..., n) -> (..., points)
    """By trigonometric polynomials; the same values at the old points."""
    spectrum = np.fft.rfft(coarse, axis=-1, norm="forward")
    if points > coarse.shape[-1]:
        spectrum[..., -1] /= 2  # the highest frequency stands for both of its signs
    return np.fft.irfft(spectrum, n=points, axis=-1, norm="forward")


def oracle_moments(truth: Truth, noises: int) -> Law:
    """B7: the Gaussian with the moments of a few true samples of each initial condition."""
    return gaussian(*from_samples(truth.fresh[:, : max(noises, 2)])[:2])
