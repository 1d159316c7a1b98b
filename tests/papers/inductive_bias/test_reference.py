"""The model and its probes against PyTorch's own layers, in every placement."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from grokscope import models
from grokscope.models.layers import normalise
from grokscope.papers.inductive_bias import probes
from grokscope.papers.inductive_bias.places import PLACES
from grokscope.problems.routing import cross_entropy

F = torch.nn.functional


class Reference(nn.Module):
    """One block of nn.MultiheadAttention and nn.Linear, everything at every position."""

    def __init__(self, run, norm=nn.LayerNorm):
        super().__init__()
        d, m = run.shape.width, run.shape.hidden
        self.place, self.scale = run.spec.model.norm.split("+"), run.spec.model.readout_scale
        self.embed = nn.Embedding(run.shape.vocabulary, d)
        self.position = nn.Parameter(torch.empty(3, d))
        self.attention = nn.MultiheadAttention(d, run.shape.heads, bias=False, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(d, m), nn.Linear(m, d)
        self.ln1, self.ln2 = norm(d, eps=0.0), norm(d, eps=0.0)
        self.unembed = nn.Parameter(torch.empty(d, run.shape.classes))

    def weights(self, run):
        """(parameter, name of ours, is it transposed?), in pairs; the packed block is three."""
        block = "block0."
        pairs = [
            (self.embed.weight, "embedding", False),
            (self.position, "position", False),
            (self.unembed, "unembedding", False),
            (self.attention.out_proj.weight, f"{block}output", True),
            (self.fc1.weight, f"{block}hidden", True),
            (self.fc1.bias, f"{block}hidden_bias", False),
            (self.fc2.weight, f"{block}readout", True),
            (self.fc2.bias, f"{block}readout_bias", False),
        ]
        for layer, places in (
            (self.ln1, ("attention", "query_key", "value")),
            (self.ln2, ("mlp",)),
        ):
            for place in set(places) & set(self.place):
                pairs.append((layer.weight, f"{block}{place}_gain", False))
                if getattr(layer, "bias", None) is not None:
                    pairs.append((layer.bias, f"{block}{place}_bias", False))
        return pairs

    def load(self, run, weights):
        with torch.no_grad():
            for parameter, name, turned in self.weights(run):
                array = torch.tensor(weights[name])
                parameter.copy_(array.T if turned else array)
            packed = [torch.tensor(weights[f"block0.{n}"]).T for n in ("query", "key", "value")]
            self.attention.in_proj_weight.copy_(torch.cat(packed))
        return self

    def gradients(self, run):
        found = {n: (p.grad.T if turned else p.grad) for p, n, turned in self.weights(run)}
        packed = self.attention.in_proj_weight.grad.chunk(3)
        return found | {
            f"block0.{n}": g.T for n, g in zip(("query", "key", "value"), packed, strict=True)
        }

    def forward(self, tokens, rescale=lambda v: v, bare=False, average=True):
        place = [] if bare else self.place
        x = self.embed(tokens) + self.position
        normed = self.ln1(x)
        asked = normed if {"attention", "query_key"} & set(place) else x
        read = normed if {"attention", "value"} & set(place) else x
        mixed, weights = self.attention(asked, asked, read, average_attn_weights=average)
        y = x + mixed
        v = rescale(y)
        z = y + self.fc2(F.gelu(self.fc1(self.ln2(v) if "mlp" in place else v)))
        return self.scale * (z[:, -1] @ self.unembed), weights


def tokens_of(run):
    return run.data.tokens[run.data.train], run.data.labels[run.data.train]


CASES = [(place, "layer") for place in PLACES] + [("M", "rms"), ("M+A*", "rms")]


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_loss_and_gradients(small, place, kind):
    run = small(place, **{"model.norm_kind": kind})
    norm = nn.LayerNorm if kind == "layer" else nn.RMSNorm
    weights, (tokens, labels) = run.weights(100), tokens_of(run)
    theirs = Reference(run, norm).load(run, weights)
    loss = F.cross_entropy(theirs(torch.tensor(tokens))[0].double(), torch.tensor(labels).long())
    loss.backward()
    attend, numbers = partial(normalise, kind="softmax"), models.numbers_of(run.spec.model)

    def ours(params):
        response = models.respond(params, jnp.asarray(tokens), run.shape, attend, numbers)
        return cross_entropy(response.logits[:, 0], jnp.asarray(labels)).mean()

    params = {name: jnp.asarray(array) for name, array in weights.items()}
    value, slopes = jax.jit(jax.value_and_grad(ours))(params)
    assert float(value) == pytest.approx(loss.item(), rel=1e-5)
    wanted = theirs.gradients(run)
    assert wanted.keys() == slopes.keys()
    largest = max(float(np.abs(slope).max()) for slope in slopes.values())
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, wanted[name], atol=2e-5 * largest, err_msg=name)


FORMS = {
    "unit": lambda v: F.normalize(v, dim=-1),
    "mean": lambda v: F.normalize(v, dim=-1) * v.norm(dim=-1, keepdim=True).mean(0, keepdim=True),
    "global": lambda v: v / v.norm(dim=-1, keepdim=True).mean(0, keepdim=True),
}


@pytest.mark.parametrize("place", ["no LN", "A^v", "M"])
def test_probes_of_scale(small, place):
    run = small(place)
    tokens, labels = (torch.tensor(array) for array in tokens_of(run))
    theirs = Reference(run).load(run, run.weights(100))
    found = probes.scale_removed(run, 100)

    def expected(rescale=lambda v: v, bare=False):
        with torch.no_grad():
            logits, _ = theirs(tokens, rescale, bare)
            loss = F.cross_entropy(logits, labels.long()).item()
            return loss, (logits.argmax(-1) == labels).double().mean().item()

    views = {"plain": expected(), "authors": expected(FORMS["unit"], bare=True)}
    views |= {name: expected(rescale) for name, rescale in FORMS.items()}
    for name, (loss, accuracy) in views.items():
        assert found[f"sr_{name}_loss"] == pytest.approx(loss, rel=1e-4), name
        assert found[f"sr_{name}_accuracy"] == pytest.approx(accuracy, abs=0.02), name
    if place == "M":  # a norm before the MLP undoes any rescaling
        for name in FORMS:
            assert found[f"sr_{name}_loss"] == pytest.approx(views["plain"][0], rel=1e-4)
    if place == "no LN":
        assert views["authors"] == views["unit"]


@pytest.mark.parametrize("place", ["no LN", "A^qk"])
def test_entropies(small, place):
    """PyTorch's weights are the mean over heads by default: that is what the authors took."""
    run = small(place)
    theirs = Reference(run).load(run, run.weights(100))
    tokens = torch.tensor(run.data.tokens)
    found = probes.attention_entropy(run, 100)
    with torch.no_grad():
        mean, each = (theirs(tokens, average=average)[1] for average in (True, False))

    def entropy(weights):
        return -(weights * weights.log()).sum(-1).mean().item()

    assert found["entropy_authors"] == pytest.approx(entropy(mean), rel=1e-5)
    assert found["entropy_at_query"] == pytest.approx(entropy(each[:, :, -1]), rel=1e-5)


def test_first_step_is_torchs_adamw(small, tmp_path):
    import grokscope as gs
    from grokscope.engine.program import make_member, make_program
    from grokscope.papers.inductive_bias.quantities import _stepper

    run = small("M+A*")
    with jax.enable_x64(True):
        form, member = make_member(run.spec, gs.Store(tmp_path))
        state = make_program(form).init(member)
        gradient, update = _stepper(form)(state, member)
        weights = {name: np.array(array) for name, array in state.params.items()}
    theirs = Reference(run).load(run, weights)
    before = [p.detach().clone() for p in theirs.parameters()]
    optimiser = torch.optim.AdamW(theirs.parameters(), lr=1e-2, betas=(0.9, 0.98), weight_decay=1.0)
    tokens, labels = tokens_of(run)
    logits, _ = theirs(torch.tensor(tokens))
    F.cross_entropy(logits.double(), torch.tensor(labels).long()).backward()
    norm = torch.sqrt(sum((p.grad**2).sum() for p in theirs.parameters() if p.grad is not None))
    optimiser.step()
    moves = zip(theirs.parameters(), before, strict=True)
    change = torch.sqrt(sum(((p - old) ** 2).sum() for p, old in moves))
    assert float(gradient) == pytest.approx(norm.item(), rel=1e-4)
    assert float(update) == pytest.approx(change.item(), rel=1e-3)
