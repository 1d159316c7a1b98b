"""Other people's code: three lines each, the model's own weights to 1e-6, and no trace in training.

What is re-created here follows the published code in how it computes attention; transformers,
TransformerLens, x-transformers, timm, PEFT and Lightning are the packages themselves.
"""

from __future__ import annotations

import random
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np

from grokscope.bridge import CaptureError, Observer, StructuralPrior, read_attention, watch
from grokscope.bridge.scoring import run_model
from wild import styles
from wild.cases import CASES, render

GUIDE = Path(__file__).parents[3] / "docs" / "your-model.md"
# TransformerLens, x-transformers and PEFT use what PyTorch and Python are about to drop.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=CASES)
def case(request):
    found = CASES[request.param]
    if found.needs and find_spec(found.needs) is None:
        pytest.skip(f"{found.needs} is not installed")
    torch.manual_seed(0)
    return found


def differ(model):
    """Weights far from uniform, so that a mistake is seen."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def weights_of(case, model, batch):
    model.eval()
    with torch.no_grad():
        return case.own(model, batch)


def loss_of(case, model, batch):
    output, labels = run_model(model, batch)
    if hasattr(output, "loss"):
        return output.loss
    logits = output[0] if isinstance(output, tuple) else output
    if logits.dim() == 2:
        return torch.nn.functional.cross_entropy(logits, labels)
    if labels.dim() == 2:
        return output[1]
    last = logits[:, -1] if len(logits) == len(labels) else logits[-1]
    return torch.nn.functional.cross_entropy(last, labels)


def train(case, model, batch, observer, steps):
    """In the case's own loop or in a plain one, watched if there is an observer."""
    if case.train is not None:
        return case.train(model, batch, observer, steps)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(steps):
        if observer:
            observer.step(step, batch)
        optimiser.zero_grad()
        loss_of(case, model, batch).backward()
        optimiser.step()
    return observer and observer.finish()


def test_three_lines(case, store):
    """The rows are those of the model's own weights, and its own loss."""
    model, batch = differ(case.make()), case.batch()
    names = {"Observer": Observer, "model": model, "held_out": batch, "store": store}
    exec(case.first_line.replace("test=", "store=store, test="), names)
    observer, own = names["observer"], weights_of(case, model, batch)
    with torch.no_grad():
        loss = loss_of(case, model, batch).item()
    train(case, model.train(), batch, observer, 1)
    assert store.runs()[0].status == "finished"
    row = observer.rows[0]
    assert list(own) == observer.layers
    told = re.escape(re.findall("`([^`]*)`", case.read)[0]).replace("N", r"\d+")
    assert all(re.search(f"(^|\\.){told}$", name) for name in observer.layers)
    place = observer.selection.query[0]
    pooled = torch.stack([w.flatten(1, -3) if w.dim() == 4 else w[:, None] for w in own.values()])
    pooled = pooled[..., place, :].mean(dim=(0, 2)).mean(dim=0)
    np.testing.assert_allclose(row["attention"], pooled, atol=1e-6)
    assert row["train_loss"] == pytest.approx(loss, rel=1e-5)
    assert row["logit_gradient_mean"] > 0
    if observer.selection.informative:
        offset = observer.selection.offset or 0
        mass = pooled[[offset, offset + 2]].sum()
        assert row["mass_mean"] == pytest.approx(mass.item(), abs=1e-6)


def test_every_weight(case):
    model, batch = differ(case.make()), case.batch()
    own = weights_of(case, model, batch)
    layers = ["decoder.*SelfAttention"] if "T5" in case.title else None
    found = read_attention(model, lambda m: run_model(m, batch), layers=layers)
    own = {name: w if w.dim() == 4 else w[:, None] for name, w in own.items()}
    torch.testing.assert_close(found, own, atol=1e-6, rtol=1e-5)
    assert all(w.std() > 0.05 for w in found.values())


def test_training_is_the_same_watched_or_not(case, store):
    """Bit for bit: weights, and every generator of random numbers."""
    ends, batch = [], case.batch()
    for watched in (False, True):
        torch.manual_seed(0)
        model = differ(case.make()).train()
        options = eval(f"dict({case.options})", {"held_out": batch})
        observer = Observer(model, "run", every=1, store=store, **options)
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        train(case, model, batch, observer if watched else None, 3)
        drawn = [torch.rand(1), torch.tensor([random.random(), np.random.rand()])]
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()] + drawn))
    assert torch.equal(*ends)


def test_the_table_in_the_guide():
    assert render() in GUIDE.read_text()


@pytest.mark.parametrize("name", ["x-transformers-memory", "x-transformers-tokens", "peft-prefix"])
def test_extra_keys_are_refused_without_an_offset(name, store):
    """Observer and prior; at present lengths they would read the wrong positions."""
    case = CASES[name]
    pytest.importorskip(case.needs)
    model, batch = case.make(), case.batch()
    sentence = "looks at [89] positions, but the sequences have 6: .* Say offset=k"
    with pytest.raises(CaptureError, match=sentence):
        Observer(model, "run", query=-2, informative=[0, 2], store=store).measure(0, batch)
    prior = StructuralPrior(model, query=-2, informative=[0, 2])
    with prior:
        run_model(model, batch)
    with pytest.raises(CaptureError, match=sentence):
        prior.penalty(0)


def test_an_encoder_and_a_decoder_are_not_mixed(store):
    model, batch = CASES["t5"].make(), CASES["t5"].batch()
    with pytest.raises(CaptureError, match=r"decoder.block.1.layer.1.EncDecAttention"):
        Observer(model, "run", store=store).measure(0, batch)


def test_time_first_logits_where_batch_is_length(store):
    """Accuracy follows the examples, whichever axis they are on."""
    for name, turn in (("danielmamay", True), ("teddykoker", False)):
        torch.manual_seed(0)
        model = differ(CASES[name].make()).eval()
        given = torch.randint(0, styles.TOKENS, (styles.LENGTH, styles.LENGTH))
        with torch.no_grad():
            answer = model(given if turn else given.T.contiguous())[-1].argmax(dim=-1)
        batch = (given if turn else given.T.contiguous(), answer)
        row = Observer(model, name, store=store).measure(0, batch)
        assert row["train_accuracy"] == 1.0
        # The tokens themselves as labels: they are turned only where they come as (T, B).
        tokens = batch[0]
        loss = watch(model, f"{name} itself", store=store).measure(0, tokens)["train_loss"]
        with torch.no_grad():
            logits = model(tokens).transpose(0, 1)[:, :-1]
        labels = (tokens if turn else tokens.T)[:, 1:]
        own = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        assert loss == pytest.approx(own.item(), rel=1e-5)
    torch.manual_seed(0)
    model = differ(CASES["progress-measures"].make()).eval()
    with torch.no_grad():
        answer = model(given)[:, -1].argmax(dim=-1)
    assert Observer(model, "c", store=store).measure(0, (given, answer))["train_accuracy"] == 1.0
