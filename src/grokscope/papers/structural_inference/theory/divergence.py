"""Attention, its divergence D = KL(oracle || attention), and how fast a penalty on D takes it to
the oracle (statements 8, 11, 12 and 13).

Legend: T positions, k informative ones, on which the oracle is positive, n = T - k distractors,
`mass` a lower bound m on min_{i in I} min(alpha_i, alpha*_i). Divergences are in nats; scores are
pure numbers, so gradients are in nats as well.

The flow of eq. (47): da/dt = -lambda_eff (alpha - alpha*) on the scores of softmax attention, hence
dD/dt = -lambda_eff |alpha - alpha*|^2. Time is in optimiser steps when lambda_eff is per step (it
gathers learning rate, penalty strength and the scale of the embeddings). For the uniform oracle
the smallest informative mass never falls along the flow, so its value at the start will do.
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory import _require
from grokscope.papers.structural_inference.theory._arrays import Array, is_known, promote


def softmax_attention(scores: Array) -> Array:  # (..., T) -> (..., T)
    """Appendix A.3 with phi = exp: alpha_t = exp(a_t) / sum_s exp(a_s). Units: probability."""
    xp, scores = promote(scores)
    # The largest score is taken away first: the same attention without overflow.
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def relu_attention(scores: Array) -> Array:  # (..., T) -> (..., T)
    """Appendix A.3 with phi = relu, linear-ReLU attention: alpha_t = relu(a_t) / sum_s relu(a_s).
    Where no score is positive the quotient is 0/0; attention is then uniform, 1/T. Units:
    probability."""
    xp, scores = promote(scores)
    weights = xp.where(scores > 0, scores, 0.0)
    total = xp.sum(weights, axis=-1, keepdims=True)
    active = total > 0
    return xp.where(active, weights / xp.where(active, total, 1.0), 1.0 / scores.shape[-1])


def structural_divergence(attention: Array, oracle: Array) -> Array:  # (..., T) twice -> (...)
    """Statement 8, section 5.2: D = KL(alpha* || alpha) = sum_t alpha*_t log(alpha*_t / alpha_t).
    For the uniform oracle this is (1/k) sum_{i in I} log(1 / (k alpha_i)). Infinite where an
    informative position has no mass at all; log(T / k) for uniform attention. Units: nats."""
    xp, attention, oracle = promote(attention, oracle)
    informative = oracle > 0
    missed = informative & (attention <= 0)
    counted = informative & (attention > 0)
    # Ones where nothing is counted, so that neither the logarithm nor its derivative blows up.
    log_ratio = xp.log(xp.where(counted, oracle, 1.0)) - xp.log(xp.where(counted, attention, 1.0))
    divergence = xp.sum(xp.where(counted, oracle * log_ratio, 0.0), axis=-1)
    return xp.where(xp.any(missed, axis=-1), xp.inf, divergence)


def _require_attainable(threshold: Array, informative: int) -> None:
    _require.positive("The threshold", threshold)
    if informative < 1:
        raise ValueError(f"There are {informative} informative positions; at least one is needed.")
    # Some rounding is forgiven, so that 1/k counts as attainable for every k.
    if is_known(threshold) and threshold * informative > 1 + 1e-12:
        raise ValueError(
            f"No attention gives {informative} positions a mass of {threshold} each: the threshold "
            f"can be at most {1 / informative}."
        )


def divergence_bound(threshold: Array, informative: int) -> Array:
    """Statement 8, corollary 4.5, eq. (3): B_tau implies D <= log(1 / (k tau)).

    For the uniform oracle; attained when every informative position has exactly tau. Units: nats.

    Differs from the paper: it is one-sided. Section D.4.3 takes reaching this divergence for
    reaching B_tau, but with k = 2 and tau = 1/4 masses of 0.1 and 0.8 have D = 0.57 below
    log 2 = 0.69 and break B_tau. What implies B_tau is `sufficient_divergence`."""
    _require_attainable(threshold, informative)
    xp, threshold = promote(threshold)
    return -xp.log(informative * threshold)


def sufficient_divergence(threshold: Array, informative: int) -> Array:
    """Statement 8, converse: D below this value implies B_tau.

    (1/k) [log(1 / (k tau)) + (k - 1) log((k - 1) / (k (1 - tau)))], the divergence from the uniform
    oracle of the attention that has tau on one informative position and shares the rest equally
    among the others: the least divergence with a mass as small as tau. Units: nats.

    Differs from the paper: its corollary 4.5 holds in the other direction only."""
    _require_attainable(threshold, informative)
    xp, threshold = promote(threshold)
    missing = -xp.log(informative * threshold)
    if informative == 1:
        return missing
    others = xp.log((informative - 1) / (informative * (1 - threshold)))
    return (missing + (informative - 1) * others) / informative


def divergence_gradient(attention: Array, oracle: Array) -> Array:
    """Statement 11, eq. (45): dD / da_i = alpha_i - alpha*_i for softmax attention.
    It does not involve the loss, so it stays when the task's gradient has vanished. Units: nats per
    unit of score."""
    _, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    return attention - oracle


def relu_divergence_gradient(scores: Array, oracle: Array) -> Array:
    """Statement 11 for linear-ReLU attention: dD / da_i = (alpha_i - alpha*_i) / a_i where a_i > 0.

    Zero where a_i <= 0. In general it is phi'(a_i) / phi(a_i) (alpha_i - alpha*_i), and the factor
    is 1 for the exponential only. Units: nats per unit of score.

    Differs from the paper: the theorems are stated for linear-ReLU attention, but eq. (45) is not
    its gradient, and the gradient does not correct itself: an informative position with a score
    below zero makes D infinite and receives no gradient at all, so no penalty brings it back."""
    xp, scores, oracle = promote(scores, oracle)  # (..., T), (..., T)
    active = scores > 0
    difference = relu_attention(scores) - oracle
    return xp.where(active, difference / xp.where(active, scores, 1.0), 0.0)


def squared_gap(attention: Array, oracle: Array) -> Array:
    """Statement 12, eq. (48): |alpha - alpha*|^2, the squared gradient of D in the scores.
    Units: squared probability."""
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    return xp.sum((attention - oracle) ** 2, axis=-1)


def polyak_lojasiewicz_ratio(attention: Array, oracle: Array) -> Array:
    """Statement 12, eq. (50): |alpha - alpha*|^2 / (2 D), the decay rate of D per 2 lambda_eff.
    Infinite where D is zero: there every constant will do. Zero where D is infinite. Units: per
    nat."""
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    divergence = structural_divergence(attention, oracle)
    positive = divergence > 0
    ratio = squared_gap(attention, oracle) / xp.where(positive, 2 * divergence, 1.0)
    return xp.where(positive, ratio, xp.inf)


def polyak_lojasiewicz_constant(attention: Array, oracle: Array) -> Array:
    """Statement 12, lemma D.1: c in |alpha - alpha*|^2 >= 2 c D.

    c = min_{i in I} min(alpha_i, alpha*_i), for every attention that has no mass on distractors.
    Units: probability.

    Differs from the paper: it has c = min_{i in I} alpha*_i, 1/k for the uniform oracle. (i) That
    is only the limit at alpha*: with k = T = 2 it fails at every other attention, for at
    (1/2 - e, 1/2 + e) D = -log(1 - 4 e^2) / 2 > 2 e^2 = |alpha - alpha*|^2. With the smaller of
    alpha_i and alpha*_i it is true everywhere, so that B_tau gives c = tau. (ii) For a sparse
    oracle no positive constant exists: a mass e on distractors has D of order e but a squared gap
    of order e^2. Use `squared_gap_bound` there."""
    xp, attention, oracle = promote(attention, oracle)  # (..., T), (..., T)
    return xp.min(xp.where(oracle > 0, xp.minimum(attention, oracle), 1.0), axis=-1)


def _gap_scale(mass: Array, k: Array, n: Array) -> Array:
    """m sqrt(c) with c = k n / (k + n), from mass_outside^2 (1/k + 1/n) <= |alpha - alpha*|^2."""
    return mass * (k * n / (k + n)) ** 0.5


def squared_gap_bound(divergence: Array, mass: Array, k: Array, n: Array) -> Array:
    """Statement 12 with distractors: |alpha - alpha*|^2 >= m^2 (sqrt(C + 2 D / m) - sqrt(C))^2.

    C = k n / (k + n). It follows from D <= sqrt(C) G + G^2 / (2 m) with G = |alpha - alpha*|, where
    the first term is the mass on distractors. Without distractors it is 2 m D, exponential decay;
    with them it is D^2 / C for small D, and D falls like 1 / t. Units: squared probability.

    Differs from the paper: see `polyak_lojasiewicz_constant`, (ii). "Residual mass at distractors
    decays separately", but no faster than 1 / t."""
    xp, divergence, mass, k, n = promote(divergence, mass, k, n)
    divergence = xp.where(mass > 0, divergence, 0.0)
    offset = _gap_scale(mass, k, n)
    # Conjugate of the difference in the docstring: nothing cancels when D is small.
    denominator = xp.sqrt(offset**2 + 2 * mass * divergence) + offset
    usable = denominator > 0
    root = 2 * mass * divergence / xp.where(usable, denominator, 1.0)
    return xp.where(usable, root**2, 0.0)


def exponential_envelope(initial: Array, constant: Array, strength: Array, time: Array) -> Array:
    """Statement 12, eq. (52): D(t) <= D(0) exp(-2 c lambda_eff t).

    c is a constant that holds all along, such as the smallest mass at the start
    (`polyak_lojasiewicz_constant`). Units: nats; strength is per unit of time.

    Differs from the paper: true only for an oracle with full support, k = T. For a sparse oracle D
    falls like 1 / t and crosses every such curve: `hyperbolic_envelope`."""
    _require.positive("The constant", constant)
    _require.positive("The strength", strength)
    xp, initial, constant, strength, time = promote(initial, constant, strength, time)
    return initial * xp.exp(-2 * constant * strength * time)


def hyperbolic_envelope(
    initial: Array, mass: Array, k: Array, n: Array, strength: Array, time: Array
) -> Array:
    """Statement 12 with distractors: D(t) <= D(0) / (1 + lambda_eff D(0) t / K).
    K = (sqrt(C + 2 D(0) / m) + sqrt(C))^2 / 4, C = k n / (k + n), from `squared_gap_bound`. No
    proof can do better than 1 / t: from uniform attention D(t) -> C / (lambda_eff t).
    Units: nats; strength is per unit of time."""
    _require.positive("The mass", mass)
    _require.positive("The strength", strength)
    xp, initial, mass, k, n, strength, time = promote(initial, mass, k, n, strength, time)
    offset = _gap_scale(mass, k, n)
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
    _require.positive("The target divergence", target)
    _require.positive("The constant", constant)
    _require.positive("The strength", strength)
    xp, initial, target, constant, strength = promote(initial, target, constant, strength)
    return xp.log(xp.maximum(initial, target) / target) / (2 * constant * strength)


def delay_bound(
    initial: Array, target: Array, mass: Array, k: Array, n: Array, strength: Array
) -> Array:
    """Statement 13, corrected for distractors: the time after which D is at most the target.

    T <= [log(g_0 / g) + s (1 / g - 1 / g_0)] / (lambda_eff m) with s = sqrt(C), C = k n / (k + n),
    g = sqrt(C + 2 D_target / m) - s and g_0 the same at D(0): the integral of dD over
    lambda_eff `squared_gap_bound`. Without distractors it is `exponential_delay` with c = m. Zero
    when D(0) is there already. Units: time, the inverse of the strength's.

    Differs from the paper: the delay is not a logarithm of D(0) / D_target but of order
    C / (lambda_eff D_target) for small targets. It is inverse in lambda_eff, as stated (measured
    times need not be: figure 3 of the reproduction)."""
    _require.positive("The target divergence", target)
    _require.positive("The mass", mass)
    _require.positive("The strength", strength)
    _require.non_negative("The number of distractors", n)
    xp, initial, target, mass, k, n, strength = promote(initial, target, mass, k, n, strength)
    offset = _gap_scale(mass, k, n)

    def root(divergence: Array) -> Array:  # m g
        return 2 * mass * divergence / (xp.sqrt(offset**2 + 2 * mass * divergence) + offset)

    start, end = root(xp.maximum(initial, target)), root(target)
    return (xp.log(start / end) + offset * (1 / end - 1 / start)) / (strength * mass)


def uniform_start_delay(target: Array, k: Array, n: Array, strength: Array) -> Array:
    """Statement 13, exact for attention that starts uniform and a uniform oracle on k positions.
    T = k [n s + k (e^s - 1)] / (lambda_eff (n + k)) with s = log(n / (k (e^D_target - 1))), the
    lead of the informative scores at the end; zero when log(1 + n/k), the divergence of uniform
    attention, is there already. Units: time, the inverse of the strength's."""
    _require.positive("The target divergence", target)
    _require.positive("The strength", strength)
    _require.positive("The number of distractors", n)
    xp, target, k, n, strength = promote(target, k, n, strength)
    growth = n / (k * xp.expm1(target))  # e^s
    growth = xp.where(growth > 1, growth, 1.0)
    path = n * xp.log(growth) + k * (growth - 1)
    return k * path / (strength * (n + k))
