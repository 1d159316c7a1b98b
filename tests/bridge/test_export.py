"""Lab runs as PyTorch modules with equal logits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import jax
import jax.numpy as jnp
import numpy as np

import grokscope as gs
from grokscope import models
from grokscope.bridge import export_run
from grokscope.errors import SpecError, StoreError
from grokscope.measures.outcomes import conclude
from grokscope.models import minimal, shape_of

CASES = {
    "one head": {},
    "several heads": {"model.heads": 4, "training.snapshots": 2},
    "linear-ReLU": {"model.attention": "linear_relu"},
}


def draw_run(spec, store):
    """A finished run whose weights were drawn, not trained, which would take longer."""
    shape = shape_of(spec.model, gs.build_task(spec.task, spec.seed))
    run, epochs = store.begin(spec), spec.training.epochs
    for epoch in (*spec.training.snapshot_epochs(), None):
        drawn = models.init(jax.random.key(epoch or 0), shape, 1.0)
        weights = {name: np.asarray(array) for name, array in drawn.items()}
        if epoch is not None:
            store.save_snapshot(run, epoch, weights)
    curve = {name: np.zeros(2, np.float32) for name in ("train_accuracy", "test_accuracy")}
    curve |= {"epoch": np.array([0, epochs], np.int32), "weakest_min": np.zeros(2, np.float32)}
    store.finish(run, curve, weights, conclude(spec, curve), {"segments": []})
    return run


@pytest.mark.parametrize("change", CASES.values(), ids=CASES)
def test_logits_and_attention_are_equal(tiny, store, change):
    run = draw_run(tiny.replace(**change), store)
    data = gs.build_task(run.spec.task, run.spec.seed)
    for epoch in (None, *run.snapshots):
        params = {name: jnp.asarray(array) for name, array in run.weights(epoch).items()}
        theirs = minimal.forward(params, jnp.asarray(data.tokens), shape_of(run.spec.model, data))
        model = export_run(run, epoch)
        model.pattern.register_forward_hook(keep)
        with torch.no_grad():
            logits = model(torch.from_numpy(data.tokens).long())
        np.testing.assert_allclose(logits, theirs.logits, atol=2e-5)
        np.testing.assert_allclose(model.pattern.kept, theirs.attention, atol=5e-6)


def keep(module, inputs, output):
    module.kept = output


@pytest.mark.parametrize("positions", ["fixed", "random"])
def test_frozen_attention_stays_frozen(tiny, store, positions):
    """Its accuracy is the lab's; without the posterior that is per example, a sentence."""
    frozen = {"interventions.frozen_attention": "oracle", "task.positions": positions}
    (run,) = gs.train(tiny.replace(**frozen), store, processes=1)
    data = gs.build_task(run.spec.task, run.spec.seed)
    model = export_run(run)
    tokens = torch.from_numpy(data.tokens).long()
    with torch.no_grad():
        right = (model(tokens).argmax(dim=1).numpy() == data.labels)[data.test].mean()
    assert right == pytest.approx(run.outcome["final"]["test_accuracy"], abs=1e-6)
    if positions == "random":
        with pytest.raises(SpecError, match="frozen example by example"):
            model(tokens[:3])


def test_only_lab_runs_with_weights(tiny, store):
    run = store.begin(tiny)
    with pytest.raises(StoreError, match="only finished runs can be exported"):
        export_run(run)


def test_nnsight_takes_it_from_there(tiny, store):
    """The example of docs/your-model.md: switch the weight on a distractor off and see."""
    nnsight = pytest.importorskip("nnsight")
    run = draw_run(tiny, store)
    model = export_run(run)
    tokens = torch.from_numpy(gs.build_task(run.spec.task, run.spec.seed).tokens).long()
    traced = nnsight.NNsight(model)
    with traced.trace(tokens):
        pattern = traced.pattern.output.save()
        traced.pattern.output[:, :, 1] = 0.0
        logits = traced.output.save()
    with torch.no_grad():
        plain = model(tokens)
    assert pattern.shape == (len(tokens), 1, 5)
    assert (logits - plain).abs().max() > 1e-3
