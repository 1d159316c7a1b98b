"""IVON step for step against its authors' package on the same gradients and noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope.optim import OptimiserNumbers, find_optimiser

torch = pytest.importorskip("torch")
ivon = pytest.importorskip("ivon")

SHAPES = {"bias": (3,), "matrix": (4, 3)}  # as JAX sorts them


def numbers(**changes):
    given = {
        "lr": 0.3,
        "weight_decay": 1e-3,
        "beta1": 0.9,
        "beta2": 0.99,
        "epsilon": 0.0,
        "warmup": 0,
        "clip": 0.0,
        "sample_size": 50.0,
        "hessian": 0.7,
        **changes,
    }
    return OptimiserNumbers(**{name: jnp.float32(value) for name, value in given.items()})


@pytest.mark.parametrize(
    "changes", [{}, {"clip_radius": 0.05}, {"beta2": 0.99999, "weight_decay": 1e-6}]
)
def test_steps_agree_with_ivon_opt(changes, monkeypatch):
    given = numbers(**changes)
    rng = np.random.default_rng(0)
    curvature = rng.uniform(0.1, 2.0, 15).astype(np.float32)
    centre = rng.standard_normal(15).astype(np.float32)
    optimiser = find_optimiser("ivon")
    draw, update = jax.jit(optimiser.draw), jax.jit(optimiser.update)
    start = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    params = {name: jnp.asarray(array) for name, array in start.items()}
    state = optimiser.init(params, given)
    theirs = [torch.nn.Parameter(torch.tensor(array)) for array in start.values()]
    reference = ivon.IVON(
        theirs,
        lr=float(given.lr),
        ess=float(given.sample_size),
        hess_init=float(given.hessian),
        beta1=float(given.beta1),
        beta2=float(given.beta2),  # as it is in single precision
        weight_decay=float(given.weight_decay),
        clip_radius=float(given.clip_radius) or float("inf"),
    )

    def gradient(flat):
        return curvature * np.sin(flat - centre)

    def flatten(tree):
        return np.concatenate([np.asarray(tree[name]).ravel() for name in SHAPES])

    for step in range(40):
        drawn = draw(params, state, given, jax.random.key(step))
        deviation = np.sqrt(50.0 * (flatten(state.hessian) + float(given.weight_decay)))
        noise = (flatten(drawn) - flatten(params)) * deviation
        monkeypatch.setattr(torch, "randn", lambda *a, noise=noise, **k: torch.tensor(noise))
        with reference.sampled_params(train=True):
            flat = np.concatenate([p.detach().numpy().ravel() for p in theirs])
            np.testing.assert_allclose(flat, flatten(drawn), atol=2e-5)
            begin = 0
            for parameter in theirs:
                part = gradient(flat)[begin : begin + parameter.numel()]
                parameter.grad = torch.tensor(part).view(parameter.shape)
                begin += parameter.numel()
        reference.step()
        flat_gradient = gradient(flatten(drawn))
        gradients = {
            "bias": jnp.asarray(flat_gradient[:3]),
            "matrix": jnp.asarray(flat_gradient[3:].reshape(4, 3)),
        }
        params, state = update(gradients, drawn, params, state, given, jnp.int32(step))
        mine, hers = flatten(params), np.concatenate([p.detach().numpy().ravel() for p in theirs])
        np.testing.assert_allclose(mine, hers, rtol=2e-4, atol=2e-5)
        hessian = reference.param_groups[0]["hess"].numpy()
        np.testing.assert_allclose(flatten(state.hessian), hessian, rtol=2e-4, atol=1e-5)
    assert np.abs(mine - flatten(start)).max() > 0.1  # it went somewhere


def test_draws_have_the_posterior_variance():
    given, optimiser = numbers(), find_optimiser("ivon")
    params = {"matrix": jnp.zeros((200, 200))}
    state = optimiser.init(params, given)
    drawn = optimiser.draw(params, state, given, jax.random.key(0))["matrix"]
    assert float(drawn.var()) == pytest.approx(1 / (50 * (0.7 + 1e-3)), rel=0.02)


def test_it_keeps_what_a_later_draw_needs():
    given, optimiser = numbers(), find_optimiser("ivon")
    state = optimiser.init({"bias": jnp.zeros(3)}, given)
    np.testing.assert_allclose(optimiser.keep(state)["hessian"]["bias"], 0.7, rtol=1e-6)
    assert find_optimiser("adamw").keep(None) == {}
