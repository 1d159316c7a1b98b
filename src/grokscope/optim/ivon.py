"""IVON: a Gaussian posterior over all weights, learned by the natural gradient (Shen et al. 2024,
"Variational learning is effective for large deep networks", algorithm 1).

    q = N(mu, diag s^2),  s^2 = 1 / (N (h + delta))        N examples, delta the weight decay
    a step draws w from q and takes the gradient g there
    h' = g (w - mu) / s^2                                   an estimate of the Hessian's diagonal
    m  <- b1 m + (1 - b1) g
    h  <- b2 h + (1 - b2) h' + (1 - b2)^2 (h - h')^2 / (2 (h + delta))
    mu <- mu - rate clip((m / (1 - b1^t) + delta mu) / (h + delta), +-radius)

The rate is lr (h_0 + delta), as in the authors' package `ivon-opt`, against which the steps are
tested; lr then has about the size of plain SGD's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from grokscope.optim.decoupled import learning_rate


class IvonState(NamedTuple):
    momentum: Any  # like the weights
    hessian: Any  # like the weights


@dataclass(frozen=True)
class Ivon:
    def init(self, params: Any, numbers: Any) -> IvonState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return IvonState(zeros, jax.tree.map(lambda zero: zero + numbers.hessian, zeros))

    def draw(self, params: Any, state: IvonState, numbers: Any, key: Any) -> Any:
        return draw_gaussian(params, state.hessian, numbers.sample_size, numbers.weight_decay, key)

    def update(
        self, gradients: Any, drawn: Any, params: Any, state: IvonState, numbers: Any, step: Any
    ) -> tuple[Any, IvonState]:
        n, decay = numbers.sample_size, numbers.weight_decay
        b1, b2 = numbers.beta1, numbers.beta2
        momentum = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.momentum, gradients)

        def curve(h: jax.Array, g: jax.Array, w: jax.Array, mean: jax.Array) -> jax.Array:
            seen = g * (w - mean) * n * (h + decay)
            return b2 * h + (1 - b2) * seen + 0.5 * (1 - b2) ** 2 * (h - seen) ** 2 / (h + decay)

        hessian = jax.tree.map(curve, state.hessian, gradients, drawn, params)
        rate = learning_rate(numbers, step) * (numbers.hessian + decay)
        radius = jnp.where(numbers.clip_radius > 0, numbers.clip_radius, jnp.inf)
        debias = 1 - b1 ** (step + 1)

        def move(mean: jax.Array, m: jax.Array, h: jax.Array) -> jax.Array:
            change = (m / debias + decay * mean) / (h + decay)
            return mean - rate * jnp.clip(change, -radius, radius)

        return jax.tree.map(move, params, momentum, hessian), IvonState(momentum, hessian)

    def keep(self, state: IvonState) -> dict[str, Any]:
        return {"hessian": state.hessian}


def draw_gaussian(params: Any, hessian: Any, size: Any, decay: Any, key: Any) -> Any:
    """A sample of N(params, 1 / (size (hessian + decay))). One draw for all arrays: a generator per
    array takes long to compile, and longer to run."""
    leaves, structure = jax.tree.flatten(params)
    curvatures = jax.tree.leaves(hessian)
    noise = jax.random.normal(key, (sum(leaf.size for leaf in leaves),), jnp.float32)
    begin, drawn = 0, []
    for leaf, h in zip(leaves, curvatures, strict=True):
        part = noise[begin : begin + leaf.size].reshape(leaf.shape)
        drawn.append(leaf + part * jax.lax.rsqrt(size * (h + decay)))
        begin += leaf.size
    return jax.tree.unflatten(structure, drawn)
