"""The two normalised attentions of the paper, alpha_t = phi(a_t) / sum_s phi(a_s) (appendix A.3).

Legend: T positions.
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory._arrays import Array, promote


def softmax_attention(scores: Array) -> Array:
    """Attention with phi = exp: alpha_t = exp(a_t) / sum_s exp(a_s).

    Units: scores are pure numbers (query-key logits); attention is a probability.
    """
    xp, scores = promote(scores)  # (..., T)
    # The largest score is taken away first: the same attention without overflow.
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def relu_attention(scores: Array) -> Array:
    """Linear-ReLU attention, phi = relu: alpha_t = relu(a_t) / sum_s relu(a_s).

    When no score is positive the quotient is 0/0; attention is then defined as uniform, 1/T.

    Units: scores are pure numbers (query-key logits); attention is a probability.
    """
    xp, scores = promote(scores)  # (..., T)
    weights = xp.where(scores > 0, scores, 0.0)
    total = xp.sum(weights, axis=-1, keepdims=True)
    active = total > 0
    return xp.where(active, weights / xp.where(active, total, 1.0), 1.0 / scores.shape[-1])
