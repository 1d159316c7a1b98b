"""Optimisers against optax's own complete ones, and against textbook NumPy."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax import contrib

import grokscope as gs
from grokscope.optim import OPTIMISERS, OptimiserNumbers, find_optimiser
from grokscope.optim.decoupled import learning_rate
from grokscope.spec import OptimiserKind

LR, DECAY, B1, B2, EPS = 3e-3, 0.7, 0.9, 0.98, 1e-8


def numbers(**changes):
    given = {
        "lr": LR,
        "weight_decay": DECAY,
        "beta1": B1,
        "beta2": B2,
        "epsilon": EPS,
        "warmup": 0,
        "clip": 0,
        "horizon": 0,
    }
    return OptimiserNumbers(**{k: jnp.float32(v) for k, v in {**given, **changes}.items()})


def start():
    rng = np.random.default_rng(0)
    sizes = {"embedding": (5, 4), "query": (4, 4), "hidden": (4, 6), "hidden_bias": (6,)}
    params = {name: jnp.asarray(rng.normal(size=s), jnp.float32) for name, s in sizes.items()}
    gradients = [
        {name: jnp.asarray(rng.normal(size=s), jnp.float32) for name, s in sizes.items()}
        for _ in range(12)
    ]
    return params, gradients


def ours(kind, given=None):
    params, gradients = start()
    given = given or numbers()
    optimiser = find_optimiser(kind)
    state = optimiser.init(params, given)
    update = jax.jit(optimiser.update)
    for step, gradient in enumerate(gradients):
        drawn = optimiser.draw(params, state, given, jax.random.key(step))
        params, state = update(gradient, drawn, params, state, given, jnp.int32(step))
    return params


def theirs(optimiser):
    params, gradients = start()
    state = optimiser.init(params)
    update = jax.jit(optimiser.update)
    for gradient in gradients:
        updates, state = update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params


def assert_same(one, two):
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=2e-5, atol=2e-6, err_msg=name)


COUNTERPARTS = {
    "sgd": lambda: optax.chain(
        optax.trace(decay=B1), optax.add_decayed_weights(DECAY), optax.scale(-LR)
    ),
    "adamw": lambda: optax.adamw(LR, b1=B1, b2=B2, eps=EPS, weight_decay=DECAY),
    "lion": lambda: optax.lion(LR, b1=B1, b2=B2, weight_decay=DECAY),
    "muon": lambda: optax.partition(
        {
            "matrix": contrib.muon(LR, beta=B1, weight_decay=DECAY),
            "other": optax.adamw(LR, b1=B1, b2=B2, eps=EPS, weight_decay=DECAY),
        },
        {"embedding": "other", "query": "matrix", "hidden": "matrix", "hidden_bias": "other"},
    ),
}


@pytest.mark.parametrize("kind", COUNTERPARTS)
def test_agrees_with_optax(kind):
    assert_same(ours(kind), theirs(COUNTERPARTS[kind]()))


def test_adamw_agrees_with_the_textbook():
    params, gradients = start()
    expected = {}
    for name in params:
        w = np.asarray(params[name], np.float64)
        m, v = np.zeros_like(w), np.zeros_like(w)
        for t, gradient in enumerate(gradients, start=1):
            g = np.asarray(gradient[name], np.float64)
            m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g**2
            step = (m / (1 - B1**t)) / (np.sqrt(v / (1 - B2**t)) + EPS)
            w = w - LR * DECAY * w - LR * step
        expected[name] = w
    assert_same(ours("adamw"), expected)


def test_lion_agrees_with_the_textbook():
    params, gradients = start()
    w, m = np.asarray(params["query"], np.float64), np.zeros((4, 4))
    for gradient in gradients:
        g = np.asarray(gradient["query"], np.float64)
        w = w - LR * (np.sign(B1 * m + (1 - B1) * g) + DECAY * w)
        m = B2 * m + (1 - B2) * g
    np.testing.assert_allclose(ours("lion")["query"], w, rtol=2e-5)


def test_muon_updates_are_nearly_orthogonal():
    params, gradients = start()
    given = numbers(weight_decay=0.0)
    muon = find_optimiser("muon")
    new, _ = muon.update(
        gradients[0], params, params, muon.init(params, given), given, jnp.int32(0)
    )
    step = np.asarray(params["query"] - new["query"]) / LR
    singular = np.linalg.svd(step, compute_uv=False)
    assert singular.min() > 0.5
    assert singular.max() < 1.4


@pytest.mark.parametrize("kind", COUNTERPARTS)
def test_decay_alone_is_exactly_geometric(kind):
    """With no gradient every optimiser shrinks weights by (1 - lr*decay) a step."""
    params, _ = start()
    given = numbers()
    optimiser = find_optimiser(kind)
    state = optimiser.init(params, given)
    zero = jax.tree.map(jnp.zeros_like, params)
    new = params
    update = jax.jit(optimiser.update)
    for step in range(10):
        new, state = update(zero, new, new, state, given, jnp.int32(step))
    for name in params:
        np.testing.assert_allclose(new[name], params[name] * (1 - LR * DECAY) ** 10, rtol=1e-5)


def test_warm_up_is_linear():
    given = numbers(warmup=10)
    rates = [float(learning_rate(given, jnp.int32(step))) for step in (0, 4, 9, 50)]
    np.testing.assert_allclose(rates, [0.1 * LR, 0.5 * LR, LR, LR], rtol=1e-6)


def test_cosine_schedule_agrees_with_optax():
    given, schedule = numbers(horizon=40), optax.cosine_decay_schedule(LR, 40)
    for step in (0, 10, 39, 40, 60):
        rate = learning_rate(given, jnp.int32(step))
        np.testing.assert_allclose(rate, schedule(step), atol=1e-6 * LR)


def test_clipping_agrees_with_optax():
    chain = optax.chain(optax.clip_by_global_norm(0.5), COUNTERPARTS["adamw"]())
    assert_same(ours("adamw", numbers(clip=0.5)), theirs(chain))
    free = ours("adamw", numbers(clip=1e6))
    assert_same(free, ours("adamw"))


def test_an_unknown_kind_is_refused():
    assert set(OPTIMISERS) == set(get_args(OptimiserKind))
    with pytest.raises(gs.SpecError, match=r"no optimiser 'adamv'.*Did you mean adamw"):
        find_optimiser("adamv")
