"""Has attention found the graph? Pure functions on NumPy, JAX or PyTorch arrays.

attention (..., T) and oracle (..., T) are distributions over positions; the leading axes broadcast.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from grokscope.theory import score_variance as logit_variance
from grokscope.theory import weakest_weight

__all__ = [
    "entropy",
    "informative_mass",
    "logit_variance",
    "structural_divergence",
    "weakest_weight",
]

Array = Any

TINY = 1e-30  # keeps logarithms of empty positions finite in float32


def structural_divergence(attention: Array, oracle: Array) -> Array:  # (..., T), (..., T) -> (...)
    """D = KL(alpha* || alpha) = sum_i alpha*_i log(alpha*_i / alpha_i), in nats (sec. 4.3).

    As `grokscope.theory.structural_divergence`, but finite, with finite gradients, where attention
    has left an informative position altogether: training has to go on there."""
    xp = array_namespace(attention)
    ratio = xp.log(xp.clip(oracle, min=TINY)) - xp.log(xp.clip(attention, min=TINY))
    return xp.sum(oracle * ratio, axis=-1)


def informative_mass(attention: Array, oracle: Array) -> Array:  # -> (...)
    """Total weight on the informative positions: sum_{i in I} alpha_i."""
    xp = array_namespace(attention)
    return xp.sum(xp.where(oracle > 0, attention, xp.zeros_like(attention)), axis=-1)


def entropy(attention: Array) -> Array:  # (..., T) -> (...)
    """-sum_t alpha_t log alpha_t, in nats."""
    xp = array_namespace(attention)
    return -xp.sum(attention * xp.log(xp.clip(attention, min=TINY)), axis=-1)
