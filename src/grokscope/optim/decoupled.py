"""Optimisers of one frame: clip the gradient, make it a direction U, warm the rate up, apply

    W <- (1 - eta*decay) W - eta U          (decoupled weight decay)

Directions are optax transforms, built inside the traced function around traced hyperparameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from grokscope.models.roles import MATRICES, role


@dataclass(frozen=True)
class Decoupled:
    direction: Callable[[Any], optax.GradientTransformation]

    def init(self, params: Any, numbers: Any) -> Any:
        return self.direction(numbers).init(params)

    def draw(self, params: Any, state: Any, numbers: Any, key: Any) -> Any:
        return params

    def update(
        self, gradients: Any, drawn: Any, params: Any, state: Any, numbers: Any, step: jax.Array
    ) -> tuple[Any, Any]:
        gradients = clip_norm(gradients, numbers.clip)
        update, state = self.direction(numbers).update(gradients, state, params)
        rate = learning_rate(numbers, step)

        def move(w: jax.Array, u: jax.Array) -> jax.Array:
            decay = numbers.weight_decay * (numbers.vector_decay if w.ndim < 2 else 1.0)
            return (1 - rate * decay) * w - rate * u

        return jax.tree.map(move, params, update), state

    def keep(self, state: Any) -> dict[str, Any]:
        return {}


def clip_norm(gradients: Any, most: jax.Array) -> Any:
    """Scaled to a global norm of at most `most`; 0: as they are."""
    norm = optax.tree.norm(gradients)
    limit = jnp.where(most > 0, most, jnp.inf)
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    return jax.tree.map(lambda g: g * factor, gradients)


def learning_rate(numbers: Any, step: jax.Array) -> jax.Array:
    """Linear warm-up from lr * warmup_from: the share (step + 1) / warmup of the way to lr. Where
    there is a horizon, all of it times half a cosine from 1 down to `schedule_floor` at that step
    (Loshchilov and Hutter 2017)."""
    warm = jnp.minimum((step + 1) / jnp.maximum(numbers.warmup, 1), 1.0)
    warm = numbers.warmup_from + (1 - numbers.warmup_from) * warm
    done = jnp.minimum(step / jnp.maximum(numbers.horizon, 1), 1.0)
    fall = 1 - (1 - numbers.schedule_floor) * (1 - jnp.cos(jnp.pi * done)) / 2
    return numbers.lr * warm * jnp.where(numbers.horizon > 0, fall, 1.0)


def momentum(numbers: Any) -> optax.GradientTransformation:
    return optax.trace(decay=numbers.beta1)


def adam(numbers: Any) -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=numbers.beta1, b2=numbers.beta2, eps=numbers.epsilon)


def lion(numbers: Any) -> optax.GradientTransformation:
    return optax.scale_by_lion(b1=numbers.beta1, b2=numbers.beta2)


def muon(numbers: Any) -> optax.GradientTransformation:
    """Orthogonalises the matrices of attention and MLP, the minimal model's readout among them; the
    rest (embeddings, positions, unembedding, norms, biases) goes to Adam."""
    # Public only as a whole; a rate of 1 without decay leaves its direction, with a minus.
    whole = contrib.muon(learning_rate=1.0, beta=numbers.beta1)
    return optax.partition(
        {"muon": optax.chain(whole, optax.scale(-1.0)), "adam": adam(numbers)},
        lambda params: {name: "muon" if role(name) in MATRICES else "adam" for name in params},
    )
