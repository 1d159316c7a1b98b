"""What a remaining risk means for accuracy and for epistemic uncertainty.

A prediction succeeds if (y - x'w)^2 <= eps; Z is that event. Given w it is certain, so all of its
uncertainty is epistemic: EU_Z = h(p), h the binary entropy.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf, erfinv, ndtr

PEAK = 1 / (4 * erfinv(0.5) ** 2)
"""EU is largest where p = 1/2, at a risk of 1.0991 eps."""
THRESHOLD = 1 / 8
"""Accuracy erf(sqrt 2) = 95.4 % is reached at a risk of eps / 8."""


def success_probability(
    offset: np.ndarray, variance: np.ndarray, eps: float
) -> np.ndarray:  # y - x'mu, x' Sigma x
    """p = Phi((sqrt eps - m) / sqrt v) - Phi((-sqrt eps - m) / sqrt v)."""
    deviation = np.sqrt(variance)
    return ndtr((np.sqrt(eps) - offset) / deviation) - ndtr((-np.sqrt(eps) - offset) / deviation)


def closure(risk: np.ndarray, eps: float) -> np.ndarray:
    """p = erf(sqrt(eps / 4L)): success if the error is normal with mean square 2L."""
    return erf(np.sqrt(eps / (4 * np.asarray(risk, float))))


def success_uncertainty(p: np.ndarray) -> np.ndarray:
    """h(p) = -p log p - (1 - p) log(1 - p), in nats."""
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return -p * np.log(p) - (1 - p) * np.log1p(-p)
