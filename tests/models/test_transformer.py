"""The general transformer: it is its formula, it does not look ahead, and it reads what it is
asked for."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope.models import minimal, transformer

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
    activation="gelu",
    readout_scale=0.7,
    read=(1, 5),
)
TOKENS = np.random.default_rng(0).integers(0, 7, size=(4, 6))
VARIANTS = {
    "pre-norm, rotary": {},
    "plain": {"norm": (), "positions": "learned", "activation": "relu", "layers": 1},
    "post, rms": {"norm": ("post",), "norm_kind": "rms", "positions": "none"},
    "split norms": {"norm": ("query_key", "value", "mlp"), "residual": False},
    "not causal, linear": {"causal": False, "attention": "linear_relu"},
    "causal, linear": {"attention": "linear_relu", "layers": 1},
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


@partial(jax.jit, static_argnums=2)
def respond(params, tokens, shape):
    return transformer.respond(
        params, tokens, shape, partial(minimal.normalise, kind=shape.attention)
    )


def by_hand(params, tokens, shape):
    """One example in float64 loops: logits at every position, weights of the last layer."""
    w = {name: np.asarray(array, np.float64) for name, array in params.items()}
    d, size = shape.width, shape.width // shape.heads

    def norm(name, x):
        if f"{name}_gain" not in w:
            return x
        if shape.norm_kind == "rms":
            return x / np.sqrt((x**2).mean() + 1e-5) * w[f"{name}_gain"]
        centred = x - x.mean()
        return centred / np.sqrt(centred.var() + 1e-5) * w[f"{name}_gain"] + w[f"{name}_bias"]

    def turn(x, position):
        if shape.positions != "rotary":
            return x
        out = x.copy()
        for i in range(size // 2):
            angle = position * 10_000 ** (-2 * i / size)
            a, b = x[i], x[i + size // 2]
            out[i] = a * np.cos(angle) - b * np.sin(angle)
            out[i + size // 2] = a * np.sin(angle) + b * np.cos(angle)
        return out

    def act(x):
        if shape.activation == "relu":
            return np.maximum(x, 0)
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    x = [w["embedding"][token] for token in tokens]
    if shape.positions == "learned":
        x = [e + w["position"][t] for t, e in enumerate(x)]
    for layer in range(shape.layers):
        at = f"block{layer}"
        whole = "attention" in shape.norm
        for_qk = [norm(f"{at}.{'attention' if whole else 'query_key'}", e) for e in x]
        for_v = [norm(f"{at}.{'attention' if whole else 'value'}", e) for e in x]
        new, kept = [], []
        for t in range(len(x)):
            heads, weights_of = [], []
            for h in range(shape.heads):
                part = slice(h * size, (h + 1) * size)
                query = turn(for_qk[t] @ w[f"{at}.query"][:, part], t)
                seen = range(t + 1) if shape.causal else range(len(x))
                keys = [turn(for_qk[s] @ w[f"{at}.key"][:, part], s) for s in seen]
                scores = np.array([query @ key for key in keys]) / np.sqrt(size)
                if shape.attention == "softmax":
                    weights = np.exp(scores - scores.max())
                else:
                    weights = np.maximum(scores, 0)
                total = weights.sum()
                weights = weights / total if total > 0 else np.full(len(scores), 1 / len(scores))
                values = [for_v[s] @ w[f"{at}.value"][:, part] for s in seen]
                heads.append(sum(a * v for a, v in zip(weights, values, strict=True)))
                weights_of.append(np.pad(weights, (0, len(x) - len(weights))))
            mixed = np.concatenate(heads) @ w[f"{at}.output"]
            y = norm(f"{at}.post_attention", x[t] + mixed if shape.residual else mixed)
            hidden = act(norm(f"{at}.mlp", y) @ w[f"{at}.hidden"] + w[f"{at}.hidden_bias"])
            z = hidden @ w[f"{at}.readout"] + w[f"{at}.readout_bias"]
            new.append(norm(f"{at}.post_mlp", y + z if shape.residual else z))
            kept.append(weights_of)
        x = new
    out = np.array([shape.readout_scale * (norm("final", e) @ w["unembedding"]) for e in x])
    assert out.shape == (len(tokens), shape.classes)
    assert d == len(x[0])
    return out, np.array(kept)  # (T, C), (T, H, T)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_it_is_its_formula(changes):
    shape, params = make(**changes)
    response = respond(params, jnp.asarray(TOKENS), shape)
    for example, tokens in enumerate(TOKENS):
        logits, weights = by_hand(params, tokens, shape)
        read = list(shape.read)
        np.testing.assert_allclose(response.logits[example], logits[read], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(response.attention[example], weights[read], atol=1e-5)


@pytest.mark.parametrize("attention", ["softmax", "linear_relu"])
def test_it_does_not_look_ahead(attention):
    shape, params = make(read=(0, 1, 2, 3, 4, 5), attention=attention)
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


def test_rotary_scores_depend_on_distance_alone():
    vectors = jnp.asarray(np.random.default_rng(2).normal(size=(1, 2, 1, 8)), jnp.float32)
    query, key = vectors[:, :1], vectors[:, 1:]

    def score(a, b):
        turned = (transformer.rotate(v, jnp.array([p])) for v, p in ((query, a), (key, b)))
        return float(jnp.sum(next(turned) * next(turned)))

    assert score(9, 4) == pytest.approx(score(25, 20), rel=1e-4)
    assert score(9, 4) != pytest.approx(score(9, 5), rel=1e-2)


def test_one_plain_layer_is_the_minimal_model():
    """Without residuals, norms and a bottleneck between MLP and classes both are one function."""
    shape, params = make(
        **VARIANTS["plain"], residual=False, heads=1, classes=8, read=(5,), readout_scale=1.0
    )
    small = minimal.Shape(7, 6, 8, 8, 12, 1, "softmax")
    tokens = jnp.asarray(TOKENS).at[:, -1].set(6)  # the query is the last token of all
    theirs = {
        name: params[name] if name in params else params[f"block0.{name}"]
        for name in ("embedding", "position", "query", "key", "hidden", "hidden_bias")
    }
    theirs["value"] = params["block0.value"] @ params["block0.output"]
    theirs["readout"] = params["block0.readout"] @ params["unembedding"]
    theirs["readout_bias"] = params["block0.readout_bias"] @ params["unembedding"]
    expected = minimal.forward(theirs, tokens, small)
    response = respond(params, tokens, shape)
    np.testing.assert_allclose(response.logits[:, 0], expected.logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(response.attention[:, 0], expected.attention, rtol=1e-5)
