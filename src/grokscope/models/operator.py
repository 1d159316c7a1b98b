"""A Fourier neural operator (Li et al. 2021) on a periodic grid of one or two dimensions:

    h_0 = [input, x] L,   h_{l+1} = gelu(F^-1 (R_l F h_l) + h_l W_l + b_l),   out = MLP(h_last)

without the gelu after the last layer, as neuraloperator has it. F keeps a few frequencies k. Both
transforms are products with small matrices of cosines and sines instead of FFTs over all
frequencies: for 64 points and 12 frequencies this is several times as fast on a CPU, and one
program serves every dimension. Coefficients are normalised so that they do not depend on the grid:
weights answer on any grid that has their frequencies.

u fields of a batch, N grid points in all, c channels, w width, K kept frequencies, l layers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from grokscope.errors import SpecError

Params = dict[str, Any]


class Shape(NamedTuple):
    """What decides the arrays of a trunk."""

    inputs: int
    outputs: int
    width: int
    layers: int
    modes: int
    dimensions: int = 1


@cache
def kept_frequencies(modes: int, dimensions: int) -> np.ndarray:  # (K, dimensions)
    """0 to modes - 1 in one dimension; in two, one of each pair k and -k in the square."""
    if dimensions == 1:
        return np.arange(modes)[:, None]
    span = range(-modes + 1, modes)
    return np.array([(i, j) for i in span for j in range(modes) if j > 0 or i >= 0])


@cache
def coordinates(points: int, dimensions: int) -> np.ndarray:  # (N, dimensions)
    axes = np.meshgrid(*[np.arange(points) / points] * dimensions, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=-1).astype(np.float32)


@cache
def transforms(points: int, modes: int, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """The truncated transform to real and imaginary parts and back.  (2K, N), (N, 2K)"""
    if modes > points // 2 + 1:
        raise SpecError(
            f"A grid of {points} points has {points // 2 + 1} frequencies and the operator keeps "
            f"{modes}; take a finer grid."
        )
    kept = kept_frequencies(modes, dimensions)
    angle = 2 * np.pi * kept @ coordinates(points, dimensions).T.astype(float)  # (K, N)
    waves = np.concatenate([np.cos(angle), -np.sin(angle)])
    # A frequency that is its own mirror image counts once, the others stand for two.
    twice = np.where((2 * kept % points == 0).all(axis=1), 1.0, 2.0)
    back = (waves * np.tile(twice, 2)[:, None]).T
    return (waves / angle.shape[1]).astype(np.float32), back.astype(np.float32)


def init(key: Any, shape: Shape) -> Params:
    """Gaussian weights of variance 1 / (inputs of the layer); half of it on the frequencies."""
    keys = jax.random.split(key, 5)
    kept = len(kept_frequencies(shape.modes, shape.dimensions))
    width, given = shape.width, shape.inputs + shape.dimensions

    def draw(key: Any, *size: int, scale: float) -> jax.Array:
        return jax.random.normal(key, size) * scale

    return {
        "lift": draw(keys[0], given, width, scale=given**-0.5),
        "lift_bias": jnp.zeros(width),
        # Real and imaginary parts.
        "spectral": draw(keys[1], shape.layers, 2, kept, width, width, scale=0.5 * width**-0.5),
        "local": draw(keys[2], shape.layers, width, width, scale=width**-0.5),
        "local_bias": jnp.zeros((shape.layers, width)),
        "hidden": draw(keys[3], width, 2 * width, scale=width**-0.5),
        "hidden_bias": jnp.zeros(2 * width),
        "readout": draw(keys[4], 2 * width, shape.outputs, scale=(2 * width) ** -0.5),
        "readout_bias": jnp.zeros(shape.outputs),
    }


def respond(
    params: Params,
    given: Float[Array, "u N c"],
    shape: Shape,
    key: Any = None,
    dropout: Any = 0.0,
) -> Float[Array, "u N out"]:
    """Outputs at every point. With a key, channels are dropped at random after each layer."""
    count, cells = given.shape[:2]
    points = round(cells ** (1 / shape.dimensions))
    forward, back = transforms(points, shape.modes, shape.dimensions)
    place = coordinates(points, shape.dimensions)[:, None]
    places = jnp.broadcast_to(place, (cells, count, shape.dimensions))
    # Points first: then both transforms are plain products of matrices.
    field = jnp.concatenate([jnp.swapaxes(given, 0, 1), places], axis=-1)
    field = field @ params["lift"] + params["lift_bias"]
    for layer in range(shape.layers):
        mixed = mix_frequencies(field, params["spectral"][layer], forward, back)
        field = mixed + field @ params["local"][layer] + params["local_bias"][layer]
        if layer < shape.layers - 1:
            field = jax.nn.gelu(field, approximate=False)
        if key is not None:
            key, now = jax.random.split(key)
            kept = jax.random.bernoulli(now, 1 - dropout, (1, count, shape.width))
            field = field * kept / (1 - dropout)
    hidden = jax.nn.gelu(field @ params["hidden"] + params["hidden_bias"], approximate=False)
    return jnp.swapaxes(hidden @ params["readout"] + params["readout_bias"], 0, 1)


def mix_frequencies(
    field: Float[Array, "N u w"],
    weights: Float[Array, "2 K w w"],
    forward: np.ndarray,  # (2K, N)
    back: np.ndarray,  # (N, 2K)
) -> Float[Array, "N u w"]:
    """F^-1 R F: each frequency's channels are mixed by a complex matrix of its own, written as one
    real matrix [[Re, Im], [-Im, Re]]."""
    cells, count, width = field.shape
    seen = (forward @ field.reshape(cells, -1)).reshape(2, -1, count, width)
    both = jnp.concatenate([seen[0], seen[1]], axis=-1)  # (K, u, 2w)
    real, imaginary = weights
    upper = jnp.concatenate([real, imaginary], axis=-1)
    lower = jnp.concatenate([-imaginary, real], axis=-1)
    mixed = both @ jnp.concatenate([upper, lower], axis=1)  # (K, 2w, 2w)
    parts = jnp.concatenate([mixed[..., :width], mixed[..., width:]])
    return (jnp.asarray(back) @ parts.reshape(back.shape[1], -1)).reshape(field.shape)
