"""The observer in a Lightning Trainer; that it disturbs nothing is tested in `wild`."""

from __future__ import annotations

import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pl = pytest.importorskip("pytorch_lightning")

from wild.cases import fit

from grokscope import bridge
from grokscope.bridge import Observer, StructuralPrior

# Lightning's own remarks about few workers, no logger and a batch that says its size twice.
pytestmark = pytest.mark.filterwarnings("ignore")


class Lit(pl.LightningModule):
    def __init__(self, model, prior=None):
        super().__init__()
        self.model, self.prior = model, prior

    def training_step(self, batch, index):
        if self.prior is None:
            return self.model(**batch).loss
        with self.prior:
            loss = self.model(**batch).loss
        return loss + self.prior.penalty(self.global_step, batch)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-2, weight_decay=0.1)


def test_a_run_is_watched_from_start_to_end(make_gpt2, hf_batch, store):
    model = make_gpt2()
    prior = StructuralPrior(model, informative=[0, 2], strength=3.0)
    observer = Observer(model, "lit", informative=[0, 2], every=3, prior=prior, store=store)
    fit(Lit(model, prior), hf_batch, observer, 7)
    (run,) = store.runs()
    assert run.status == "finished"
    assert run.curve["epoch"].to_list() == [0, 3, 6, 7]
    assert run.curve["divergence"][-1] < run.curve["divergence"][0]
    assert run.about.optimiser.weight_decay == pytest.approx(0.1)


def test_accumulated_batches_are_one_step(make_gpt2, hf_batch, store):
    model = make_gpt2()
    observer = Observer(model, "lit", every=2, train=hf_batch, store=store)
    fit(Lit(model), hf_batch, observer, 7, accumulate_grad_batches=3)
    assert store.runs()[0].curve["epoch"].to_list() == [0, 2, 4, 6, 7]


def test_both_names_of_the_library(monkeypatch):
    """`lightning.pytorch` is taken where that is what the user has."""
    other = types.ModuleType("lightning.pytorch")
    other.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", other)
    monkeypatch.delitem(sys.modules, "grokscope.bridge.lightning", raising=False)
    assert issubclass(bridge.LightningObserver, other.Callback)
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "grokscope.bridge.lightning", raising=False)
    assert issubclass(bridge.LightningObserver, pl.Callback)
