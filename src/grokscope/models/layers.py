"""What the models share: the pieces of a layer, and what a model takes and gives.

n examples, P predictions, H heads, T positions, s = d/H numbers per head, d width, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float, Int

from grokscope.models.roles import ATTENTION, LOOK_UPS, MLP, role
from grokscope.spec import AttentionKind, InitKind, ModelSpec
from grokscope.spec.fields import require
from grokscope.tasks.data import TaskData

Params = dict[str, Array]
Tokens = Int[Array, "n T"]
Scores = Float[Array, "n P H T"]
Attend = Callable[[Array], Array]  # Scores to Scores: query-key logits to attention weights

ROTARY_BASE = 10_000.0
POSITION_SPREAD = 0.02  # of learned positions, in PyTorch's habits
CUT = 2.0  # standard deviations at which LeCun's normal is cut
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,  # the tanh approximation
    "gelu_exact": lambda x: x * (0.5 + 0.5 * jax.lax.erf(x * 0.5**0.5)),
}


class ModelNumbers(NamedTuple):
    """Numbers of a model that are data: sweeping them recompiles nothing."""

    readout_scale: Any = 1.0
    norm_epsilon: Any = 1e-5


class Response(NamedTuple):
    """What training and measuring need of any model."""

    logits: Float[Array, "n P C"]
    scores: Scores  # the query-key logits
    attention: Scores


def sizes_of(model: ModelSpec, data: TaskData) -> dict[str, Any]:
    """What every shape has."""
    names = ("width", "hidden", "heads", "attention")
    require(
        model.outputs == 0 or model.outputs >= data.classes,
        f"model.outputs is {model.outputs}; the task has {data.classes} classes.",
    )
    return {
        **{name: getattr(data, name) for name in ("vocabulary", "length")},
        **{name: getattr(model, name) for name in names},
        "classes": model.outputs or data.classes,
    }


def draw(
    key: Array,
    sizes: Mapping[str, tuple[int, int]],
    scale: float | Array,
    rule: InitKind = "gaussian",
    biases: Mapping[str, tuple[int, int]] | None = None,
) -> Params:
    """Matrices by a rule of initialisation, times `scale`; `biases` have a size and a fan-in. But
    by PyTorch's rule, tokens start with about unit norm, and biases are zero."""
    biases = biases or {}
    params = {name: jnp.zeros(size, jnp.float32) for name, (size, _) in biases.items()}
    every = {name: (*size, size[name in LOOK_UPS]) for name, size in sizes.items()}
    if rule == "pytorch":
        every |= {name: (1, size, fan_in) for name, (size, fan_in) in biases.items()}
    # One draw for all arrays: a generator per array takes seconds to compile.
    noise = jax.random.normal(key, (sum(a * b for a, b, _ in every.values()),), jnp.float32)
    begin = 0
    for name, (rows, columns, fan_in) in every.items():
        block = noise[begin : begin + rows * columns].reshape(rows, columns)
        shaped = SHAPING[rule].get(role(name), lambda block: block)(block)
        shaped = shaped * (scale / jnp.sqrt(jnp.float32(fan_in)))
        params[name] = shaped[0] if name in biases else shaped
        begin += rows * columns
    return params


def _cut(noise: Float[Array, "a b"]) -> Float[Array, "a b"]:
    """A normal cut at +-2, of variance 0.774, by its distribution function."""
    tail = (1 - math.erf(CUT / 2**0.5)) / 2
    return ndtri(tail + (1 - 2 * tail) * ndtr(noise))


def _packed_uniform(noise: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Xavier's uniform of the block (3d, d) that holds queries, keys and values: bound
    sqrt(6 / 4d), here without the division by sqrt(d)."""
    return 1.5**0.5 * _uniform(noise)


def _uniform(noise: Float[Array, "a b"]) -> Float[Array, "a b"]:
    return 2 * ndtr(noise) - 1


def _unit(noise: Float[Array, "V d"]) -> Float[Array, "V d"]:
    return noise * noise.shape[1] ** 0.5


def _small(noise: Float[Array, "T d"]) -> Float[Array, "T d"]:
    return noise * (POSITION_SPREAD * noise.shape[1] ** 0.5)


def _double(noise: Float[Array, "a b"]) -> Float[Array, "a b"]:
    """Kaiming's normal has variance 2/fan_in."""
    return noise * 2**0.5


# What becomes of a unit Gaussian before it is divided by sqrt(fan_in), by the role of the array.
_PACKED = {**dict.fromkeys(("query", "key", "value"), _packed_uniform), "position": _small}
_LINEAR = ("output", "hidden", "readout")
SHAPING: dict[str, dict[str, Callable[[Array], Array]]] = {
    "gaussian": {},
    "pytorch": {
        **dict.fromkeys(LOOK_UPS, _unit),
        **dict.fromkeys((*ATTENTION, *MLP, "unembedding"), _uniform),
    },
    "lecun": {**_PACKED, **dict.fromkeys(_LINEAR, _cut)},
    "kaiming": {**_PACKED, **dict.fromkeys(_LINEAR, _double)},
}


def normalise(scores: Float[Array, "*rows T"], kind: AttentionKind) -> Float[Array, "*rows T"]:
    """Attention weights from query-key logits; -inf is what may not be seen. Linear-ReLU attention
    is uniform over the rest where no score is positive, since the quotient is undefined there."""
    if kind == "softmax":
        return jax.nn.softmax(scores, axis=-1)
    positive = jax.nn.relu(scores)
    total = positive.sum(axis=-1, keepdims=True)
    safe = jnp.where(total > 0, total, 1.0)
    seen = (scores > -jnp.inf).astype(scores.dtype)
    return jnp.where(total > 0, positive / safe, seen / seen.sum(axis=-1, keepdims=True))


def rotate(vectors: Float[Array, "n P H s"], positions: Sequence[int]) -> Float[Array, "n P H s"]:
    """Rotary positions: the pair (i, i + s/2) is turned by position / base^(2i/s)."""
    half = vectors.shape[-1] // 2
    speed = ROTARY_BASE ** (-np.arange(half) / half)
    angle = (np.asarray(positions)[:, None] * speed)[None, :, None, :]  # (1, P, 1, s/2)
    cosine, sine = (jnp.asarray(part, vectors.dtype) for part in (np.cos(angle), np.sin(angle)))
    first, second = vectors[..., :half], vectors[..., half:]
    return jnp.concatenate(
        [first * cosine - second * sine, first * sine + second * cosine], axis=-1
    )
