"""Has attention found the graph? Pure functions on NumPy, JAX or PyTorch arrays.

Attention and oracle are distributions over T positions; their leading axes broadcast. n inputs, H
heads.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace
from jaxtyping import Float

Weights = Float[Any, "*#n T"]
PerInput = Float[Any, "*#n"]
Number = Float[Any, ""]

TINY = 1e-30  # keeps logarithms of empty positions finite in float32


def structural_divergence(attention: Weights, oracle: Weights) -> PerInput:
    """D = KL(alpha* || alpha) = sum_i alpha*_i log(alpha*_i / alpha_i), in nats (sec. 4.3).

    Unlike the theory's form it is finite, with finite gradients, where attention has left an
    informative position altogether: training has to continue there."""
    xp = array_namespace(attention)
    ratio = xp.log(xp.clip(oracle, min=TINY)) - xp.log(xp.clip(attention, min=TINY))
    return xp.sum(oracle * ratio, axis=-1)


def informative_mass(attention: Weights, oracle: Weights) -> PerInput:
    """Total weight on the informative positions: sum_{i in I} alpha_i."""
    xp = array_namespace(attention)
    return xp.sum(xp.where(oracle > 0, attention, xp.zeros_like(attention)), axis=-1)


def weakest_weight(attention: Weights, oracle: Weights) -> PerInput:
    """min_{i in I} alpha_i, the smallest weight on an informative position (eq. 2); 1 where there
    is none."""
    xp = array_namespace(attention)
    return xp.min(xp.where(oracle > 0, attention, xp.ones_like(attention)), axis=-1)


def entropy(attention: Weights) -> PerInput:
    """-sum_t alpha_t log alpha_t, in nats."""
    xp = array_namespace(attention)
    return -xp.sum(attention * xp.log(xp.clip(attention, min=TINY)), axis=-1)


def measure_attention(attention: Float[Any, "n H T"]) -> dict[str, Any]:
    """What can be said of attention without knowing where it ought to be."""
    xp = array_namespace(attention)
    return {
        "attention_entropy": xp.mean(entropy(attention)),
        "attention": xp.mean(xp.mean(attention, axis=1), axis=0),
    }


def measure_routing(
    attention: Float[Any, "n H T"], oracle: Float[Any, "n T"], n_train: int, threshold: Any
) -> dict[str, Any]:
    """Has attention found the graph, over all inputs? The first `n_train` were trained on.

    Several heads are judged by their mean (pooled mass, eq. 55)."""
    xp = array_namespace(attention)
    pooled = xp.mean(attention, axis=1)
    divergence = structural_divergence(pooled, oracle)
    weakest = weakest_weight(pooled, oracle)
    low, tenth, median = _quantiles(weakest, (0.01, 0.1, 0.5))
    by_head = xp.mean(informative_mass(attention, oracle[:, None, :]), axis=0)
    satisfied = xp.astype(weakest >= threshold, weakest.dtype)
    return {
        "divergence": xp.mean(divergence),
        "divergence_train": xp.mean(divergence[:n_train]),
        "mass_mean": xp.mean(by_head),
        "mass_by_head": by_head,
        "weakest_mean": xp.mean(weakest),
        "weakest_min": xp.min(weakest),
        "weakest_q01": low,
        "weakest_q10": tenth,
        "weakest_median": median,
        "structure_share": xp.mean(satisfied),
        **measure_attention(attention),
    }


def _quantiles(values: Float[Any, " n"], shares: tuple[float, ...]) -> list[Number]:
    """Linearly interpolated, as NumPy's; written out because the array API has none."""
    xp = array_namespace(values)
    ordered = xp.sort(values)
    result = []
    for share in shares:
        place = share * (len(values) - 1)
        below = int(place)
        above = min(below + 1, len(values) - 1)
        part = place - below
        result.append(ordered[below] * (1 - part) + ordered[above] * part)
    return result
