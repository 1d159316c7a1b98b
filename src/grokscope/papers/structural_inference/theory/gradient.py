"""The task gradient on attention scores, and why memorisation starves it (statement 9).

Legend: T positions, d width, a scores, alpha attention, v values, z = sum_t alpha_t v_t pooled,
f the classifier with Lipschitz constant L_f, L the cross-entropy of ONE example in nats.
Gradients are in nats per unit of score.

Everything here is per example. The bounds do not survive putting batch means in for attention and
loss: the mean of a product is not the product of the means. Average the bounds instead.
"""

from __future__ import annotations

import math

from grokscope.papers.structural_inference.theory import _require
from grokscope.papers.structural_inference.theory._arrays import Array, Namespace, promote


def score_gradient(attention: Array, values: Array, pooled: Array, pooled_gradient: Array) -> Array:
    """Statement 9, eq. (33), softmax: dL/da_i = alpha_i <dL/dz, v_i - z>.
    Exact. Units: nats per unit of score."""
    # (..., T), (..., T, d), (..., d), (..., d)
    xp, attention, values, pooled, slope = promote(attention, values, pooled, pooled_gradient)
    offsets = values - pooled[..., None, :]
    return attention * xp.sum(offsets * slope[..., None, :], axis=-1)


def relu_score_gradient(
    scores: Array, values: Array, pooled: Array, pooled_gradient: Array
) -> Array:
    """Statement 9 for linear-ReLU attention: dL/da_i = [a_i > 0] <dL/dz, v_i - z> / S.
    S = sum_s relu(a_s). Exact, with slope 0 at the kink; zero where no score is positive, since
    attention is uniform there whatever the scores. Units: nats per unit of score."""
    xp, scores, values, pooled, pooled_gradient = promote(scores, values, pooled, pooled_gradient)
    offsets = values - pooled[..., None, :]  # (..., T, d)
    return _relu_slope(xp, scores) * xp.sum(offsets * pooled_gradient[..., None, :], axis=-1)


def _relu_slope(xp: Namespace, scores: Array) -> Array:
    """[a_i > 0] / sum_s relu(a_s): what multiplies v_i - z in the Jacobian of z, (..., T)."""
    active = scores > 0
    scale = xp.sum(xp.where(active, scores, 0.0), axis=-1, keepdims=True)
    return xp.where(active, 1.0 / xp.where(scale > 0, scale, 1.0), 0.0)


def output_error_bound(loss: Array) -> Array:
    """Statement 9, sharp form of eq. (29): |p - e_y|_2 <= sqrt(2) (1 - exp(-L)).

    p = softmax(f(z)) and e_y is the target; since L = -log p_y, the error on the target is exactly
    1 - exp(-L), and the errors on the others add up to it. Attained when one wrong class takes all
    of the rest. Units: probability, from nats.

    Differs from the paper: by Pinsker's inequality eq. (29) has sqrt(2 L), which is never smaller.
    As L -> 0 the error, and with it the gradient, vanishes in proportion to L, not to its root."""
    _require.non_negative("The loss", loss)
    xp, loss = promote(loss)
    return -math.sqrt(2) * xp.expm1(-loss)


def pinsker_error_bound(loss: Array) -> Array:
    """Statement 9, eq. (29) as in the paper: |p - e_y|_2 <= |p - e_y|_1 <= sqrt(2 L).
    Units: probability, from nats."""
    _require.non_negative("The loss", loss)
    xp, loss = promote(loss)
    return xp.sqrt(2 * loss)


def _bound(slope: Array, values: Array, pooled: Array, lipschitz: Array, error: Array) -> Array:
    """slope_i |v_i - z| L_f error.  (..., T), (..., T, d), (..., d), () or (...), (...)"""
    xp, slope, values, pooled, lipschitz, error = promote(slope, values, pooled, lipschitz, error)
    distance = xp.linalg.vector_norm(values - pooled[..., None, :], axis=-1)
    return slope * distance * (lipschitz * error)[..., None]


def explaining_away_bound(
    attention: Array, values: Array, pooled: Array, lipschitz: Array, loss: Array
) -> Array:
    """Statement 9, lemma 5.1 for each position: |dL/da_i| <= sqrt(2) L_f alpha_i |v_i - z| sqrt(L).

    `loss` is (...), one for each example; `lipschitz` any bound on the Jacobian of f at z. Units:
    nats per unit of score.

    Differs from the paper: eq. (4) has 2 in place of |v_i - z|, right only for values of norm at
    most 1, which nothing in training ensures."""
    return _bound(attention, values, pooled, lipschitz, pinsker_error_bound(loss))


def loose_explaining_away_bound(
    attention: Array, lipschitz: Array, loss: Array, value_bound: Array = 1.0
) -> Array:
    """Statement 9, lemma 5.1, eq. (4): |dL/da_i| <= 2 sqrt(2) R L_f alpha_i sqrt(L).

    R = `value_bound` bounds the norm of every value. Units: nats per unit of score.

    Differs from the paper: it has R = 1, and with larger values eq. (4) is false."""
    _require.non_negative("The value bound", value_bound)
    _, attention, lipschitz, loss, value_bound = promote(attention, lipschitz, loss, value_bound)
    return 2 * attention * (value_bound * lipschitz * pinsker_error_bound(loss))[..., None]


def sharp_explaining_away_bound(
    attention: Array, values: Array, pooled: Array, lipschitz: Array, loss: Array
) -> Array:
    """Statement 9, sharp: |dL/da_i| <= sqrt(2) L_f alpha_i |v_i - z| (1 - exp(-L)).

    Arguments as in `explaining_away_bound`, which it never exceeds. Since |v_i - z| =
    (1 - alpha_i) |v_i - mu|, the gradient also vanishes where alpha_i is near 1. Units: nats per
    unit of score.

    Differs from the paper: see `output_error_bound`; starvation is linear in the loss."""
    return _bound(attention, values, pooled, lipschitz, output_error_bound(loss))


def relu_explaining_away_bound(
    scores: Array, values: Array, pooled: Array, lipschitz: Array, loss: Array
) -> Array:
    """Statement 9 for linear-ReLU attention, with S = sum_s relu(a_s):

    |dL/da_i| <= [a_i > 0] sqrt(2) L_f |v_i - z| (1 - exp(-L)) / S. Zero where no score is positive.
    Units: nats per unit of score.

    Differs from the paper: lemma 5.1 uses the softmax Jacobian, while the theorems are meant for
    linear-ReLU attention. The gradient still starves with the loss, but alpha_i is replaced by
    1 / S: a weakly attended position is not starved in proportion to its mass, one with a_i <= 0
    gets nothing whatever the loss, and small scores make the gradient as large as 1 / S."""
    xp, scores = promote(scores)
    slope = _relu_slope(xp, scores)
    return _bound(slope, values, pooled, lipschitz, output_error_bound(loss))
