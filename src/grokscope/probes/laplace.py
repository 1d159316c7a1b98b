"""The Laplace approximation of a last layer with a Kronecker-factored Hessian.

Logits W f of features f have the generalised Gauss-Newton matrix sum_i (f_i f_i') x (diag p_i -
p_i p_i'); its Kronecker factorisation is N A x B with the means A of f f' and B of diag p - p p'
(Ritter et al. 2018; Daxberger et al. 2021). With a prior precision delta the posterior is

    W ~ N(W_MAP, (N A x B + delta I)^-1),

which is diagonal in the eigenvectors of A and B.

N examples, d features, C classes, S draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class LastLayer:
    """A Gaussian over a matrix (C, d)."""

    mean: np.ndarray  # (C, d)
    outer: np.ndarray  # eigenvectors of B (C, C)
    inner: np.ndarray  # eigenvectors of A (d, d)
    variance: np.ndarray  # (C, d) in those directions

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:  # (S, C, d)
        noise = rng.standard_normal((count, *self.mean.shape)) * np.sqrt(self.variance)
        return self.mean + self.outer @ noise @ self.inner.T

    def isotropic(self) -> LastLayer:
        """A control: the same total variance, spread evenly over all directions."""
        return replace(self, variance=np.full_like(self.variance, self.variance.mean()))


def fit_last_layer(
    weights: np.ndarray, features: np.ndarray, size: float, precision: float
) -> LastLayer:
    """`weights` (C, d), `features` (n, d) of any number of inputs; `size` is N, the number of
    examples that the posterior counts, `precision` is delta."""
    logits = features @ weights.T
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    inner_values, inner = np.linalg.eigh(features.T @ features / len(features))
    outer_values, outer = np.linalg.eigh(np.diag(p.mean(axis=0)) - p.T @ p / len(p))
    curvature = np.outer(np.maximum(outer_values, 0), np.maximum(inner_values, 0))
    return LastLayer(weights, outer, inner, 1 / (size * curvature + precision))
