"""How far one step of an optimiser can move a weight matrix, apart from weight decay (appendix B).

An optimiser with decoupled weight decay makes W' = (1 - eta lambda) W - eta U. Each function here
gives a bound B on |U|_F, in the units of U: those of the gradient for SGD, pure numbers for the
others, whose updates are normalised.
"""

from __future__ import annotations

import math

from grokscope.papers.structural_inference.theory._arrays import (
    Array,
    require_fraction,
    require_non_negative,
    require_positive,
)

NEWTON_SCHULZ_ERROR = 0.21  # the usual quintic reaches 1.2024 on [0, 1]; the rest is for rounding


def sgd_update_bound(gradient_bound: Array, momentum: float = 0.0) -> Array:
    """Statement 1, proposition B.1: |U|_F <= G / (1 - mu).

    G bounds the Frobenius norm of every gradient (clipping to G guarantees it); mu is the momentum
    of the heavy-ball or Nesterov trace m' = mu m + g. Units: those of the gradient.

    Differs from the paper: B.1 has plain SGD, B = G. A momentum trace sums past gradients, and
    for a constant gradient it reaches G / (1 - mu), ten times G at mu = 0.9. The decay has to be
    outside the trace: L2 decay added to the gradient before it is not of the form above.
    """
    require_non_negative("The gradient bound", gradient_bound)
    _require_momentum("The momentum", momentum)
    return gradient_bound / (1 - momentum)


def _require_momentum(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} is {value}, but it must lie in [0, 1).")


def adam_ratio_bound(beta1: float = 0.9, beta2: float = 0.999, step: int | None = None) -> float:
    """Statement 1: the largest |m_hat / sqrt(v_hat)| that any gradient sequence can produce.

    With r = beta1^2 / beta2, exactly at step t (first step: t = 1)
        (1 - beta1) / (1 - beta1^t) * sqrt((1 - beta2^t) / (1 - beta2) * (1 - r^t) / (1 - r)),
    by Cauchy-Schwarz, attained by g_s = (beta1 / beta2)^(t - s). It is 1 at the first step and
    grows with t to its supremum, returned without a step:
        (1 - beta1) / sqrt((1 - beta2) (1 - r)).
    Units: pure number, one coordinate of the update. A positive epsilon only makes it smaller.

    Differs from the paper: B.2 bounds the ratio by (1 - beta1) / sqrt(1 - beta2), which is only
    what a single spike after zeros gives. Gradients that grow by beta2 / beta1 a step exceed it by
    1 / sqrt(1 - r): 7.27 against 3.16 at the usual (0.9, 0.999). When beta1^2 >= beta2 nothing
    bounds the ratio over all steps. Bias correction changes single steps, not the supremum.
    """
    _require_momentum("beta1", beta1)
    require_fraction("beta2", beta2)
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

    Units: pure number. Differs from the paper: see `adam_ratio_bound` for the factor it lacks.
    """
    return math.sqrt(math.prod(shape)) * adam_ratio_bound(beta1, beta2, step)


def lion_update_bound(shape: tuple[int, ...]) -> float:
    """Statement 1, proposition B.2: |U|_F <= sqrt(number of entries), every entry being a sign.

    Units: pure number.
    """
    return math.sqrt(math.prod(shape))


def muon_update_bound(
    shape: tuple[int, int],
    orthogonality_error: float = NEWTON_SCHULZ_ERROR,
    rank: int | None = None,
    width_scaling: bool = True,
) -> float:
    """Statement 1, proposition B.2: |U|_F <= (1 + eps) sqrt(rank) * sqrt(max(1, n / m)).

    `shape` is (m, n) = (inputs, outputs); `rank` is that of the momentum, min(m, n) if not given;
    eps is how far the largest singular value may lie above 1 after orthogonalisation. Units: pure
    number.

    Differs from the paper: eps is not minimal. The usual quintic Newton-Schulz iteration is tuned
    for speed and leaves singular values within about [0.68, 1.2024], hence the default of 0.21.
    Moreover the common implementations (optax, the reference one) multiply the step by
    sqrt(max(1, n / m)), which the paper's bound leaves out; `width_scaling=False` drops it.
    """
    require_non_negative("The orthogonality error", orthogonality_error)
    inputs, outputs = shape
    largest = min(inputs, outputs)
    rank = largest if rank is None else rank
    if not 0 <= rank <= largest:
        raise ValueError(
            f"The rank is {rank}, but a {inputs} by {outputs} matrix has at most {largest}."
        )
    require_positive("The number of inputs", inputs)
    width = math.sqrt(max(1.0, outputs / inputs)) if width_scaling else 1.0
    return (1 + orthogonality_error) * math.sqrt(rank) * width
