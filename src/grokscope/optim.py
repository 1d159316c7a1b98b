"""Optimisers whose hyperparameters are data: sweeping a rate or a decay recompiles nothing.

All are optax transforms, built inside the traced function around traced hyperparameters, and all
share one frame: clip the gradient, precondition it into U, warm the learning rate up, and apply

    W <- (1 - eta*decay) W - eta U          (decoupled weight decay)

Muon orthogonalises the matrices of attention and MLP, the minimal model's readout among them; the
rest (embeddings, positions, unembedding, norms, biases) goes to AdamW.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from grokscope.models.roles import MATRICES, role
from grokscope.spec import OptimiserKind


class OptimiserNumbers(NamedTuple):
    """Hyperparameters as arrays; a batch of runs stacks them."""

    lr: Any
    weight_decay: Any
    beta1: Any
    beta2: Any
    epsilon: Any
    warmup: Any
    clip: Any


def precondition(kind: OptimiserKind, numbers: OptimiserNumbers) -> optax.GradientTransformation:
    """Gradient to update direction U."""
    b1, b2, eps = numbers.beta1, numbers.beta2, numbers.epsilon
    adam = optax.scale_by_adam(b1=b1, b2=b2, eps=eps)
    if kind == "sgd":
        return optax.trace(decay=b1)
    if kind == "adamw":
        return adam
    if kind == "lion":
        return optax.scale_by_lion(b1=b1, b2=b2)
    # Muon is public only as a whole; a rate of 1 without decay leaves its direction, with a minus.
    muon = optax.chain(contrib.muon(learning_rate=1.0, beta=b1), optax.scale(-1.0))
    return optax.partition(
        {"muon": muon, "adam": adam},
        lambda params: {name: "muon" if role(name) in MATRICES else "adam" for name in params},
    )


def init(kind: OptimiserKind, numbers: OptimiserNumbers, params: Any) -> Any:
    return precondition(kind, numbers).init(params)


def update(
    kind: OptimiserKind,
    numbers: OptimiserNumbers,
    gradients: Any,
    state: Any,
    params: Any,
    step: jax.Array,
) -> tuple[Any, Any]:
    """One step from `step` (0 for the first): new weights and new state."""
    norm = optax.tree.norm(gradients)
    limit = jnp.where(numbers.clip > 0, numbers.clip, jnp.inf)
    factor = jnp.where(norm > limit, limit / norm, 1.0)
    gradients = jax.tree.map(lambda g: g * factor, gradients)
    direction, state = precondition(kind, numbers).update(gradients, state, params)
    rate = learning_rate(numbers, step)
    shrink = 1 - rate * numbers.weight_decay
    return jax.tree.map(lambda w, u: shrink * w - rate * u, params, direction), state


def learning_rate(numbers: OptimiserNumbers, step: jax.Array) -> jax.Array:
    """Linear warm-up: lr * (step + 1) / warmup, then constant."""
    warm = (step + 1) / jnp.maximum(numbers.warmup, 1)
    return numbers.lr * jnp.minimum(warm, 1.0)
