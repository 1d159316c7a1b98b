"""Statements T1 to T4 behind the idea of arXiv 2605.15806. All are standard; none is quoted from
the paper, of which only the abstract was available.

T1  The best predictor in the mean square is the conditional mean m. A point mass at f is at the
    distance W2^2 = |f - m|^2 + tr C from a law with mean m and covariance C.
T2  Heat equation: covariance by mode in closed form (`grokscope.tasks.fields.heat_variances`), and
    the best factor of rank r keeps the largest r of its eigenvalues (Eckart and Young 1936).
T3  W2 of Gaussians (`grokscope.measures.laws.bures`).
T4  Pointwise scores cannot see correlation: b_x -> R_x b_x leaves every |b_x| as it is.

The honest martingale is Doob's, N_t = E[u_T | F_t]: u_T = E[u_T | u_0] + (N_T - N_0), and
Cov(u_T | u_0) = E[<N>_T | u_0] for every square-integrable u_T, semimartingale or not.

N grid points, r rows of a factor, P equally likely paths of a tree with t steps.
"""

from __future__ import annotations

import numpy as np


def point_mass_distance(
    guess: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> float:  # (N,), (N,), (N, N)
    """T1: W2 between a point mass and a law, (|f - m|^2 + tr C)^1/2. Only one coupling exists, so
    it holds for every law with these moments, Gaussian or not."""
    return float(np.sqrt(np.sum((guess - mean) ** 2) + np.trace(covariance)))


def largest_visible_ratio(samples: int, floor: float = 1.0) -> float:
    """T1 with a sampling floor: by how much a perfect model can beat a point mass if distances are
    taken between samples, floor = M^1/2 W2(sample of M, truth) / deviation. Against a point mass
    W2 is one deviation, so no ratio above M^1/2 / floor can be seen."""
    return samples**0.5 / floor


def rank_gap(
    eigenvalues: np.ndarray, rank: int, norm: str = "wasserstein"
) -> float:  # (N,), all of the covariance
    """T2: distance of N(0, C) from its best approximation of rank r. "wasserstein": W2 = (sum of
    the eigenvalues left out)^1/2, since the two commute. "frobenius": their root sum of squares."""
    left = np.maximum(np.sort(eigenvalues)[::-1][rank:], 0.0)  # none is negative but by rounding
    return float(np.sqrt(left.sum() if norm == "wasserstein" else (left**2).sum()))


def rotate_factor(factor: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """T4: b_x -> R_x b_x with an orthogonal R_x at every point.  (r, N), (N, r, r) -> (r, N)"""
    return np.einsum("nsr,rn->sn", rotations, factor)


def twin_factors(deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (N,) -> (N, N) twice
    """T4 as a counterexample: two factors with equal variances everywhere, so equal diagonal
    likelihood, CRPS and pointwise W. Under the first all points move as one, under the second each
    moves alone."""
    size = len(deviation)
    together = np.zeros((size, size))
    together[0] = deviation
    return together, np.diag(deviation)


def doob_martingale(terminal: np.ndarray, branches: int) -> list[np.ndarray]:
    """N_0 .. N_t of a terminal value on the P = branches^t paths of a tree, in order of the paths:
    N_s is the mean over all paths that share the first s branches.  (P,) -> t + 1 arrays (P,)"""
    steps = round(np.log(len(terminal)) / np.log(branches))
    result = []
    for step in range(steps + 1):
        alike = terminal.reshape(branches**step, -1)
        result.append(np.repeat(alike.mean(axis=1), alike.shape[1]))
    return result


def expected_bracket(martingale: list[np.ndarray]) -> float:
    """E <N>_T = sum over steps of E (N_{s+1} - N_s)^2: equals the variance of N_T."""
    pairs = zip(martingale[1:], martingale[:-1], strict=True)
    return float(sum(np.mean((after - before) ** 2) for after, before in pairs))
