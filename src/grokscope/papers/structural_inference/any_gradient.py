"""A control that the paper lacks: is it where the prior's gradient points, or that there is any?

Adam divides every gradient by its own size, so that a weight that hears nothing but a whisper is
moved as far as one that hears a shout. Would any live gradient on attention end the wait?"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from grokscope import parts
from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference.settings import ORACLE, only, study
from grokscope.spec import RunSpec

BASELINE, PRIOR, NOISE, SHUFFLED = "no prior", "oracle", "noise", "shuffled positions"


def noise_penalty(attention: Array, oracle: Array) -> Array:  # (n, J, T), (n, J, T) -> (n, J)
    """-sum_t u_t log alpha_t, whose gradient on the logits is -u where sum_t u_t = 0. u is noise
    without a direction, drawn anew whenever attention changes, and as long as the gradient of the
    oracle's penalty would be, |alpha - oracle| (eq. 45)."""
    alpha = jax.lax.stop_gradient(attention)
    place = jnp.arange(alpha.size, dtype=jnp.float32).reshape(alpha.shape)
    # The last digits of attention at every position: a number that nobody can foresee.
    drawn = jnp.sin(12.9898 * place + 78233.0 * alpha) * 43758.547
    drawn = drawn - jnp.floor(drawn)
    drawn = drawn - drawn.mean(axis=-1, keepdims=True)
    length = jnp.linalg.norm(alpha - oracle, axis=-1, keepdims=True)
    size = jnp.linalg.norm(drawn, axis=-1, keepdims=True)
    direction = drawn * length / jnp.maximum(size, 1e-9)
    return -jnp.sum(direction * jnp.log(jnp.maximum(attention, 1e-9)), axis=-1)


def shuffled_penalty(attention: Array, oracle: Array) -> Array:  # (n, J, T), (n, J, T) -> (n, J)
    """KL(shuffled oracle || alpha): as many positions as the oracle has, drawn once for each
    example, the same throughout training."""
    keys = jax.random.split(jax.random.key(0), oracle.shape[0])
    order = jax.vmap(lambda key: jax.random.permutation(key, oracle.shape[-1]))(keys)  # (n, T)
    target = jnp.take_along_axis(oracle, order[:, None, :], axis=-1)
    surprise = jnp.log(jnp.maximum(target, 1e-9)) - jnp.log(jnp.maximum(attention, 1e-9))
    return jnp.sum(target * surprise, axis=-1)


def own(penalty: str) -> dict[str, Any]:
    # With its fingerprint, as it is trained: a run is found again by its whole spec.
    return {"prior.kind": "custom", "prior.rule": parts.pin(f"{__name__}:{penalty}", "the prior")}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.baseline(seed),
        PRIOR: setting.variant(seed, ORACLE),
        NOISE: setting.variant(seed, own("noise_penalty")),
        SHUFFLED: setting.variant(seed, own("shuffled_penalty")),
    }


STUDY = study(
    "any-gradient",
    tests={
        "the direction matters": Faster(PRIOR, (NOISE, SHUFFLED), least=1.25, control=PRIOR),
        "noise accelerates": Faster(NOISE, BASELINE, least=1.25),
        "shuffled positions accelerate": Faster(SHUFFLED, BASELINE, least=1.25),
    },
    settings=only(smoke=("noise",)),
    arms=arms,
)
