"""What the paper reads off kept weights: how far the MLP leans on the size of its input, how
compressible the features are, where attention looks, how far the tangent kernel has moved.

n examples, T positions, H heads, d width, C outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from grokscope import models
from grokscope.measures.attention import entropy
from grokscope.models import transformer
from grokscope.models.layers import ModelNumbers, Params, normalise
from grokscope.problems.routing import cross_entropy
from grokscope.spec import RunSpec
from grokscope.store import Run
from grokscope.tasks import TaskData, build_task

KERNEL_INPUTS = 32  # the first training examples; all of them would need gigabytes
SMALLEST = 1e-12  # of a norm by which is divided


class Subject(NamedTuple):
    """A run's model at one epoch, and its examples."""

    params: Params
    shape: transformer.Shape
    numbers: ModelNumbers
    data: TaskData

    @property
    def train(self) -> jax.Array:  # (n, T)
        return jnp.asarray(self.data.tokens[self.data.train])

    @property
    def test(self) -> jax.Array:
        return jnp.asarray(self.data.tokens[self.data.test])


@cache
def _task(spec: RunSpec) -> TaskData:
    return build_task(spec.task, spec.seed)


def subject(run: Run, epoch: int | None) -> Subject:
    spec, weights = run.spec, run.weights(epoch)
    data = _task(spec)
    shape: Any = models.shape_of(spec.model, data)
    params = {name: jnp.asarray(array) for name, array in weights.items()}
    return Subject(params, shape, models.numbers_of(spec.model), data)


@partial(jax.jit, static_argnums=(2, 4))
def encode(
    params: Params,
    tokens: jax.Array,
    shape: transformer.Shape,
    numbers: ModelNumbers,
    rescale: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:  # -> (n, P, d), (n, P, H, T)
    """What the unembedding reads, and the last layer's attention."""
    attend = partial(normalise, kind=shape.attention)
    features, _, attention = transformer.encode(params, tokens, shape, attend, numbers, rescale)
    return features, attention


@partial(jax.jit, static_argnums=2)
def attend(
    params: Params, tokens: jax.Array, shape: transformer.Shape, numbers: ModelNumbers
) -> jax.Array:  # (n, T) -> (n, P, H, T)
    """The last layer's attention alone: what is not asked for, such as its MLP, is not computed."""
    return encode(params, tokens, shape, numbers, as_it_is)[1]


def as_it_is(x: jax.Array) -> jax.Array:  # (n, P, d)
    return x


# The size of the MLP's input


def unit_norm(x: jax.Array) -> jax.Array:
    """v / |v|: neither the size of an input nor that of all inputs is left (the paper's)."""
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), SMALLEST)


def mean_norm(x: jax.Array) -> jax.Array:
    """v / |v| times the mean |v| over examples: only what tells examples apart by size is gone."""
    return unit_norm(x) * _level(x)


def global_scale(x: jax.Array) -> jax.Array:
    """v / mean |v|: only the size of all inputs is gone."""
    return x / jnp.maximum(_level(x), SMALLEST)


def _level(x: jax.Array) -> jax.Array:  # -> (1, P, 1)
    return jnp.linalg.norm(x, axis=-1, keepdims=True).mean(axis=0, keepdims=True)


PERTURBED = {"unit": unit_norm, "mean": mean_norm, "global": global_scale}


def scale_removed(run: Run, epoch: int | None) -> dict[str, float]:
    """ "SR-train": loss and accuracy on the training examples with the MLP's input rescaled (before
    the norm in front of the MLP, if it has one, and with the model's own attention), in the three
    forms above. `authors` is the released code's probe, which also leaves out every norm of the
    model, those of attention included: only without norms are the two the same."""
    it = subject(run, epoch)
    bare = it.shape._replace(norm=())
    views = {"plain": (it.shape, as_it_is), "authors": (bare, unit_norm)}
    views |= {name: (it.shape, rescale) for name, rescale in PERTURBED.items()}
    labels = jnp.asarray(it.data.labels[it.data.train])
    found = {}
    for name, (shape, rescale) in views.items():
        features, _ = encode(it.params, it.train, shape, it.numbers, rescale)
        logits = it.numbers.readout_scale * (features[:, -1] @ it.params["unembedding"])
        found[f"sr_{name}_loss"] = float(cross_entropy(logits, labels).mean())
        found[f"sr_{name}_accuracy"] = float((logits.argmax(axis=-1) == labels).mean())
    return found


# Compressibility


def compressibility(run: Run, epoch: int | None) -> dict[str, float]:
    """Effective rank and power-law exponent of the pre-logits' spectrum, on training and on test
    examples (the paper says training, its released numbers are the test's), with the number of
    eigenvalues in the tail and the fit's Kolmogorov-Smirnov distance."""
    it = subject(run, epoch)
    found = {}
    for side, tokens in (("train", it.train), ("test", it.test)):
        features, _ = encode(it.params, tokens, it.shape, it.numbers, as_it_is)
        spectrum = eigenvalues(np.asarray(features[:, -1], np.float64))
        law = fit_tail(spectrum)
        found[f"rank_{side}"] = effective_rank(spectrum)
        found[f"exponent_{side}"] = law.exponent
        found[f"tail_{side}"] = law.size
        found[f"distance_{side}"] = law.distance
    return found


def eigenvalues(features: np.ndarray) -> np.ndarray:  # (n, d) -> (d,), descending
    """Of the uncentred z'z."""
    return np.linalg.svd(features, compute_uv=False) ** 2


def effective_rank(spectrum: np.ndarray) -> float:  # (d,)
    """exp(-sum p ln p) with p = eigenvalues over their sum (Roy and Vetterli 2007)."""
    return float(np.exp(stats.entropy(spectrum)))


class Tail(NamedTuple):
    exponent: float  # of the density: p(x) ~ x^-exponent for x >= start
    start: float
    size: int
    distance: float


def fit_tail(values: np.ndarray) -> Tail:  # (n,)
    """Power law of the largest values, as Clauset, Shalizi and Newman (2009) fit it: for every
    value as the tail's start, exponent = 1 + n / sum ln(x / start); the start with the smallest
    Kolmogorov-Smirnov distance counts. A low exponent is a heavy tail.

    The package `powerlaw` 1.5 finds the same. Its version 2.0 only takes starts whose exponent is
    at most 3, so that a steeper tail gets another start, with a worse distance; Clauset et al. have
    no such bound."""
    ordered = np.sort(values[values > 0])
    best = Tail(np.nan, np.nan, 0, np.inf)
    for start in np.unique(ordered)[:-1]:
        tail = ordered[ordered >= start]
        total = np.log(tail / start).sum()
        if total <= 0:
            continue
        exponent = 1 + len(tail) / total
        law = 1 - (tail / start) ** (1 - exponent)
        distance = float(np.abs(law - np.arange(len(tail)) / len(tail)).max())
        if distance < best.distance:
            best = Tail(float(exponent), float(start), len(tail), distance)
    return best


# Attention


def attention_entropy(run: Run, epoch: int | None) -> dict[str, float]:
    """In nats, of ln 3 at most: the mean over heads of what each head's weights at "=" have, and
    the authors' number, which takes the entropy of the weights' mean over heads (never less than
    the mean of entropies) and averages all three rows, of which the output reads one."""
    it = subject(run, epoch)
    everywhere = it.shape._replace(read=tuple(range(it.shape.length)), constant_query=False)
    tokens = jnp.asarray(it.data.tokens)
    attention = attend(it.params, tokens, everywhere, it.numbers)
    return {
        "entropy_at_query": float(entropy(attention[:, -1]).mean()),
        "entropy_authors": float(entropy(attention.mean(axis=2)).mean()),
    }


# The tangent kernel


def kernel_drift(run: Run, epoch: int | None) -> dict[str, float]:
    """|K_t - K_0|_F / |K_0|_F of the class-centred tangent kernel on the first 32 training
    examples, K_ij = sum_c <grad g_c(x_i), grad g_c(x_j)> with g_c = f_c - mean f. (The authors'
    kernel is that of the sum of all outputs, which softmax ignores.)"""
    first, now = (kernel_of(subject(run, at)) for at in (run.snapshots[0], epoch))
    return {"kernel_drift": float(np.linalg.norm(now - first) / np.linalg.norm(first))}


def kernel_of(it: Subject) -> np.ndarray:  # -> (n, n)
    return np.asarray(_kernel(it.params, it.train[:KERNEL_INPUTS], it.shape, it.numbers))


@partial(jax.jit, static_argnums=2)
def _kernel(
    params: Params, tokens: jax.Array, shape: transformer.Shape, numbers: ModelNumbers
) -> jax.Array:  # (n, T) -> (n, n)
    attend = partial(normalise, kind=shape.attention)

    def output(weights: Params, one: jax.Array, pull: jax.Array) -> jax.Array:  # (T,), (C,)
        logits = transformer.respond(weights, one[None], shape, attend, numbers).logits[0, -1]
        return pull @ (logits - logits.mean())

    def of_class(pull: jax.Array) -> jax.Array:
        slopes = jax.vmap(jax.grad(output), in_axes=(None, 0, None))(params, tokens, pull)
        flat = jnp.concatenate([s.reshape(len(tokens), -1) for s in slopes.values()], axis=1)
        return flat @ flat.T

    return jax.lax.map(of_class, jnp.eye(shape.classes, dtype=jnp.float32)).sum(axis=0)
