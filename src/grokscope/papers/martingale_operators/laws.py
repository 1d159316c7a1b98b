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

from grokscope.measures.likelihoods import draw
from grokscope.problems.fields import Fields, Numbers, set_up, standardise
from grokscope.spec.equations import ROUGH, EquationSpec, FieldSpec
from grokscope.spec.fields import nest
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
    reference, fresh = np.split(ends, [count], axis=1)
    known = fields.known_law(equation, coefficients)
    mean, covariance = known or from_samples(reference)[:2]
    covariance = np.broadcast_to(covariance, (CONDITIONS, *covariance.shape[-2:]))
    unit = float(np.sqrt(np.trace(covariance, axis1=1, axis2=2).mean() / given.shape[1]))
    return Truth(coefficients, given, reference, fresh, mean, covariance, unit)


def from_samples(samples: np.ndarray) -> Law:  # (u, s, N)
    mean = samples.mean(axis=1)
    centred = (samples - mean[:, None]).astype(float)
    covariance = np.einsum("usn,usk->unk", centred, centred, optimize=True)
    return Law(mean, covariance / max(samples.shape[1] - 1, 1), samples)


def gaussian(mean: np.ndarray, covariance: np.ndarray, seed: int = 0) -> Law:
    """With a covariance of each initial condition, or one for all. Samples through the
    eigenvectors, since covariances may be singular."""
    covariance = np.broadcast_to(covariance.astype(float), (len(mean), *covariance.shape[-2:]))
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

    @property
    def truth(self) -> Truth:
        return find_truth(self.spec.equation)

    def scaled(self, given: np.ndarray) -> Any:  # (u, N) -> (u, N, 1)
        return jnp.asarray(standardise(given, self.scales.given)[..., None])

    def restored(self, values: Any) -> np.ndarray:
        """Fields in the equation's units."""
        shift, scale = self.scales.fields
        return np.asarray(values) * scale + shift

    def moments(self, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (u, N), (u, N, N)
        """Mean and covariance in one forward pass, on any grid."""
        law = self.problem.predict(self.params, self.scaled(given), self.numbers)
        mean, factor, rest = (np.asarray(each, float) for each in law)
        covariance = np.einsum("urn,urk->unk", factor, factor)
        covariance += rest[..., None] * np.eye(rest.shape[-1])
        return self.restored(mean), covariance * self.scales.fields[1] ** 2

    def marginals(self, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (u, N) twice
        """Mean and deviation at every point, without the whole covariance."""
        law = self.problem.predict(self.params, self.scaled(given), self.numbers)
        mean, factor, rest = map(np.asarray, law)
        spread = np.sqrt(np.sum(factor**2, axis=1) + rest)
        return self.restored(mean), spread * self.scales.fields[1]


def open_run(run: Run) -> Trained:
    spec: Any = run.spec
    return Trained(spec, jax.tree.map(jnp.asarray, nest(run.weights())), *set_up(spec))


def operator_law(trained: Trained) -> Law:
    """What the run predicts: a Gaussian (B3 if its rank is 0), a flow (B5), or many passes with
    dropout (B4)."""
    given = trained.truth.given
    if trained.problem.flow:
        return from_samples(flow_sampler(trained, SAMPLES, STEPS)(given))
    if trained.problem.drops:
        return from_samples(sample_dropout(trained, given))
    return gaussian(*trained.moments(given))


Sampler = Callable[[np.ndarray], np.ndarray]  # (u, N) -> (u, s, N)


def flow_sampler(trained: Trained, count: int, steps: int) -> Sampler:
    """Samples of the learned flow, from white noise to the field."""
    flow = partial(_flow, trained.problem, count, steps, trained.params, trained.numbers)

    def sample(given: np.ndarray) -> np.ndarray:
        keys = jax.random.split(jax.random.key(0), len(given))
        pairs = zip(keys, trained.scaled(given), strict=True)
        return trained.restored([np.asarray(flow(key, one)) for key, one in pairs])

    return sample


def pass_sampler(trained: Trained, count: int) -> Sampler:
    """Samples of the Gaussian law, from one pass."""
    draw = partial(_pass, trained.problem, count, trained.params, trained.numbers)
    return lambda given: trained.restored(draw(jax.random.key(0), trained.scaled(given)))


@partial(jax.jit, static_argnums=(0, 1))
def _pass(problem: Fields, count: int, params: Any, numbers: Numbers, key: Any, given: Any) -> Any:
    law = problem.predict(params, given, numbers)
    return law.mean[:, None] + draw(law.factor, law.diagonal, count, key)


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
    drop = partial(_drop, trained.problem, trained.params, trained.scaled(given), trained.numbers)
    keys = jax.random.split(jax.random.key(0), PASSES)
    return trained.restored(np.stack([np.asarray(drop(key)) for key in keys], axis=1))


@partial(jax.jit, static_argnums=0)
def _drop(problem: Fields, params: Any, scaled: Any, numbers: Numbers, key: Any) -> Any:
    return problem.predict(params, scaled, numbers, key).mean


def residuals(trained: Trained) -> np.ndarray:  # (conditions * noises, N)
    """Of the mean on the training set."""
    side, scale = trained.data.train, trained.scales.fields[1]
    mean = trained.problem.predict(trained.params, jnp.asarray(side.given), trained.numbers).mean
    around = np.asarray(side.fields) - np.asarray(mean)[:, None]
    return around.reshape(-1, around.shape[-1]) * scale


def around_mean(mean: np.ndarray, around: np.ndarray, rank: int) -> dict[str, Law]:
    """B0 to B2 by name: a mean and nothing around it; with independent noise of one size, the
    deviation of all training residuals; with the covariance of these, the same for every initial
    condition; and with what an operator of a rank could say of that: its first components, and at
    every point the variance that they leave out."""
    size = mean.shape[1]
    constant = ranked = around.T @ around / len(around)
    if rank:
        values, vectors = np.linalg.eigh(constant)
        first = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
        ranked = first + np.diag(np.diag(constant - first))
    return {
        "dirac": Law(mean, np.zeros((*mean.shape, size)), mean[:, None]),
        "global": gaussian(mean, np.mean(around**2) * np.eye(size)),
        "constant": gaussian(mean, constant),
        "ranked": gaussian(mean, ranked),
    }


def coarse_solver(equation: EquationSpec, operations: float, truth: Truth) -> Law | None:
    """B6: as many solutions on a coarser grid with fewer steps as have so many operations, those of
    one forward pass, put on the fine grid by trigonometric interpolation. None for rough
    volatility, which is drawn and not solved."""
    from scipy.signal import resample  # by trigonometric polynomials; slow to import

    if equation.kind in ROUGH or equation.dimensions > 1:
        return None
    own = fields.settled(equation)[0]
    points, steps = max(equation.points // COARSER, 8), max(own.steps // COARSER, 1)
    coarse = replace(equation, points=points, steps=steps)
    # A step: two transforms each way of about 5 n log2 n, and ten operations per point.
    each = steps * points * (4 * 5 * np.log2(points) + 10)
    count = max(int(operations / each), 2)
    drawn = fields.simulate(coarse, jax.random.key(1), truth.coefficients, count)
    return from_samples(resample(np.asarray(drawn), equation.points, axis=-1))


def oracle_moments(truth: Truth, noises: int) -> Law:
    """B7: the Gaussian with the moments of a few true samples of each initial condition."""
    return gaussian(*from_samples(truth.fresh[:, : max(noises, 2)])[:2])
