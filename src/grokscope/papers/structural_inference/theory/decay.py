"""What weight decay does: norms, the length of the plateau, the variance of attention scores.

Statements 1, 10 and 14. Legend: W a weight matrix, U the optimiser's update apart from decay, so
that W' = (1 - eta lambda) W - eta U with |U|_F <= B; eta the learning rate, lambda the weight
decay, gamma = eta lambda the decay of one step. Norms are Frobenius norms in parameter units; time
is in optimiser steps (epochs of a full-batch run).
"""

from __future__ import annotations

import math

from grokscope.papers.structural_inference.theory import _require
from grokscope.papers.structural_inference.theory._arrays import Array, promote

NEWTON_SCHULZ_ERROR = 0.21  # the usual quintic reaches 1.2024 on [0, 1]; the rest is for rounding


def norm_floor(decay: Array, update_bound: Array) -> Array:
    """Statement 1: B / lambda, the norm below which decay need not shrink the weights.
    Both contraction bounds tend to this norm, and shrink only from above it. Units: parameter norm.
    """
    _require.positive("The weight decay", decay)
    return update_bound / decay


def squared_norm_bound(
    norm: Array, rate: Array, decay: Array, update_bound: Array, steps: Array = 1
) -> Array:
    """Statement 1, definition 3.2, eq. (1): |W'|^2 <= (1 - gamma) |W|^2 + (eta / lambda) B^2.

    The growth term is Young's inequality, attained at W = -U / lambda. Over n steps:
    (1 - gamma)^n |W|^2 + (1 - (1 - gamma)^n) (B / lambda)^2. Units: squared parameter norm.

    Differs from the paper: "strict geometric contraction" holds only while |W| > B / lambda
    (`norm_floor`). For AdamW on a 64 by 256 matrix with lambda = 1 that floor is 930, far above
    any norm met in training, so definition 3.2 by itself allows the norm to grow."""
    kept, norm, floor = _contraction(norm, rate, decay, update_bound, steps)
    return kept * norm**2 + (1 - kept) * floor**2


def norm_bound(
    norm: Array, rate: Array, decay: Array, update_bound: Array, steps: Array = 1
) -> Array:
    """Statement 1, sharper: |W'| <= (1 - gamma) |W| + eta B, by the triangle inequality.
    Over n steps: (1 - gamma)^n |W| + (1 - (1 - gamma)^n) B / lambda. Its square never exceeds
    `squared_norm_bound`. Units: parameter norm."""
    kept, norm, floor = _contraction(norm, rate, decay, update_bound, steps)
    return kept * norm + (1 - kept) * floor


def _contraction(
    norm: Array, rate: Array, decay: Array, update_bound: Array, steps: Array
) -> tuple[Array, Array, Array]:
    """(1 - gamma)^n, the norm as an array, and the floor."""
    _require.decay(rate, decay)
    _require.non_negative("The update bound", update_bound)
    _, norm, rate, decay, update_bound, steps = promote(norm, rate, decay, update_bound, steps)
    kept = (1 - rate * decay) ** steps
    return kept, norm, norm_floor(decay, update_bound)


def sgd_update_bound(gradient_bound: Array, momentum: float = 0.0) -> Array:
    """Statement 1, proposition B.1: |U|_F <= G / (1 - mu).

    G bounds the Frobenius norm of every gradient (clipping to G guarantees it); mu is the momentum
    of the heavy-ball or Nesterov trace m' = mu m + g. Units: those of the gradient.

    Differs from the paper: B.1 has plain SGD, B = G. A momentum trace sums past gradients: for a
    constant gradient it reaches G / (1 - mu), ten times G at mu = 0.9. The decay has to stay
    outside the trace."""
    _require.non_negative("The gradient bound", gradient_bound)
    _require.momentum("The momentum", momentum)
    return gradient_bound / (1 - momentum)


def adam_ratio_bound(beta1: float = 0.9, beta2: float = 0.999, step: int | None = None) -> float:
    """Statement 1: the largest |m_hat / sqrt(v_hat)| that any gradient sequence can produce.

    With r = beta1^2 / beta2, exactly at step t (first step: t = 1)
        (1 - beta1) / (1 - beta1^t) * sqrt((1 - beta2^t) / (1 - beta2) * (1 - r^t) / (1 - r)),
    by Cauchy-Schwarz, attained by g_s = (beta1 / beta2)^(t - s). It grows with t from 1 to its
    supremum, returned without a step: (1 - beta1) / sqrt((1 - beta2) (1 - r)).
    Units: pure number, one coordinate of the update. A positive epsilon only makes it smaller.

    Differs from the paper: B.2 has (1 - beta1) / sqrt(1 - beta2), which is only what a single spike
    after zeros gives. Gradients that grow by beta2 / beta1 per step exceed it by 1 / sqrt(1 - r):
    7.27 against 3.16 at the usual (0.9, 0.999). When beta1^2 >= beta2 nothing bounds the ratio over
    all steps. Bias correction changes single steps, not the supremum."""
    _require.momentum("beta1", beta1)
    _require.fraction("beta2", beta2)
    ratio = beta1**2 / beta2
    if step is None:
        if ratio >= 1:
            raise ValueError(
                f"With beta1 {beta1} and beta2 {beta2}, beta1 squared is not below beta2: the "
                "update has no bound that holds at every step. Give the step."
            )
        return (1 - beta1) / math.sqrt((1 - beta2) * (1 - ratio))
    if step < 1:
        raise ValueError(f"The step is {step}, but the first update is step 1.")
    spread = step if ratio == 1 else (1 - ratio**step) / (1 - ratio)
    corrected = (1 - beta2**step) / (1 - beta2)
    return (1 - beta1) / (1 - beta1**step) * math.sqrt(corrected * spread)


def adamw_update_bound(
    shape: tuple[int, ...], beta1: float = 0.9, beta2: float = 0.999, step: int | None = None
) -> float:
    """Statement 1, proposition B.2: |U|_F <= sqrt(number of entries) * `adam_ratio_bound`.
    Units: pure number. Differs from the paper: see `adam_ratio_bound` for the factor it lacks."""
    return math.sqrt(math.prod(shape)) * adam_ratio_bound(beta1, beta2, step)


def lion_update_bound(shape: tuple[int, ...]) -> float:
    """Statement 1, proposition B.2: |U|_F <= sqrt(number of entries), every entry being a sign.
    Units: pure number."""
    return math.sqrt(math.prod(shape))


def muon_update_bound(
    shape: tuple[int, ...],
    orthogonality_error: float = NEWTON_SCHULZ_ERROR,
    rank: int | None = None,
    width_scaling: bool = True,
) -> float:
    """Statement 1, proposition B.2: |U|_F <= (1 + eps) sqrt(rank) * sqrt(max(1, n / m)).

    `shape` is (m, n) = (inputs, outputs); `rank` is that of the momentum, min(m, n) by default; eps
    is how far the largest singular value may lie above 1 after orthogonalisation. Units: pure
    number.

    Differs from the paper: eps is not minimal. The usual quintic Newton-Schulz iteration leaves
    singular values within about [0.68, 1.2024], hence the default of 0.21. And the common
    implementations (optax, the reference one) multiply the step by sqrt(max(1, n / m)), which the
    paper's bound leaves out; `width_scaling=False` drops it."""
    _require.non_negative("The orthogonality error", orthogonality_error)
    inputs, outputs = shape
    largest = min(inputs, outputs)
    rank = largest if rank is None else rank
    if not 0 <= rank <= largest:
        raise ValueError(
            f"The rank is {rank}, but a {inputs} by {outputs} matrix has at most {largest}."
        )
    _require.positive("The number of inputs", inputs)
    width = math.sqrt(max(1.0, outputs / inputs)) if width_scaling else 1.0
    return (1 + orthogonality_error) * math.sqrt(rank) * width


def plateau_lower_bound(
    norm: Array, target: Array, rate: Array, decay: Array, update_bound: Array = 0.0
) -> Array:
    """Statement 10, eq. (5) and (40): no fewer steps than this bring |W| down to the target.

    With F = B / lambda, T >= log((|W_mem| + F) / (rho_max + F)) / -log(1 - eta lambda). Without
    updates (F = 0) it is also reached: rounded up, it is the plateau. Zero when |W_mem| <= rho_max.
    Units: optimiser steps.

    Differs from the paper: (5) is called a strict lower bound, but updates that point inwards
    shorten the plateau, so it is one only for B = 0. And a vanishing gradient does not give B = 0:
    the updates of AdamW, Lion and Muon are normalised, and stay as large when every gradient is a
    million times smaller."""
    xp, norm, target, decay, floor = _plateau(norm, target, rate, decay, update_bound)
    ratio = (norm + floor) / (target + floor)
    return xp.log(xp.where(ratio > 1, ratio, 1.0)) / -xp.log1p(-decay)


def plateau_upper_estimate(
    norm: Array, target: Array, rate: Array, decay: Array, update_bound: Array = 0.0
) -> Array:
    """Statement 10: after so many steps eq. (1) guarantees that |W| has come down to the target.

    With F = B / lambda, T <= log((|W_mem|^2 - F^2) / (rho_max^2 - F^2)) / -log(1 - eta lambda),
    rounded up; infinite when rho_max <= F, for then eq. (1) guarantees nothing; zero when
    |W_mem| <= rho_max. Units: optimiser steps.

    Differs from the paper: eq. (39) lets the squared norm shrink by 1 - gamma, that is the norm by
    half the rate. That bounds the norm from above, so the time is an upper estimate: without
    updates exactly twice `plateau_lower_bound`, the true time."""
    xp, norm, target, decay, floor = _plateau(norm, target, rate, decay, update_bound)
    reachable = target > floor
    gap = xp.where(reachable, target**2 - floor**2, 1.0)
    ratio = (norm**2 - floor**2) / gap
    steps = xp.log(xp.where(ratio > 1, ratio, 1.0)) / -xp.log1p(-decay)
    return xp.where(norm <= target, 0.0, xp.where(reachable, steps, xp.inf))


def _plateau(
    norm: Array, target: Array, rate: Array, decay: Array, update_bound: Array
) -> tuple[Array, ...]:
    """Namespace, both norms as arrays, the decay of one step, and the floor."""
    _require.decay(rate, decay)
    _require.positive("The target norm", target)
    _require.non_negative("The update bound", update_bound)
    xp, norm, target, rate, decay, update_bound = promote(norm, target, rate, decay, update_bound)
    return xp, norm, target, rate * decay, update_bound / decay


def score_variance(scores: Array) -> Array:  # (..., T) -> (...)
    """Statement 14, conjecture E.1: (1/T) sum_t (a_t - mean a)^2, over the context of each query.
    The mean is taken away because softmax does not see it. Units: squared score."""
    xp, scores = promote(scores)
    return xp.mean((scores - xp.mean(scores, axis=-1, keepdims=True)) ** 2, axis=-1)


def context_spread(embeddings: Array) -> Array:  # (..., T, d) -> (...)
    """Statement 14: (1/T) sum_t |e_t - mean e|^2; at most E^2 when all embeddings have |e_t| <= E.
    Units: squared norm of an embedding."""
    xp, embeddings = promote(embeddings)
    centred = embeddings - xp.mean(embeddings, axis=-2, keepdims=True)
    return xp.mean(xp.sum(centred**2, axis=-1), axis=-1)


def score_variance_bound(
    interaction_norm: Array, query_norm: Array, spread: Array, head_dimension: Array
) -> Array:
    """Statement 14, conjecture E.1: variance <= |e_q|^2 |M|_F^2 spread / head dimension.
    For scores a_t = e_q' M e_t / sqrt(head dimension), M = W_Q' W_K; `spread` is `context_spread`.
    The spectral norm of M will do as well. A theorem, by Cauchy-Schwarz. Units: squared score."""
    _require.positive("The head dimension", head_dimension)
    _, norm, query, spread, size = promote(interaction_norm, query_norm, spread, head_dimension)
    return (norm * query) ** 2 * spread / size


def variance_contraction(
    rate: Array, decay: Array, steps: Array = 1, decayed_factors: int = 2
) -> Array:
    """Statement 14: without updates the variance shrinks by (1 - eta lambda)^(2 j) per step.

    j = `decayed_factors` counts the decayed factors of a score, e_q' W_Q' W_K e_t: 2 for W_Q and
    W_K, 4 when the embeddings decay as well. Returns the factor after `steps`. Units: pure number.

    Differs from the paper: it names no rate. And it holds for softmax only: linear-ReLU attention
    does not change when all scores are multiplied by one positive number, so decay alone never
    moves it. Normalised updates matter as in `plateau_lower_bound`."""
    _require.decay(rate, decay)
    _require.non_negative("The number of steps", steps)
    _, rate, decay, steps = promote(rate, decay, steps)
    return (1 - rate * decay) ** (2 * decayed_factors * steps)


def uniformity_bound(variance: Array, positions: int) -> Array:
    """Statement 14: KL(uniform || softmax attention) <= T variance / 4.

    By Hoeffding's lemma it is at most (max a - min a)^2 / 8, and the squared range is at most
    2 T variance. So attention does smooth out as the variance falls. Units: nats.

    Differs from the paper: smoothing leads to D = log(T / k), not towards the oracle; it meets
    B_tau only for tau <= 1 / T."""
    _require.non_negative("The variance", variance)
    _, variance = promote(variance)
    return positions * variance / 4
