"""How fast a penalty lambda_KL * D pulls attention to the oracle (statements 12 and 13).

The flow of eq. (47): da/dt = -lambda_eff (alpha - alpha*) on the scores of softmax attention, hence
dD/dt = -lambda_eff |alpha - alpha*|^2. Time is in optimiser steps when lambda_eff is per step (it
gathers learning rate, penalty strength and the scale of the embeddings); D is in nats.

Legend: k informative positions, n = T - k distractors, `mass` a lower bound m on
min_{i in I} min(alpha_i, alpha*_i). For the uniform oracle the smallest informative mass never
falls along the flow, so its value at the start serves for all times.
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    promote,
    require_non_negative,
    require_positive,
)
from grokscope.papers.structural_inference.theory.divergence import structural_divergence


def squared_gap(attention: Array, oracle: Array) -> Array:
    """Statement 12, eq. (48): |alpha - alpha*|^2, the squared gradient of D in the scores.

    Returns (...). Units: squared probability.
    """
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    return xp.sum((attention - oracle) ** 2, axis=-1)


def polyak_lojasiewicz_ratio(attention: Array, oracle: Array) -> Array:
    """Statement 12, eq. (50): |alpha - alpha*|^2 / (2 D), the decay rate of D per 2 lambda_eff.

    Infinite where D is zero: there every constant will do. Zero where D is infinite. Returns (...).
    Units: per nat.
    """
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    divergence = structural_divergence(attention, oracle)
    positive = divergence > 0
    ratio = squared_gap(attention, oracle) / xp.where(positive, 2 * divergence, 1.0)
    return xp.where(positive, ratio, xp.inf)


def polyak_lojasiewicz_constant(attention: Array, oracle: Array) -> Array:
    """Statement 12, lemma D.1: c in |alpha - alpha*|^2 >= 2 c D.

    c = min_{i in I} min(alpha_i, alpha*_i). The inequality holds for every attention, near
    or far, that has no mass on distractors. Returns (...). Units: probability.

    Differs from the paper: it has c = min_{i in I} alpha*_i, 1/k for the uniform oracle. (i) That
    is only the limit at alpha*: with k = T = 2 it fails at every other attention, for at
    (1/2 - e, 1/2 + e) D = -log(1 - 4 e^2) / 2 > 2 e^2 = |alpha - alpha*|^2. Taking the smaller of
    alpha_i and alpha*_i makes it true everywhere, so that B_tau gives c = tau. (ii) For a sparse
    oracle no positive constant exists: a mass e on distractors has D of order e but a
    squared gap of order e^2. Use `squared_gap_bound` there.
    """
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    return xp.min(xp.where(oracle > 0, xp.minimum(attention, oracle), 1.0), axis=-1)


def _gap_scale(mass: Array, informative: Array, distractors: Array) -> Array:
    """m sqrt(c) with c = k n / (k + n), from mass_outside^2 (1/k + 1/n) <= |alpha - alpha*|^2."""
    return mass * (informative * distractors / (informative + distractors)) ** 0.5


def squared_gap_bound(
    divergence: Array, mass: Array, informative: Array, distractors: Array
) -> Array:
    """Statement 12 with distractors: |alpha - alpha*|^2 >= m^2 (sqrt(C + 2 D / m) - sqrt(C))^2.

    C = k n / (k + n). It follows from D <= sqrt(C) G + G^2 / (2 m) with G = |alpha - alpha*|, where
    the first term is the mass on distractors. Without distractors it is 2 m D, exponential decay;
    with them it is D^2 / C for small D, and D falls like 1 / t. Units: squared probability.

    Differs from the paper: see `polyak_lojasiewicz_constant`, point (ii). "Residual mass at
    distractors decays separately", but no faster than 1 / t.
    """
    xp, divergence, mass, informative, distractors = promote(
        divergence, mass, informative, distractors
    )
    divergence = xp.where(mass > 0, divergence, 0.0)
    offset = _gap_scale(mass, informative, distractors)
    # Conjugate of the difference in the docstring: nothing cancels when D is small.
    denominator = xp.sqrt(offset**2 + 2 * mass * divergence) + offset
    usable = denominator > 0
    root = 2 * mass * divergence / xp.where(usable, denominator, 1.0)
    return xp.where(usable, root**2, 0.0)


def exponential_envelope(initial: Array, constant: Array, strength: Array, time: Array) -> Array:
    """Statement 12, eq. (52): D(t) <= D(0) exp(-2 c lambda_eff t).

    c is a Polyak-Lojasiewicz constant that holds all along, such as the smallest mass at the start
    (`polyak_lojasiewicz_constant`). Units: nats; strength is per unit of time.

    Differs from the paper: true for an oracle with full support only, k = T. For a sparse oracle D
    falls like 1 / t and crosses every such curve: `hyperbolic_envelope`.
    """
    require_positive("The constant", constant)
    require_positive("The strength", strength)
    xp, initial, constant, strength, time = promote(initial, constant, strength, time)
    return initial * xp.exp(-2 * constant * strength * time)


def hyperbolic_envelope(
    initial: Array,
    mass: Array,
    informative: Array,
    distractors: Array,
    strength: Array,
    time: Array,
) -> Array:
    """Statement 12 with distractors: D(t) <= D(0) / (1 + lambda_eff D(0) t / K).

    K = (sqrt(C + 2 D(0) / m) + sqrt(C))^2 / 4, C = k n / (k + n), from `squared_gap_bound`. The
    1 / t is not for want of a better proof: from uniform attention D(t) -> C / (lambda_eff t).
    Units: nats; strength is per unit of time.
    """
    require_positive("The mass", mass)
    require_positive("The strength", strength)
    xp, initial, mass, informative, distractors, strength, time = promote(
        initial, mass, informative, distractors, strength, time
    )
    offset = _gap_scale(mass, informative, distractors)
    scale = ((xp.sqrt(offset**2 + 2 * mass * initial) + offset) / (2 * mass)) ** 2
    return initial / (1 + strength * time * initial / xp.where(scale > 0, scale, 1.0))


def exponential_delay(initial: Array, target: Array, constant: Array, strength: Array) -> Array:
    """Statement 13, eq. (7) and (53): T_KL <= log(D(0) / D_target) / (2 c lambda_eff).

    The paper has D_target = log(1 / (k tau)), `divergence_bound`. Zero when D(0) is there already.
    Units: time, the inverse of the strength's.

    Differs from the paper: for a full-support oracle only, as `exponential_envelope`; for the
    sparse oracles of the paper use `delay_bound`. Reaching log(1 / (k tau)) does not establish
    B_tau: aim at `sufficient_divergence`. At k tau = 1 the paper's target is zero, never reached.
    """
    require_positive("The target divergence", target)
    require_positive("The constant", constant)
    require_positive("The strength", strength)
    xp, initial, target, constant, strength = promote(initial, target, constant, strength)
    return xp.log(xp.maximum(initial, target) / target) / (2 * constant * strength)


def delay_bound(
    initial: Array,
    target: Array,
    mass: Array,
    informative: Array,
    distractors: Array,
    strength: Array,
) -> Array:
    """Statement 13, corrected for distractors: the time after which D is at most the target.

    T <= [log(g_0 / g) + s (1 / g - 1 / g_0)] / (lambda_eff m) with s = sqrt(C), C = k n / (k + n),
    g = sqrt(C + 2 D_target / m) - s and g_0 the same at D(0): the integral of dD over
    lambda_eff `squared_gap_bound`. Without distractors it is `exponential_delay` with c = m. Zero
    when D(0) is there already. Units: time, the inverse of the strength's.

    Differs from the paper: the delay is no logarithm of D(0) / D_target but of order
    C / (lambda_eff D_target) for small targets. The inverse law in lambda_eff stands.
    """
    require_positive("The target divergence", target)
    require_positive("The mass", mass)
    require_positive("The strength", strength)
    require_non_negative("The number of distractors", distractors)
    xp, initial, target, mass, informative, distractors, strength = promote(
        initial, target, mass, informative, distractors, strength
    )
    offset = _gap_scale(mass, informative, distractors)

    def root(divergence: Array) -> Array:  # m g
        return 2 * mass * divergence / (xp.sqrt(offset**2 + 2 * mass * divergence) + offset)

    start, end = root(xp.maximum(initial, target)), root(target)
    return (xp.log(start / end) + offset * (1 / end - 1 / start)) / (strength * mass)


def uniform_start_delay(
    target: Array, informative: Array, distractors: Array, strength: Array
) -> Array:
    """Statement 13, exact for attention that starts uniform and a uniform oracle on k positions.

    T = k [n s + k (e^s - 1)] / (lambda_eff (n + k)) with s = log(n / (k (e^D_target - 1))), the
    lead of the informative scores at the end; zero when log(1 + n/k), the divergence of uniform
    attention, is there already. Units: time, the inverse of the strength's.
    """
    require_positive("The target divergence", target)
    require_positive("The strength", strength)
    require_positive("The number of distractors", distractors)
    xp, target, informative, distractors, strength = promote(
        target, informative, distractors, strength
    )
    growth = distractors / (informative * xp.expm1(target))  # e^s
    growth = xp.where(growth > 1, growth, 1.0)
    path = distractors * xp.log(growth) + informative * (growth - 1)
    return informative * path / (strength * (distractors + informative))
