"""A run that learns maps in context: z = a x + b y mod p from examples (arXiv 2604.12434)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from grokscope.spec.fields import number
from grokscope.spec.run import EventRule, Spec
from grokscope.spec.sections import ActivationKind, OptimiserSpec, TrainingSpec

CELLS = ("id_train", "id_val", "ood_train", "ood_val")
"""Seen tasks with seen and with unseen pairs, unseen tasks with seen and with unseen pairs."""


@dataclass(frozen=True)
class MapsSpec:
    """What is asked: the hidden (a, b) of z = a x + b y mod p, from triples (x, y, z)."""

    modulus: int = number(7, least=5)
    """p. There are p^2 tasks (a, b) and p^2 pairs (x, y); the vocabulary has p tokens."""
    tasks: int = number(28, least=1)
    """T: how many tasks are trained on."""
    triples: int = number(8, least=2)
    """How many triples a sequence has."""
    train_fraction: float = number(0.8, above=0, below=1)
    """Share of the pairs that is trained on, the same for every task."""
    repeats: Literal["yes", "no"] = "no"
    """May a pair occur twice in a sequence that is trained on? In measured sequences none does."""
    evaluated: int = number(256, least=1)
    """Sequences of each cell on which a row is measured."""
    seed: int = number(-1, least=-1)
    """Seed of tasks, split and measured sequences. -1: the run's own seed."""

    @property
    def train_pairs(self) -> int:
        return round(self.train_fraction * self.modulus**2)

    @property
    def sample_size(self) -> int:
        """Seen pairs times seen tasks: the paper's number of examples."""
        return self.train_pairs * self.tasks

    def check(self) -> Iterator[str]:
        every = self.modulus**2
        if self.tasks >= every:
            yield f"task.tasks is {self.tasks}; some of the {every} tasks must stay unseen."
        fewest = min(self.train_pairs, every - self.train_pairs)
        if self.triples > fewest:
            yield (
                f"task.triples is {self.triples}, but one side of the split has only {fewest} of "
                f"the {every} pairs, and no pair occurs twice in a sequence; take fewer triples or "
                "another task.train_fraction."
            )


@dataclass(frozen=True)
class DecoderSpec:
    """A causal transformer with norms before each sublayer and at the end, no biases, and the
    embedding for its unembedding."""

    layers: int = number(2, least=1)
    heads: int = number(4, least=1)
    width: int = number(64, least=1)
    hidden: int = number(256, least=1)
    """Hidden units of the MLP."""
    activation: ActivationKind = "relu"
    init_scale: float = number(0.02, above=0)
    """Standard deviation of the initial weights; of the MLP's second matrix, divided by the root of
    twice the number of layers."""
    positions: Literal["rotary", "learned"] = "rotary"
    """How a token's place is known: by rotary angles, or by an embedding for each place."""
    norm_epsilon: float = number(1e-5, least=0)
    """Added to the variance before its root is taken."""

    def check(self) -> Iterator[str]:
        if self.positions == "rotary" and self.width % (2 * self.heads):
            yield (
                f"model.width is {self.width}; rotary positions need a multiple of twice the "
                f"{self.heads} heads."
            )
        elif self.width % self.heads:
            yield f"model.width is {self.width}; it must be a multiple of the {self.heads} heads."


@dataclass(frozen=True)
class InContextSpec(Spec):
    """One run on modular maps in context. A step is a batch in which every seen task occurs equally
    often, with the same pairs in the same order."""

    kind_name: ClassVar[str] = "incontext"
    problem: ClassVar[str] = "grokscope.problems.incontext:IN_CONTEXT"
    unit: ClassVar[str] = "step"
    task: MapsSpec = field(default_factory=MapsSpec)
    model: DecoderSpec = field(default_factory=DecoderSpec)
    optimiser: OptimiserSpec = field(
        default_factory=lambda: OptimiserSpec(
            weight_decay=0.1, beta2=0.98, warmup=500, warmup_from=0.01, vector_decay=0.0, batch=112
        )
    )
    training: TrainingSpec = field(
        default_factory=lambda: TrainingSpec(
            epochs=20_000, log_every=250, train_threshold=0.9, test_threshold=0.8
        )
    )
    samples: int = number(16, least=2)
    """Draws from the optimiser's posterior, if it has one, on which a row is measured."""
    seed: int = number(0, least=0)
    """Seed of the initial weights and batches and, unless `task.seed` is set, of the task."""

    def check(self) -> Iterator[str]:
        batch, tasks = self.optimiser.batch, self.task.tasks
        if batch == 0 or batch % tasks:
            why = f"every one of the {tasks} tasks must occur equally often"
            yield f"optimiser.batch is {batch}; {why}, so it must be a multiple of them."

    def events(self) -> tuple[EventRule, ...]:
        """Memorised: seen tasks and pairs. Reached: seen tasks on unseen pairs. Carried: unseen
        tasks on seen pairs. Grokked: unseen tasks on unseen pairs."""
        training = self.training
        low, high, rows = training.train_threshold, training.test_threshold, training.persistence
        return (
            EventRule("memorised", "id_train_accuracy", low, rows),
            EventRule("reached", "id_val_accuracy", high, rows),
            EventRule("carried", "ood_train_accuracy", high, rows),
            EventRule("grokked", "ood_val_accuracy", high, rows),
        )
