"""The Bures-Wasserstein flow of a Gaussian posterior in linear regression, in closed form.

y = X w + noise, prior w ~ N(0, tau^2 I), likelihood variance sigma^2:

    A = X'X / sigma^2 + I / tau^2,   b = X'y / sigma^2
    mu' = b - A mu,   Sigma' = 2 I - A Sigma - Sigma A                  (section 5, appendix C)

n examples, d dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Flow:
    """One data set and where the flow starts."""

    inputs: np.ndarray  # X (n, d)
    targets: np.ndarray  # y (n,)
    truth: np.ndarray  # w* (d,)
    noise: float  # sigma^2 of the likelihood
    prior: float  # tau^2
    mean: np.ndarray  # mu_0 (d,)
    covariance: np.ndarray  # Sigma_0 (d, d)

    @cached_property
    def precision(self) -> np.ndarray:  # A (d, d)
        d = self.inputs.shape[1]
        return self.inputs.T @ self.inputs / self.noise + np.eye(d) / self.prior

    @cached_property
    def pull(self) -> np.ndarray:  # b (d,)
        return self.inputs.T @ self.targets / self.noise

    @cached_property
    def _modes(self) -> tuple[np.ndarray, np.ndarray]:  # a (d,), V (d, d)
        return tuple(np.linalg.eigh(self.precision))  # type: ignore[return-value]

    @cached_property
    def final_mean(self) -> np.ndarray:  # mu_inf (d,)
        return np.linalg.solve(self.precision, self.pull)

    @cached_property
    def final_covariance(self) -> np.ndarray:  # Sigma_inf (d, d)
        rates, vectors = self._modes
        return (vectors / rates) @ vectors.T

    def _left(self, time: float) -> tuple[np.ndarray, np.ndarray]:  # (d,), (d, d)
        """How far mean and covariance still have to go: what falls like e^{-At}."""
        rates, vectors = self._modes
        shrink = (vectors * np.exp(-rates * time)) @ vectors.T
        spread = shrink @ (self.covariance - self.final_covariance) @ shrink
        return shrink @ (self.mean - self.final_mean), spread

    def mean_at(self, time: float) -> np.ndarray:  # (d,)
        """mu_t = mu_inf + e^{-At} (mu_0 - mu_inf)."""
        return self.final_mean + self._left(time)[0]

    def covariance_at(self, time: float) -> np.ndarray:  # (d, d)
        """Sigma_t = Sigma_inf + e^{-At} (Sigma_0 - Sigma_inf) e^{-At}."""
        return self.final_covariance + self._left(time)[1]

    def excess(self, time: float, cross_terms: bool = True) -> tuple[float, float]:
        """What the empirical risk, (|y - X mu|^2 + Tr X'X Sigma) / 2n, and the generalisation risk,
        (|mu - w*|^2 + Tr Sigma + sigma_eps^2) / 2 for inputs N(0, I), are above their final values:

            (1/2n) [d' e XX e d + Tr XX e D e] - (1/n) r' X e d,
            (1/2)  [d' e e d + Tr e D e] + (mu_inf - w*)' e d,

        with e = e^{-At}, XX = X'X, d = mu_0 - mu_inf, D = Sigma_0 - Sigma_inf, r = y - X mu_inf.
        Differs from the paper: it drops the last terms by assuming r = 0 and mu_inf = w*, which
        noise makes impossible; `cross_terms=False` does the same.
        """
        n, gram = len(self.targets), self.inputs.T @ self.inputs
        moved, spread = self._left(time)
        empirical = (moved @ gram @ moved + np.trace(gram @ spread)) / (2 * n)
        general = (moved @ moved + np.trace(spread)) / 2
        if cross_terms:
            residual = self.targets - self.inputs @ self.final_mean
            empirical -= residual @ self.inputs @ moved / n
            general += (self.final_mean - self.truth) @ moved
        return float(empirical), float(general)

    def spectral_weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues nu of X'X / n and weights w_i = (v_i'd)^2 + v_i'D v_i, so that without cross
        terms the excesses are sums of nu_i w_i e^{-2 a_i t} / 2 and w_i e^{-2 a_i t} / 2."""
        rates, vectors = self._modes
        nu = (rates - 1 / self.prior) * self.noise / len(self.targets)
        moved = vectors.T @ (self.mean - self.final_mean)
        spread = vectors.T @ (self.covariance - self.final_covariance) @ vectors
        return nu, moved**2 + np.diag(spread)

    def regression_uncertainty(self, time: float, at: np.ndarray, noise: float) -> float:
        """EU of the label itself at an input x: log(1 + x' Sigma_t x / sigma_eps^2) / 2. It is
        monotone in t: falling if Sigma_0 is above Sigma_inf, rising if below."""
        return float(0.5 * np.log1p(at @ self.covariance_at(time) @ at / noise))
