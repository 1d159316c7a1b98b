"""How far one law of fields is from another: distances and scores of samples, and of Gaussians.

Two-sample distances of equal laws are positive: whoever reports one reports the same distance of a
fresh sample of the truth beside it (the sampling floor).

m samples of the law, k of the truth, N grid points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

Samples = np.ndarray  # (m, N)


def bures(
    mean: np.ndarray, covariance: np.ndarray, other_mean: np.ndarray, other: np.ndarray
) -> float:  # (N,), (N, N), (N,), (N, N)
    """W2 of two Gaussians: W2^2 = |m - m'|^2 + tr(C + C' - 2 (C^1/2 C' C^1/2)^1/2) (Dowson and
    Landau 1982). The last trace is the sum of the singular values of C^1/2 C'^1/2, which is
    accurate also where covariances are singular."""
    cross = np.linalg.svd(_root(covariance) @ _root(other), compute_uv=False).sum()
    squared = np.trace(covariance) + np.trace(other) - 2 * cross
    return float(np.sqrt(np.sum((mean - other_mean) ** 2) + max(squared, 0.0)))


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def wasserstein(one: Samples, other: Samples, *powers: int) -> np.ndarray:  # -> (powers, N)
    """W_p of each coordinate's marginal law: the L_p distance of the two quantile functions, exact
    for samples of any two sizes."""
    one, other = _ordered(one), _ordered(other)
    widths, first, second = _levels(one.shape[1], other.shape[1])
    apart = np.abs(one[:, first] - other[:, second])
    return np.stack([(apart**power @ widths) ** (1 / power) for power in powers])


@lru_cache(maxsize=8)
def _levels(m: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the quantile functions of m and of k samples are both constant: how wide, and at which
    sample of either."""
    # In whole numbers, so that equal levels are equal: i / m = i k / (m k).
    ends = np.union1d(np.arange(1, m + 1) * k, np.arange(1, k + 1) * m)
    return np.diff(ends, prepend=0) / (m * k), (ends - 1) // k, (ends - 1) // m


def _ordered(samples: Samples) -> np.ndarray:  # -> (N, m)
    """Each coordinate's samples in order. Rows that lie together in memory sort many times as fast
    as columns."""
    return np.sort(np.ascontiguousarray(samples.T), axis=1)


def sliced_wasserstein(one: Samples, other: Samples, directions: np.ndarray) -> float:
    """(mean over directions of W2^2 of the projections)^1/2; directions are unit vectors (N, d)."""
    return float(np.sqrt(np.mean(wasserstein(one @ directions, other @ directions, 2) ** 2)))


def draw_directions(size: int, count: int, seed: int = 0) -> np.ndarray:  # (N, d)
    drawn = np.random.default_rng(seed).normal(size=(size, count))
    return drawn / np.linalg.norm(drawn, axis=0)


def energy_score(law: Samples, truth: Samples) -> float:
    """E |X - Y| - E |X - X'| / 2 (Gneiting and Raftery 2007): the mean score of the ensemble over
    draws of the truth."""
    return float(_distances(law, truth).mean() - _distances(law, law).mean() / 2)


def _distances(one: Samples, other: Samples) -> np.ndarray:  # (m, k)
    squares = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1) - 2 * one @ other.T
    return np.sqrt(np.maximum(squares, 0.0))


def crps(law: Samples, truth: Samples) -> np.ndarray:  # -> (N,)
    """Continuous ranked probability score of each coordinate, E |X - y| - E |X - X'| / 2, averaged
    over draws y of the truth."""
    within, between = _gaps(law), _gaps(np.concatenate([law, truth]))
    apart = (between - within - _gaps(truth)) / (len(law) * len(truth))
    return apart - within / len(law) ** 2


def _gaps(samples: Samples) -> np.ndarray:  # -> (N,)
    """Sum of |x - y| over all pairs, for each coordinate: each sample counts as often as others are
    below it less those above."""
    size = len(samples)
    return _ordered(samples) @ (2.0 * np.arange(1, size + 1) - size - 1)


def coverage(law: Samples, truth: Samples, *levels: float) -> np.ndarray:  # -> (levels,)
    """Share of the truth within the central interval of the law, averaged over coordinates."""
    tails = (1 - np.array(levels)) / 2
    low, high = np.quantile(_ordered(law), [tails, 1 - tails], axis=1)[:, :, None]
    return ((truth >= low) & (truth <= high)).mean(axis=(1, 2))


def covariance_error(covariance: np.ndarray, true: np.ndarray) -> float:  # (N, N) both
    """|C - C*|_F / |C*|_F."""
    return float(np.linalg.norm(covariance - true) / np.linalg.norm(true))


def correlation_error(covariance: np.ndarray, true: np.ndarray) -> float:  # (N, N) both
    """The same of the correlations off the diagonal: 1 for a law without any correlation."""
    wrong, right = (_correlation(each) for each in (covariance, true))
    return float(np.linalg.norm(wrong - right) / np.linalg.norm(right))


def _correlation(covariance: np.ndarray) -> np.ndarray:
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    found = covariance / np.outer(deviation, deviation)
    np.fill_diagonal(found, 0.0)
    return found


def variogram_score(law: Samples, truth: Samples, power: float = 0.5) -> float:
    """Mean over draws y and pairs of points of (|y_i - y_j|^p - E |X_i - X_j|^p)^2 (Scheuerer and
    Hamill 2015)."""
    expected = np.mean([_variogram(x, power) for x in law], axis=0)
    return float(np.mean([(_variogram(y, power) - expected) ** 2 for y in truth]))


def _variogram(field: np.ndarray, power: float) -> np.ndarray:  # (N,) -> (N, N)
    return np.abs(field[:, None] - field[None, :]) ** power


def excess_kurtosis(samples: Samples) -> np.ndarray:  # -> (N,)
    """0 for a Gaussian, -2 for two equal points."""
    centred = samples - samples.mean(axis=0)
    return np.mean(centred**4, axis=0) / np.mean(centred**2, axis=0) ** 2 - 3
