"""How far one changed token must move the pooled representation (statements 6 and 7).

Legend as in `geometry`: masses a and b, A = v - mu and B = v' - mu, so that z' - z = b B - a A.
`separation` is a number delta with 0 <= delta <= |B - A| = |v' - v|, eq. (11).
Masses are probabilities; lengths are in the units of the values.
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    promote,
    require_non_negative,
)


def difference_lower_bound(
    mass_before: Array,
    mass_after: Array,
    separation: Array,
    length_before: Array,
    length_after: Array,
) -> Array:
    """Statement 6, eq. (18): |z' - z| >= b delta - (b - a) |A| for b >= a, mirrored for a > b.

    In one formula max(a, b) delta - |b - a| |C|, where C is A or B, whichever has the smaller mass.
    `length_before` is |A|, `length_after` |B|. A result that is not positive promises nothing. No
    better bound follows from a, b, delta and |C| alone. Units: those of the values.

    Differs from the paper: under B_tau it absorbs the second term into delta and concludes
    |z' - z| >= tau delta' > 0, eq. (28). That needs |b - a| |C| < max(a, b) delta: with mu = 0,
    v = 2, v' = 1, a = 1/4 and b = 1/2 both masses are at least tau = 1/4, yet z' = z. Nor does a
    bound for one changed position cover "any two sequences of different classes": where embeddings
    are token plus position, oracle attention 1/k makes z symmetric in the informative tokens, so
    exchanging the operands of a non-commutative task leaves z where it was.
    """
    require_non_negative("The separation", separation)
    xp, before, after, separation, length_before, length_after = promote(
        mass_before, mass_after, separation, length_before, length_after
    )
    anchor = xp.where(after >= before, length_before, length_after)
    return xp.maximum(before, after) * separation - xp.abs(after - before) * anchor


def squared_difference(
    mass_before: Array, mass_after: Array, offset_before: Array, offset_after: Array
) -> Array:
    """Statement 7, eq. (19): |b B - a A|^2 = a b |B - A|^2 + (b - a) (b |B|^2 - a |A|^2).

    Returns the right-hand side (...) from offsets A and B (..., d). An identity: it is |z' - z|^2.
    Units: those of the values, squared.
    """
    xp, before, after, offset_before, offset_after = promote(
        mass_before, mass_after, offset_before, offset_after
    )
    distance = xp.sum((offset_after - offset_before) ** 2, axis=-1)
    square_before = xp.sum(offset_before**2, axis=-1)
    square_after = xp.sum(offset_after**2, axis=-1)
    imbalance = after * square_after - before * square_before
    return before * after * distance + (after - before) * imbalance


def aligned_lower_bound(
    mass_before: Array,
    mass_after: Array,
    separation: Array,
    length_before: Array,
    length_after: Array,
) -> Array:
    """Statement 7, eq. (20): |z' - z| >= sqrt(a b) delta where (b - a)(b |B|^2 - a |A|^2) >= 0.

    Returns zero, the trivial bound, where the orderings do not align. Arguments as in
    `difference_lower_bound`. Units: those of the values.

    Differs from the paper: remark A.1 calls (20) strictly tighter than (18). It is at least as
    tight exactly when |C| >= delta sqrt(max(a, b)) / (sqrt(a) + sqrt(b)); with A = 0, |B| = delta
    = 1, a = 0.1 and b = 0.5, (18) gives the true 0.5 and (20) 0.22. Take the larger of the two.
    Without the condition (20) is false: see the collision in `difference_lower_bound`.
    """
    require_non_negative("The separation", separation)
    xp, before, after, separation, length_before, length_after = promote(
        mass_before, mass_after, separation, length_before, length_after
    )
    imbalance = after * length_after**2 - before * length_before**2
    aligned = (after - before) * imbalance >= 0
    return xp.where(aligned, xp.sqrt(before * after) * separation, 0.0)


def mismatched_lower_bound(
    mass_before: Array,
    mass_after: Array,
    separation: Array,
    length_before: Array,
    length_after: Array,
) -> Array:
    """Statement 7, eq. (21): |z' - z| >= sqrt(a b delta^2 - |b - a| min(a, b) |C|^2).

    C as in `difference_lower_bound`; zero where the radicand is negative. It holds whether or not
    the orderings align. Units: those of the values.

    Differs from the paper: remark A.1 says that (21) dominates (18) once |b - a| is small. It never
    does, because (18)^2 - (21)^2 = max(a, b) |b - a| (delta - |C|)^2, and (21) is empty wherever
    (18) is. The paper's own correction term in (21) is lost; this is the smallest that depends on
    the masses and |C| alone.
    """
    require_non_negative("The separation", separation)
    xp, before, after, separation, length_before, length_after = promote(
        mass_before, mass_after, separation, length_before, length_after
    )
    anchor = xp.where(after >= before, length_before, length_after)
    correction = xp.abs(after - before) * xp.minimum(before, after) * anchor**2
    radicand = before * after * separation**2 - correction
    return xp.sqrt(xp.where(radicand > 0, radicand, 0.0))
