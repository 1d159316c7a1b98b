"""Priors: values by hand, gradients against the paper's closed form, schedules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grokscope import priors
from grokscope.models.layers import normalise

TARGET = jnp.array([0.5, 0.0, 0.5, 0.0, 0.0])


def test_divergence_gradient_is_attention_minus_target():
    """Eq. 45, for any logits."""
    scores = jax.random.normal(jax.random.key(0), (40, 5)) * 3

    def penalty(scores):
        return priors.divergence_penalty(normalise(scores, "softmax"), TARGET).sum()

    expected = normalise(scores, "softmax") - TARGET
    np.testing.assert_allclose(jax.grad(penalty)(scores), expected, atol=2e-6)


def test_values_by_hand():
    attention = jnp.array([0.25, 0.25, 0.25, 0.25])
    target = jnp.array([0.5, 0.5, 0.0, 0.0])
    assert priors.divergence_penalty(attention, target) == pytest.approx(np.log(2))
    assert priors.entropy_penalty(attention, target) == pytest.approx(np.log(4))
    assert priors.sparsity_penalty(attention, target) == pytest.approx(1.0)  # sqrt(4) - 1
    assert priors.no_penalty(attention, target) == 0
    single = jnp.array([1.0, 0.0, 0.0, 0.0])
    assert priors.entropy_penalty(single, target) == pytest.approx(0.0, abs=1e-6)
    assert priors.sparsity_penalty(single, target) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("kind", priors.PENALTIES)
def test_every_penalty_keeps_its_contract(kind):
    """One number per input, finite with finite gradients at the corners, NumPy and JAX alike."""
    attention = np.array([[1, 0, 0, 0, 0], [0.2] * 5, [0, 0.5, 0, 0.5, 0]], np.float32)
    penalty = priors.PENALTIES[kind]
    values = penalty(jnp.asarray(attention), TARGET)
    assert values.shape == (3,)
    assert jnp.isfinite(values).all()
    np.testing.assert_allclose(values, penalty(attention, np.asarray(TARGET)), rtol=1e-5)
    scores = jnp.log(jnp.clip(jnp.asarray(attention), 1e-12))
    for form in ("softmax", "linear_relu"):
        slope = jax.jit(jax.grad(lambda s, f=form: penalty(normalise(s, f), TARGET).sum()))(scores)
        assert jnp.isfinite(slope).all()
    assert priors.DISTINCT[priors.penalty_index(kind)] is penalty


@pytest.mark.parametrize("convert", [float, jnp.float32])
def test_schedules(convert):
    def at(epoch, start=0, end=0):
        return float(priors.strength_at(*map(convert, (epoch, 2.0, start, end))))

    assert [at(e) for e in (0, 10, 10**6)] == [2, 2, 2]  # constant
    assert [at(e, start=100) for e in (0, 99, 100, 5000)] == [0, 0, 2, 2]  # late start
    annealed = [at(e, end=100) for e in (0, 25, 50, 100, 101)]
    np.testing.assert_allclose(annealed, [2, 1.5, 1, 0, 0])
    both = [at(e, start=100, end=200) for e in (50, 100, 150, 200, 300)]
    np.testing.assert_allclose(both, [0, 2, 1, 0, 0])
