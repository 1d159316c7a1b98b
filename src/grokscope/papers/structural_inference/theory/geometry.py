"""How far one changed token moves the pooled representation (statements 4 to 7 and 15).

Legend: inputs x and x' differ in one informative position i, which is not the query position.
a = alpha_i(x) and b = alpha_i(x') are the masses before and after, v and v' the values there,
mu the centroid of the values at the other positions, A = v - mu, B = v' - mu, z and z' the pooled
representations. `separation` is a number delta with 0 <= delta <= |v' - v|, eq. (11).
T positions, H heads, d width. Masses are probabilities; values, distances and z share one unit.
"""

from __future__ import annotations

import math

from grokscope.papers.structural_inference.theory import _require
from grokscope.papers.structural_inference.theory._arrays import Array, promote, select


def distractor_centroid(attention: Array, values: Array, position: int | Array) -> Array:
    """Statement 4, eq. (13): mu = sum_{j != i} alpha_j v_j / (1 - alpha_i).

    `position` is i, one integer or an integer array (...). Returns (..., d). Units: those of the
    values.

    Differs from the paper: it asks for alpha_i < 1. Where alpha_i = 1, mu is the plain mean of the
    other values, which keeps eq. (14) true also when linear-ReLU attention falls back to uniform;
    with T = 1 it is zero."""
    xp, attention, values = promote(attention, values)  # (..., T), (..., T, d)
    positions = attention.shape[-1]
    chosen = select(xp, positions, position, attention)  # (..., T)
    weights = xp.where(chosen, 0.0, attention)
    # Summing the others, and not 1 - alpha_i, keeps precision when alpha_i is almost 1.
    total = xp.sum(weights, axis=-1, keepdims=True)
    plain = xp.where(chosen, xp.zeros_like(weights), 1.0 / max(positions - 1, 1))
    weights = xp.where(total > 0, weights / xp.where(total > 0, total, 1.0), plain)
    return xp.sum(weights[..., None] * values, axis=-2)


def rescaling_factor(a: Array, b: Array) -> Array:
    """Statement 4, eq. (12): every other weight is multiplied by c = (1 - b) / (1 - a).
    1 when a = b = 1, where there is nothing to rescale; infinite when only a = 1. Units: number."""
    xp, a, b = promote(a, b)  # (...), (...)
    regular = a < 1
    factor = (1 - b) / xp.where(regular, 1 - a, 1.0)
    return xp.where(regular, factor, xp.where(b < 1, xp.inf, xp.ones_like(factor)))


def pooled_difference(
    a: Array, b: Array, v: Array, v_after: Array, centroid: Array
) -> Array:  # (...), (...), (..., d) three times
    """Statement 4, eq. (14): z' - z = b (v' - mu) - a (v - mu).

    Exact for every attention alpha_t = phi(a_t) / sum_s phi(a_s) in which the score of a position
    depends on the token there and on the query only: softmax and linear-ReLU. Returns (..., d).
    Units: those of the values.

    Differs from the paper: it does not hold for i = q. Changing the query token changes every
    score, so the other weights no longer share one factor."""
    _, a, b, v, v_after, centroid = promote(a, b, v, v_after, centroid)
    moved, left = v_after - centroid, v - centroid
    return b[..., None] * moved - a[..., None] * left


def value_spread(v: Array, v_after: Array, centroid: Array) -> Array:
    """Statement 5: Delta = max(|v - mu|, |v' - mu|); at most 2 R when all values have |v| <= R.
    Takes (..., d) three times, returns (...). Units: those of the values."""
    xp, v, v_after, centroid = promote(v, v_after, centroid)
    before, after = (xp.linalg.vector_norm(value - centroid, axis=-1) for value in (v, v_after))
    return xp.maximum(before, after)


def difference_upper_bound(a: Array, b: Array, spread: Array) -> Array:
    """Statement 5, eq. (24): |z' - z| <= (a + b) Delta.
    Delta is `value_spread`, or 2 R. Attained when v - mu and v' - mu are opposite and both as long
    as Delta. Units: those of the values."""
    _, a, b, spread = promote(a, b, spread)
    return (a + b) * spread


def separation_from_margin(margin: Array) -> Array:
    """Statement 5, eq. (25): two inputs of different classes have |f(z) - f(z')| >= sqrt(2) kappa.

    kappa is the smallest lead of the right output logit over any other, on both inputs. Attained
    with two classes. Units: output logits.

    Differs from the paper: it leaves m as "some confidence margin", a distance between output
    vectors; this gives it from the margin that can be measured, m = sqrt(2) kappa."""
    _require.non_negative("The margin", margin)
    return math.sqrt(2) * margin


def mass_threshold(separation: Array, lipschitz: Array, spread: Array) -> Array:
    """Statement 5, theorem 4.3: tau = m / (L_f Delta).
    m is the distance that the outputs of two classes must keep (`separation_from_margin`), L_f the
    Lipschitz constant of the classifier, Delta the `value_spread`. Units: probability mass; above
    2 no attention can reach it."""
    _require.positive("The Lipschitz constant", lipschitz)
    _require.positive("The spread", spread)
    return separation / (lipschitz * spread)


def pair_condition(a: Array, b: Array, threshold: Array) -> Array:
    """Statement 5, eq. (27): whether a + b >= tau, which every correctly separated pair satisfies.

    Returns booleans (...). Units: probability mass.

    Differs from the paper: theorem 4.3 reads this as alpha_i >= tau for every input. What is
    necessary is only that the two masses of a pair add up to tau, so that the larger is at least
    tau / 2: with a = b = tau / 2 and opposite values the classes are separated by exactly m, while
    B_tau fails for every input."""
    _require.positive("The threshold", threshold)
    _, a, b, threshold = promote(a, b, threshold)
    return a + b >= threshold


def multihead_upper_bound(a: Array, b: Array, spread: Array) -> Array:
    """Statement 15, eq. (54): |z' - z| <= sum_h (a_h + b_h) Delta_h.
    Delta_h = max(|W_O^h (v - mu)|, |W_O^h (v' - mu)|), after the head's output projection, so that
    sum_h (a_h + b_h) >= m / (L_f max_h Delta_h) is necessary: eq. (27) for pooled mass. Takes
    (..., H) three times, returns (...). Units: those of the projected values."""
    xp, a, b, spread = promote(a, b, spread)
    return xp.sum((a + b) * spread, axis=-1)


def difference_lower_bound(
    a: Array, b: Array, separation: Array, length_a: Array, length_b: Array
) -> Array:
    """Statement 6, eq. (18): |z' - z| >= b delta - (b - a) |A| for b >= a, mirrored for a > b.

    In one formula max(a, b) delta - |b - a| |C|, where C is A or B, whichever has the smaller mass.
    `length_a` is |A|, `length_b` |B|. A result that is not positive promises nothing. No better
    bound follows from a, b, delta and |C| alone. Units: those of the values.

    Differs from the paper: under B_tau it concludes |z' - z| >= tau delta' > 0, eq. (28), which
    needs |b - a| |C| < max(a, b) delta: with mu = 0, v = 2, v' = 1, a = 1/4 and b = 1/2 both masses
    are at least tau = 1/4, yet z' = z. Nor does a bound for one changed position cover "any two
    sequences of different classes": where embeddings are token plus position, oracle attention 1/k
    makes z symmetric in the informative tokens, so exchanging the operands of a non-commutative
    task leaves z where it was."""
    _require.non_negative("The separation", separation)
    xp, a, b, separation, length_a, length_b = promote(a, b, separation, length_a, length_b)
    anchor = xp.where(b >= a, length_a, length_b)
    return xp.maximum(a, b) * separation - xp.abs(b - a) * anchor


def squared_difference(
    a: Array, b: Array, offset_a: Array, offset_b: Array
) -> Array:  # (...), (...), (..., d), (..., d)
    """Statement 7, eq. (19): |b B - a A|^2 = a b |B - A|^2 + (b - a) (b |B|^2 - a |A|^2).
    Returns the right-hand side (...). An identity: it is |z' - z|^2. Units: those of the values,
    squared."""
    xp, a, b, offset_a, offset_b = promote(a, b, offset_a, offset_b)
    distance = xp.sum((offset_b - offset_a) ** 2, axis=-1)
    square_a, square_b = (xp.sum(offset**2, axis=-1) for offset in (offset_a, offset_b))
    imbalance = b * square_b - a * square_a
    return a * b * distance + (b - a) * imbalance


def aligned_lower_bound(
    a: Array, b: Array, separation: Array, length_a: Array, length_b: Array
) -> Array:
    """Statement 7, eq. (20): |z' - z| >= sqrt(a b) delta where (b - a)(b |B|^2 - a |A|^2) >= 0.

    Returns zero, the trivial bound, where the orderings do not align. Arguments as in
    `difference_lower_bound`. Units: those of the values.

    Differs from the paper: remark A.1 calls (20) strictly tighter than (18). It is at least as
    tight exactly when |C| >= delta sqrt(max(a, b)) / (sqrt(a) + sqrt(b)); with A = 0, |B| = delta
    = 1, a = 0.1 and b = 0.5, (18) gives the true 0.5 and (20) 0.22. Without the condition (20) is
    false: see the collision in `difference_lower_bound`."""
    _require.non_negative("The separation", separation)
    xp, a, b, separation, length_a, length_b = promote(a, b, separation, length_a, length_b)
    imbalance = b * length_b**2 - a * length_a**2
    aligned = (b - a) * imbalance >= 0
    return xp.where(aligned, xp.sqrt(a * b) * separation, 0.0)


def mismatched_lower_bound(
    a: Array, b: Array, separation: Array, length_a: Array, length_b: Array
) -> Array:
    """Statement 7, eq. (21): |z' - z| >= sqrt(a b delta^2 - |b - a| min(a, b) |C|^2).

    C as in `difference_lower_bound`; zero where the radicand is negative. It holds whether or not
    the orderings align. Units: those of the values.

    Differs from the paper: remark A.1 says that (21) dominates (18) once |b - a| is small. It never
    does, because (18)^2 - (21)^2 = max(a, b) |b - a| (delta - |C|)^2, and (21) is empty wherever
    (18) is. The paper's own correction term in (21) is lost; this is the smallest that depends on
    the masses and |C| alone."""
    _require.non_negative("The separation", separation)
    xp, a, b, separation, length_a, length_b = promote(a, b, separation, length_a, length_b)
    anchor = xp.where(b >= a, length_a, length_b)
    correction = xp.abs(b - a) * xp.minimum(a, b) * anchor**2
    radicand = a * b * separation**2 - correction
    return xp.sqrt(xp.where(radicand > 0, radicand, 0.0))
