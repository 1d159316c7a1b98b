"""Penalties on attention. Written against the array API, so that a lab run (JAX) and a user's own
model (PyTorch) are given the same prior.

attention (..., T) and target (..., T) are distributions over positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from grokscope.errors import SpecError, suggest
from grokscope.measures.attention import entropy, structural_divergence
from grokscope.spec import PriorKind

Array = Any


def no_penalty(attention: Array, target: Array) -> Array:  # (..., T), (..., T) -> (...)
    xp = array_namespace(attention)
    return xp.sum(attention * 0, axis=-1)


def divergence_penalty(attention: Array, target: Array) -> Array:
    """KL(target || alpha) (eq. 6). For softmax its gradient on the logits is alpha - target
    (eq. 45), whatever the loss. Under linear-ReLU attention a position with a negative logit gets
    none."""
    return structural_divergence(attention, target)


def entropy_penalty(attention: Array, target: Array) -> Array:
    """Entropy of attention: sharpens it without saying where."""
    return entropy(attention)


def sparsity_penalty(attention: Array, target: Array) -> Array:
    """sum_t sqrt(alpha_t) - 1: zero for a single position, sqrt(T) - 1 for uniform attention.

    The L1 norm of a distribution is always 1, so the next concave norm stands for "sparsity"."""
    xp = array_namespace(attention)
    return xp.sum(xp.sqrt(xp.clip(attention, min=1e-12)), axis=-1) - 1


# Oracle, adversarial, teacher and inferred differ only in their target, which is data.
PENALTIES: dict[PriorKind, Callable[[Array, Array], Array]] = {
    "none": no_penalty,
    "oracle": divergence_penalty,
    "adversarial": divergence_penalty,
    "teacher": divergence_penalty,
    "entropy": entropy_penalty,
    "sparsity": sparsity_penalty,
    "inferred": divergence_penalty,
}
DISTINCT = tuple(dict.fromkeys(PENALTIES.values()))


def penalty_index(kind: PriorKind) -> int:
    """Place of the penalty in DISTINCT: the kind of prior as data, so that it can be swept."""
    if kind not in PENALTIES:
        raise SpecError(f"There is no prior {kind!r}.{suggest(kind, PENALTIES)}")
    return DISTINCT.index(PENALTIES[kind])


def strength_at(epoch: Array, strength: Array, start: Array, end: Array) -> Array:
    """Schedule: nothing before `start`; then constant (end 0) or falling linearly to 0 at `end`.

    Works on Python numbers and on arrays alike."""
    span = end - start
    left = (end - epoch) / (span + (span <= 0))
    factor = (end == 0) + (end > 0) * left * (left > 0)
    return strength * (epoch >= start) * factor
