"""How sure a posterior over networks is, and whether rightly so.

S draws of the weights, n questions, C classes. Everything in nats.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

Array = jax.Array | np.ndarray
LogProbabilities = Float[Array, "S n C"]


def entropy(logs: Float[Array, "*rows C"]) -> Float[jax.Array, "*rows"]:
    """-sum p log p, from log-probabilities."""
    return -jnp.sum(jnp.exp(logs) * jnp.where(jnp.isfinite(logs), logs, 0.0), axis=-1)


def mix(logs: LogProbabilities) -> Float[jax.Array, "n C"]:
    """Log of the mean of the draws' probabilities."""
    return jax.nn.logsumexp(logs, axis=0) - jnp.log(logs.shape[0])


def decompose(logs: LogProbabilities) -> dict[str, Float[jax.Array, ""]]:
    """Means over questions of the total, aleatoric and epistemic uncertainty:

        TU = H[mean_s p_s],  AU = mean_s H[p_s],  EU = TU - AU = I(label; weights)

    With S draws EU is too small: the first term of its error is -c / S. `eu_corrected` removes it
    by Richardson's rule from all draws and from their halves, of h = floor(S / 2) draws each:

        (S EU_S - h (EU_first + EU_second) / 2) / (S - h)
    """
    draws = logs.shape[0]
    half = draws // 2
    weight = draws / (draws - half)  # 2 for an even number
    (total, aleatoric), *halves = (
        (entropy(mix(some)).mean(), entropy(some).mean())
        for some in (logs, logs[:half], logs[half : 2 * half])
    )
    coarse = sum(tu - au for tu, au in halves) / 2
    return {
        "tu": total,
        "au": aleatoric,
        "eu": total - aleatoric,
        "eu_corrected": weight * (total - aleatoric) - (weight - 1) * coarse,
    }


def calibration_error(
    logs: Float[Array, "n C"], labels: Int[Array, " n"], bins: int = 15
) -> Float[jax.Array, ""]:
    """Expected calibration error: questions are sorted into equal bins of confidence max p; the sum
    over bins of share * |accuracy - mean confidence| (Guo et al. 2017)."""
    confidence, right = jnp.exp(logs.max(axis=-1)), logs.argmax(axis=-1) == labels
    place = jnp.clip((confidence * bins).astype(jnp.int32), 0, bins - 1)
    gap = jnp.zeros(bins).at[place].add(right - confidence)
    return jnp.abs(gap).sum() / len(labels)


def score(logs: Float[Array, "n C"], labels: Int[Array, " n"]) -> dict[str, Float[jax.Array, ""]]:
    """Accuracy, mean log-likelihood and calibration error of predictions."""
    chosen = jnp.take_along_axis(logs, labels[:, None], axis=-1)
    return {
        "accuracy": jnp.mean(logs.argmax(axis=-1) == labels),
        "log_likelihood": chosen.mean(),
        "ece": calibration_error(logs, labels),
    }
