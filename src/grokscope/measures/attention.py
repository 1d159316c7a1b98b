"""Has attention found the graph? Pure functions on NumPy, JAX or PyTorch arrays.

attention (..., T) and oracle (..., T) are distributions over positions; the leading axes broadcast.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

Array = Any

TINY = 1e-30  # keeps logarithms of empty positions finite in float32


def structural_divergence(attention: Array, oracle: Array) -> Array:  # (..., T), (..., T) -> (...)
    """D = KL(alpha* || alpha) = sum_i alpha*_i log(alpha*_i / alpha_i), in nats (sec. 4.3)."""
    xp = array_namespace(attention)
    ratio = xp.log(xp.clip(oracle, min=TINY)) - xp.log(xp.clip(attention, min=TINY))
    return xp.sum(oracle * ratio, axis=-1)


def informative_mass(attention: Array, oracle: Array) -> Array:  # -> (...)
    """Total weight on the informative positions: sum_{i in I} alpha_i."""
    xp = array_namespace(attention)
    return xp.sum(xp.where(oracle > 0, attention, xp.zeros_like(attention)), axis=-1)


def weakest_weight(attention: Array, oracle: Array) -> Array:  # -> (...)
    """The least weight on any informative position, min_{i in I} alpha_i. The structural condition
    B_tau (Def. 4.1) asks that it is at least tau for every input."""
    xp = array_namespace(attention)
    return xp.min(xp.where(oracle > 0, attention, xp.ones_like(attention)), axis=-1)


def entropy(attention: Array) -> Array:  # (..., T) -> (...)
    """-sum_t alpha_t log alpha_t, in nats."""
    xp = array_namespace(attention)
    return -xp.sum(attention * xp.log(xp.clip(attention, min=TINY)), axis=-1)


def logit_variance(scores: Array) -> Array:  # (..., T) -> (...)
    """Variance of the query-key logits over the context, about their mean (Conjecture E.1)."""
    xp = array_namespace(scores)
    centred = scores - xp.mean(scores, axis=-1, keepdims=True)
    return xp.mean(centred**2, axis=-1)
