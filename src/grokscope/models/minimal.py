"""The minimal transformer of arXiv 2605.15787: one attention layer read at the query, a ReLU MLP.

What differs from a textbook transformer: no residual, no LayerNorm, and only the last position,
the constant query token, is read out.

    e_t   = E[x_t] + P_t
    a_t^h = <W_Q^h e_q, W_K^h e_t> / sqrt(d/H)
    alpha = normalise(phi(a)), phi = exp (softmax) or relu (linear-ReLU)
    z     = sum_h W_O^h sum_t alpha_t^h W_V^h e_t          (W_O only if H > 1)
    f(z)  = W_2 relu(W_1 z + b_1) + b_2

`forward` computes this as it is written. `forward_fast` is the same function (values and
gradients, by test): since the query token is constant, logits and values depend on (token,
position) alone and are sums E-part + P-part, so both become look-ups in tables with a row per
token, and the T-fold matrix products over all examples disappear.

n examples, T positions, H heads, d width, m hidden units, V tokens, C classes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from grokscope.models import layers
from grokscope.models.layers import Attend, ModelNumbers, Params, Response, Tokens, normalise
from grokscope.spec import AttentionKind, InitKind, ModelSpec
from grokscope.tasks.data import TaskData


class Shape(NamedTuple):
    """All that decides the shapes of the weights and the form of the program."""

    vocabulary: int
    length: int
    classes: int
    width: int
    hidden: int
    heads: int
    attention: AttentionKind
    kind: str = "minimal"
    init: InitKind = "gaussian"

    @property
    def read(self) -> tuple[int, ...]:
        """Positions at which a prediction is made."""
        return (self.length - 1,)


class Forward(NamedTuple):
    logits: Float[Array, "n C"]
    scores: Float[Array, "n H T"]  # the query-key logits a
    attention: Float[Array, "n H T"]
    values: Float[Array, "n H T d"]  # after W_O if there are several heads
    pooled: Float[Array, "n d"]


def shape_of(model: ModelSpec, data: TaskData) -> Shape:
    return Shape(**layers.sizes_of(model, data), init=model.init)


def init(key: Array, shape: Shape, scale: float | Array = 1.0) -> Params:
    """By the shape's rule, times `scale`."""
    d, m = shape.width, shape.hidden
    sizes = {
        "embedding": (shape.vocabulary, d),
        "position": (shape.length, d),
        "query": (d, d),
        "key": (d, d),
        "value": (d, d),
        "hidden": (d, m),
        "readout": (m, shape.classes),
    }
    if shape.heads > 1:
        sizes["output"] = (d, d)
    biases = {"hidden_bias": (m, d), "readout_bias": (shape.classes, m)}
    return layers.draw(key, sizes, scale, shape.init, biases)


def visible(shape: Shape, rows: tuple[int, ...], length: int) -> Bool[Array, "P T"]:
    """The query looks at every position."""
    return jnp.ones((len(rows), length), bool)


def forward(params: Params, tokens: Tokens, shape: Shape) -> Forward:
    """The textbook forward, one line per formula."""
    n, length = tokens.shape
    heads, size = shape.heads, shape.width // shape.heads
    embedded = params["embedding"][tokens] + params["position"][:length]  # (n, T, d)
    query = (embedded[:, -1] @ params["query"]).reshape(n, heads, size)
    keys = (embedded @ params["key"]).reshape(n, length, heads, size)
    scores = jnp.einsum("nhs,nths->nht", query, keys) / jnp.sqrt(jnp.float32(size))
    attention = normalise(scores, shape.attention)
    values = (embedded @ params["value"]).reshape(n, length, heads, size)
    if heads > 1:
        output = params["output"].reshape(heads, size, shape.width)
        values = jnp.einsum("nths,hsd->nhtd", values, output)
    else:
        values = values.transpose(0, 2, 1, 3)
    pooled = jnp.einsum("nht,nhtd->nd", attention, values)
    return Forward(classify(params, pooled), scores, attention, values, pooled)


def forward_fast(params: Params, tokens: Tokens, shape: Shape) -> Forward:
    """The same function through tables. The last token must be the same in every example."""
    scores = score(params, tokens, shape)
    attention = normalise(scores, shape.attention)
    token_values, position_values = _value_tables(params, shape)
    values = (token_values[tokens] + position_values).transpose(0, 2, 1, 3)
    pooled = pool(params, tokens, attention, shape)
    return Forward(classify(params, pooled), scores, attention, values, pooled)


def respond(
    params: Params, tokens: Tokens, shape: Shape, attend: Attend, numbers: ModelNumbers
) -> Response:
    """The one prediction of each example, by look-up. This model has none of the numbers."""
    scores = score(params, tokens, shape)[:, None]
    attention = attend(scores)
    pooled = pool(params, tokens, attention[:, 0], shape)
    return Response(classify(params, pooled)[:, None], scores, attention)


def score(params: Params, tokens: Tokens, shape: Shape) -> Float[Array, "n H T"]:
    """Query-key logits by look-up: a_t = E[x_t]·u + P_t·u with u = W_K' W_Q e_q / sqrt(d/H)."""
    heads, size = shape.heads, shape.width // shape.heads
    asked = (params["embedding"][-1] + params["position"][-1]) @ params["query"]  # (d,)
    direction = jnp.einsum(
        "dhs,hs->dh", params["key"].reshape(-1, heads, size), asked.reshape(heads, size)
    ) / jnp.sqrt(jnp.float32(size))
    by_token = params["embedding"] @ direction  # (V, H)
    by_position = params["position"] @ direction  # (T, H)
    return (by_token[tokens] + by_position).transpose(0, 2, 1)


def pool(
    params: Params, tokens: Tokens, attention: Float[Array, "n H T"], shape: Shape
) -> Float[Array, "n d"]:
    """z = sum_ht alpha_t^h v_t^h by look-up."""
    token_values, position_values = _value_tables(params, shape)
    if shape.heads == 1:  # one axis less is 1.2 times as fast
        weights = attention[:, 0]
        mixed = jnp.einsum("nt,ntd->nd", weights, token_values[:, 0][tokens])
        return mixed + weights @ position_values[:, 0]
    mixed = jnp.einsum("nht,nthd->nd", attention, token_values[tokens])
    return mixed + jnp.einsum("nht,thd->nd", attention, position_values)


def classify(params: Params, pooled: Float[Array, "n d"]) -> Float[Array, "n C"]:
    hidden = jax.nn.relu(pooled @ params["hidden"] + params["hidden_bias"])
    return hidden @ params["readout"] + params["readout_bias"]


def _value_tables(
    params: Params, shape: Shape
) -> tuple[Float[Array, "V H d"], Float[Array, "T H d"]]:
    """W_O^h W_V^h applied to every token and to every position."""
    heads, size, width = shape.heads, shape.width // shape.heads, shape.width
    if heads == 1:
        tables = (params[name] @ params["value"] for name in ("embedding", "position"))
        by_token, by_position = (table.reshape(-1, 1, width) for table in tables)
        return by_token, by_position
    through = jnp.einsum(
        "dhs,hsw->dhw",
        params["value"].reshape(width, heads, size),
        params["output"].reshape(heads, size, width),
    )
    return (
        jnp.einsum("vd,dhw->vhw", params["embedding"], through),
        jnp.einsum("td,dhw->thw", params["position"], through),
    )
