"""The two conditions for generalisation, structure and norm, and their multi-head form.

Statements 2, 3 and 15. Legend: T positions, H heads, d width of the pooled representation.
An informative position is one where the oracle is positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from grokscope.papers.structural_inference.theory import _require
from grokscope.papers.structural_inference.theory._arrays import Array, is_known, promote


class StructuralSummary(NamedTuple):
    """How the smallest informative mass is distributed over inputs; all are attention masses."""

    share: Array  # () of the inputs that satisfy the condition
    minimum: Array  # () over inputs
    mean: Array  # () over inputs
    quantiles: Array  # (number of quantiles,) over inputs


def weakest_weight(attention: Array, oracle: Array) -> Array:  # (..., T), (..., T) -> (...)
    """Statement 2, eq. (2): the smallest mass on an informative position, min_{i in I} alpha_i.
    1 for an input without informative positions, where nothing can be missed. Units: probability.
    """
    xp, attention, oracle = promote(attention, oracle)
    return xp.min(xp.where(oracle > 0, attention, 1.0), axis=-1)


def structural_condition(attention: Array, oracle: Array, threshold: Array) -> Array:
    """Statement 2, definition 4.1: whether alpha_i >= tau for every informative i.
    Returns booleans (...), one for each input; B_tau itself asks for all. Units: probability."""
    _require.positive("The threshold", threshold)
    _, attention, oracle, threshold = promote(attention, oracle, threshold)
    return weakest_weight(attention, oracle) >= threshold


def structural_summary(
    attention: Array, oracle: Array, threshold: Array, quantiles: Sequence[float] = (0.01, 0.1, 0.5)
) -> StructuralSummary:  # (..., T), (..., T), ()
    """Statement 2 over all inputs: the share that satisfies B_tau, minimum, mean and quantiles.
    B_tau holds when the minimum is at least tau. The mean alone hides the failure: it looks perfect
    long before the worst input does. Quantiles interpolate linearly. Units: probability."""
    for quantile in quantiles:
        if not 0 <= quantile <= 1:
            raise ValueError(f"A quantile is {quantile}, but it must lie between 0 and 1.")
    _require.positive("The threshold", threshold)
    xp, attention, oracle, threshold = promote(attention, oracle, threshold)
    masses = xp.sort(xp.reshape(weakest_weight(attention, oracle), (-1,)))  # (inputs,)
    last = masses.shape[0] - 1

    def interpolate(quantile: float) -> Array:
        below = math.floor(quantile * last)
        above = min(below + 1, last)
        return masses[below] + (quantile * last - below) * (masses[above] - masses[below])

    return StructuralSummary(
        share=xp.mean(xp.astype(masses >= threshold, masses.dtype)),
        minimum=masses[0],
        mean=xp.mean(masses),
        quantiles=xp.stack([interpolate(quantile) for quantile in quantiles]),
    )


def spectral_norm(matrix: Array) -> Array:  # (..., m, n) -> (...)
    """Statement 3: the largest singular value |W|_2, from a full singular value decomposition.
    Units: those of the matrix."""
    xp, matrix = promote(matrix)
    return xp.max(xp.linalg.svdvals(matrix), axis=-1)


def parameter_norm(*parameters: Array) -> Array:
    """Statement 3: the Frobenius norm of several arrays as one vector, (sum_p |p|_F^2)^(1/2).
    Units: parameter norm."""
    xp, *arrays = promote(*parameters)
    return xp.sqrt(sum(xp.sum(array**2) for array in arrays))


def lipschitz_bound(hidden_weight: Array, output_weight: Array) -> Array:
    """Statement 3, eq. (23): |f(z) - f(z')| <= L_f |z - z'| with L_f = |W_2|_2 |W_1|_2.
    Neither biases nor the order in which the matrices are stored matter. Units: distance between
    output logits per distance between pooled representations."""
    _, hidden_weight, output_weight = promote(hidden_weight, output_weight)  # (h, d), (classes, h)
    return spectral_norm(output_weight) * spectral_norm(hidden_weight)


def lipschitz_bound_from_norm(norm: Array) -> Array:
    """Statement 3: |theta_MLP|_F <= rho implies L_f <= rho^2 / 2.

    Since |W_2|_2 |W_1|_2 <= |W_2|_F |W_1|_F <= (|W_1|_F^2 + |W_2|_F^2) / 2; attained by matrices
    of rank one and equal norm. Units: as `lipschitz_bound`, from a parameter norm.

    Differs from the paper: it says that rho_max bounds the Lipschitz constant, but not how. The
    bound is quadratic: half the norm allows a quarter."""
    _require.non_negative("The norm", norm)
    return norm**2 / 2


def norm_condition(norm: Array, lower: Array, upper: Array) -> Array:
    """Statement 3, definition 4.2: the Goldilocks condition rho_min <= |theta_MLP|_F <= rho_max.
    Units: parameter norm, all three."""
    _require.non_negative("The lower norm", lower)
    if is_known(lower, upper) and lower > upper:
        raise ValueError(f"The lower norm {lower} lies above the upper norm {upper}.")
    _, norm, lower, upper = promote(norm, lower, upper)
    return (lower <= norm) & (norm <= upper)


def pooled_mass(attention: Array) -> Array:  # (..., H, T) -> (..., T)
    """Statement 15, eq. (55): attention summed over heads, sum_h alpha_i^h, between 0 and H.
    Units: probability mass."""
    xp, attention = promote(attention)
    return xp.sum(attention, axis=-2)


def pooled_condition(attention: Array, oracle: Array, threshold: Array) -> Array:
    """Statement 15, conjecture E.2: whether sum_h alpha_i^h >= tau_pool for every informative i.

    Returns booleans (...), one for each input. Units: probability mass, in [0, H].

    Differs from the paper: pooled mass is necessary (a theorem for pairs of inputs, with distances
    measured after the output projection: `multihead_upper_bound` with statement 5), but not
    sufficient. Heads with opposite projections cancel, W_O^1 W_V^1 = -W_O^2 W_V^2, and then no
    pooled mass, however large, reaches the representation."""
    _require.positive("The threshold", threshold)
    # (..., H, T), (..., T)
    xp, attention, oracle, threshold = promote(attention, oracle, threshold)
    # Without informative positions nothing can be missed, whatever the threshold.
    return xp.all((pooled_mass(attention) >= threshold) | (oracle <= 0), axis=-1)
