"""Nothing is guessed, and training is never broken: what cannot be read is refused with a sentence
that names the layer, and what fails in the middle of training becomes a gap."""

from __future__ import annotations

import random
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import numpy as np
from small_models import LENGTH, VOCABULARY, Attention, NanoGPT
from torch.nn import functional as F

from grokscope.bridge import CaptureError, Observer, ReadModule, StructuralPrior, watch
from grokscope.bridge import observer as observing
from grokscope.bridge.capture import read_attention
from grokscope.bridge.scoring import spread_queries
from grokscope.draw.charts import FIGURES
from grokscope.engine.events import Event
from grokscope.errors import StoreError
from grokscope.pages.reading import group_runs
from grokscope.pages.run import render_page
from grokscope.terminal import show_run
from hardening.faults import FaultyDisk, under


@pytest.fixture
def scaled():
    """A registered attention function that multiplies scores as it is told."""
    told = {"by": 1.0}

    def attend(module, query, key, value, mask, scaling=None, dropout=0.0, **options):
        scale = query.shape[-1] ** -0.5 * told["by"]
        causal = mask is None and query.shape[2] > 1
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal, scale=scale
        )
        return out.transpose(1, 2), None

    transformers.AttentionInterface.register("scaled", attend)
    return told


# Silent wrong numbers


def test_a_function_that_scales_scores_is_refused(scaled, make_gpt2, hf_batch, store):
    scaled["by"] = 4.0
    sentence = r"read in transformer\.h\.0\.attn is not the model's own"
    model = make_gpt2("scaled")
    with pytest.raises(CaptureError, match=sentence):
        Observer(model, "mine", store=store).measure(0, hf_batch)
    with pytest.raises(CaptureError, match=sentence):
        StructuralPrior(model, informative=[0]).penalty(0, hf_batch)


@pytest.mark.parametrize("by", [1.0, 2.0, 4.0])
def test_large_scores_are_proven_in_half_precision(by, scaled, make_gpt2, hf_batch, store):
    """There rounding alone moves weights by more than a wrong scale does."""
    scaled["by"], model = by, make_gpt2("scaled")
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight[:, :32] *= 3
    found = {}
    model.transformer.h[0].attn.c_attn.register_forward_hook(
        lambda module, given, output: found.update(qkv=output)
    )
    observer = Observer(model, "mine", autocast=torch.bfloat16, store=store)
    if by == 1.0:
        observer.measure(0, hf_batch)
        q, k, _ = (part.unflatten(2, (2, -1)).float() for part in found["qkv"].chunk(3, 2))
        assert torch.einsum("bthd,bshd->bhts", q, k).abs().max() / 8**0.5 > 20
    else:
        with pytest.raises(CaptureError, match="not the model's own"):
            observer.measure(0, hf_batch)


def test_every_row_is_proven(scaled, make_gpt2, hf_batch, store):
    """What begins right and goes wrong later is refused later."""
    observer = Observer(make_gpt2("scaled"), "mine", store=store, strict=True)
    observer.measure(0, hf_batch)
    scaled["by"] = 1.01
    with pytest.raises(CaptureError, match="not the model's own"):
        observer.measure(1, hf_batch)


@pytest.mark.parametrize("kind", ["uniform", "reversed"])
def test_a_fresh_model_proves_nothing_by_accident(kind, batch, store, monkeypatch):
    """At initialisation weights are nearly uniform, and an output projection of zeros hides what
    they are; the output of the call itself tells."""
    from grokscope.bridge import calls, layers

    true = calls.normalise
    wrong = {
        "uniform": lambda s: (s > -torch.inf) / (s > -torch.inf).sum(-1, keepdim=True),
        "reversed": lambda s: true(torch.where(s > -torch.inf, -s, s)),
    }[kind]
    torch.manual_seed(0)
    model = NanoGPT()
    with torch.no_grad():
        for layer in model.attn:
            layer.c_attn.weight.normal_(std=0.02)
            layer.c_proj.weight.zero_()
            layer.c_proj.bias.zero_()
    for module in (calls, layers):
        monkeypatch.setattr(module, "normalise", wrong)
    with pytest.raises(CaptureError, match=r"read in attn\.0 is not"):
        Observer(model, "mine", store=store).measure(0, batch)


class Reader(torch.nn.Module):
    """nn.MultiheadAttention with keys that belong to no position."""

    def __init__(self, **options):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.head = torch.nn.Linear(8, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(self.attention(x, x, x, need_weights=False)[0])


@pytest.mark.parametrize("options", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_keys_that_are_no_positions(options, batch, store):
    """Refused; with an offset, the right positions: here the extra key stands at the end."""
    model, given = Reader(**options), (batch[0], batch[0][:, 0])
    with pytest.raises(CaptureError, match="attention looks at 10 positions, but the sequences"):
        Observer(model, "mine", informative=[0, 2], store=store).measure(0, given)
    observer = Observer(model, "mine", query=8, informative=[0, 2], offset=0, store=store)
    row = observer.measure(0, given)
    x = model.embedding(batch[0])
    own = model.eval().attention(x, x, x, average_attn_weights=False)[1]
    mass = own[:, :, 8, [0, 2]].sum(dim=-1).mean().item()
    assert row["mass_mean"] == pytest.approx(mass, abs=1e-6)
    prior = StructuralPrior(model, query=8, informative=[0, 2], offset=0)
    expected = -(0.5 * own[:, :, 8, [0, 2]].mul(2).log()).sum(dim=-1).mean()
    torch.testing.assert_close(prior.penalty(0, given), expected, atol=1e-5, rtol=0)


def test_positions_that_cannot_be_seen(store):
    """A sliding window and padding; a weight that is merely tiny is no mask."""
    config = transformers.MistralConfig(
        vocab_size=20,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        sliding_window=3,
    )
    model = transformers.MistralForCausalLM(config)
    tokens = torch.randint(0, 20, (3, 9))
    given = {"input_ids": tokens, "labels": tokens}
    for options in ({}, {"layers": ["layers.0"]}):
        sentence = "position 2 cannot be seen from the query position 7 in example 0: a window"
        with pytest.raises(CaptureError, match=sentence):
            Observer(model, "a", query=7, informative=[2, 6], store=store, **options).measure(
                0, given
            )
        with pytest.raises(CaptureError, match=sentence):
            StructuralPrior(model, query=7, informative=[2, 6], **options).penalty(0, given)
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    padded = {**given, "attention_mask": mask}
    with pytest.raises(CaptureError, match=r"position 1 cannot be seen .* in example 1"):
        Observer(model, "b", query=3, informative=[1, 2], store=store).measure(0, padded)
    sharp = NanoGPT(layers=1)
    with torch.no_grad():
        sharp.attn[0].c_attn.weight.mul_(60)
    row = Observer(sharp, "c", informative=[0, 2], store=store).measure(0, (tokens, tokens))
    assert row["weakest_min"] == 0
    assert torch.isfinite(torch.tensor(row["divergence"]))


def test_weights_of_rank_three_have_a_gradient(batch, store):
    """One head, by softmax and by a function: the same starvation."""

    class OneHead(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
            self.pattern = torch.nn.Identity()

        def forward(self, tokens):
            x = self.embedding(tokens)
            weights = self.pattern(torch.special.softmax(x @ x.mT, dim=2))
            return self.head(torch.bmm(weights, x))

    model, rows = OneHead(), []
    for read in (None, ReadModule("pattern", lambda module, inputs, output: output)):
        observer = Observer(model, "mine", attention=read, store=store)
        rows.append(observer.measure(0, (batch[0], batch[0][:, 0])))
    assert rows[0]["logit_gradient_mean"] > 0
    for name in ("logit_gradient_mean", "logit_gradient_max", "attention_entropy"):
        assert rows[0][name] == pytest.approx(rows[1][name], rel=1e-5)


def test_heads_on_the_axis_of_examples(batch, store):
    """(B * H, T, T), as for bmm: refused, and read once a function says which is which."""

    class Merged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
            self.pattern = torch.nn.Identity()

        def forward(self, tokens):
            x = self.embedding(tokens).unflatten(2, (2, 4)).transpose(1, 2).flatten(0, 1)
            mixed = torch.bmm(self.pattern(torch.softmax(torch.bmm(x, x.mT), dim=-1)), x)
            mixed = mixed.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2)
            return F.cross_entropy(self.head(mixed)[:, -1], tokens[:, 0])

    model = Merged()
    sentence = "Merged attends in 12 groups, but there are 6 examples: examples and heads"
    with pytest.raises(CaptureError, match=sentence):
        Observer(model, "mine", store=store).measure(0, batch[0])
    with pytest.raises(CaptureError, match=sentence):
        StructuralPrior(model, informative=[0]).penalty(0, batch[0])
    read = ReadModule("pattern", lambda module, inputs, output: output.unflatten(0, (-1, 2)))
    row = Observer(model, "mine", attention=read, store=store).measure(0, batch[0])
    x = model.embedding(batch[0]).unflatten(2, (2, 4)).transpose(1, 2)
    own = torch.softmax(x @ x.mT, dim=-1)[:, :, -1].mean(dim=(0, 1))
    np.testing.assert_allclose(row["attention"], own.detach(), atol=1e-6)


def test_an_offset_that_cannot_be(batch, store):
    sentence = "offset is 2, but attn.0 looks at 9 positions, and the sequences have 9: at most 0"
    model = NanoGPT()
    with pytest.raises(CaptureError, match=sentence):
        Observer(model, "mine", informative=[0], offset=2, store=store).measure(0, batch)
    with pytest.raises(CaptureError, match=sentence):
        StructuralPrior(model, informative=[0], offset=2).penalty(0, batch)


def test_a_layer_named_twice_is_read_once(make_nano, batch, store):
    observer = Observer(make_nano(), "mine", layers=[0, "attn.0", -2], store=store)
    observer.measure(0, batch)
    assert observer.layers == ["attn.0"]


def test_layers_of_different_lengths_are_named(store):
    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
            self.fine, self.coarse = (
                torch.nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2)
            )

        def forward(self, tokens):
            x = self.embedding(tokens)
            x = self.fine(x, x, x, need_weights=False)[0]
            pooled = x[:, ::2]
            return self.head(self.coarse(x, pooled, pooled, need_weights=False)[0])

    tokens = torch.randint(0, 20, (3, 8))
    observer = Observer(Pooled(), "mine", offset=0, store=store)
    with pytest.raises(CaptureError, match=r"positions: fine \(8\), coarse \(4\)\. Choose"):
        observer.measure(0, (tokens, tokens))


def test_examples_without_an_answer_do_not_count(make_nano, batch, store):
    """They are neither right nor without loss."""
    model, (tokens, targets) = make_nano().eval(), batch
    with torch.no_grad():
        targets[:4, -1] = model(tokens)[0][:4, -1].argmax(dim=-1)
    whole = Observer(model, "a", store=store).measure(0, (tokens[3:], targets[3:]))
    targets[:3] = -1
    part = Observer(model, "b", store=store).measure(0, (tokens, targets))
    assert part["train_accuracy"] == whole["train_accuracy"] == pytest.approx(1 / 3)
    assert part["train_loss"] == pytest.approx(whole["train_loss"], rel=1e-5)
    with pytest.raises(CaptureError, match="No label of the batch counts"):
        Observer(model, "c", store=store).measure(0, (tokens, targets * 0 - 1))


def test_layers_of_a_mixed_model(batch, store):
    """Fused and by hand: numbers count both, and names say which."""
    torch.manual_seed(0)
    model = NanoGPT()
    model.attn[0] = Attention(16, 2, fused=False)
    rows = {}
    for asked in (0, "attn.0", 1, "attn.1", -1):
        observer = Observer(model, "mine", layers=[asked], store=store)
        rows[asked] = observer.measure(0, batch)["attention_entropy"]
        assert observer.layers == ["attn.0" if asked in (0, "attn.0") else "attn.1"]
    own = model.attn[0].weights[:, :, -1]
    entropy = -(own * own.log()).sum(dim=-1).mean().item()
    assert rows[0] == rows["attn.0"] == pytest.approx(entropy, rel=1e-5)
    assert rows[1] == rows["attn.1"] == rows[-1] != rows[0]
    with pytest.raises(CaptureError, match=r"No attention is made in 'attn\.7'\. There are: attn"):
        Observer(model, "mine", layers=["attn.7"], store=store).measure(0, batch)


def test_two_that_fit_are_listed(batch, store):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)

        def forward(self, tokens):
            x = self.embedding(tokens)
            near, far = torch.softmax(x @ x.mT, -1), F.softmax(-x @ x.mT, dim=-1)
            gates = torch.softmax(x, dim=-1)  # no attention: (B, T, 8) times a table
            return self.head(near @ x + far @ x + gates @ torch.eye(8))

    model, given = Two(), (batch[0], batch[0][:, 0])
    with pytest.raises(CaptureError, match=r"More than one .* Two#1 \(9 × 9\), Two#2 \(9 × 9\)"):
        Observer(model, "mine", store=store).measure(0, given)
    rows = [
        Observer(model, "mine", layers=layers, store=store).measure(0, given)["attention"]
        for layers in ([1], ["Two#2"], [0])
    ]
    x = model.embedding(batch[0])
    far = torch.softmax(-x @ x.mT, dim=-1)[:, -1].mean(dim=0)
    assert rows[0] == pytest.approx(far.detach().numpy(), abs=1e-6)
    assert (rows[0] == rows[1]).all()
    assert (rows[0] != rows[2]).any()


def test_changed_weights_are_not_taken_for_attention(batch):
    """Weights that are mixed over heads after the softmax are not what values are weighed by."""

    class Talking(Attention):
        def forward(self, x):
            n, length, width = x.shape
            q, k, v = (p.unflatten(2, (2, -1)).transpose(1, 2) for p in self.c_attn(x).chunk(3, 2))
            weights = (q @ k.mT).softmax(dim=-1)
            mixed = torch.einsum("gh,bhts->bgts", torch.tensor([[0.7, 0.3], [0.1, 0.9]]), weights)
            return self.c_proj((mixed @ v).transpose(1, 2).reshape(n, length, width))

    model = NanoGPT(layers=1)
    model.attn[0] = Talking(16, 2, fused=False)
    with pytest.raises(CaptureError, match="No attention was seen in a forward of NanoGPT"):
        read_attention(model, lambda m: m(*batch))


def test_autocast(make_nano, batch, store):
    """The probe has the precision of its surroundings, or the one that is named."""
    model = make_nano()
    plain = Observer(model, "a", store=store).measure(0, batch)["train_loss"]
    named = Observer(model, "b", autocast=torch.bfloat16, store=store).measure(0, batch)
    with torch.autocast("cpu", torch.bfloat16):
        around = Observer(model, "c", store=store).measure(0, batch)["train_loss"]
    assert named["train_loss"] == around != plain
    assert around == pytest.approx(plain, rel=0.02)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_fast_products_are_not_taken_for_wrong_ones(precision, make_nano, batch, store):
    """As nanoGPT and nanochat set it."""
    torch.set_float32_matmul_precision(precision)
    try:
        Observer(make_nano(), "mine", store=store).measure(0, batch)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_page_says_only_what_is_known(make_nano, batch, store):
    observer = Observer(make_nano(), "mine", informative=[0, 2], store=store)
    observer.measure(0, batch)
    arms = group_runs([observer.finish()])
    page = render_page(arms)
    assert "distractors" not in page.partition("<script>")[0]
    (panel,) = FIGURES["starvation"](arms, 100)[0]
    text = str(panel.chart.to_dict(validate=False))
    assert "on one attention score" in text
    assert "on the query-key matrix" not in text


# Never break training


class Fragile(NanoGPT):
    """Fails on demand, in evaluation only."""

    fail = False

    def forward(self, *args):
        if self.fail and not self.training:
            raise RuntimeError("functorch: in-place arithmetic on a wrapped tensor")
        return super().forward(*args)


def test_a_probe_that_fails_is_a_gap(batch, store):
    model = Fragile()
    observer = Observer(model, "mine", every=1, store=store)
    observer.step(0, batch)
    model.fail = True
    with pytest.warns(UserWarning, match="could not measure step 1, and training continues"):
        assert observer.step(1, batch) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns once
        assert observer.step(2, batch) is None
    model.fail = False
    assert observer.step(3, batch)["epoch"] == 3
    assert model.training
    run = observer.finish()
    assert run.curve["epoch"].to_list() == [0, 3]
    gaps = run.provenance["segments"][-1]["gaps"]
    assert [gap["step"] for gap in gaps] == [1, 2]
    assert "functorch" in gaps[0]["error"]
    page, shown = render_page(group_runs([run])), show_run(run)
    for line in (
        "Attention was read in attn.0 and attn.1.",
        "no test batch: generalisation",
        "2 gaps, from step 1 on: RuntimeError: functorch",
    ):
        assert line in page
        assert any(line in part for part in shown if isinstance(part, str))
    model.fail = True
    with pytest.raises(RuntimeError, match="functorch"):
        Observer(model, "mine", store=store).step(0, batch)  # at the start it is raised
    model.fail = False
    strict = Observer(model, "mine", strict=True, every=1, store=store)
    strict.step(0, batch)
    model.fail = True
    with pytest.raises(RuntimeError, match="functorch"):
        strict.step(1, batch)


def draw_everywhere(event):
    """A sink that draws random numbers, and cannot reach its tracker later on."""
    torch.rand(1), random.random(), np.random.rand()
    if event.epoch > 0:
        raise ConnectionError("the tracker is down")


def test_a_full_disk_and_a_tracker_that_is_down(batch, store, monkeypatch):
    """Neither ends a training, nor changes what is drawn in it; strict ones raise."""
    monkeypatch.setattr(observing, "WRITE_SECONDS", 0.0)
    model = NanoGPT()
    observer = Observer(model, "mine", every=1, sinks=draw_everywhere, store=store)
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = [torch.rand(1).item(), random.random(), np.random.rand()]
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    observer.step(0, batch)
    with under(FaultyDisk(0, "ENOSPC")), pytest.warns(UserWarning, match="could not keep step 1"):
        assert observer.step(1, batch)["epoch"] == 1
    with under(FaultyDisk(0, "ENOSPC")), pytest.warns(UserWarning, match="The disk is full"):
        assert observer.finish().status == "partial"
    with pytest.warns(UserWarning, match="the tracker is down"):
        assert observer.finish().status == "finished"
    assert [torch.rand(1).item(), random.random(), np.random.rand()] == expected
    assert observer.run.curve["epoch"].to_list() == [0, 1]
    left = Observer(model, "other", store=store)
    left.measure(0, batch)
    with under(FaultyDisk(0, "ENOSPC")), pytest.warns(UserWarning, match="The disk is full"):
        left.__exit__(ZeroDivisionError, ZeroDivisionError(), None)  # theirs is what users see
    strict = Observer(model, "strict", strict=True, store=store)
    strict.measure(0, batch)
    with under(FaultyDisk(0, "ENOSPC")), pytest.raises(StoreError, match="The disk is full"):
        strict.finish()


def test_an_auxiliary_loss_that_grows(batch, store):
    """A mixture of experts adds to its loss; what a right answer is was settled at the start."""

    class Experts(NanoGPT):
        extra = 0.0

        def forward(self, idx, targets=None):
            logits, loss = super().forward(idx, targets)
            return logits, loss + self.extra

    model = Experts()
    observer = Observer(model, "mine", store=store, strict=True)
    before = observer.measure(0, batch)["train_loss"]
    model.extra = 5.0
    assert observer.measure(160, batch)["train_loss"] == pytest.approx(before)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_in_evaluation(reentrant, batch, store):
    """The row is there, whether or not its gradient can be had."""

    class Checkpointed(NanoGPT):
        def forward(self, idx, targets=None):
            run = super().forward
            return torch.utils.checkpoint.checkpoint(
                run, idx, targets, use_reentrant=reentrant, preserve_rng_state=False
            )

    torch.manual_seed(0)
    model = Checkpointed()
    observer = Observer(model, "mine", store=store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = observer.measure(0, batch)
    with torch.no_grad():
        loss = NanoGPT.forward(model.eval(), *batch)[1].item()
    assert row["train_loss"] == pytest.approx(loss, rel=1e-5)
    assert row["attention_entropy"] > 0
    assert ("logit_gradient_mean" not in row) == reentrant
    (segment,) = observer.finish().provenance["segments"]
    assert any("computes without gradients" in text for text in segment["left_out"]) == reentrant


def test_a_model_without_gradients_says_so(batch, store):
    class Still(NanoGPT):
        def forward(self, *args):
            with torch.no_grad():
                return super().forward(*args)

    observer = Observer(Still(), "mine", store=store)
    assert "logit_gradient_mean" not in observer.measure(0, batch)
    (segment,) = observer.finish().provenance["segments"]
    assert segment["left_out"] == observer.left_out
    assert "computes without gradients" in segment["left_out"][-1]


def test_wrappers_and_bare_tensors(make_gpt2, hf_batch, store):
    class Wrapper(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, **kwargs):
            return self.inner(**kwargs)

    model = make_gpt2()
    plain = Observer(model, "a", store=store).measure(0, {**hf_batch, "mine": 3})
    wrapped = Observer(Wrapper(model), "b", store=store).measure(0, {**hf_batch, "mine": 3})
    assert wrapped["train_loss"] == plain["train_loss"]
    assert wrapped["attention_entropy"] == plain["attention_entropy"]

    class Naming(Wrapper):
        def forward(self, input_ids, **kwargs):
            return self.inner(input_ids=input_ids, **kwargs)

    mask = torch.ones_like(hf_batch["input_ids"])
    mask[1, :4] = 0
    padded = {**hf_batch, "attention_mask": mask, "mine": 3}
    plain = Observer(model, "e", store=store).measure(0, padded)
    named = Observer(Naming(model), "f", store=store).measure(0, padded)
    assert named["train_loss"] == plain["train_loss"]
    assert named["attention_entropy"] == plain["attention_entropy"]
    plain = Observer(model, "g", store=store).measure(0, {**hf_batch, "mine": 3})
    bare = Observer(model, "c", store=store).measure(0, hf_batch["input_ids"])
    assert bare["attention_entropy"] == plain["attention_entropy"]
    assert "train_loss" not in bare
    with pytest.raises(CaptureError, match="The batch has text, and the model takes idx, targets"):
        Observer(NanoGPT(), "d", store=store).measure(0, {"text": hf_batch["input_ids"]})


# One run, however often it is resumed


def test_a_killed_run_is_resumed_as_one(batch, store):
    """With a schedule, other batches, and positions that differ by example."""

    def places(given):
        count = 1 + int(given[0][0, 0]) % 3
        return torch.arange(count).expand(len(given[0]), -1)

    def begin(rate):
        torch.manual_seed(0)
        model = NanoGPT()
        optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
        optimiser.param_groups[0]["lr"] = rate  # as nanoGPT sets it at every step
        observer = Observer(
            model, "mine", informative=places, optimizer=optimiser, every=10, store=store
        )
        return observer, optimiser

    observer, optimiser = begin(1e-5)
    for step in (0, 10, 20):
        optimiser.param_groups[0]["lr"] = 1e-5 * (step + 1)
        observer.step(step, batch)
    observer._write()
    observer._held.close()  # killed
    again, _ = begin(2e-3)
    other = (batch[0].roll(1, 0) + 1) % VOCABULARY
    again.step(20, (other, batch[1]))
    run = again.finish()
    assert len(store.runs()) == 1
    assert not (store.root / "set-aside").exists()
    assert run.curve["epoch"].to_list() == [0, 10, 20]
    assert run.curve["learning_rate"].to_list() == pytest.approx([1e-5, 1.1e-4, 2e-3])
    assert run.about.optimiser.lr == pytest.approx(1e-2)
    assert len(run.provenance["segments"]) == 2
    assert store.verify() == []


@pytest.mark.parametrize("kind", ["AdamW", "SGD"])
def test_a_cycle_of_the_momentum_leaves_the_name(kind, batch, store):
    """OneCycleLR moves it at every step; groups may have decays, and second betas, of their own."""

    def begin():
        torch.manual_seed(0)
        model = NanoGPT()
        weights, others = list(model.parameters())[:4], list(model.parameters())[4:]
        groups = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
        if kind == "AdamW":
            optimiser = torch.optim.AdamW(groups, 1e-2, betas=(0.8, 0.97), weight_decay=0.1)
        else:
            optimiser = torch.optim.SGD(groups, 1e-2, momentum=0.8)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=40)
        return Observer(model, "mine", optimizer=optimiser, store=store), optimiser, schedule

    observer, optimiser, schedule = begin()
    observer.measure(0, batch)
    observer._write()
    observer._held.close()  # killed
    for _ in range(10):
        optimiser.step()
        schedule.step()
    kept = optimiser.state_dict()
    again, optimiser, _ = begin()
    optimiser.load_state_dict(kept)
    again.measure(10, batch)
    run = again.finish()
    assert run.curve["epoch"].to_list() == [0, 10]
    if kind == "AdamW":
        found = run.about.optimiser
        assert (found.beta1, found.beta2, found.weight_decay) == pytest.approx((0.8, 0.97, 0.1))
    model = NanoGPT()
    own = torch.optim.SGD([{"params": list(model.parameters()), "momentum": 0.3}], 1e-2)
    assert observing.describe_optimiser(own).beta1 == pytest.approx(0.3)  # without a cycle


# The shortest form, and measures of one's own


def test_watch(batch, store):
    """Tokens alone: losses and accuracies of the next token, attention of all layers and heads."""
    events: list[Event] = []
    model, tokens = NanoGPT(), batch[0]
    observer = watch(model, store=store, sinks=events.append)
    row = observer.step(0, tokens)
    observer.finish()
    with torch.no_grad():
        logits = model.eval()(tokens)[0][:, :-1]
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()
    assert row["train_loss"] == pytest.approx(loss, rel=1e-5)
    right = (logits.argmax(dim=-1) == tokens[:, 1:]).float().mean().item()
    assert row["train_accuracy"] == pytest.approx(right)
    assert observer.layers == ["attn.0", "attn.1"]
    assert not {"divergence", "mass_mean", "test_loss"} & set(row)
    assert [text.partition(":")[0] for text in observer.left_out] == [
        "no informative positions",
        "no test batch",
        "no optimizer",
    ]
    assert "no test batch" in events[0].message
    assert store.runs()[0].about.name == "NanoGPT"


@pytest.mark.parametrize("side", ["right", "left"])
def test_watch_leaves_padding_out(side, make_gpt2, batch, store):
    """The rows of padded sequences are those of the sequences alone."""
    model, tokens = make_gpt2(), batch[0][:2]
    mask = torch.ones_like(tokens)
    place = slice(5, None) if side == "right" else slice(None, 4)
    mask[1, place] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    given = {
        "input_ids": tokens.masked_fill(mask == 0, 0),
        "attention_mask": mask,
        "position_ids": positions,
    }
    row = watch(model, "padded", store=store).measure(0, given)
    alone = [tokens[:1], tokens[1:][:, mask[1].bool()]]
    rows = [watch(model, f"{n}", store=store).measure(0, part) for n, part in enumerate(alone)]
    for name in ("train_loss", "train_accuracy"):
        assert row[name] == pytest.approx(np.mean([one[name] for one in rows]), rel=1e-4)
    asked = spread_queries(given)
    assert mask.gather(1, asked).all()
    assert asked[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert set(asked[1].tolist()) == set((mask[1].nonzero()[1:, 0]).tolist())
    labels[0, :5] = -100  # as for a prompt
    part = watch(model, "prompt", store=store).measure(0, {**given, "labels": labels})
    with torch.no_grad():
        own = model.eval()(**{**given, "labels": labels}).logits[0, 4:-1]
    first = F.cross_entropy(own, tokens[0, 5:]).item()
    expected = (first + rows[1]["train_loss"]) / 2
    assert part["train_loss"] == pytest.approx(expected, rel=1e-4)


def test_measures_of_ones_own(make_nano, batch, store):
    model, events = make_nano(), []
    measures = {
        "norm_of_head": lambda model, batch: model.head.weight.norm(),
        "tokens": lambda model, batch: [float(batch[0].sum()), 2.0],
    }
    observer = Observer(model, "mine", measures=measures, sinks=events.append, store=store)
    observer.measure(0, batch)
    run = observer.finish()
    assert run.curve["norm_of_head"][0] == pytest.approx(model.head.weight.norm().item())
    assert run.curve["tokens"][0].to_list() == [batch[0].sum().item(), 2.0]
    assert events[1].row["tokens"][1] == 2.0
    assert "Norm of head" in render_page(group_runs([run]))
    bad = {"shape": lambda model, batch: torch.zeros(2, 2)}
    with pytest.raises(ValueError, match=r"'shape' returned shape \(2, 2\)"):
        Observer(model, "mine", measures=bad, store=store).measure(0, batch)
    bad = {"train_loss": lambda model, batch: 0.0}
    with pytest.raises(ValueError, match="'train_loss' is taken"):
        Observer(model, "mine", measures=bad, store=store).measure(0, batch)


def test_the_prior_finds_attention_by_hand(make_nano, batch):
    """Without a ReadModule, in training, through dropout."""
    model = make_nano(fused=False)
    prior = StructuralPrior(model, informative=[0, 2], layers=["attn.0"])
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    values = []
    for step in range(30):
        with prior:
            _, loss = model(*batch)
        optimiser.zero_grad()
        (loss + prior.penalty(step)).backward()
        optimiser.step()
        values.append(prior.last.item())
    assert prior.layers == ["attn.0"]
    assert values[-1] < 0.1 * values[0]


assert LENGTH == 9  # what the sentences above say
