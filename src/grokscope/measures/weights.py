"""How large the weights are, and which frequencies they use.

d width, m hidden units, V tokens, C classes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from grokscope.models.minimal import MLP, Params


def frobenius_norm(params: Params, names: tuple[str, ...] | None = None) -> jax.Array:
    """Root of the sum of squares over the named arrays (all if none is named)."""
    arrays = [params[name] for name in names or params]
    return jnp.sqrt(sum(jnp.sum(array**2) for array in arrays))


def mlp_norm(params: Params) -> jax.Array:
    """|theta_MLP|_F of the Goldilocks condition N (Def. 4.2): both matrices and both biases."""
    return frobenius_norm(params, MLP)


def spectral_norm(matrix: jax.Array) -> jax.Array:  # (a, b) -> ()
    """Largest singular value, by the eigenvalues of the smaller Gram matrix."""
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(gram)[-1], 0.0))


def lipschitz_bound(params: Params) -> jax.Array:
    """L_f = |W_2|_2 |W_1|_2 bounds the Lipschitz constant of the ReLU MLP (Def. 4.2)."""
    return spectral_norm(params["readout"]) * spectral_norm(params["hidden"])


def interaction_norm(params: Params, heads: int) -> jax.Array:
    """|M|_F of the interaction M = W_Q' W_K, over all heads."""
    width = params["query"].shape[0]
    query = params["query"].reshape(width, heads, -1)
    key = params["key"].reshape(width, heads, -1)
    return jnp.sqrt(jnp.sum(jnp.einsum("ahs,bhs->hab", query, key) ** 2))


def key_frequencies(
    embedding: jax.Array, cycle: jax.Array, count: int = 5
) -> tuple[jax.Array, jax.Array]:  # (V, d), (p,) -> (count,), ()
    """The strongest Fourier frequencies of the token embeddings along the task's cyclic order, and
    the share of the power (without the constant) that they hold (after Nanda et al. 2023).

    A generalising solution of a cyclic task uses few frequencies; random weights spread the power
    evenly. Gives NaN where the task has no cyclic order.
    """
    if cycle.shape[0] < 2 * count + 1:
        return jnp.full(count, jnp.nan), jnp.float32(jnp.nan)
    spectrum = jnp.fft.rfft(embedding[cycle], axis=0)[1:]  # (p//2, d)
    power = jnp.sum(jnp.abs(spectrum) ** 2, axis=1)
    strongest, index = jax.lax.top_k(power, count)
    return (index + 1).astype(jnp.float32), strongest.sum() / jnp.maximum(power.sum(), 1e-30)
