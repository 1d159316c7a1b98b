"""A learning problem that shares nothing with tokens: an MLP learns a sine from noisy points.

All that a new problem needs: a spec, the problem's pure functions, and how to build it. The engine,
the store, claims and pages do not know of it.

n points, m hidden units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.problems import Kind
from grokscope.spec import EventRule, OptimiserSpec, Spec, TrainingSpec
from grokscope.spec.fields import number


@dataclass(frozen=True)
class CurveSpec:
    points: int = number(32, least=2)
    frequency: float = number(1.0, above=0)
    noise: float = number(0.05, least=0)


@dataclass(frozen=True)
class RegressionSpec(Spec):
    kind_name: ClassVar[str] = "regression"
    problem: ClassVar[str] = f"{__file__}:REGRESSION"
    curve: CurveSpec = field(default_factory=CurveSpec)
    hidden: int = number(16, least=1)
    optimiser: OptimiserSpec = field(
        default_factory=lambda: OptimiserSpec(lr=1e-2, weight_decay=0.0)
    )
    training: TrainingSpec = field(
        default_factory=lambda: TrainingSpec(epochs=600, log_every=20, test_threshold=0.05)
    )
    seed: int = 0

    def events(self) -> tuple[EventRule, ...]:
        training = self.training
        threshold, persistence = training.test_threshold, training.persistence
        return (EventRule("fitted", "test_loss", threshold, persistence, rising=False),)


class Points(NamedTuple):
    x: Any  # (n, 1)
    y: Any  # (n, 1)


class Data(NamedTuple):
    train: Points
    test: Points


@dataclass(frozen=True)
class Regression:
    hidden: int
    double: bool = False

    finite = ("train_loss",)
    stops_on = ("test_loss", False)

    def init(self, key, data, numbers):
        first, second = jax.random.split(key)
        return {
            "inner": {"weight": 3 * jax.random.normal(first, (1, self.hidden))},
            "outer": {"weight": jax.random.normal(second, (self.hidden, 1)) / self.hidden**0.5},
            "bias": jnp.zeros(self.hidden),
        }

    def _error(self, params, points):
        hidden = jnp.tanh(points.x @ params["inner"]["weight"] + params["bias"])
        return jnp.mean((hidden @ params["outer"]["weight"] - points.y) ** 2)

    def loss(self, params, data, numbers, step, key):
        return self._error(params, data.train)

    def project(self, params, data, numbers):
        return params

    def row(self, params, data, numbers):
        return {
            "train_loss": self._error(params, data.train),
            "test_loss": self._error(params, data.test),
        }


def build(spec: RegressionSpec, store) -> tuple[Regression, Data, tuple]:
    rng = np.random.default_rng(spec.seed)

    def draw(count: int, noise: float) -> Points:
        x = rng.uniform(-1, 1, (count, 1)).astype(np.float32)
        clean = np.sin(np.pi * spec.curve.frequency * x)
        return Points(x, (clean + noise * rng.normal(size=x.shape)).astype(np.float32))

    data = Data(draw(spec.curve.points, spec.curve.noise), draw(64, 0.0))
    return Regression(spec.hidden), data, ()


REGRESSION = Kind(build, estimate=lambda spec: 1e-4 * spec.training.epochs)
