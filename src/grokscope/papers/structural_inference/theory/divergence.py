"""The structural divergence D = KL(oracle || attention), its threshold and its gradient.

Statements 8 and 11. Legend: T positions, k informative ones, on which the oracle is positive.
Divergences are in nats; scores are pure numbers, so gradients are in nats as well.
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    is_known,
    promote,
    require_positive,
)
from grokscope.papers.structural_inference.theory.attention import relu_attention


def structural_divergence(attention: Array, oracle: Array) -> Array:
    """Statement 8, section 5.2: D = KL(alpha* || alpha) = sum_t alpha*_t log(alpha*_t / alpha_t).

    For the uniform oracle, 1/k on the informative positions, this is
    (1/k) sum_{i in I} log(1 / (k alpha_i)). Infinite where an informative position has no mass at
    all; log(T / k) for uniform attention. Returns (...). Units: nats.
    """
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    informative = oracle > 0
    missed = informative & (attention <= 0)
    counted = informative & (attention > 0)
    # Ones where nothing is counted, so that neither the logarithm nor its derivative blows up.
    log_ratio = xp.log(xp.where(counted, oracle, 1.0)) - xp.log(xp.where(counted, attention, 1.0))
    divergence = xp.sum(xp.where(counted, oracle * log_ratio, 0.0), axis=-1)
    return xp.where(xp.any(missed, axis=-1), xp.inf, divergence)


def _require_attainable(threshold: Array, informative: int) -> None:
    require_positive("The threshold", threshold)
    if informative < 1:
        raise ValueError(f"There are {informative} informative positions, but at least one is due.")
    # A hair of rounding is forgiven, so that 1/k counts as attainable for every k.
    if is_known(threshold) and threshold * informative > 1 + 1e-12:
        raise ValueError(
            f"No attention gives {informative} positions a mass of {threshold} each: the threshold "
            f"can be at most {1 / informative}."
        )


def divergence_bound(threshold: Array, informative: int) -> Array:
    """Statement 8, corollary 4.5, eq. (3): B_tau implies D <= log(1 / (k tau)).

    For the uniform oracle; attained when every informative position has exactly tau. k tau <= 1
    always, and at k tau = 1 the bound is zero: only the oracle itself satisfies B_tau. Units: nats.

    Differs from the paper: it is one-sided. Section D.4.3 takes reaching this divergence for
    reaching B_tau, but with k = 2 and tau = 1/4 masses of 0.1 and 0.8 have D = 0.57 below
    log 2 = 0.69 and break B_tau. What implies B_tau is `sufficient_divergence`.
    """
    _require_attainable(threshold, informative)
    xp, threshold = promote(threshold)
    return -xp.log(informative * threshold)


def sufficient_divergence(threshold: Array, informative: int) -> Array:
    """Statement 8, converse: D below this value implies B_tau.

    (1/k) [log(1 / (k tau)) + (k - 1) log((k - 1) / (k (1 - tau)))], the divergence from the uniform
    oracle of the attention that has tau on one informative position and shares the rest equally
    among the others: the least divergence with a mass as small as tau. Units: nats.

    Not in the paper; its corollary 4.5 holds in the other direction only.
    """
    _require_attainable(threshold, informative)
    xp, threshold = promote(threshold)
    missing = -xp.log(informative * threshold)
    if informative == 1:
        return missing
    others = xp.log((informative - 1) / (informative * (1 - threshold)))
    return (missing + (informative - 1) * others) / informative


def divergence_gradient(attention: Array, oracle: Array) -> Array:
    """Statement 11, eq. (45): dD / da_i = alpha_i - alpha*_i for softmax attention.

    It does not involve the loss, so it stays when the task gradient has vanished. Returns (..., T).
    Units: nats per unit of score.
    """
    _, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    return attention - oracle


def relu_divergence_gradient(scores: Array, oracle: Array) -> Array:
    """Statement 11 for linear-ReLU attention: dD / da_i = (alpha_i - alpha*_i) / a_i where a_i > 0.

    Zero where a_i <= 0. In general it is phi'(a_i) / phi(a_i) (alpha_i - alpha*_i), and the factor
    is 1 for the exponential only. Returns (..., T). Units: nats per unit of score.

    Differs from the paper: the theorems are stated for linear-ReLU attention, but eq. (45) is not
    its gradient, and the gradient is not self-correcting: an informative position with a score
    below zero makes D infinite and receives no gradient at all, so no penalty brings it back.
    """
    xp, scores, oracle = promote(scores, oracle)  # (..., T), (..., T)
    active = scores > 0
    difference = relu_attention(scores) - oracle
    return xp.where(active, difference / xp.where(active, scores, 1.0), 0.0)
