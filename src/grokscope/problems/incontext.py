"""Modular maps learned in context: the problem of arXiv 2604.12434.

Cross-entropy at every z of sequences x y z x y z ..., measured in four cells: seen and unseen tasks
times seen and unseen pairs. Where the optimiser keeps a posterior, a row also has its total,
aleatoric and epistemic uncertainty.

k triples, n sequences, C = p classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.measures.uncertainty import decompose, entropy, mix, score
from grokscope.models import Params, transformer
from grokscope.models.layers import ModelNumbers, normalise
from grokscope.models.roles import role
from grokscope.problems.base import Kind
from grokscope.spec.incontext import CELLS, InContextSpec
from grokscope.tasks.incontext import build_maps, evaluation_sequences, join

if TYPE_CHECKING:
    from grokscope.store import Store

RATE = 60e9  # operations per second on one core


class Data(NamedTuple):
    tasks: Any  # (T, 2)
    pairs: Any  # (m, 2)
    cells: dict[str, Any]  # (n, 3k) each


class Numbers(NamedTuple):
    model: ModelNumbers
    init_scale: Any


@dataclass(frozen=True)
class InContext:
    shape: transformer.Shape
    triples: int
    orders: int  # orders of pairs in a batch, each shown to every task
    repeats: bool = False  # may a pair occur twice in a training sequence?
    samples: int = 0

    finite = ("train_loss",)
    stops_on = ("ood_val_accuracy", True)
    double = False

    def init(self, key: jax.Array, data: Data, numbers: Numbers) -> Params:
        """N(0, scale); the MLP's readout is divided by the root of twice the layers, as in the code
        of He et al. (attention's output is not)."""
        params = transformer.init(key, self.shape)  # of variance 1 / fan_in, embeddings 1 / width

        def scale(name: str, array: jax.Array) -> jax.Array:
            fan_in = self.shape.width if name in ("embedding", "position") else array.shape[0]
            layers = 2 * self.shape.layers if role(name) == "readout" else 1
            return array * numbers.init_scale * (fan_in / layers) ** 0.5

        return {n: scale(n, array) if array.ndim == 2 else array for n, array in params.items()}

    def project(self, params: Params, data: Data, numbers: Numbers) -> Params:
        return params

    def loss(
        self, params: Params, data: Data, numbers: Numbers, step: jax.Array, key: jax.Array
    ) -> jax.Array:
        tokens = self.draw_batch(data, key)
        logs = self.predict(params, tokens, numbers.model)
        return -jnp.take_along_axis(logs, tokens[:, 2::3, None], axis=-1).mean()

    def draw_batch(self, data: Data, key: jax.Array) -> jax.Array:  # (orders * T, 3k)
        """Every seen task with each of a few orders of seen pairs."""
        many = len(data.pairs)
        if self.repeats:
            chosen = jax.random.randint(key, (self.orders, self.triples), 0, many)
        else:
            keys = jax.random.split(key, self.orders)
            chosen = jax.vmap(lambda one: jax.random.permutation(one, many)[: self.triples])(keys)
        pairs = jnp.repeat(data.pairs[chosen], len(data.tasks), axis=0)
        return join(jnp.tile(data.tasks, (self.orders, 1)), pairs, self.shape.classes)

    def predict(
        self, params: Params, tokens: jax.Array, numbers: ModelNumbers, last: bool = False
    ) -> jax.Array:  # (n, 3k) -> (n, k, C)
        """Log-probabilities of every z, or of the last one alone."""
        attend = partial(normalise, kind=self.shape.attention)
        shape = ask_at(self.shape, tokens.shape[1], last)
        found = transformer.respond(params, tokens, shape, attend, numbers)
        return jax.nn.log_softmax(found.logits)

    def row(self, params: Params, data: Data, numbers: Numbers) -> dict[str, jax.Array]:
        tokens = jnp.concatenate([data.cells[cell] for cell in CELLS])  # one pass for all
        every = jnp.split(self.predict(params, tokens, numbers.model), len(CELLS))
        row: dict[str, jax.Array] = {}
        for cell, logs in zip(CELLS, every, strict=True):
            labels = data.cells[cell][:, 2::3]
            last = score(logs[:, -1], labels[:, -1]) | {"entropy": entropy(logs[:, -1]).mean()}
            row |= {f"{cell}_{name}": value for name, value in last.items()}
            row[f"{cell}_accuracy_everywhere"] = (logs.argmax(axis=-1) == labels).mean()
            if cell == "id_train":
                row["train_loss"] = -jnp.take_along_axis(logs, labels[..., None], axis=-1).mean()
        return row

    def posterior_row(
        self, draw: Callable[[Any], Params], keys: Any, data: Data, numbers: Numbers
    ) -> dict[str, jax.Array]:
        """Last question of each cell under `samples` draws of the weights."""
        tokens = jnp.concatenate([data.cells[cell] for cell in CELLS])
        logs = jax.lax.map(
            lambda key: self.predict(draw(key), tokens, numbers.model, last=True)[:, 0], keys
        )  # (S, 4n, C)
        row: dict[str, jax.Array] = {}
        for cell, part in zip(CELLS, jnp.split(logs, len(CELLS), axis=1), strict=True):
            numbers_of = decompose(part) | score(mix(part), data.cells[cell][:, -1])
            row |= {f"{cell}_posterior_{name}": value for name, value in numbers_of.items()}
        return row


def ask_at(shape: transformer.Shape, length: int, last: bool = False) -> transformer.Shape:
    """The same model on sequences of some length, read where a z is predicted: at every y, or at
    the last one."""
    return shape._replace(length=length, read=tuple(range(1, length, 3))[-1 if last else 0 :])


def shape_of(spec: InContextSpec) -> transformer.Shape:
    model, length = spec.model, 3 * spec.task.triples
    shape = transformer.Shape(
        vocabulary=spec.task.modulus,
        length=length,
        classes=spec.task.modulus,
        width=model.width,
        hidden=model.hidden,
        heads=model.heads,
        attention="softmax",
        layers=model.layers,
        positions=model.positions,
        causal=True,
        residual=True,
        norm=("attention", "mlp", "final"),
        norm_kind="layer",
        norm_gain=True,
        activation=model.activation,
        read=(),
        constant_query=False,
        biases=False,
        tied=True,
    )
    return ask_at(shape, length)


def build(spec: InContextSpec, store: Store | None = None) -> tuple[InContext, Data, Numbers]:
    maps = build_maps(spec.task, spec.seed)
    data = Data(maps.seen_tasks, maps.seen_pairs, evaluation_sequences(spec.task, spec.seed))
    numbers = Numbers(
        ModelNumbers(norm_epsilon=np.float32(spec.model.norm_epsilon), readout_scale=np.float32(1)),
        np.float32(spec.model.init_scale),
    )
    problem = InContext(
        shape_of(spec),
        spec.task.triples,
        spec.optimiser.batch // spec.task.tasks,
        spec.task.repeats == "yes",
        spec.samples if spec.optimiser.kind == "ivon" else 0,
    )
    return problem, data, numbers


def estimate(spec: InContextSpec) -> float:
    """Rough training time on one core: three forward passes a step at `RATE`, one for each measured
    sequence."""
    model, length = spec.model, 3 * spec.task.triples
    block = model.width * (4 * model.width + 2 * model.hidden) + 2 * length * model.width
    each = 2 * length * (model.layers - 0.5) * block / RATE
    measured = 4 * spec.task.evaluated * (spec.samples if spec.optimiser.kind == "ivon" else 1)
    seen = 3 * spec.optimiser.batch + measured / spec.training.log_every
    return spec.training.epochs * (seen * each + 1e-3)


IN_CONTEXT = Kind(build, estimate)
