"""The observer in a Lightning Trainer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pl = pytest.importorskip("pytorch_lightning")

from grokscope.bridge import LightningObserver, Observer, StructuralPrior

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


def fit(module, batch, callbacks, tmp_path, **options):
    trainer = pl.Trainer(
        max_steps=7,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(tmp_path),
        callbacks=callbacks,
        **options,
    )
    trainer.fit(module, torch.utils.data.DataLoader([batch] * 40, batch_size=None))


def test_a_run_is_watched_from_start_to_end(make_gpt2, hf_batch, tmp_path, store):
    model = make_gpt2()
    prior = StructuralPrior(model, informative=[0, 2], strength=3.0)
    observer = Observer(model, "lit", informative=[0, 2], every=3, prior=prior, store=store)
    fit(Lit(model, prior), hf_batch, [LightningObserver(observer)], tmp_path)
    (run,) = store.runs()
    assert run.status == "finished"
    assert run.curve["epoch"].to_list() == [0, 3, 6, 7]
    assert run.curve["divergence"][-1] < run.curve["divergence"][0]
    assert run.about.optimiser.weight_decay == pytest.approx(0.1)


def test_accumulated_batches_are_one_step(make_gpt2, hf_batch, tmp_path, store):
    model = make_gpt2()
    observer = Observer(model, "lit", every=2, train=hf_batch, store=store)
    fit(Lit(model), hf_batch, [LightningObserver(observer)], tmp_path, accumulate_grad_batches=3)
    assert store.runs()[0].curve["epoch"].to_list() == [0, 2, 4, 6, 7]


def test_training_is_not_disturbed(make_gpt2, hf_batch, tmp_path, store):
    ends = []
    for watched in (False, True):
        torch.manual_seed(0)
        model = make_gpt2()
        observer = Observer(model, "lit", every=2, store=store)
        fit(Lit(model), hf_batch, [LightningObserver(observer)] * watched, tmp_path)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)
