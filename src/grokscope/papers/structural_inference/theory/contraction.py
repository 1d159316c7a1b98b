"""Norm contraction under weight decay, and how long the plateau lasts (statements 1 and 10).

Legend: W a weight matrix, U the optimiser's update apart from decay, |U|_F <= B (`optimisers`),
eta the learning rate, lambda the weight decay, gamma = eta lambda the decay of one step.
Norms are Frobenius norms in parameter units; time is in optimiser steps (= epochs of a run).
"""

from __future__ import annotations

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    promote,
    require_decay,
    require_non_negative,
    require_positive,
)


def norm_floor(weight_decay: Array, update_bound: Array) -> Array:
    """Statement 1: B / lambda, the norm below which decay need not shrink the weights.

    Both contraction bounds tend to this norm, and both shrink only from above it.
    Units: parameter norm.
    """
    require_positive("The weight decay", weight_decay)
    return update_bound / weight_decay


def squared_norm_bound(
    norm: Array,
    learning_rate: Array,
    weight_decay: Array,
    update_bound: Array,
    steps: Array = 1,
) -> Array:
    """Statement 1, definition 3.2, eq. (1): |W'|^2 <= (1 - gamma) |W|^2 + (eta / lambda) B^2.

    gamma = eta lambda; the growth term is Young's inequality applied to
    W' = (1 - eta lambda) W - eta U with |U|_F <= B, and is attained at W = -U / lambda. Over n
    steps: (1 - gamma)^n |W|^2 + (1 - (1 - gamma)^n) (B / lambda)^2. Units: squared parameter norm.

    Differs from the paper: "strict geometric contraction" holds only while |W| > B / lambda
    (`norm_floor`). For AdamW on a 64 by 256 matrix with lambda = 1 that floor is 930, far above
    any norm met in training, so definition 3.2 by itself allows the norm to grow.
    """
    require_decay(learning_rate, weight_decay)
    require_non_negative("The update bound", update_bound)
    _, norm, learning_rate, weight_decay, update_bound, steps = promote(
        norm, learning_rate, weight_decay, update_bound, steps
    )
    kept = (1 - learning_rate * weight_decay) ** steps
    return kept * norm**2 + (1 - kept) * norm_floor(weight_decay, update_bound) ** 2


def norm_bound(
    norm: Array,
    learning_rate: Array,
    weight_decay: Array,
    update_bound: Array,
    steps: Array = 1,
) -> Array:
    """Statement 1, sharper: |W'| <= (1 - gamma) |W| + eta B, by the triangle inequality.

    Over n steps: (1 - gamma)^n |W| + (1 - (1 - gamma)^n) B / lambda. Its square never exceeds
    `squared_norm_bound`. Units: parameter norm.
    """
    require_decay(learning_rate, weight_decay)
    require_non_negative("The update bound", update_bound)
    _, norm, learning_rate, weight_decay, update_bound, steps = promote(
        norm, learning_rate, weight_decay, update_bound, steps
    )
    kept = (1 - learning_rate * weight_decay) ** steps
    return kept * norm + (1 - kept) * norm_floor(weight_decay, update_bound)


def plateau_lower_bound(
    norm: Array,
    target_norm: Array,
    learning_rate: Array,
    weight_decay: Array,
    update_bound: Array = 0.0,
) -> Array:
    """Statement 10, eq. (5) and (40): no fewer steps than this bring |W| down to the target.

    With F = B / lambda,
        T >= log((|W_mem| + F) / (rho_max + F)) / -log(1 - eta lambda),
    and without updates (B = 0)
        T >= log(|W_mem| / rho_max) / -log(1 - eta lambda) ~ log(|W_mem| / rho_max) / (eta lambda),
    which is then also reached: rounded up, it is the plateau. Zero when |W_mem| <= rho_max.
    Units: optimiser steps (epochs when training is full batch).

    Differs from the paper: (5) is called a strict lower bound, but updates that point inwards
    shorten the plateau, so it is one only for B = 0; B enters as above. And B = 0 is not what a
    vanishing gradient gives: the updates of AdamW, Lion and Muon are normalised, and stay as large
    when every gradient is a million times smaller.
    """
    require_decay(learning_rate, weight_decay)
    require_positive("The target norm", target_norm)
    require_non_negative("The update bound", update_bound)
    xp, norm, target_norm, learning_rate, weight_decay, update_bound = promote(
        norm, target_norm, learning_rate, weight_decay, update_bound
    )
    floor = norm_floor(weight_decay, update_bound)
    ratio = (norm + floor) / (target_norm + floor)
    return xp.log(xp.where(ratio > 1, ratio, 1.0)) / -xp.log1p(-learning_rate * weight_decay)


def plateau_upper_estimate(
    norm: Array,
    target_norm: Array,
    learning_rate: Array,
    weight_decay: Array,
    update_bound: Array = 0.0,
) -> Array:
    """Statement 10: after so many steps eq. (1) guarantees that |W| has come down to the target.

    With F = B / lambda, T <= log((|W_mem|^2 - F^2) / (rho_max^2 - F^2)) / -log(1 - eta lambda),
    rounded up; infinite when rho_max <= F, for then eq. (1) guarantees nothing; zero when
    |W_mem| <= rho_max. Units: optimiser steps (epochs when training is full batch).

    Differs from the paper: eq. (39) lets the squared norm of eq. (1) shrink by 1 - gamma, that is
    the norm by half the rate. That is an upper bound on the norm, so the time it gives is an upper
    estimate: without updates exactly twice `plateau_lower_bound`, the true time.
    """
    require_decay(learning_rate, weight_decay)
    require_positive("The target norm", target_norm)
    require_non_negative("The update bound", update_bound)
    xp, norm, target_norm, learning_rate, weight_decay, update_bound = promote(
        norm, target_norm, learning_rate, weight_decay, update_bound
    )
    floor = norm_floor(weight_decay, update_bound)
    reachable = target_norm > floor
    gap = xp.where(reachable, target_norm**2 - floor**2, 1.0)
    ratio = (norm**2 - floor**2) / gap
    steps = xp.log(xp.where(ratio > 1, ratio, 1.0)) / -xp.log1p(-learning_rate * weight_decay)
    return xp.where(norm <= target_norm, 0.0, xp.where(reachable, steps, xp.inf))
