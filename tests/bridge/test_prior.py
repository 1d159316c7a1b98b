"""The prior: the lab's penalties and schedules, with gradients that reach the user's parameters."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import jax
import jax.numpy as jnp
import numpy as np
from small_models import NanoGPT

from grokscope import priors
from grokscope.bridge import CaptureError, ReadModule, StructuralPrior
from grokscope.bridge.selection import _count_from_front
from grokscope.errors import SpecError
from grokscope.measures import attention as on_attention
from grokscope.models.layers import normalise


@pytest.mark.parametrize("kind", priors.PENALTIES)
def test_gradients_agree_with_the_lab(kind):
    """One penalty, two libraries: JAX against PyTorch, to 1e-6."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20, 3, 5)).astype(np.float32)
    target = np.tile(np.float32([0.5, 0, 0.5, 0, 0]), (20, 1, 1))
    penalty = priors.PENALTIES[kind]

    def in_jax(scores):
        return penalty(normalise(scores, "softmax"), jnp.asarray(target)).mean()

    value, slope = jax.value_and_grad(in_jax)(jnp.asarray(scores))
    theirs = torch.tensor(scores, requires_grad=True)
    mine = penalty(torch.softmax(theirs, dim=-1), torch.tensor(target)).mean()
    mine.backward()
    np.testing.assert_allclose(mine.detach(), value, atol=1e-6)
    np.testing.assert_allclose(theirs.grad, slope, atol=1e-6)


def test_measures_agree_with_the_lab():
    """The same rows of numbers from NumPy, JAX and PyTorch."""
    rng = np.random.default_rng(0)
    attention = np.asarray(normalise(jnp.asarray(rng.normal(size=(40, 2, 6))), "softmax"))
    oracle = np.tile(np.float32([0.5, 0, 0.5, 0, 0, 0]), (40, 1))
    rows = [
        on_attention.measure_routing(convert(attention), convert(oracle), 25, 0.25)
        for convert in (np.asarray, jnp.asarray, torch.tensor)
    ]
    for name in rows[0]:
        for row in rows[1:]:
            np.testing.assert_allclose(row[name], rows[0][name], atol=1e-6, err_msg=name)
    weakest = attention.mean(axis=1)[:, [0, 2]].min(axis=1)
    for name, share in (("weakest_q01", 0.01), ("weakest_q10", 0.1), ("weakest_median", 0.5)):
        np.testing.assert_allclose(rows[0][name], np.quantile(weakest, share), rtol=1e-5)


def penalty_of(model, batch, **options):
    prior = StructuralPrior(model, query=-1, **{"informative": [0, 2], **options})
    with prior:
        model(*batch)
    return prior.penalty(0, batch)


@pytest.mark.parametrize("kind", ["oracle", "adversarial", "entropy", "sparsity"])
def test_gradient_by_finite_differences(make_nano, batch, kind):
    """Through the model's own forward, in double precision."""
    model = make_nano().double().eval()
    weight = model.attn[0].c_attn.weight
    (slope,) = torch.autograd.grad(penalty_of(model, batch, kind=kind), weight)
    rng = np.random.default_rng(0)
    step = 1e-5
    for _ in range(6):
        place = tuple(int(rng.integers(size)) for size in weight.shape)
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                weight[place] += sign * step
                ends.append(penalty_of(model, batch, kind=kind).item())
                weight[place] -= sign * step
        measured = (ends[0] - ends[1]) / (2 * step)
        assert slope[place].item() == pytest.approx(measured, rel=1e-5, abs=1e-9)


def test_value_is_the_mean_divergence(make_gpt2, hf_batch):
    """Against the attention that the model itself reports."""
    eager = make_gpt2("eager").eval()
    own = torch.stack(eager(**hf_batch, output_attentions=True).attentions)  # (L, B, H, T, T)
    model = make_gpt2("sdpa").eval()
    prior = StructuralPrior(model, query=[4, -1], informative=[0, 2], layers=[1], heads=[0])
    expected = -(0.5 * own[1, :, 0][:, [4, 8]][..., [0, 2]].mul(2).log()).sum(dim=-1).mean()
    torch.testing.assert_close(prior.penalty(0, hf_batch), expected, atol=1e-5, rtol=0)
    with prior:
        model(**hf_batch)
    torch.testing.assert_close(prior.penalty(0), expected, atol=1e-5, rtol=0)


def test_schedules_are_the_labs(make_nano, batch):
    model = make_nano()
    prior = StructuralPrior(model, informative=[0, 2], strength=2.0, start=10, end=20)
    assert [prior.strength(step) for step in (0, 9, 10, 15, 20, 30)] == [0, 0, 2, 1, 0, 0]
    assert prior.penalty(5) == 0  # off: no forward is needed
    with pytest.raises(SpecError, match="No forward was recorded"):
        prior.penalty(10)
    assert prior.penalty(10, batch) > prior.penalty(19, batch) > 0


def test_positions_per_example(make_nano, batch):
    """A function of the batch; each example by itself must give the mean."""
    model = make_nano().eval()
    place = torch.tensor([[0, 2], [1, 3], [0, 5], [2, 4], [1, 2], [0, 1]])
    together = penalty_of(model, batch, informative=lambda given: place)
    alone = [
        penalty_of(model, (batch[0][i : i + 1], batch[1][i : i + 1]), informative=row.tolist())
        for i, row in enumerate(place)
    ]
    torch.testing.assert_close(together, torch.stack(alone).mean(), atol=1e-6, rtol=0)
    mask = torch.zeros(6, 9, dtype=torch.bool).scatter(1, place, True)
    by_mask = penalty_of(model, batch, informative=lambda given: mask)
    torch.testing.assert_close(by_mask, together)
    posterior = penalty_of(model, batch, kind="teacher", informative=lambda given: mask / 2)
    torch.testing.assert_close(posterior, together)


def test_it_moves_attention(make_nano, batch):
    model = make_nano(fused=False)
    read = ReadModule("attn_dropout", lambda module, inputs, output: inputs[0])
    prior = StructuralPrior(model, informative=[0, 2], attention=read)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    values = []
    for step in range(40):
        with prior:
            _, loss = model(*batch)
        optimiser.zero_grad()
        (loss + prior.penalty(step)).backward()
        optimiser.step()
        values.append(prior.last.item())
    assert values[-1] < 0.1 * values[0]


def test_compiled_models(make_nano, batch):
    model = make_nano().eval()
    expected = penalty_of(model, batch)
    compiled = torch.compile(model, backend="eager")
    prior = StructuralPrior(compiled, informative=[0, 2])
    with pytest.raises(CaptureError, match="nothing can be recorded in compiled code"), prior:
        pass
    torch.testing.assert_close(prior.penalty(0, batch), expected)


def test_mixed_precision(make_nano, batch):
    """Under autocast and in bfloat16 the penalty is computed in float32."""
    model = make_nano().eval()
    expected = penalty_of(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = penalty_of(model, batch)
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(expected.item(), rel=0.05)
    half = penalty_of(model.bfloat16(), batch)
    assert half.item() == pytest.approx(expected.item(), rel=0.05)
    half.backward()
    assert torch.isfinite(model.attn[0].c_attn.weight.grad).all()


def test_bad_input_gets_a_sentence(make_nano, batch):
    model = make_nano()
    with pytest.raises(SpecError, match=r"'orcale' is unknown. Did you mean oracle"):
        StructuralPrior(model, kind="orcale", informative=[0])
    with pytest.raises(SpecError, match="'custom' is unknown"):
        StructuralPrior(model, kind="custom", informative=[0])
    with pytest.raises(SpecError, match=r"prior\.strength is -1\.0; it must be 0 or more"):
        StructuralPrior(model, informative=[0], strength=-1)
    with pytest.raises(SpecError, match="needs to know where to look"):
        StructuralPrior(model)
    with pytest.raises(SpecError, match=r"Give yours to grokscope\.tasks\.infer_posterior"):
        StructuralPrior(model, kind="inferred")
    with pytest.raises(SpecError, match=r"prior\.end is 3; it must be 0 \(constant\) or later"):
        StructuralPrior(model, informative=[0], start=5, end=3)
    for options, sentence in (
        ({"informative": [0, 40]}, "informative position 40 is out of range: .* 9 positions"),
        ({"layers": [5]}, "Layer 5 was asked for, but there are 2"),
        ({"heads": [2]}, "Head 2 was asked for, but there are 2"),
        ({"informative": lambda given: torch.ones(6, 9)}, "do not sum to one"),
        ({"informative": lambda given: torch.zeros(6, 9) > 0}, "names no position"),
        (
            {"informative": lambda given: torch.zeros(4, 2).long()},
            r"returned shape \(4, 2\); .* \(6, k\)",
        ),
    ):
        with pytest.raises(CaptureError, match=sentence):
            penalty_of(model, batch, **options)
    prior = StructuralPrior(model, query=12, informative=[0])
    with pytest.raises(CaptureError, match="query position 12 is out of range"):
        prior.penalty(0, batch)
    with pytest.raises(CaptureError, match="there is 1 query position, 0"):
        _count_from_front(torch.tensor([[3]]), 1, "query")
    ahead = StructuralPrior(model, query=2, informative=[0, 5])
    with pytest.raises(CaptureError, match="position 5 comes after the query position 2"):
        ahead.penalty(0, batch)
    frozen = make_nano().requires_grad_(False)
    with pytest.raises(CaptureError, match="No gradient flows"):
        StructuralPrior(frozen, informative=[0]).penalty(0, batch)
    doubled = ReadModule("attn_dropout", lambda module, inputs, output: 2 * inputs[0])
    with pytest.raises(CaptureError, match="not multiplied with values anywhere"):
        penalty_of(make_nano(fused=False), batch, attention=doubled)
    trusted = dataclasses.replace(doubled, trusted=True)
    with pytest.raises(CaptureError, match="sums to 2 in some row, not to one"):
        penalty_of(make_nano(fused=False), batch, attention=trusted)
    broken = ReadModule("attn_dropout", lambda m, inputs, output: inputs[0] * torch.nan, True)
    with pytest.raises(CaptureError, match="sums to nan in some row"):
        penalty_of(make_nano(fused=False), batch, attention=broken)
    with pytest.raises(CaptureError, match="whole numbers"):
        StructuralPrior(model, informative=[0.5])


def test_mixed_precision_ends_before_the_penalty(batch):
    """Norms by hand leave queries and keys in float32 beside values in bfloat16."""

    class Normed(NanoGPT):
        def __init__(self):
            super().__init__(layers=1)
            self.qkv = torch.nn.Linear(16, 48)

        def forward(self, idx, targets=None):
            parts = self.qkv(self.wte(idx)).chunk(3, dim=2)
            q, k, v = (part.unflatten(2, (2, 8)).transpose(1, 2) for part in parts)
            q, k = (part.float() / part.float().norm(dim=-1, keepdim=True) for part in (q, k))
            self.kinds = q.dtype, v.dtype
            x = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return self.head(x.transpose(1, 2).flatten(2))

    torch.manual_seed(0)
    model = Normed()
    prior = StructuralPrior(model, informative=[0, 2])
    with torch.autocast("cpu", torch.bfloat16), prior:
        model(batch[0])
    assert model.kinds == (torch.float32, torch.bfloat16)
    outside = prior.penalty(0)
    outside.backward()
    assert model.qkv.weight.grad.abs().sum() > 0
    assert outside.item() == pytest.approx(prior.penalty(1, batch[0]).item(), rel=0.02)
