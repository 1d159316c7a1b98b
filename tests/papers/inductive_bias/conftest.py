"""A small run of every placement, without training: initial weights with gains and biases that a
forgotten one would be seen by."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from grokscope import models
from grokscope.papers.inductive_bias.places import with_norm
from grokscope.papers.inductive_bias.settings import base
from grokscope.tasks import build_task

SMALL = {
    "task.modulus": 11,
    "task.alphabet": 11,
    "model.outputs": 12,
    "model.width": 16,
    "model.hidden": 24,
    "model.readout_scale": 0.7,
    "seed": 456,
}


draw = jax.jit(models.init, static_argnums=1)


@pytest.fixture(scope="session")
def small():
    """`small("M")`: what a probe needs of a run, with weights drawn and shaken."""

    def make(place: str, **changes):
        spec = base("smoke", **{**SMALL, **with_norm(place), **changes})
        data = build_task(spec.task, spec.seed)
        shape = models.shape_of(spec.model, data)
        rng = np.random.default_rng(7)

        def weights(epoch):
            drawn = draw(jax.random.key(epoch or 0), shape, 2.0)
            return {
                name: np.asarray(array) + 0.2 * rng.normal(size=array.shape).astype(np.float32)
                if array.ndim == 1
                else np.asarray(array)
                for name, array in drawn.items()
            }

        kept = {epoch: weights(epoch) for epoch in (0, 100)}
        return SimpleNamespace(
            spec=spec, data=data, shape=shape, weights=lambda e: kept[e], snapshots=[0, 100]
        )

    return make
