"""How far one changed token can move the pooled representation (statements 4, 5 and 15).

Legend: inputs x and x' differ in one informative position i, which is not the query position.
a = alpha_i(x) and b = alpha_i(x') are the masses before and after, v and v' the values there,
mu the centroid of the values at the other positions, z and z' the pooled representations.
T positions, H heads, d width. Masses are probabilities; values, distances and z share one unit.
"""

from __future__ import annotations

import math

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    promote,
    require_non_negative,
    require_positive,
    select,
)


def distractor_centroid(attention: Array, values: Array, position: int | Array) -> Array:
    """Statement 4, eq. (13): mu = sum_{j != i} alpha_j v_j / (1 - alpha_i).

    `position` is i, one integer or an integer array (...). Returns (..., d). Units: those of the
    values.

    Where alpha_i = 1 nothing is left to weigh by: mu is then the plain mean of the other values,
    which keeps eq. (14) true also when linear-ReLU attention falls back to uniform; with T = 1 it
    is zero. The paper asks for alpha_i < 1.
    """
    xp, attention, values = promote(attention, values)  # (..., T), (..., T, d)
    positions = attention.shape[-1]
    chosen = select(xp, positions, position, attention)  # (..., T)
    weights = xp.where(chosen, 0.0, attention)
    # Summing the others, and not 1 - alpha_i, keeps precision when alpha_i is almost 1.
    total = xp.sum(weights, axis=-1, keepdims=True)
    plain = xp.where(chosen, xp.zeros_like(weights), 1.0 / max(positions - 1, 1))
    weights = xp.where(total > 0, weights / xp.where(total > 0, total, 1.0), plain)
    return xp.sum(weights[..., None] * values, axis=-2)


def rescaling_factor(mass_before: Array, mass_after: Array) -> Array:
    """Statement 4, eq. (12): every other weight is multiplied by c = (1 - b) / (1 - a).

    1 when a = b = 1, where there is nothing to rescale; infinite when only a = 1.
    Units: pure number.
    """
    xp, mass_before, mass_after = promote(mass_before, mass_after)  # (...), (...)
    regular = mass_before < 1
    factor = (1 - mass_after) / xp.where(regular, 1 - mass_before, 1.0)
    return xp.where(regular, factor, xp.where(mass_after < 1, xp.inf, xp.ones_like(factor)))


def pooled_difference(
    mass_before: Array,
    mass_after: Array,
    value_before: Array,
    value_after: Array,
    centroid: Array,
) -> Array:
    """Statement 4, eq. (14): z' - z = b (v' - mu) - a (v - mu).

    Exact for every attention alpha_t = phi(a_t) / sum_s phi(a_s) in which the score of a position
    depends on the token there and on the query only: softmax and linear-ReLU. Returns (..., d).
    Units: those of the values.

    Differs from the paper: it does not hold for i = q. Changing the query token changes every
    score, so the other weights no longer share one factor.
    """
    _, before, after, value_before, value_after, centroid = promote(
        mass_before, mass_after, value_before, value_after, centroid
    )  # (...), (...), (..., d) three times
    return after[..., None] * (value_after - centroid) - before[..., None] * (
        value_before - centroid
    )


def value_spread(value_before: Array, value_after: Array, centroid: Array) -> Array:
    """Statement 5: Delta = max(|v - mu|, |v' - mu|); at most 2 R when all values have |v| <= R.

    Returns (...). Units: those of the values.
    """
    xp, value_before, value_after, centroid = promote(value_before, value_after, centroid)
    before = xp.linalg.vector_norm(value_before - centroid, axis=-1)  # (..., d) to (...)
    after = xp.linalg.vector_norm(value_after - centroid, axis=-1)
    return xp.maximum(before, after)


def difference_upper_bound(mass_before: Array, mass_after: Array, spread: Array) -> Array:
    """Statement 5, eq. (24): |z' - z| <= (a + b) Delta.

    Delta is `value_spread`, or 2 R. Attained when v - mu and v' - mu are opposite and both as long
    as Delta. Units: those of the values.
    """
    _, mass_before, mass_after, spread = promote(mass_before, mass_after, spread)
    return (mass_before + mass_after) * spread


def separation_from_margin(margin: Array) -> Array:
    """Statement 5, eq. (25): two inputs of different classes have |f(z) - f(z')| >= sqrt(2) kappa.

    kappa is the smallest lead of the right output logit over any other, on both inputs. Attained
    with two classes. Units: output logits.

    Differs from the paper: its m is a distance between output vectors and is left as "some
    confidence margin"; this gives it from the margin that can be measured, m = sqrt(2) kappa.
    """
    require_non_negative("The margin", margin)
    return math.sqrt(2) * margin


def mass_threshold(separation: Array, lipschitz: Array, spread: Array) -> Array:
    """Statement 5, theorem 4.3: tau = m / (L_f Delta).

    m is the distance that the outputs of two classes must keep (`separation_from_margin`), L_f the
    Lipschitz constant of the classifier, Delta the `value_spread`. Units: probability mass; above
    2 no attention can reach it.
    """
    require_positive("The Lipschitz constant", lipschitz)
    require_positive("The spread", spread)
    return separation / (lipschitz * spread)


def pair_condition(mass_before: Array, mass_after: Array, threshold: Array) -> Array:
    """Statement 5, eq. (27): whether a + b >= tau, which every correctly separated pair satisfies.

    Returns booleans (...). Units: probability mass.

    Differs from the paper: theorem 4.3 reads this as alpha_i >= tau for every input. What is
    necessary is only that the two masses of a pair add up to tau, so that the larger is at least
    tau / 2: with a = b = tau / 2 and opposite values the classes are separated by exactly m, while
    B_tau fails for every input.
    """
    require_positive("The threshold", threshold)
    _, mass_before, mass_after, threshold = promote(mass_before, mass_after, threshold)
    return mass_before + mass_after >= threshold


def multihead_upper_bound(mass_before: Array, mass_after: Array, spread: Array) -> Array:
    """Statement 15, eq. (54): |z' - z| <= sum_h (a_h + b_h) Delta_h.

    Delta_h = max(|W_O^h (v - mu)|, |W_O^h (v' - mu)|), after the head's output projection, so that
    sum_h (a_h + b_h) >= m / (L_f max_h Delta_h) is necessary: eq. (27) for pooled mass. Takes
    (..., H) three times, returns (...). Units: those of the projected values.
    """
    xp, mass_before, mass_after, spread = promote(mass_before, mass_after, spread)
    return xp.sum((mass_before + mass_after) * spread, axis=-1)
