"""The minimal transformer: the fast forward is the textbook forward, and that is the formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import grokscope as gs
from grokscope import models
from grokscope.models import minimal

VARIANTS = [(attention, heads) for attention in ("softmax", "linear_relu") for heads in (1, 4)]


def make(attention, heads, scale=1.0):
    data = gs.build_task(gs.TaskSpec(modulus=13, alphabet=13, length=6), 0)
    shape = minimal.Shape(data.vocabulary, data.length, data.classes, 16, 24, heads, attention)
    params = minimal.init(jax.random.key(1), shape, scale)
    # Biases start at zero; give them values so that a forgotten one is seen.
    params["hidden_bias"] += 0.1
    params["readout_bias"] += jnp.arange(data.classes) * 0.05
    return data, shape, params


def by_hand(params, tokens, heads, attention):
    """One example in plain float64 NumPy loops, straight from the paper's section 1."""
    w = {name: np.asarray(array, np.float64) for name, array in params.items()}
    width = w["embedding"].shape[1]
    size = width // heads
    embedded = [w["embedding"][token] + w["position"][t] for t, token in enumerate(tokens)]
    pooled = np.zeros(width)
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        query = embedded[-1] @ w["query"][:, part]
        scores = np.array([query @ (e @ w["key"][:, part]) / np.sqrt(size) for e in embedded])
        weights = np.exp(scores) if attention == "softmax" else np.maximum(scores, 0)
        weights = (
            weights / weights.sum() if weights.sum() > 0 else np.ones_like(scores) / len(scores)
        )
        mixed = sum(a * (e @ w["value"][:, part]) for a, e in zip(weights, embedded, strict=True))
        pooled += mixed @ w["output"][part] if heads > 1 else mixed
    hidden = np.maximum(pooled @ w["hidden"] + w["hidden_bias"], 0)
    return hidden @ w["readout"] + w["readout_bias"]


@pytest.mark.parametrize("kind", ["minimal", "transformer"])
def test_pytorch_draws_these_weights(kind):
    """nn.Embedding: N(0, 1); nn.Linear: uniform up to 1/sqrt(fan_in), biases included."""
    task, width, hidden = gs.TaskSpec(modulus=13, alphabet=13), 48, 96
    model = gs.ModelSpec(kind=kind, width=width, hidden=hidden, init="pytorch")
    params = models.init(jax.random.key(3), models.shape_of(model, gs.build_task(task, 0)))
    layers = {"query": width, "value": width, "hidden": width, "readout": hidden}
    layers |= {"hidden_bias": width, "readout_bias": hidden}
    assert all(len({round(float(x), 6) for x in np.ravel(w)}) > 4 for w in params.values())
    for name, array in params.items():
        if (role := name.rpartition(".")[2]) in layers:
            bound = layers[role] ** -0.5
            uniform = scipy.stats.uniform(-bound, 2 * bound)
            assert np.abs(array).max() <= bound
            assert scipy.stats.kstest(np.ravel(array), uniform.cdf).pvalue > 1e-3, name
        elif role in ("embedding", "position"):
            assert scipy.stats.kstest(np.ravel(array), "norm").pvalue > 1e-3, name


@pytest.mark.parametrize(("attention", "heads"), VARIANTS)
def test_textbook_forward_is_the_formula(attention, heads):
    data, shape, params = make(attention, heads, scale=2.0)
    logits = minimal.forward(params, jnp.asarray(data.tokens[:20]), shape).logits
    expected = [by_hand(params, tokens, heads, attention) for tokens in data.tokens[:20]]
    np.testing.assert_allclose(logits, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("attention", "heads"), VARIANTS)
def test_fast_forward_has_the_same_values(attention, heads):
    data, shape, params = make(attention, heads, scale=2.0)
    textbook, fast = (
        jax.jit(forward, static_argnums=2)(params, jnp.asarray(data.tokens), shape)
        for forward in (minimal.forward, minimal.forward_fast)
    )
    for name, one, two in zip(minimal.Forward._fields, textbook, fast, strict=True):
        assert one.shape == two.shape, name
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("attention", "heads"), VARIANTS)
def test_fast_forward_has_the_same_gradients(attention, heads):
    """In float64 the two agree to rounding, so they are the same function, not a near one."""
    with jax.enable_x64(True):
        data, shape, params = make(attention, heads, scale=2.0)
        params = {name: jnp.asarray(array, jnp.float64) for name, array in params.items()}
        tokens, labels = jnp.asarray(data.tokens), jnp.asarray(data.labels)

        def loss(params, forward):
            logits = forward(params, tokens, shape).logits
            return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])

        one, two = (
            jax.jit(jax.grad(lambda p, f=forward: loss(p, f)))(params)
            for forward in (minimal.forward, minimal.forward_fast)
        )
        assert set(one) == set(params)
        for name in one:
            assert jnp.abs(one[name]).max() > 0, name
            np.testing.assert_allclose(one[name], two[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_fast_gradients_by_finite_differences():
    with jax.enable_x64(True):
        data, shape, params = make("softmax", 1, scale=2.0)
        params = {name: jnp.asarray(array, jnp.float64) for name, array in params.items()}
        tokens = jnp.asarray(data.tokens[:30])

        @jax.jit
        def loss(params):
            return jnp.sum(jnp.sin(minimal.forward_fast(params, tokens, shape).logits))

        gradients = jax.grad(loss)(params)
        for name in params:
            direction = jax.random.normal(jax.random.key(7), params[name].shape, jnp.float64)
            step = 1e-6
            up = loss({**params, name: params[name] + step * direction})
            down = loss({**params, name: params[name] - step * direction})
            slope = (up - down) / (2 * step)
            np.testing.assert_allclose(slope, jnp.sum(gradients[name] * direction), rtol=1e-5)


def test_linear_relu_without_a_positive_score_is_uniform():
    scores = jnp.array([[-1.0, -2.0, 0.0, -0.5], [1.0, -1.0, 3.0, 0.0]])
    attention = minimal.normalise(scores, "linear_relu")
    np.testing.assert_allclose(attention, [[0.25] * 4, [0.25, 0, 0.75, 0]])
    gradient = jax.grad(lambda s: minimal.normalise(s, "linear_relu")[0].max())(scores)
    assert jnp.isfinite(gradient).all()


def test_initial_weights():
    shape = minimal.Shape(115, 5, 113, 64, 256, 1, "softmax")
    params = minimal.init(jax.random.key(0), shape)
    for name, fan_in in {"embedding": 64, "query": 64, "hidden": 64, "readout": 256}.items():
        np.testing.assert_allclose(params[name].std() * np.sqrt(fan_in), 1, atol=0.03)
        assert abs(params[name].mean()) < 0.01
    assert not params["hidden_bias"].any()
    doubled = minimal.init(jax.random.key(0), shape, 2.0)
    np.testing.assert_allclose(doubled["query"], 2 * params["query"], rtol=1e-6)
    other = minimal.init(jax.random.key(1), shape)
    assert not np.allclose(other["query"], params["query"])
    flat = np.concatenate([params[n].ravel()[:64] for n in ("query", "key", "value")])
    assert len(np.unique(flat)) == len(flat)  # no array repeats another
