"""The general transformer: it is its formula, whatever is looked up instead of computed; it does
not look ahead, and it reads what it is asked for."""

from __future__ import annotations

from functools import partial
from itertools import chain, combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from grokscope.models import minimal, transformer
from grokscope.models.layers import ModelNumbers, normalise, rotate

BASE = transformer.Shape(
    vocabulary=7,
    length=6,
    classes=5,
    width=8,
    hidden=12,
    heads=2,
    attention="softmax",
    layers=2,
    positions="rotary",
    causal=True,
    residual=True,
    norm=("attention", "mlp", "final"),
    norm_kind="layer",
    norm_gain=True,
    activation="gelu",
    read=(1, 5),
    constant_query=False,
)
NUMBERS = ModelNumbers(readout_scale=0.7, norm_epsilon=1e-3)
TOKENS = np.random.default_rng(0).integers(0, 7, size=(9, 6))  # more examples than tokens: tables
ASKED = np.concatenate([TOKENS[:, :-1], np.full((9, 1), 3)], axis=1)  # all end with token 3
VARIANTS = {
    "pre-norm, rotary": {},
    "plain": {"norm": (), "positions": "learned", "activation": "relu", "layers": 1},
    "post, rms": {"norm": ("post",), "norm_kind": "rms", "positions": "none"},
    "split norms": {"norm": ("query_key", "value", "mlp"), "residual": False},
    "not causal, linear": {"causal": False, "attention": "linear_relu"},
    "causal, linear": {"attention": "linear_relu", "layers": 1},
    "exact GELU, no gains": {"activation": "gelu_exact", "norm_gain": False, "layers": 3},
    "read at the last": {"read": (5,), "positions": "learned"},
}


def make(**changes):
    shape = BASE._replace(**changes)
    params = transformer.init(jax.random.key(3), shape, 1.5)
    noise = np.random.default_rng(1)
    # Biases and gains start where a forgotten one is not seen.
    for name in params:
        if params[name].ndim == 1:
            params[name] += 0.3 * noise.normal(size=params[name].shape).astype(np.float32)
    return shape, params


def attend_as(shape):
    return partial(normalise, kind=shape.attention)


@partial(jax.jit, static_argnums=2)
def respond(params, tokens, shape):
    return transformer.respond(params, tokens, shape, attend_as(shape), NUMBERS)


def weigh(scores, kind):
    """Attention weights, in NumPy."""
    some = np.exp(scores - scores.max(-1, keepdims=True))
    if kind == "linear_relu":
        seen = np.isfinite(scores)
        some = np.maximum(np.where(seen, scores, 0), 0)
        some = np.where(some.sum(-1, keepdims=True) > 0, some, seen)
    return some / some.sum(-1, keepdims=True)


def textbook(w, tokens, shape, attend):
    """Every example at every position of every layer, without a short cut, in NumPy."""
    size, length = shape.width // shape.heads, tokens.shape[1]

    def norm(name, x):
        place = name.rpartition(".")[2]
        if not {place, place.partition("_")[0]} & set(shape.norm):
            return x
        if shape.norm_kind == "layer":
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + NUMBERS.norm_epsilon)
        return x * w.get(f"{name}_gain", 1.0) + w.get(f"{name}_bias", 0.0)

    def turn(x):  # (n, T, H, s): pairs of numbers as complex ones
        if shape.positions != "rotary":
            return x
        speed = 10_000 ** (-2 * np.arange(size // 2) / size)
        angle = np.arange(length)[:, None, None] * speed
        turned = (x[..., : size // 2] + 1j * x[..., size // 2 :]) * np.exp(1j * angle)
        return np.concatenate([turned.real, turned.imag], -1)

    def activate(x):
        if shape.activation == "relu":
            return np.maximum(x, 0)
        if shape.activation == "gelu_exact":
            return x * ndtr(x)
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    x = w["embedding"][tokens]
    if shape.positions == "learned":
        x = x + w["position"]
    for layer in range(shape.layers):
        at = f"block{layer}"
        whole = "attention" in shape.norm
        routed = norm(f"{at}.attention" if whole else f"{at}.query_key", x)
        read = norm(f"{at}.attention" if whole else f"{at}.value", x)
        query, key, value = (
            (stream @ w[f"{at}.{name}"]).reshape(*x.shape[:2], shape.heads, size)
            for name, stream in (("query", routed), ("key", routed), ("value", read))
        )
        scores = np.einsum("nphs,nths->npht", turn(query), turn(key)) / np.sqrt(size)
        ahead = np.arange(length) > np.arange(length)[:, None]
        masked = np.where(shape.causal & ahead[:, None], -np.inf, scores)
        last = layer == shape.layers - 1
        attention = attend(masked) if last else weigh(masked, shape.attention)
        mixed = np.einsum("npht,nths->nphs", attention, value).reshape(x.shape)
        y = mixed @ w[f"{at}.output"]
        y = norm(f"{at}.post_attention", x + y if shape.residual else y)
        z = activate(norm(f"{at}.mlp", y) @ w[f"{at}.hidden"] + w[f"{at}.hidden_bias"])
        z = z @ w[f"{at}.readout"] + w[f"{at}.readout_bias"]
        x = norm(f"{at}.post_mlp", y + z if shape.residual else z)
    return NUMBERS.readout_scale * (norm("final", x) @ w["unembedding"]), scores, attention


def check(shape, params, tokens, nudge=0.0, frozen=None):
    """Values, and the slope in a random direction of all weights, in double precision. The logits
    of the last attention are nudged, or it is replaced; both are (n, T, H, T)."""
    rng, rows = np.random.default_rng(4), list(shape.read)
    weights = {name: np.asarray(array, np.float64) for name, array in params.items()}
    way = {name: rng.normal(size=array.shape) for name, array in weights.items()}
    pull = rng.normal(size=(len(tokens), len(rows), shape.classes))
    nudge = np.broadcast_to(nudge, (len(tokens), 6, shape.heads, 6))

    def theirs(step):
        moved = {name: array + step * way[name] for name, array in weights.items()}
        logits, scores, attention = textbook(
            moved,
            tokens,
            shape,
            lambda scores: weigh(scores + nudge, shape.attention) if frozen is None else frozen,
        )
        return logits[:, rows], scores[:, rows], attention[:, rows]

    def objective(logits, attention):
        return (logits * pull).sum() + (attention**2).sum()

    with jax.enable_x64():

        def attend(scores):
            if frozen is not None:
                return jnp.asarray(frozen[:, rows])
            return normalise(scores + nudge[:, rows], shape.attention)

        def ours(weights):
            found = transformer.respond(weights, jnp.asarray(tokens), shape, attend, NUMBERS)
            return objective(found.logits, found.attention), found

        given = {name: jnp.asarray(array) for name, array in weights.items()}
        slopes, found = jax.device_get(jax.grad(ours, has_aux=True)(given))
    for one, other in zip(found, theirs(0.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=str(shape))
    (up, _, a), (down, _, b) = theirs(1e-6), theirs(-1e-6)
    slope = (objective(up, a) - objective(down, b)) / 2e-6
    size = np.sqrt(sum((array**2).sum() for array in slopes.values()))
    along = sum((slopes[name] * way[name]).sum() for name in way)
    np.testing.assert_allclose(along, slope, atol=1e-6 * size, err_msg=str(shape))


INNER = [(), ("attention",), ("query_key",), ("value",), ("query_key", "value")]
OUTER = [*chain.from_iterable(combinations(("mlp", "post", "final"), k) for k in range(4))]
KINDS = [*product(("learned", "rotary", "none"), ("layer", "rms"))]
OTHERS = {
    "residual": (True, False),
    "causal": (True, False),
    "heads": (1, 2, 4),
    "attention": ("softmax", "linear_relu"),
}


def test_it_is_its_formula():
    for changes in VARIANTS.values():
        check(*make(**changes), TOKENS)
        check(*make(**changes, vocabulary=9), TOKENS)  # no table has more rows than examples
    # One block, read where all examples have the same token, with norms in every combination of
    # places; positions and kinds of norms go round, what else may differ is drawn.
    rng = np.random.default_rng(0)
    for (i, inner), (k, outer) in product(enumerate(INNER), enumerate(OUTER)):
        changes = {name: choices[rng.integers(len(choices))] for name, choices in OTHERS.items()}
        changes["positions"], changes["norm_kind"] = KINDS[(i + k) % len(KINDS)]
        changes["norm"] = (*inner, *outer)
        shape, params = make(layers=1, read=(5,), constant_query=True, **changes)
        nudge, posterior = rng.normal(size=(2, 9, 6, shape.heads, 6))
        check(shape, params, ASKED, nudge, posterior if k == 3 else None)


@pytest.mark.parametrize("attention", ["softmax", "linear_relu"])
@pytest.mark.parametrize("vocabulary", [7, 9])
def test_it_does_not_look_ahead(vocabulary, attention):
    shape, params = make(read=(0, 1, 2, 3, 4, 5), attention=attention, vocabulary=vocabulary)
    changed = TOKENS.copy()
    changed[:, 4] = (changed[:, 4] + 1) % 7
    before, after = (respond(params, jnp.asarray(t), shape).logits for t in (TOKENS, changed))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert (np.abs(before[:, 4:] - after[:, 4:]) > 1e-4).any(axis=-1).all()


def test_reading_less_changes_nothing():
    everywhere, params = make(read=(0, 1, 2, 3, 4, 5))
    some = everywhere._replace(read=(2, 5))
    whole, part = (respond(params, jnp.asarray(TOKENS), s).logits for s in (everywhere, some))
    np.testing.assert_allclose(whole[:, [2, 5]], part, rtol=1e-5, atol=1e-6)


def test_numbers_are_data():
    """Neither the scale of the readout nor the epsilon of norms is compiled in."""
    shape, params = make()
    tokens = jnp.asarray(TOKENS)
    compiled = jax.jit(lambda n: transformer.respond(params, tokens, shape, attend_as(shape), n))
    once, twice = (
        compiled(ModelNumbers(np.float32(scale), np.float32(1e-5))).logits for scale in (1, 2)
    )
    np.testing.assert_allclose(2 * once, twice, rtol=1e-6)
    other = compiled(ModelNumbers(np.float32(1), np.float32(0.1))).logits
    assert np.abs(once - other).max() > 1e-3
    assert compiled._cache_size() == 1


@pytest.mark.parametrize("tokens", [TOKENS, ASKED], ids=["any query", "one query"])
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_loss_in_64_bits_leaves_the_model_in_32(changes, tokens):
    """In 64 bits the same step takes twice as long, and it is not the authors' model."""
    last = {"read": (5,), "constant_query": True, "layers": 1} if tokens is ASKED else {}
    shape, params = make(**{**changes, **last})
    with jax.enable_x64(True):
        numbers = ModelNumbers(np.float32(1), np.float32(1e-5))
        found = jax.eval_shape(
            lambda p: transformer.respond(p, jnp.asarray(tokens), shape, attend_as(shape), numbers),
            params,
        )
    assert {array.dtype for array in found} == {jnp.dtype("float32")}


def test_rotary_scores_depend_on_distance_alone():
    vectors = jnp.asarray(np.random.default_rng(2).normal(size=(1, 2, 1, 8)), jnp.float32)
    query, key = vectors[:, :1], vectors[:, 1:]

    def score(a, b):
        return float(jnp.sum(rotate(query, [a]) * rotate(key, [b])))

    assert score(9, 4) == pytest.approx(score(25, 20), rel=1e-4)
    assert score(9, 4) != pytest.approx(score(9, 5), rel=1e-2)


def test_one_plain_layer_is_the_minimal_model():
    """Without residuals, norms and a bottleneck between MLP and classes both are one function."""
    shape, params = make(**VARIANTS["plain"], residual=False, heads=1, classes=8, read=(5,))
    small = minimal.Shape(7, 6, 8, 8, 12, 1, "softmax")
    tokens = jnp.asarray(TOKENS).at[:, -1].set(6)  # the query is the last token of all
    theirs = {
        name: params[name] if name in params else params[f"block0.{name}"]
        for name in ("embedding", "position", "query", "key", "hidden", "hidden_bias")
    }
    theirs["value"] = params["block0.value"] @ params["block0.output"]
    theirs["readout"] = 0.7 * params["block0.readout"] @ params["unembedding"]
    theirs["readout_bias"] = 0.7 * params["block0.readout_bias"] @ params["unembedding"]
    expected = minimal.forward(theirs, tokens, small)
    for constant in (True, False):
        response = respond(params, tokens, shape._replace(constant_query=constant))
        np.testing.assert_allclose(response.logits[:, 0], expected.logits, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(response.attention[:, 0], expected.attention, rtol=1e-5)
