"""A general transformer: several layers and heads, causal or not, read at any position.

    x   = E[token] (+ P_t if positions are learned)
    x   = x + W_O sum_h attend(q^h, k^h, v^h),  q, k, v = W_Q x, W_K x, W_V x
    x   = x + W_2 phi(W_1 x + b_1) + b_2
    out = scale * U x

Norms may stand before queries and keys, before values, before the MLP, after each sum, and before
the unembedding U. Rotary positions turn queries and keys by an angle that grows with the position.

What differs from a textbook decoder: everything is optional (residuals, where a norm stands, how
positions are known), and two things are left out of the computation, exactly (by test):

- The input of the first layer depends on (token, position) alone, norms and rotations included. Its
  queries, keys and values are computed once for each pair and looked up. If that layer is also the
  last, read at the end, where every example has the same token, then so are its scores, and no
  product over all positions of all examples is left.
- The last layer is computed only where it is read.

n examples, T positions, P predictions, H heads, s = d/H, d width, m hidden units, V tokens,
C classes. R is n, or V where a table has a row for each token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from grokscope.models import layers
from grokscope.models.layers import Attend, ModelNumbers, Params, Response, Scores, Tokens
from grokscope.models.roles import INTERACTION
from grokscope.spec import (
    ActivationKind,
    AttentionKind,
    InitKind,
    ModelSpec,
    NormKind,
    PositionKind,
)
from grokscope.tasks.data import TaskData

Rows = tuple[int, ...]  # P positions


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
    norm_gain: bool
    activation: ActivationKind
    read: Rows  # positions at which a prediction is made
    constant_query: bool  # do all examples end with the same token?
    kind: str = "transformer"
    biases: bool = True  # in the MLP and in LayerNorms
    tied: bool = False  # is the unembedding the embedding?
    init: InitKind = "gaussian"


def shape_of(model: ModelSpec, data: TaskData) -> Shape:
    return Shape(
        **layers.sizes_of(model, data),
        layers=model.layers,
        positions=model.positions,
        causal=model.masking == "causal",
        residual=model.residual == "yes",
        norm=tuple(model.norm.split("+")) if model.norm else (),
        norm_kind=model.norm_kind,
        norm_gain=model.norm_gain == "yes",
        activation=model.activation,
        read=tuple(range(data.length)) if data.determined else (data.length - 1,),
        constant_query=bool((data.tokens[:, -1] == data.tokens[0, -1]).all()),
        init=model.init,
    )


def init(key: Array, shape: Shape, scale: float | Array = 1.0) -> Params:
    """Matrices and biases by the shape's rule, norms that change nothing; all but the norms times
    `scale`."""
    d, m = shape.width, shape.hidden
    sizes = {"embedding": (shape.vocabulary, d)}
    if not shape.tied:
        sizes["unembedding"] = (d, shape.classes)
    if shape.positions == "learned":
        sizes["position"] = (shape.length, d)
    biases: dict[str, tuple[int, int]] = {}
    for layer in range(shape.layers):
        for name in ("query", "key", "value", "output"):
            sizes[f"block{layer}.{name}"] = (d, d)
        sizes[f"block{layer}.hidden"] = (d, m)
        sizes[f"block{layer}.readout"] = (m, d)
        if shape.biases:
            biases |= {f"block{layer}.hidden_bias": (m, d), f"block{layer}.readout_bias": (d, m)}
    params = layers.draw(key, sizes, scale, shape.init, biases)
    for name in _norms(shape) if shape.norm_gain else ():
        params[f"{name}_gain"] = jnp.ones(d, jnp.float32)
        if shape.norm_kind == "layer" and shape.biases:
            params[f"{name}_bias"] = jnp.zeros(d, jnp.float32)
    return params


def _norms(shape: Shape) -> list[str]:
    """Names of all norms; `post` has one after attention and one after the MLP."""
    places = [place for place in shape.norm if place not in ("post", "final")]
    places += ["post_attention", "post_mlp"] if "post" in shape.norm else []
    names = [f"block{layer}.{place}" for layer in range(shape.layers) for place in places]
    return [*names, *(["final"] if "final" in shape.norm else [])]


def visible(shape: Shape, rows: Rows, length: int) -> Bool[Array, "P T"]:
    """Which positions a row may look at."""
    if not shape.causal:
        return jnp.ones((len(rows), length), bool)
    return jnp.arange(length)[None, :] <= jnp.asarray(rows)[:, None]


def respond(
    params: Params, tokens: Tokens, shape: Shape, attend: Attend, numbers: ModelNumbers
) -> Response:
    """Predictions at the positions in `shape.read`, with the last layer's attention there.

    `attend` makes the last layer's weights from its logits, in which positions that may not be seen
    are -inf.
    """
    x, scores, attention = encode(params, tokens, shape, attend, numbers)
    unembedding = params["embedding"].T if shape.tied else params["unembedding"]
    return Response(numbers.readout_scale * (x @ unembedding), scores, attention)


def encode(
    params: Params,
    tokens: Tokens,
    shape: Shape,
    attend: Attend,
    numbers: ModelNumbers,
    rescale: Callable[[Array], Array] = lambda x: x,
) -> tuple[Float[Array, "n P d"], Scores, Scores]:
    """What the unembedding reads, with the last layer's scores and attention. `rescale` changes the
    input of every MLP (before its norm), for probes."""
    net, length = _Net(params, shape, numbers, rescale), tokens.shape[1]
    # Tables pay while they have fewer rows than there are examples.
    pairs = tokens if len(tokens) > shape.vocabulary else None
    x = params["embedding"][tokens]  # (n, T, d)
    if pairs is not None:
        size = (shape.vocabulary, length, shape.width)
        x = jnp.broadcast_to(params["embedding"][:, None], size)
    if shape.positions == "learned":
        x = x + params["position"][:length]
    everywhere, inner = tuple(range(length)), partial(layers.normalise, kind=shape.attention)
    for layer in range(shape.layers - 1):
        x, _, _ = net.block(f"block{layer}", x, pairs, everywhere, inner)
        pairs = None
    x, scores, attention = net.block(f"block{shape.layers - 1}", x, pairs, shape.read, attend)
    return net.norm("final", x), scores, attention


class Attended(NamedTuple):
    """What attention found, and the stream that it is added to."""

    stream: Float[Array, "_ P d"]  # one row if it is the same for all examples
    mixed: Float[Array, "n P H s"]
    scores: Scores
    attention: Scores


class _Net(NamedTuple):
    """A model in use: what every piece of it needs."""

    params: Params
    shape: Shape
    numbers: ModelNumbers
    rescale: Callable[[Array], Array]

    def block(
        self, at: str, x: Float[Array, "R T d"], pairs: Tokens | None, rows: Rows, attend: Attend
    ) -> tuple[Float[Array, "n P d"], Scores, Scores]:
        """One layer at `rows`: the stream, query-key logits and attention. If `pairs` are given,
        the token at each position, x is a table with a row for each token."""
        params, shape = self.params, self.shape
        if pairs is not None and shape.constant_query and rows == (x.shape[1] - 1,):
            here, mixed, scores, attention = self.ask_once(at, x, pairs, rows, attend)
        else:
            here, mixed, scores, attention = self.ask(at, x, pairs, rows, attend)
        y = mixed.reshape(*mixed.shape[:2], shape.width) @ params[f"{at}.output"]
        y = self.norm(f"{at}.post_attention", here + y if shape.residual else y)
        z = self.norm(f"{at}.mlp", self.rescale(y)) @ params[f"{at}.hidden"]
        z = z + params[f"{at}.hidden_bias"] if shape.biases else z
        z = layers.ACTIVATIONS[shape.activation](z) @ params[f"{at}.readout"]
        z = z + params[f"{at}.readout_bias"] if shape.biases else z
        z = self.norm(f"{at}.post_mlp", y + z if shape.residual else z)
        return z, scores, attention

    def ask(
        self, at: str, x: Float[Array, "R T d"], pairs: Tokens | None, rows: Rows, attend: Attend
    ) -> Attended:
        """Attention of each row of each example."""
        everywhere = tuple(range(x.shape[1]))
        here, asking = x, pairs
        if rows != everywhere:
            here = x[:, jnp.asarray(rows)]
            asking = None if pairs is None else pairs[:, jnp.asarray(rows)]
        query = self.project(f"{at}.query", here, rows)
        key, value = self.project(f"{at}.key", x, everywhere), self.project(f"{at}.value", x)
        if pairs is not None and asking is not None:
            here, query = _look_up(here, asking), _look_up(query, asking)
            key, value = _look_up(key, pairs), _look_up(value, pairs)
        scores = jnp.einsum("nphs,nths->npht", query, key) / query.shape[-1] ** 0.5
        attention = attend(self.mask(scores, rows))
        mixed = jnp.einsum("npht,nths->nphs", attention, value)
        return Attended(here, mixed, scores, attention)

    def ask_once(
        self, at: str, x: Float[Array, "V T d"], pairs: Tokens, rows: Rows, attend: Attend
    ) -> Attended:
        """Attention from the last position, where all examples have the same token: one query for
        all, so that its scores are a table, too."""
        everywhere = tuple(range(x.shape[1]))
        here = x[pairs[:1, -1], -1:]  # (1, 1, d)
        query = self.project(f"{at}.query", here, rows)
        key, value = self.project(f"{at}.key", x, everywhere), self.project(f"{at}.value", x)
        table = jnp.einsum("qphs,vths->vtph", query, key) / query.shape[-1] ** 0.5
        scores = _look_up(table, pairs).transpose(0, 2, 3, 1)
        attention = attend(self.mask(scores, rows))
        # A loop over the few positions: look-up, product and sum are one pass then, which takes
        # half the time of an einsum over looked-up values.
        mixed = jnp.float32(0)  # not a number of 64 bits where the loss has them
        for t in everywhere:
            mixed = mixed + attention[..., t, None] * value[pairs[:, t], t][:, None]
        return Attended(here, mixed, scores, attention)

    def mask(self, scores: Scores, rows: Rows) -> Scores:
        seen = visible(self.shape, rows, scores.shape[-1])
        return jnp.where(seen[None, :, None, :], scores, -jnp.inf)

    def project(
        self, name: str, x: Float[Array, "R P d"], positions: tuple[int, ...] = ()
    ) -> Float[Array, "R P H s"]:
        """Queries, keys or values: normed, multiplied, turned where they have positions."""
        block, _, role = name.rpartition(".")
        x = self.norm(f"{block}.{'query_key' if role in INTERACTION else role}", x)
        heads = (x @ self.params[name]).reshape(*x.shape[:2], self.shape.heads, -1)
        turned = self.shape.positions == "rotary" and positions
        return layers.rotate(heads, positions) if turned else heads

    def norm(self, name: str, x: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
        """The norm of a name, if there is one; "attention" is one for queries, keys and values."""
        shape, (block, _, place) = self.shape, name.rpartition(".")
        if place in ("query_key", "value") and "attention" in shape.norm:
            name = f"{block}.attention"
        if name not in _norms(shape):
            return x
        if shape.norm_kind == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        x = x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + self.numbers.norm_epsilon)
        if shape.norm_gain:
            x = x * self.params[f"{name}_gain"]
        if shape.norm_gain and shape.norm_kind == "layer" and shape.biases:
            x = x + self.params[f"{name}_bias"]
        return x


def _look_up(table: Float[Array, "V T *what"], pairs: Tokens) -> Float[Array, "n T *what"]:
    """The table's entry for the token at each position."""
    return table[pairs, jnp.arange(pairs.shape[1])]
