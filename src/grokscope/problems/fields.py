"""The law of a stochastic field at a later time, learned from ensembles: a mean operator and a law
around it, in one forward pass (the idea of arXiv 2605.15806).

The two are trained side by side and never disturb each other: they have trunks of their own, and
the law sees the mean without a gradient. So the mean is, bit for bit, that of an operator trained
on squared errors alone. Fields are standardised with the training set's mean and deviation.

u initial conditions, m noises, N grid points in all, r rows of the covariance factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.errors import SpecError
from grokscope.measures.likelihoods import LOSSES, variance
from grokscope.models import operator
from grokscope.problems.base import Kind
from grokscope.spec.equations import EquationSpec, FieldSpec
from grokscope.tasks import fields

if TYPE_CHECKING:
    from grokscope.store import Store

HELD_OUT = 2**20  # seed of the unseen initial conditions: the same for all runs
TESTED, TEST_NOISES = 32, 64  # unseen initial conditions of a row, and noises of each
NUGGET = -1.0  # where the learned diagonal starts: a tenth of the variance
PAIRS = 2  # noises per initial condition in a step of a flow
RATE = 2e10  # operations per second of training on one core


class Side(NamedTuple):
    given: Any  # (u, N, 1) initial conditions
    fields: Any  # (u, m, N) terminal fields


class Data(NamedTuple):
    train: Side
    test: Side
    means: Any  # (): deviation of the conditional means, the unit of errors of the mean


class Scales(NamedTuple):
    """Mean and deviation of inputs and outputs."""

    given: tuple[float, float]
    fields: tuple[float, float]


class Numbers(NamedTuple):
    floor: Any
    mean_weight: Any
    nugget: Any  # 1: the factor has a learned diagonal beside it
    dropout: Any
    spread: Any  # deviation around the conditional means: the unit in which the law is learned


class Law(NamedTuple):
    """A Gaussian law in standardised units."""

    mean: Any  # (u, N)
    factor: Any  # (u, r, N)
    diagonal: Any  # (u, N)


@dataclass(frozen=True)
class Fields:
    """The problem for one shape of operator."""

    mean: operator.Shape
    law: operator.Shape
    loss_kind: str  # "mean": the law is not trained
    batch: int
    drops: bool
    flow: bool
    double: bool = False

    finite = ("train_loss", "test_loss")
    stops_on = ("test_error", False)

    def init(self, key: Any, data: Data, numbers: Numbers) -> Any:
        first, second = jax.random.split(key)
        law = operator.init(second, self.law)
        if not self.flow:
            # The factor starts with the deviation that is looked for. One that is too large is
            # hardly punished by a joint likelihood, which pays log |G| / N for it; one that is too
            # small gives the diagonal likelihood gradients that Adam remembers for long.
            found = operator.respond(law, data.train.given, self.law)
            law["readout"] /= jnp.sqrt(jnp.mean(found**2) * self.law.outputs)
        return {"mean": operator.init(first, self.mean), "law": law}

    def predict(self, params: Any, given: Any, numbers: Numbers, key: Any = None) -> Law:
        """Mean, factor and diagonal for initial conditions on any grid.  (u, N, 1)"""
        rate = numbers.dropout
        mean = operator.respond(params["mean"], given, self.mean, key, rate)[..., 0]
        if self.flow:
            empty = jnp.zeros((len(given), 0, given.shape[1]))
            return Law(mean, empty, jnp.full_like(mean, numbers.floor))
        found = operator.respond(params["law"], given, self.law)
        nugget = numbers.nugget * (numbers.spread * jax.nn.softplus(found[..., -1] + NUGGET)) ** 2
        factor = numbers.spread * jnp.swapaxes(found[..., :-1], 1, 2)
        return Law(mean, factor, nugget + numbers.floor)

    def velocity(self, params: Any, given: Any, at: Any, time: Any) -> Any:
        """Of a flow at fields `at` (u, N) and times (u,).  -> (u, N)"""
        times = jnp.broadcast_to(time[:, None, None], given.shape)
        seen = jnp.concatenate([at[..., None], given, times], axis=-1)
        return operator.respond(params["law"], seen, self.law)[..., 0]

    def _law_loss(self, params: Any, side: Side, law: Law, numbers: Numbers, key: Any) -> Any:
        residual = side.fields - jax.lax.stop_gradient(law.mean)[:, None]
        if self.loss_kind == "mean":
            return jnp.float32(0)
        if self.flow:
            return self._flow_loss(params, side.given, residual / numbers.spread, key)
        needed = [key] if self.loss_kind == "energy" else []
        return LOSSES[self.loss_kind](residual, law.factor, law.diagonal, *needed)

    def _flow_loss(self, params: Any, given: Any, target: Any, key: Any) -> Any:
        """Flow matching on straight paths (Lipman et al. 2023): x_t = (1 - t) z + t y, |v - (y -
        z)|^2, for a few noises of each initial condition."""
        keys = jax.random.split(key, 3)
        chosen = jax.random.randint(keys[0], (len(given), PAIRS), 0, target.shape[1])
        ends = jnp.take_along_axis(target, chosen[..., None], axis=1).reshape(-1, target.shape[-1])
        starts = jax.random.normal(keys[1], ends.shape)
        times = jax.random.uniform(keys[2], (len(ends),))
        at = (1 - times[:, None]) * starts + times[:, None] * ends
        found = self.velocity(params, jnp.repeat(given, PAIRS, axis=0), at, times)
        return jnp.mean((found - (ends - starts)) ** 2)

    def loss(self, params: Any, data: Data, numbers: Numbers, step: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        side = data.train
        if self.batch:
            index = jax.random.randint(first, (self.batch,), 0, len(side.given))
            side = Side(side.given[index], side.fields[index])
        law = self.predict(params, side.given, numbers, second if self.drops else None)
        squared = jnp.mean((side.fields - law.mean[:, None]) ** 2)
        rest = self._law_loss(params, side, law, numbers, second)
        return numbers.mean_weight * squared + rest

    def project(self, params: Any, data: Data, numbers: Numbers) -> Any:
        return params

    def row(self, params: Any, data: Data, numbers: Numbers) -> dict[str, Any]:
        """Loss of the law and error of the mean on seen and unseen initial conditions, the error in
        deviations of the conditional means; and the error of the deviation on unseen ones."""
        result = {}
        for name, side in (("train", data.train), ("test", data.test)):
            law = self.predict(params, side.given, numbers)
            residual = side.fields - law.mean[:, None]
            loss = self._law_loss(params, side, law, numbers, jax.random.key(0))
            result[f"{name}_loss"] = jnp.mean(residual**2) if self.loss_kind == "mean" else loss
            error = jnp.sqrt(jnp.mean(jnp.mean(residual, axis=1) ** 2))
            result[f"{name}_error"] = error / data.means
        true = jnp.std(data.test.fields, axis=1)
        deviation = jnp.sqrt(variance(law.factor, law.diagonal))
        error = jnp.sqrt(jnp.mean((deviation - true) ** 2) / jnp.mean(true**2))
        return {**result, "spread_error": error}


@lru_cache(maxsize=4)
def make_data(equation: EquationSpec, seed: int) -> tuple[Data, Scales]:
    """Training and held-out ensembles in standardised units, and the units."""
    sides = []
    for number, count, noises in (
        (seed, equation.conditions, equation.noises),
        (HELD_OUT, TESTED, TEST_NOISES),
    ):
        first, second = jax.random.split(jax.random.key(np.uint32(number)))
        coefficients = fields.draw_conditions(equation, first, count)
        given = np.asarray(fields.evaluate_conditions(equation, coefficients))
        ends = np.asarray(fields.simulate(equation, second, coefficients, noises))
        if not np.isfinite(ends).all():
            raise SpecError(
                f"The solver of {equation.kind} overflows with {equation.points} points; raise "
                "equation.steps or lower equation.noise."
            )
        sides.append((given.reshape(count, -1), ends.reshape(count, noises, -1)))
    scales = Scales(*((float(each.mean()), float(each.std())) for each in sides[0]))
    train, test = (
        Side(standardise(given, scales.given)[..., None], standardise(ends, scales.fields))
        for given, ends in sides
    )
    return Data(train, test, np.float32(test.fields.mean(axis=1).std())), scales


def standardise(values: Any, scale: tuple[float, float]) -> Any:
    return ((values - scale[0]) / scale[1]).astype(np.float32)


def set_up(spec: FieldSpec) -> tuple[Fields, Data, Scales, Numbers]:
    given, flow = spec.operator, spec.operator.kind == "flow"
    size = (given.width, given.layers, given.modes, spec.equation.dimensions)
    outer = (3, 1) if flow else (1, given.rank + 1)
    problem = Fields(
        mean=operator.Shape(1, 1, *size),
        law=operator.Shape(*outer, *size),
        loss_kind=spec.objective.kind,
        batch=spec.optimiser.batch,
        drops=given.dropout > 0,
        flow=flow,
    )
    data, scales = make_data(spec.equation, spec.seed)
    ends, noises = data.train.fields, spec.equation.noises
    # One noise per condition does not tell the deviation around a mean from that of the means.
    spread = np.sqrt(ends.var(axis=1, ddof=1).mean()) if noises > 1 else ends.std()
    # A joint likelihood needs a law of full rank; without a factor the diagonal is all there is.
    nugget = spec.objective.kind == "joint" or given.rank == 0
    numbers = Numbers(
        floor=np.float32(spec.objective.floor),
        mean_weight=np.float32(spec.objective.mean_weight),
        nugget=np.float32(nugget),
        dropout=np.float32(given.dropout),
        spread=np.float32(spread),
    )
    return problem, data, scales, numbers


def build(spec: FieldSpec, store: Store) -> tuple[Fields, Data, Numbers]:
    problem, data, _, numbers = set_up(spec)
    return problem, data, numbers


def pass_operations(spec: FieldSpec) -> float:
    """Multiplications and additions of one forward pass of both trunks for one condition."""
    shape, points = spec.operator, spec.equation.points**spec.equation.dimensions
    kept = len(operator.kept_frequencies(shape.modes, spec.equation.dimensions))
    layer = 2 * points * shape.width * (4 * kept + shape.width) + 8 * kept * shape.width**2
    readout = 4 * points * shape.width * (shape.width + shape.rank + 1)
    return 2.0 * (shape.layers * layer + readout)


def estimate(spec: FieldSpec) -> float:
    """Rough training time: forward and backward passes, the rows, and making the data."""
    seen = 3.0 * (spec.optimiser.batch or spec.equation.conditions)
    seen += (spec.equation.conditions + TESTED) / spec.training.log_every
    return 2 + spec.training.epochs * (pass_operations(spec) * seen / RATE + 3e-4)


FIELDS = Kind(build, estimate)
