"""The variance of the attention scores over the context, and its decay (statement 14).

Legend: T positions, d width; scores a_t = e_q' M e_t / sqrt(head dimension) with M = W_Q' W_K.
Scores are pure numbers, and so is their variance.
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    promote,
    require_decay,
    require_non_negative,
    require_positive,
)


def score_variance(scores: Array) -> Array:
    """Statement 14, conjecture E.1: (1/T) sum_t (a_t - mean a)^2, over the context of each query.

    The mean goes because softmax does not see it. Returns (...). Units: squared score.
    """
    xp, scores = promote(scores)  # (..., T)
    return xp.mean((scores - xp.mean(scores, axis=-1, keepdims=True)) ** 2, axis=-1)


def context_spread(embeddings: Array) -> Array:
    """Statement 14: (1/T) sum_t |e_t - mean e|^2; at most E^2 when all embeddings have |e_t| <= E.

    Returns (...). Units: squared norm of an embedding.
    """
    xp, embeddings = promote(embeddings)  # (..., T, d)
    centred = embeddings - xp.mean(embeddings, axis=-2, keepdims=True)
    return xp.mean(xp.sum(centred**2, axis=-1), axis=-1)


def score_variance_bound(
    interaction_norm: Array, query_norm: Array, spread: Array, head_dimension: Array
) -> Array:
    """Statement 14, conjecture E.1: variance <= |e_q|^2 |M|_F^2 spread / head dimension.

    With |e_t| <= E for every position the constant beside |M|_F^2 is at most E^4 / head dimension;
    `spread` is `context_spread`. The spectral norm of M will do in place of |M|_F. A theorem, not a
    conjecture, by Cauchy-Schwarz. Units: squared score.
    """
    require_positive("The head dimension", head_dimension)
    _, interaction_norm, query_norm, spread, head_dimension = promote(
        interaction_norm, query_norm, spread, head_dimension
    )
    return (interaction_norm * query_norm) ** 2 * spread / head_dimension


def variance_contraction(
    learning_rate: Array, weight_decay: Array, steps: Array = 1, decayed_factors: int = 2
) -> Array:
    """Statement 14: without updates the variance shrinks by (1 - eta lambda)^(2 j) a step.

    j = `decayed_factors` counts the decayed factors of a score, e_q' W_Q' W_K e_t: 2 for W_Q and
    W_K, 4 when the embeddings decay as well. Returns the factor after `steps`. Units: pure number.

    Differs from the paper: it names no rate. It also holds for softmax only: linear-ReLU attention
    does not change when all its scores are multiplied by one positive number, so decay alone never
    moves it. For the caveat about normalised updates see `plateau_lower_bound`.
    """
    require_decay(learning_rate, weight_decay)
    require_non_negative("The number of steps", steps)
    _, learning_rate, weight_decay, steps = promote(learning_rate, weight_decay, steps)
    return (1 - learning_rate * weight_decay) ** (2 * decayed_factors * steps)


def uniformity_bound(variance: Array, positions: int) -> Array:
    """Statement 14: KL(uniform || softmax attention) <= T variance / 4.

    By Hoeffding's lemma it is at most (max a - min a)^2 / 8, and the squared range is at most
    2 T variance. So attention does smooth out as the variance falls. Units: nats.

    Differs from the paper: smoothing leads to D = log(T / k), not towards the oracle; it meets
    B_tau only for tau <= 1 / T.
    """
    require_non_negative("The variance", variance)
    _, variance = promote(variance)
    return positions * variance / 4
