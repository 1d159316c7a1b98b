"""What is done to the weights in addition to following the gradient."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from grokscope.measures.weights import mlp_norm
from grokscope.models.layers import Params
from grokscope.models.roles import INTERACTION, MLP, role
from grokscope.spec import MaskSpec


def match_norm(params: Params, target: jax.Array) -> Params:
    """The MLP projected to Frobenius norm `target`; untouched where target is 0."""
    norm = mlp_norm(params)
    factor = jnp.where((target > 0) & (norm > 0), target / jnp.where(norm > 0, norm, 1.0), 1.0)
    return {name: array * factor if role(name) in MLP else array for name, array in params.items()}


def query_key_penalty(params: Params, strength: jax.Array) -> jax.Array:
    """strength * (|W_Q|_F^2 + |W_K|_F^2), over all layers."""
    chosen = [array for name, array in params.items() if role(name) in INTERACTION]
    return strength * sum(jnp.sum(array**2) for array in chosen)


def apply_mask(params: Params, mask: Mapping[str, ArrayLike]) -> Params:
    return {name: array * jnp.asarray(mask[name]) for name, array in params.items()}


def make_mask(spec: MaskSpec, weights: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Ones where a weight may live. `weights` gives the shapes and, unless the mask is random, the
    magnitudes that are ranked over all matrices in scope together."""
    mask = {name: np.ones(array.shape, np.float32) for name, array in weights.items()}
    if spec.kind == "none":
        return mask
    scope = [
        n for n, w in weights.items() if w.ndim == 2 and (spec.scope == "all" or role(n) in MLP)
    ]
    rng = np.random.default_rng([seed, 4])
    if spec.kind == "random":
        ranked = {name: rng.random(weights[name].shape) for name in scope}
    else:
        ranked = {name: np.abs(weights[name]) for name in scope}
    together = np.concatenate([ranked[name].ravel() for name in scope])
    kept = max(1, round(spec.keep * together.size))
    threshold = np.partition(together, together.size - kept)[together.size - kept]
    for name in scope:
        mask[name] = (ranked[name] >= threshold).astype(np.float32)
        if spec.kind == "shuffled":
            mask[name] = rng.permutation(mask[name].ravel()).reshape(mask[name].shape)
    return mask
