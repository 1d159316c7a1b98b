"""Watching a training loop: the same store, the same commands, and no trace in the training."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np

from grokscope import cli
from grokscope.bridge import CaptureError, Observer, ReadModule, StructuralPrior
from grokscope.bridge.scoring import move
from grokscope.draw.charts import CHARTS
from grokscope.engine.events import Event
from grokscope.errors import SpecError, StoreError
from grokscope.pages.reading import group_runs
from grokscope.pages.run import AGAIN, WATCHED, render_page
from grokscope.papers.structural_inference.certificates import certify, inapplicable
from grokscope.store import Store


def watch(model, batch, store, steps=120, **options):
    """Train a little, watched."""
    options = {"informative": [0, 2], "test": batch, "every": 20, **options}
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
    observer = Observer(model, "mine", store=store, optimizer=optimiser, **options)
    for step in range(steps + 1):
        observer.step(step, batch)
        _, loss = model(*batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return observer


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run in a store of its own."""
    from small_models import LENGTH, VOCABULARY, NanoGPT

    torch.manual_seed(0)
    tokens = torch.randint(0, VOCABULARY, (12, LENGTH))
    targets = torch.full_like(tokens, -1)
    targets[:, -1] = tokens[:, 0]
    store = Store(tmp_path_factory.mktemp("watched") / "runs")
    return watch(NanoGPT(), (tokens, targets), store, keep_weights=True).finish(), store


def test_rows_are_what_they_say(make_nano, batch, store):
    """Against the model's own loss and against attention written out."""
    model = make_nano(fused=True)
    observer = Observer(model, "mine", informative=[0, 2], store=store)
    row = observer.measure(0, batch)
    model.eval()
    logits, loss = model(*batch)
    assert row["train_loss"] == pytest.approx(loss.item(), rel=1e-5)
    right = (logits[:, -1].argmax(dim=-1) == batch[1][:, -1]).float().mean()
    assert row["train_accuracy"] == pytest.approx(right.item())
    reference = make_nano(fused=False).eval()
    reference(*batch)
    weights = torch.cat([layer.weights[:, :, -1] for layer in reference.attn], dim=1)  # (B, 4, T)
    pooled = weights.mean(dim=1)[:, [0, 2]]
    assert row["mass_mean"] == pytest.approx(weights[..., [0, 2]].sum(dim=-1).mean().item())
    assert row["weakest_min"] == pytest.approx(pooled.min().item(), rel=1e-5)
    divergence = -(0.5 * (2 * pooled).log()).sum(dim=-1)
    assert row["divergence"] == pytest.approx(divergence.mean().item(), rel=1e-5)
    assert row["divergence_max"] == pytest.approx(divergence.max().item(), rel=1e-5)
    entropy = -(weights * weights.log()).sum(dim=-1).mean().item()
    assert row["attention_entropy"] == pytest.approx(entropy, rel=1e-5)
    variance = weights.log().var(dim=-1, correction=0).mean().item()
    assert row["logit_variance"] == pytest.approx(variance, rel=1e-4)
    total = sum(p.detach().square().sum().item() for p in model.parameters()) ** 0.5
    assert row["parameter_norm"] == pytest.approx(total, rel=1e-5)
    mlp = sum(p.detach().square().sum().item() for p in model.mlp.parameters()) ** 0.5
    assert row["mlp_norm"] == pytest.approx(mlp, rel=1e-5)


def test_starvation_is_the_gradient_on_the_scores(make_nano, batch, store):
    """dL/da by finite differences: a number added to one score of the last layer's query."""
    model = make_nano(fused=False, layers=1).double().eval()
    layer = model.attn[0]
    added = torch.zeros(6, 2, 9, dtype=torch.float64)

    def shifted(x):
        n, length, width = x.shape
        parts = layer.c_attn(x).split(width, dim=2)
        q, k, v = (p.view(n, length, 2, -1).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        extra = torch.zeros_like(scores)
        extra[:, :, -1] = added
        seen = torch.tril(torch.ones(length, length, dtype=torch.bool))
        weights = torch.softmax((scores + extra).masked_fill(~seen, -torch.inf), dim=-1)
        return layer.c_proj((weights @ v).transpose(1, 2).reshape(n, length, width))

    observer = Observer(make_nano(layers=1).double(), "mine", store=store)
    row = observer.measure(0, batch)
    layer.forward = shifted
    slopes = torch.zeros_like(added)
    for place in np.ndindex(*added.shape):
        ends = []
        for sign in (1, -1):
            added[place] = sign * 1e-5
            ends.append(len(batch[0]) * model(*batch)[1].item())  # the sum of examples' losses
        added[place] = 0.0
        slopes[place] = (ends[0] - ends[1]) / 2e-5
    assert row["logit_gradient_mean"] == pytest.approx(slopes.abs().mean().item(), rel=1e-4)
    assert row["logit_gradient_max"] == pytest.approx(slopes.abs().max().item(), rel=1e-4)


@pytest.mark.parametrize("need_weights", [True, False])
def test_starvation_through_multihead_attention(need_weights, store):
    """dL/da by finite differences: MultiheadAttention adds its mask to the scores."""

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, x, mask=None):
            mixed = self.attention(x[:, -1:], x, x, need_weights=need_weights, attn_mask=mask)[0]
            return self.head(mixed[:, 0])

    model, x = Reader().double(), torch.randn(4, 5, 8, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 1])
    row = Observer(model, "mine", query=0, store=store).measure(0, (x, labels))
    slopes, mask = torch.zeros(8, 1, 5), torch.zeros(8, 1, 5, dtype=torch.float64)
    for place in np.ndindex(8, 1, 5):
        ends = []
        for sign in (1, -1):
            mask[place] = sign * 1e-5
            with torch.no_grad():
                loss = torch.nn.functional.cross_entropy(model(x, mask), labels, reduction="sum")
            ends.append(loss.item())
        mask[place] = 0.0
        slopes[place] = (ends[0] - ends[1]) / 2e-5
    assert slopes.abs().min() > 1e-6
    assert row["logit_gradient_mean"] == pytest.approx(slopes.abs().mean().item(), rel=1e-4)
    assert row["logit_gradient_max"] == pytest.approx(slopes.abs().max().item(), rel=1e-4)


def test_weights_that_are_a_copy_have_no_gradient_to_report(make_nano, batch, store):
    """Not a starved model, but an unknown one: the column is absent, not zero."""
    model = make_nano(fused=False, layers=1)
    copied = ReadModule("attn_dropout", lambda module, inputs, output: inputs[0] * 1.0)
    row = Observer(model, "mine", attention=copied, store=store).measure(0, batch)
    assert "logit_gradient_mean" not in row
    assert "attention_entropy" in row


def test_training_is_the_same_watched_or_not(make_nano, batch, store):
    """Bit for bit, dropout included."""
    ends = []
    for every in (10**6, 1):
        model = make_nano()
        torch.manual_seed(5)
        watch(model, batch, store, steps=5, every=every, seed=every)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        assert model.training
        assert all(p.grad is not None for p in model.parameters())
    assert torch.equal(*ends)


def test_commands_work_on_a_finished_run(finished, capsys, tmp_path):
    run, store = finished
    assert run.status == "finished"
    assert cli.run(["runs", "--store", str(store.root)]) == 0
    assert " mine " in capsys.readouterr().out
    assert cli.run(["show", run.id[:6], "--store", str(store.root)]) == 0
    shown = capsys.readouterr().out
    assert "logit_gradient_mean" in shown
    assert "torch" in shown
    assert cli.run(["show", run.id, "--json", "--store", str(store.root)]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["watch"]["informative"] == "0, 2"
    assert cli.run(["certify", run.id, "--store", str(store.root)]) == 0
    text = capsys.readouterr().out
    assert "structural condition" in text
    assert " 9 not applicable: needs the Lipschitz constant" in text
    assert cli.run(["verify", "--store", str(store.root)]) == 0
    capsys.readouterr()
    query = "select max(epoch) as last from curves"
    assert cli.run(["runs", "--sql", query, "--json", "--store", str(store.root)]) == 0
    assert json.loads(capsys.readouterr().out) == {"last": 120}
    page = render_page(group_runs([run]))
    assert "Training time (steps)" in page
    assert "a model of your own, watched" in page
    assert "Steps, from and to." in page
    assert "Epochs" not in page.partition("<script>")[0]
    assert WATCHED in page
    assert AGAIN not in page
    assert store.table()["watch_query"].to_list() == ["-1"]
    assert set(run.weights()) == set(dict(run_model().state_dict()))


def run_model():
    from small_models import NanoGPT

    return NanoGPT()


def test_certificates_that_apply(finished):
    run, _ = finished
    table = certify(run)
    assert set(table["statement"]) >= {2, 8}
    bound = table.filter(table["name"] == "divergence")
    assert bound["holds"].all()  # corollary 4.5 is a theorem
    assert len(bound) == len(run.curve)
    missing = inapplicable(run)
    assert set(missing) | set(table["statement"]) == set(range(1, 16))
    assert not set(missing) & set(table["statement"])


def test_a_watched_run_is_not_a_lab_run(finished, store):
    run, _ = finished
    with pytest.raises(SpecError, match=f"Run {run.id} is a model of your own that was watched"):
        _ = run.spec
    assert run.about.id == run.id


def test_without_an_oracle(make_nano, batch, store, capsys):
    """Entropy, starvation, norms and phases still work; the rest says that it is missing."""
    observer = watch(make_nano(), batch, store, informative=None, test=None)
    run = observer.finish()
    names = set(run.curve.columns)
    assert {"attention_entropy", "logit_gradient_mean", "mlp_norm", "train_accuracy"} <= names
    assert not {"divergence", "weakest_min", "test_accuracy"} & names
    assert run.outcome["memorised"]["epoch"] is not None
    assert run.outcome["grokked"]["observed_until"] is None
    assert cli.run(["runs", "--store", str(store.root)]) == 0
    assert "not measured" in capsys.readouterr().out
    assert cli.run(["certify", run.id, "--store", str(store.root)]) == 0
    assert "2 not applicable: needs the informative positions" in capsys.readouterr().out
    page = render_page(group_runs([run]))
    assert "Generalisation was not measured" in page
    assert "Has attention found the structure?" not in page
    assert "Where attention looks" in page
    for kind in ("loss", "norm"):  # the page has the others
        assert CHARTS[kind](group_runs([run])).to_dict(validate=False), kind


def test_live(make_nano, batch, store, capsys):
    """Rows can be read before the run is over, and another process cannot take it."""
    model = make_nano()
    observer = Observer(model, "mine", informative=[0, 2], store=store, every=10)
    observer.step(0, batch)
    (run,) = store.runs()
    assert (run.status, len(run.curve)) == ("partial", 1)
    assert cli.run(["show", run.id, "--store", str(store.root)]) == 0
    assert "1 rows so far" in capsys.readouterr().out
    assert render_page(group_runs([run]))
    assert cli.run(["runs", "--store", str(store.root)]) == 0
    (problem,) = store.verify()
    assert "watched up to step 0" in problem.sentence
    rival = Observer(model, "mine", informative=[0, 2], store=store, every=10)
    with pytest.raises(StoreError, match="watched by another"):
        rival.step(0, batch)
    assert observer.step(5, batch) is None
    assert observer.step(10, batch)["epoch"] == 10
    observer.finish()
    assert store.verify() == []


def test_trained_again_and_resumed(make_nano, batch, store):
    """From step 0 the former entry is set aside; from later on its rows are kept."""
    model = make_nano()
    with contextlib.suppress(KeyboardInterrupt), Observer(model, "mine", store=store) as observer:
        for step in (0, 100, 200, 300):
            observer.measure(step, batch)
        raise KeyboardInterrupt
    with Observer(model, "mine", store=store) as observer:
        observer.measure(200, batch)
        observer.measure(400, batch)
    (run,) = store.runs()
    assert run.curve["epoch"].to_list() == [0, 100, 200, 400]
    assert len(run.provenance["segments"]) == 2
    with Observer(model, "mine", store=store) as observer:
        observer.measure(0, batch)
    (run,) = store.runs()
    assert run.curve["epoch"].to_list() == [0]
    assert len(list((store.root / "set-aside").iterdir())) == 1


def test_sinks_get_every_row(make_nano, batch, store):
    """As plain numbers, once each, in the order in which they come; several sinks, or one."""
    events, kinds = [], []
    sinks = [events.append, lambda event: kinds.append(event.kind)]
    run = watch(make_nano(), batch, store, steps=40, sinks=sinks).finish()
    assert kinds == ["started", "advanced", "advanced", "advanced", "finished"]
    assert [event.epoch for event in events] == [0, 0, 20, 40, 40]
    assert [len(event.rows) for event in events] == [0, 1, 1, 1, 0]
    for event in events:
        assert event.run == run.id
        assert Event.from_json(event.to_json()) == event
    rows = [row for event in events for row in event.rows]
    for name in run.curve.columns:
        expected = np.array(run.curve[name].to_list())
        np.testing.assert_allclose([row[name] for row in rows], expected, rtol=1e-6)


def test_sinks_of_a_resumed_run(make_nano, batch, store):
    model, events = make_nano(), []
    for step in (0, 100):
        observer = Observer(model, "mine", store=store, sinks=events.append)
        observer.measure(step, batch)
        observer.__exit__(KeyboardInterrupt, None, None)
    assert [event.kind for event in events] == ["started", "advanced", "resumed", "advanced"]
    assert [row["epoch"] for row in events[2].rows] == [0]
    assert [row["epoch"] for row in events[3].rows] == [100]


def test_no_jax():
    """A user's own model needs none of the lab's machinery, with sinks or without."""
    code = """
import sys
sys.modules["jax"] = None
import tempfile, torch
from grokscope.bridge import Observer, StructuralPrior
model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
score = lambda model, x: (model(x, x, x)[0].square().mean(dim=(1, 2)), None)
sinks = [lambda event: print(event.kind)]
store = tempfile.mkdtemp()
with Observer(model, "mine", informative=[0], score=score, store=store, sinks=sinks) as observer:
    observer.measure(0, torch.randn(3, 4, 8))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["started", "advanced", "finished"], done.stderr


def test_a_run_that_breaks_is_failed(make_nano, batch, store):
    model, kinds = make_nano(), []
    tell = lambda event: kinds.append((event.kind, len(event.rows)))  # noqa: E731
    observer = Observer(model, "mine", informative=[0, 2], store=store, sinks=tell)
    observer.measure(0, batch)
    with torch.no_grad():
        model.head.weight[0, 0] = torch.nan
    observer.measure(100, batch)
    (run,) = store.runs()
    assert (run.status, run.outcome["failed_at"]) == ("failed", 100)
    assert kinds == [("started", 0), ("advanced", 1), ("failed", 1)]
    assert observer.step(200, batch) is None
    assert render_page(group_runs([run]))


def test_arms_of_a_prior(make_nano, batch, store):
    model = make_nano()
    runs = []
    for prior in (None, StructuralPrior(model, informative=[0, 2], strength=0.5)):
        for seed in (0, 1):
            observer = Observer(model, "mine", prior=prior, seed=seed, store=store)
            observer.measure(0, batch)
            runs.append(observer.finish())
    labels = {arm.label: len(arm.readings) for arm in group_runs(runs)}
    assert labels == {"no prior": 2, "oracle prior, strength 0.5": 2}


def test_compiled_and_half_precision_models(make_nano, batch, store):
    plain = Observer(make_nano(), "plain", informative=[0, 2], store=store).measure(0, batch)
    compiled = torch.compile(make_nano(), backend="eager")
    row = Observer(compiled, "compiled", informative=[0, 2], store=store).measure(0, batch)
    assert row["divergence"] == plain["divergence"]
    inside = make_nano()
    inside.compile(backend="eager")
    row = Observer(inside, "inside", informative=[0, 2], store=store).measure(0, batch)
    assert row["divergence"] == plain["divergence"]
    for dtype in (torch.bfloat16, torch.float16):
        model = make_nano().to(dtype)
        observer = Observer(model, str(dtype), informative=[0, 2], store=store, keep_weights=True)
        row = observer.measure(0, batch)
        assert row["divergence"] == pytest.approx(plain["divergence"], rel=0.05)
        observer.finish()


def test_other_batches_and_models(make_gpt2, hf_batch, store):
    """Mappings are moved and filtered; extra keys are for functions of the batch."""
    model = make_gpt2()
    places = torch.tensor([[0, 2]] * 6)
    given = {**hf_batch, "places": places}
    fixed = Observer(model, "a", informative=[0, 2], store=store).measure(0, given)
    free = Observer(model, "b", informative=lambda batch: batch["places"], store=store)
    assert free.measure(0, given)["divergence"] == pytest.approx(fixed["divergence"])
    loss = model.eval()(**hf_batch).loss.item()
    assert fixed["train_loss"] == pytest.approx(loss, rel=1e-5)
    elsewhere = torch.nn.Linear(1, 1, device="meta")
    nested = move({"a": given["places"], "b": [given["labels"], "text"]}, elsewhere)
    assert (nested["a"].device.type, nested["b"][0].device.type) == ("meta", "meta")
    assert nested["b"][1] == "text"


def test_bad_input_gets_a_sentence(make_nano, batch, store):
    model = make_nano()

    def measure(**options):
        given = options.pop("batch", batch)
        return Observer(model, "mine", store=store, **options).measure(0, given)

    for options, sentence in (
        ({"query": 30}, "query position 30 is out of range"),
        ({"informative": [-10]}, "informative position -10 is out of range"),
        ({"layers": [7]}, "Layer 7 was asked for"),
        ({"batch": (batch[0], batch[1][:, :4])}, "do not belong together|size"),
        ({"batch": {1, 2}}, "A batch of type set is not understood"),
        ({"query": lambda given: torch.zeros(2)}, "returned shape"),
        ({"attention": ReadModule("c_proj", lambda m, i, o: o)}, "for attn.0.c_proj were not mult"),
    ):
        with pytest.raises((CaptureError, ValueError), match=sentence):
            measure(**options)
    with pytest.raises(SpecError, match="every is 0"):
        Observer(model, "mine", every=0)
    with pytest.raises(SpecError, match="give it some text"):
        Observer(model, "")
    with pytest.raises(SpecError, match="settings are numbers"):
        Observer(model, "mine", settings={"a": [1]})
    with pytest.raises(SpecError, match="nothing to measure on"):
        Observer(model, "mine", store=store).measure(0)
    with pytest.raises(StoreError, match="Nothing was measured"):
        Observer(model, "mine", store=store, strict=True).finish()
    with pytest.warns(UserWarning, match="Nothing was measured"):
        assert Observer(model, "mine", store=store).finish() is None
    observer = Observer(model, "mine", store=store, strict=True)
    observer.measure(5, batch)
    with pytest.raises(SpecError, match="steps must grow"):
        observer.measure(5, batch)
    observer.finish()
    with pytest.raises(StoreError, match="has finished"):
        observer.measure(6, batch)
    perceptron = torch.nn.Linear(4, 4)
    with pytest.raises(CaptureError, match="No attention was seen"):
        Observer(perceptron, "mine", store=store).measure(0, torch.zeros(2, 4))
