"""A general transformer: several layers and heads, causal or not, read at any position.

What differs from a textbook decoder: everything is optional (residuals, where a LayerNorm stands,
how positions are known), and only what is read is computed in the last layer.

    x   = E[token] (+ P_t if positions are learned)
    x   = x + W_O sum_h attend(q^h, k^h, v^h),  q, k, v = W_Q x, W_K x, W_V x
    x   = x + W_2 phi(W_1 x + b_1) + b_2
    out = scale * U x

Norms may stand before queries and keys, before values, before the MLP, after each sum, and before
the unembedding U. Rotary positions turn queries and keys by an angle that grows with the position.

n examples, T positions, P predictions, H heads, d width, m hidden units, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from grokscope.models.minimal import Params, Response, normalise
from grokscope.spec import ActivationKind, AttentionKind, NormKind, PositionKind

Attend = Callable[[jax.Array], jax.Array]

ROTARY_BASE = 10_000.0
NORM_EPSILON = 1e-5


class Shape(NamedTuple):
    """All that decides the shapes of the weights and the form of the program."""

    vocabulary: int
    length: int
    classes: int
    width: int
    hidden: int
    heads: int
    attention: AttentionKind
    layers: int
    positions: PositionKind
    causal: bool
    residual: bool
    norm: tuple[str, ...]
    norm_kind: NormKind
    activation: ActivationKind
    readout_scale: float
    read: tuple[int, ...]  # positions at which a prediction is made


def init(key: jax.Array, shape: Shape, scale: float | jax.Array = 1.0) -> Params:
    """Gaussian weights with variance 1/fan_in, zero biases, norms that change nothing; all but the
    norms times `scale`."""
    d, m = shape.width, shape.hidden
    sizes = {"embedding": (shape.vocabulary, d), "unembedding": (d, shape.classes)}
    if shape.positions == "learned":
        sizes["position"] = (shape.length, d)
    for layer in range(shape.layers):
        for name in ("query", "key", "value", "output"):
            sizes[f"block{layer}.{name}"] = (d, d)
        sizes[f"block{layer}.hidden"] = (d, m)
        sizes[f"block{layer}.readout"] = (m, d)
    noise = jax.random.normal(key, (sum(a * b for a, b in sizes.values()),), jnp.float32)
    params, begin = {}, 0
    for name, (rows, columns) in sizes.items():
        fan_in = d if name in ("embedding", "position") else rows
        block = noise[begin : begin + rows * columns].reshape(rows, columns)
        params[name] = block * (scale / jnp.sqrt(jnp.float32(fan_in)))
        begin += rows * columns
    for layer in range(shape.layers):
        params[f"block{layer}.hidden_bias"] = jnp.zeros(m, jnp.float32)
        params[f"block{layer}.readout_bias"] = jnp.zeros(d, jnp.float32)
        for place in _norms_of_a_block(shape):
            params |= _new_norm(f"block{layer}.{place}", shape)
    if "final" in shape.norm:
        params |= _new_norm("final", shape)
    return params


def _norms_of_a_block(shape: Shape) -> list[str]:
    """Names of the norms in each block; `post` has one after attention and one after the MLP."""
    names = [place for place in shape.norm if place not in ("post", "final")]
    return [*names, *(["post_attention", "post_mlp"] if "post" in shape.norm else [])]


def _new_norm(name: str, shape: Shape) -> Params:
    gain = {f"{name}_gain": jnp.ones(shape.width, jnp.float32)}
    if shape.norm_kind == "rms":
        return gain
    return gain | {f"{name}_bias": jnp.zeros(shape.width, jnp.float32)}


def respond(params: Params, tokens: jax.Array, shape: Shape, attend: Attend) -> Response:
    """Predictions at the positions in `shape.read`, with the last layer's attention there.

    `attend` makes the last layer's weights (n, P, H, T) from its logits, in which positions that
    may not be seen are -inf.
    """
    length = tokens.shape[1]
    x = params["embedding"][tokens]  # (n, T, d)
    if shape.positions == "learned":
        x = x + params["position"][:length]
    everywhere = tuple(range(length))
    for layer in range(shape.layers - 1):
        x, _, _ = _block(
            params, layer, x, everywhere, shape, lambda s: normalise(s, shape.attention)
        )
    last = shape.layers - 1
    x, scores, attention = _block(params, last, x, shape.read, shape, attend)
    if "final" in shape.norm:
        x = _norm(params, "final", x, shape)
    logits = shape.readout_scale * (x @ params["unembedding"])
    return Response(logits, scores, attention)


def visible(shape: Shape, rows: tuple[int, ...], length: int) -> jax.Array:  # (P, T) bool
    """Which positions a row may look at."""
    if not shape.causal:
        return jnp.ones((len(rows), length), bool)
    return jnp.arange(length)[None, :] <= jnp.asarray(rows)[:, None]


def _block(
    params: Params, layer: int, x: jax.Array, rows: tuple[int, ...], shape: Shape, attend: Attend
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One layer at `rows`: the stream (n, P, d), query-key logits and weights (n, P, H, T)."""
    n, length, d = x.shape
    heads, size = shape.heads, d // shape.heads
    name = f"block{layer}"
    here = x if len(rows) == length else x[:, jnp.asarray(rows)]

    def project(which: str, place: str, stream: jax.Array) -> jax.Array:  # -> (n, ., H, d/H)
        stream = _norm_at(params, name, place, stream, shape)
        return (stream @ params[f"{name}.{which}"]).reshape(n, -1, heads, size)

    query = project("query", "query_key", here)
    key = project("key", "query_key", x)
    value = project("value", "value", x)
    if shape.positions == "rotary":
        query, key = rotate(query, jnp.asarray(rows)), rotate(key, jnp.arange(length))
    scores = jnp.einsum("nphs,nths->npht", query, key) / jnp.sqrt(jnp.float32(size))
    seen = visible(shape, rows, length)[None, :, None, :]
    attention = attend(jnp.where(seen, scores, -jnp.inf))
    mixed = jnp.einsum("npht,nths->nphs", attention, value).reshape(n, len(rows), d)
    y = mixed @ params[f"{name}.output"]
    y = _norm_at(params, name, "post_attention", here + y if shape.residual else y, shape)
    z = _norm_at(params, name, "mlp", y, shape) @ params[f"{name}.hidden"]
    activate = jax.nn.relu if shape.activation == "relu" else jax.nn.gelu
    z = activate(z + params[f"{name}.hidden_bias"])
    z = z @ params[f"{name}.readout"] + params[f"{name}.readout_bias"]
    z = _norm_at(params, name, "post_mlp", y + z if shape.residual else z, shape)
    return z, scores, attention


def rotate(vectors: jax.Array, positions: jax.Array) -> jax.Array:  # (n, P, H, s), (P,)
    """Rotary positions: the pair (i, i + s/2) is turned by position / base^(2i/s)."""
    half = vectors.shape[-1] // 2
    speed = ROTARY_BASE ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions[:, None].astype(jnp.float32) * speed  # (P, s/2)
    cosine, sine = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    first, second = vectors[..., :half], vectors[..., half:]
    return jnp.concatenate(
        [first * cosine - second * sine, first * sine + second * cosine], axis=-1
    )


def _norm_at(params: Params, block: str, place: str, x: jax.Array, shape: Shape) -> jax.Array:
    """The norm of a place, if one stands there; "attention" is one for both of its places."""
    if "attention" in shape.norm and place in ("query_key", "value"):
        place = "attention"
    name = f"{block}.{place}"
    return _norm(params, name, x, shape) if f"{name}_gain" in params else x


def _norm(params: Params, name: str, x: jax.Array, shape: Shape) -> jax.Array:
    if shape.norm_kind == "layer":
        x = x - x.mean(axis=-1, keepdims=True)
    x = x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + NORM_EPSILON)
    x = x * params[f"{name}_gain"]
    return x + params[f"{name}_bias"] if shape.norm_kind == "layer" else x
