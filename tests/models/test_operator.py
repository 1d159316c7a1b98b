"""The operator against NumPy's FFT, and against neuraloperator where it is installed."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import grokscope as gs
from grokscope.models import operator
from grokscope.models.operator import Shape

respond = jax.jit(operator.respond, static_argnames="shape")


def gelu(x):
    from scipy.special import erf

    return x * (1 + erf(x / np.sqrt(2))) / 2


def textbook(params, given, shape):  # (u, N, c)
    """Full FFTs in double precision, all unwanted frequencies set to 0."""
    p = {name: np.asarray(array, float) for name, array in params.items()}
    d = shape.dimensions
    points = round(given.shape[1] ** (1 / d))
    axes = tuple(range(1, d + 1))
    grid = np.stack(np.meshgrid(*[np.arange(points) / points] * d, indexing="ij"), -1)
    field = np.asarray(given, float).reshape(len(given), *[points] * d, -1)
    field = np.concatenate([field, np.broadcast_to(grid, (len(field), *grid.shape))], -1)
    field = field @ p["lift"] + p["lift_bias"]
    kept = operator.kept_frequencies(shape.modes, d)
    for layer in range(shape.layers):
        spectrum = np.fft.fftn(field, axes=axes)
        mixed = np.zeros_like(spectrum)
        for index, k in enumerate(kept):
            weight = p["spectral"][layer, 0, index] + 1j * p["spectral"][layer, 1, index]
            at, mirror = (slice(None), *k), (slice(None), *(-k % points))
            mixed[at] = spectrum[at] @ weight
            if tuple(k % points) != tuple(-k % points):
                mixed[mirror] = np.conj(mixed[at])
            else:
                mixed[at] = mixed[at].real  # a real field has a real coefficient there
        field = (
            np.fft.ifftn(mixed, axes=axes).real + field @ p["local"][layer] + p["local_bias"][layer]
        )
        if layer < shape.layers - 1:
            field = gelu(field)
    out = gelu(field @ p["hidden"] + p["hidden_bias"]) @ p["readout"] + p["readout_bias"]
    return out.reshape(len(given), points**d, -1)


@pytest.mark.parametrize(
    ("shape", "points"),
    [(Shape(1, 3, 6, 2, 5), 16), (Shape(2, 1, 5, 3, 9), 16), (Shape(1, 2, 4, 2, 3, 2), 8)],
    ids=["1-D", "with the highest frequency", "2-D"],
)
def test_against_full_transforms(shape, points):
    params = operator.init(jax.random.key(0), shape)
    given = jax.random.normal(jax.random.key(1), (3, points**shape.dimensions, shape.inputs))
    found = respond(params, given, shape)
    np.testing.assert_allclose(found, textbook(params, given, shape), atol=1e-5, rtol=1e-4)


def test_any_grid():
    """A smooth input gives the same output on a grid twice as fine, up to what the pointwise
    non-linearities put beyond the coarse grid."""
    shape = Shape(1, 1, 6, 2, 4)
    params = operator.init(jax.random.key(0), shape)
    params["lift"] = params["lift"].at[1].set(0.0)  # the coordinate jumps at the seam
    outputs = []
    for points in (64, 128):
        x = np.arange(points) / points
        given = jnp.asarray(np.cos(2 * np.pi * x)[None, :, None], jnp.float32)
        outputs.append(np.asarray(respond(params, given, shape))[0, :, 0])
    np.testing.assert_allclose(outputs[0], outputs[1][::2], atol=1e-4)
    with pytest.raises(gs.SpecError, match="take a finer grid"):
        respond(params, jnp.zeros((1, 4, 1)), shape)


def test_dropout_keeps_the_mean_scale():
    shape = Shape(1, 1, 8, 2, 3)
    params = operator.init(jax.random.key(0), shape)
    given = jax.random.normal(jax.random.key(1), (2, 8, 1))
    keys = jax.random.split(jax.random.key(2), 2)
    one, other = (respond(params, given, shape, key, 0.5) for key in keys)
    assert not np.allclose(one, other)
    none = respond(params, given, shape, keys[0], 0.0)
    np.testing.assert_allclose(none, respond(params, given, shape), atol=1e-6)


def test_against_neuraloperator():
    """Its parameters mapped to ours: the same forward pass."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("neuralop.models", exc_type=ImportError)
    width, modes, layers = 6, 5, 3
    theirs = models.FNO(
        n_modes=(2 * modes - 2,),
        in_channels=1,
        out_channels=2,
        hidden_channels=width,
        n_layers=layers,
        lifting_channel_ratio=0,
        projection_channel_ratio=2,
        use_channel_mlp=False,
        fno_skip="linear",
        positional_embedding="grid",
    )
    # Without channel MLPs, neuraloperator 2.0 applies its non-linearity twice after each layer; the
    # second call is left out here.
    turns = itertools.cycle([torch.nn.functional.gelu, lambda x: x])
    theirs.fno_blocks.non_linearity = lambda x: next(turns)(x)
    weights = {name: p.detach().numpy() for name, p in theirs.named_parameters()}
    spectral = [weights[f"fno_blocks.convs.{i}.weight.tensor"] for i in range(layers)]
    spectral = np.stack([np.moveaxis(w, -1, 0) for w in spectral])  # (layers, K, in, out)

    def matrix(name):
        return weights[name][..., 0].T

    ours = {
        "lift": matrix("lifting.fcs.0.weight"),
        "lift_bias": weights["lifting.fcs.0.bias"],
        "spectral": np.stack([spectral.real, spectral.imag], axis=1),
        "local": np.stack([matrix(f"fno_blocks.fno_skips.{i}.conv.weight") for i in range(layers)]),
        "local_bias": np.stack(
            [weights[f"fno_blocks.convs.{i}.bias"].reshape(-1) for i in range(layers)]
        ),
        "hidden": matrix("projection.fcs.0.weight"),
        "hidden_bias": weights["projection.fcs.0.bias"],
        "readout": matrix("projection.fcs.1.weight"),
        "readout_bias": weights["projection.fcs.1.bias"],
    }
    given = np.random.default_rng(0).normal(size=(3, 32, 1)).astype(np.float32)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(given.transpose(0, 2, 1))).numpy().transpose(0, 2, 1)
    ours = {name: jnp.asarray(array) for name, array in ours.items()}
    found = respond(ours, jnp.asarray(given), Shape(1, 2, width, layers, modes))
    np.testing.assert_allclose(found, expected, atol=1e-5)
