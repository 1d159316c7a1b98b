"""How large the weights are, and which frequencies they use.

d width, m hidden units, V tokens, C classes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from grokscope.models.layers import Params
from grokscope.models.roles import MLP, role


def frobenius_norm(params: Params, names: tuple[str, ...] | None = None) -> Float[Array, ""]:
    """Root of the sum of squares over the named arrays (all if none is named)."""
    arrays = [params[name] for name in names or params]
    return jnp.sqrt(sum(jnp.sum(array**2) for array in arrays))


def mlp_norm(params: Params) -> Float[Array, ""]:
    """|theta_MLP|_F of the Goldilocks condition N (Def. 4.2): both matrices and both biases, of
    every layer."""
    return frobenius_norm(params, tuple(name for name in params if role(name) in MLP))


def spectral_norm(matrix: Float[Array, "a b"], squarings: int = 16) -> Float[Array, ""]:
    """Largest singular value, from above (up to rounding), without a decomposition.

    The Gram matrix is squared again and again, its trace taken out each time; the traces add up to
    the Schatten norm tr(G^(2^s))^(1/2^(s+1)), which exceeds the largest singular value by at most
    the factor n^(1/2^(s+1)), n the smaller side: by a relative 3e-5 at n = 64. Erring
    upwards keeps every bound that uses it a bound. LAPACK inside a compiled loop costs ten times as
    much, and stalls when cores are shared.
    """
    gram = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    logarithm = jnp.float32(0.0)
    for power in range(squarings + 1):
        trace = jnp.trace(gram)
        logarithm += jnp.log(jnp.maximum(trace, 1e-37)) / 2**power
        gram = gram / jnp.maximum(trace, 1e-37)
        gram = gram @ gram
    return jnp.exp(logarithm / 2)


def lipschitz_bound(params: Params) -> Float[Array, ""]:
    """L_f = |W_2|_2 |W_1|_2 bounds the Lipschitz constant of the ReLU MLP (Def. 4.2), which is all
    that follows attention in the minimal transformer; NaN for others."""
    if "readout" not in params:
        return jnp.float32(jnp.nan)
    return spectral_norm(params["readout"]) * spectral_norm(params["hidden"])


def interaction_norm(params: Params, heads: int) -> Float[Array, ""]:
    """|M|_F of the interaction M = W_Q' W_K, over all heads and layers."""
    total = jnp.float32(0)
    for name in params:
        if role(name) == "query":
            width = params[name].shape[0]
            query = params[name].reshape(width, heads, -1)
            key = params[name.removesuffix("query") + "key"].reshape(width, heads, -1)
            total += jnp.sum(jnp.einsum("ahs,bhs->hab", query, key) ** 2)
    return jnp.sqrt(total)


def key_frequencies(
    embedding: Float[Array, "V d"], cycle: Int[Array, " p"], count: int = 5
) -> tuple[Float[Array, " {count}"], Float[Array, ""]]:
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


def fourier_concentration(
    embedding: jax.Array, cycle: jax.Array
) -> jax.Array:  # (V, d), (p,) -> ()
    """How far the token embeddings are periodic (arXiv 2602.06702): with F_kd the amplitudes of the
    embeddings' Fourier transform along the cyclic order, the constant included, and m_k its mean
    over dimensions, Var_k(m_k) / (mean_kd (F_kd - m_k)^2 + 1e-8). About 1/d for random weights. NaN
    where the task has no cyclic order."""
    if cycle.shape[0] < 3:
        return jnp.float32(jnp.nan)
    amplitude = jnp.abs(jnp.fft.rfft(embedding[cycle], axis=0))  # (p//2 + 1, d)
    level = amplitude.mean(axis=1, keepdims=True)
    return jnp.var(level) / (jnp.mean((amplitude - level) ** 2) + 1e-8)
