"""Losses of a conditional Gaussian law with covariance B^T B + diag(d), per grid point.

u initial conditions, m samples of each, N grid points, r rows of the factor B.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

DRAWS = 16  # samples of the energy score

Residual = Float[Array, "u m N"]
Factor = Float[Array, "u r N"]
Diagonal = Float[Array, "u N"]


def variance(factor: Factor, diagonal: Diagonal) -> Diagonal:
    """v(x) = |b_x|^2 + d(x)."""
    return jnp.sum(factor**2, axis=1) + diagonal


def diagonal_likelihood(residual: Residual, factor: Factor, diagonal: Diagonal) -> Float[Array, ""]:
    """Mean of (log v + r^2 / v) / 2: the points are scored as if they were independent."""
    spread = variance(factor, diagonal)[:, None]
    return jnp.mean(jnp.log(spread) + residual**2 / spread) / 2


def joint_likelihood(residual: Residual, factor: Factor, diagonal: Diagonal) -> Float[Array, ""]:
    """(log |G| + r^T G^-1 r) / 2N of G = B^T B + D, through the r x r matrix K = I + B D^-1 B^T:
    log |G| = log |D| + log |K| and G^-1 = D^-1 - D^-1 B^T K^-1 B D^-1 (Woodbury)."""
    scaled = factor / diagonal[:, None]  # B D^-1
    inner = jnp.eye(factor.shape[1]) + jnp.einsum("urn,usn->urs", scaled, factor)
    root = jnp.linalg.cholesky(inner)
    explained = solve_triangular(root, jnp.einsum("urn,umn->urm", scaled, residual), lower=True)
    quadratic = jnp.sum(residual**2 / diagonal[:, None], axis=-1) - jnp.sum(explained**2, axis=1)
    determinant = jnp.sum(jnp.log(diagonal), axis=-1) + 2 * jnp.sum(
        jnp.log(jnp.diagonal(root, axis1=1, axis2=2)), axis=-1
    )
    return jnp.mean(determinant[:, None] + quadratic) / (2 * residual.shape[-1])


def moment_distance(residual: Residual, factor: Factor, diagonal: Diagonal) -> Float[Array, ""]:
    """Mean over entries of (B^T B + D - C)^2 N, C = mean of r r^T: in expectation over the samples
    its optimum is the best approximation of rank r (Eckart and Young 1936)."""
    model = jnp.einsum("urn,urk->unk", factor, factor)
    model += diagonal[:, :, None] * jnp.eye(diagonal.shape[-1])
    seen = jnp.einsum("umn,umk->unk", residual, residual) / residual.shape[1]
    return jnp.mean((model - seen) ** 2) * diagonal.shape[-1]


def draw(
    factor: Factor, diagonal: Diagonal, count: int, key: jax.Array
) -> Float[Array, "u {count} N"]:
    """B^T z + d^(1/2) z' with standard normal z and z'."""
    first, second = jax.random.split(key)
    along = jax.random.normal(first, (len(factor), count, factor.shape[1]))
    apart = jax.random.normal(second, (len(factor), count, diagonal.shape[-1]))
    return jnp.einsum("ujr,urn->ujn", along, factor) + jnp.sqrt(diagonal)[:, None] * apart


def energy_score(
    residual: Residual, factor: Factor, diagonal: Diagonal, key: jax.Array
) -> Float[Array, ""]:
    """E |X - r| - E |X - X'| / 2 with draws X of the law (Gneiting and Raftery 2007), norms as
    root mean squares over the grid, both expectations over `DRAWS` samples."""
    drawn = draw(factor, diagonal, DRAWS, key)
    apart = _distances(drawn, residual).mean()
    within = _distances(drawn, drawn).sum(axis=(1, 2)).mean() / (DRAWS * (DRAWS - 1))
    return apart - within / 2


def _distances(one: Float[Array, "u j N"], other: Float[Array, "u m N"]) -> Float[Array, "u j m"]:
    """Root mean squares of all differences; the small constant keeps the gradient at 0 finite."""
    squares = (one**2).mean(axis=-1)[:, :, None] + (other**2).mean(axis=-1)[:, None]
    product = jnp.einsum("ujn,umn->ujm", one, other) / one.shape[-1]
    return jnp.sqrt(jnp.maximum(squares - 2 * product, 0.0) + 1e-8)


LOSSES: dict[str, Callable[..., Float[Array, ""]]] = {
    "diagonal": diagonal_likelihood,
    "joint": joint_likelihood,
    "moments": moment_distance,
    "energy": energy_score,  # alone in needing a key
}
