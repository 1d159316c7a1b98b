"""Runs that learn the law of a stochastic field at a later time from its initial condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from grokscope.spec.fields import number
from grokscope.spec.run import EventRule, Spec
from grokscope.spec.sections import OptimiserSpec, TrainingSpec

EquationKind = Literal["heat", "phi4", "well", "burgers", "log_variance", "log_price"]
LossKind = Literal["mean", "diagonal", "joint", "moments", "energy"]
ROUGH = ("log_variance", "log_price")


@dataclass(frozen=True)
class EquationSpec:
    """Which law, on which grid, and how much of it is seen. Defaults that are empty or negative
    stand for the equation's own (`grokscope.tasks.fields.EQUATIONS`)."""

    kind: EquationKind = "heat"
    noise: float = number(-1.0, least=-1)
    """sigma. -1: the equation's own."""
    time: float = number(0.0, least=0)
    """T. 0: the equation's own."""
    hurst: float = number(0.1, above=0, most=0.5, only=ROUGH)
    """Roughness H of the variance."""
    multiplicative: float = number(0.0, least=0, most=1)
    """Noise is multiplied by (1 - m) + m u: 0 is additive, 1 proportional to the field."""
    colour: float = number(-1.0, least=-1)
    """Noise of mode k has variance (1 + k^2)^-colour: 0 is white. -1: the equation's own."""
    amplitude: float = number(-1.0, least=-1)
    """Size of the initial conditions, except in rough volatility. -1: the equation's own."""
    dimensions: int = number(1, least=1, most=2)
    points: int = number(64, least=8)
    """Grid points per dimension."""
    steps: int = number(0, least=0)
    """Steps of the solver. 0: the equation's own."""
    conditions: int = number(1024, least=2)
    """Initial conditions that are trained on."""
    noises: int = number(16, least=1)
    """Noises per initial condition."""

    def check(self) -> Iterator[str]:
        if self.kind in ROUGH and (self.dimensions != 1 or self.multiplicative):
            yield (
                "Rough volatility is a curve over maturities: equation.dimensions must be 1, and "
                "equation.multiplicative 0."
            )
        if self.points % 2:
            yield f"equation.points is {self.points}; it must be even."


@dataclass(frozen=True)
class OperatorSpec:
    """A Fourier neural operator for the mean, and another for the law around it."""

    kind: Literal["gaussian", "flow"] = "gaussian"
    """The law around the mean: Gaussian with a factor of the covariance, or a flow from white noise
    that is integrated in steps."""
    width: int = number(16, least=1)
    layers: int = number(3, least=1)
    modes: int = number(12, least=1)
    """Frequencies that are kept, per dimension."""
    rank: int = number(8, least=0)
    """Rows of the covariance factor. 0: a variance at every point and no correlation."""
    dropout: float = number(0.0, least=0, below=1)
    """Share of the channels that are dropped at random after every layer."""


@dataclass(frozen=True)
class ObjectiveSpec:
    """What is minimised: mean_weight * squared error of the mean, plus the loss of its kind."""

    kind: LossKind = "diagonal"
    mean_weight: float = number(1.0, least=0)
    floor: float = number(1e-6, above=0)
    """Least variance at a point, as a share of the field's variance."""


@dataclass(frozen=True)
class FieldSpec(Spec):
    """One operator trained on the law of one equation. Two runs with equal specs are the same."""

    kind_name: ClassVar[str] = "fields"
    problem: ClassVar[str] = "grokscope.problems.fields:FIELDS"
    unit: ClassVar[str] = "step"
    equation: EquationSpec = field(default_factory=EquationSpec)
    operator: OperatorSpec = field(default_factory=OperatorSpec)
    objective: ObjectiveSpec = field(default_factory=ObjectiveSpec)
    optimiser: OptimiserSpec = field(
        default_factory=lambda: OptimiserSpec(
            lr=1e-2, weight_decay=1e-4, beta2=0.99, warmup=20, clip=0.0, batch=16, schedule="cosine"
        )
    )
    training: TrainingSpec = field(
        default_factory=lambda: TrainingSpec(
            epochs=1500, log_every=75, train_threshold=0.2, test_threshold=0.2
        )
    )
    seed: int = number(0, least=0)
    """Seed of the training data and of the initial weights."""

    def check(self) -> Iterator[str]:
        given, points = self.equation.points // 2 + 1, self.equation.points
        plain = self.objective.kind in ("diagonal", "mean")
        if self.operator.modes > given:
            most = f"a grid of {points} points has {given} frequencies"
            yield f"operator.modes is {self.operator.modes}; {most}."
        if self.operator.kind != "gaussian" and not plain:
            yield "A flow has a loss of its own; leave objective.kind at its default."
        if self.operator.rank == 0 and not plain:
            ask = "set operator.rank to 1 or more"
            yield f"objective.kind {self.objective.kind} needs a factor: {ask}."

    def events(self) -> tuple[EventRule, ...]:
        """The mean is known on the training conditions, then on unseen ones: its error falls to
        this share of the spread of the means."""
        training, rows = self.training, self.training.persistence
        return (
            EventRule("fitted", "train_error", training.train_threshold, rows, False),
            EventRule("generalised", "test_error", training.test_threshold, rows, False),
        )
