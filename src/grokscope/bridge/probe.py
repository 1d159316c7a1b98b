"""A model on a batch: losses, right answers, attention at the query, and the task's gradient on the
scores behind it.

B examples, H heads, Q query positions, T positions, L layers; n = B * Q inputs (one query each).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grokscope.bridge.calls import CaptureError, take_rows
from grokscope.bridge.capture import Recorder
from grokscope.bridge.layers import Layer, with_heads
from grokscope.bridge.scoring import Layout, Score, check_examples, list_tensors, move, run_model
from grokscope.bridge.selection import Selection, check_attention, check_reach
from grokscope.measures.attention import measure_attention, measure_routing, structural_divergence


@dataclass(frozen=True)
class Probe:
    """The numbers of one batch, detached from the graph."""

    losses: Tensor | None  # (), or of the examples that have an answer
    right: Tensor | None  # of the same
    attention: Tensor  # (n, L*H, T)
    oracle: Tensor | None  # (n, T)
    gradient: Tensor | None  # (n, L*H, T), of each example's loss on the scores at its query
    problem: str = ""  # why the gradient is missing, if it failed
    unknown: str = ""  # why there is none, if there cannot be one


def take_probe(
    model: nn.Module,
    batch: Any,
    selection: Selection,
    chosen: Sequence[Layer],
    layout: Layout,
    score: Score = None,
    gradient: bool = True,
) -> Probe:
    """Run the model on a batch with the chosen rows of the chosen layers made explicit; what each
    call returns with them is proven to be the model's own.

    The gradient is dL_x/da_t for the loss L_x of each example x and each score a_t at its query,
    derived from that on the weights: dL/da_t = alpha_t (g_t - sum_s alpha_s g_s), g = dL/dalpha.
    As in the lab, it is the gradient of the task alone, without any prior.
    """
    batch = move(batch, model)

    def find_rows(layer: Layer) -> Tensor:
        return selection.find_rows(batch, layer, [*recorder.inputs, *list_tensors(batch)])

    read = selection.attention
    recorder = Recorder(
        model, "explicit", read, rows=find_rows, chosen=chosen, gradient=gradient and read is None
    )
    with torch.set_grad_enabled(gradient and read is not None):
        with recorder:
            result = (score or run_model)(model, batch)
        keys = [layer.key for layer in chosen]
        layers = [layer for layer in recorder.layers if layer.key in keys]
        if [layer.path for layer in layers] != [layer.path for layer in chosen]:
            raise CaptureError("The model does not attend in the layers in which it did before.")
        losses, right = result if score else layout.score(model, batch, *result, layers[0])
        if score and losses is not None and losses.dim():
            check_examples(layers[0], len(losses))
        return _read_probe(batch, selection, layers, losses, right, find_rows)


def _read_probe(
    batch: Any,
    selection: Selection,
    layers: Sequence[Layer],
    losses: Tensor | None,
    right: Tensor | None,
    find_rows: Callable[[Layer], Tensor],
) -> Probe:
    rows = find_rows(layers[0])
    read = [tuple(map(selection.choose_heads, layer.read(rows))) for layer in layers]
    names = [layer.path for layer in layers]
    attention = _stack([weights.detach() for weights, _ in read], names)  # (B, Q, L*H, T)
    oracle = selection.find_oracle(batch, rows, attention.shape[-1])
    if losses is None or torch.isfinite(losses).all():  # else the run is about to be failed
        check_attention(attention)
        check_reach(_stack([hidden for _, hidden in read], names).all(dim=2), oracle, rows)
    slopes, problem, unknown = None, "", ""
    weights: list[Any] = [layer.weights for layer in layers]
    if losses is not None and losses.requires_grad and all(w.requires_grad for w in weights):
        # A mean over examples is turned back into a sum: examples share no scores.
        total = losses.sum() if losses.dim() else losses * len(rows)
        try:
            found = torch.autograd.grad(total, weights, allow_unused=True)
        except RuntimeError as error:  # checkpoints that are computed again, functional transforms
            found, problem = (None,), f"The gradient failed: {error}"
        if all(part is not None for part in found):
            g = _stack([selection.choose_heads(_at(p, rows)) for p in found], names).float()
            slopes = (attention * (g - (attention * g).sum(dim=-1, keepdim=True))).flatten(0, 1)
        elif not problem:
            unknown = "the loss does not depend on the weights that are read, which are a copy"
    elif losses is not None:
        unknown = "the model computes without gradients (no_grad, or checkpoints)"
    losses = None if losses is None else losses.detach()
    oracle = None if oracle is None else oracle.flatten(0, 1)
    return Probe(losses, right, attention.flatten(0, 1), oracle, slopes, problem, unknown)


def _at(slope: Tensor, rows: Tensor) -> Tensor:  # (B, Q) -> (B, H, Q, T)
    """A gradient at the rows; where weights are a module's own, it comes for all of them."""
    slope = with_heads(slope)
    return slope if slope.shape[2] == rows.shape[1] else take_rows(slope, rows)


def measure_probes(probes: Sequence[Probe], threshold: float) -> dict[str, Any]:
    """Every measure of the probes of the training batch and, if there is one, the test batch."""
    row: dict[str, Any] = {}
    for side, probe in zip(("train", "test"), probes, strict=False):
        if probe.losses is not None:
            row[f"{side}_loss"] = probe.losses.float().mean()
        if probe.right is not None:
            row[f"{side}_accuracy"] = probe.right.float().mean()
    attention = _join([probe.attention for probe in probes])
    oracles = [probe.oracle for probe in probes if probe.oracle is not None]
    if oracles:
        oracle = _join(oracles)
        row |= measure_routing(attention, oracle, len(oracles[0]), threshold)
        row["divergence_max"] = structural_divergence(attention.mean(dim=1), oracle).max()
    else:
        row |= measure_attention(attention)
    row["logit_variance"] = visible_variance(attention)
    if probes[0].gradient is not None:
        size = probes[0].gradient.abs()
        row |= {"logit_gradient_mean": size.mean(), "logit_gradient_max": size.max()}
    return row


def visible_variance(attention: Tensor) -> Tensor:  # (n, H, T) -> ()
    """Variance of the scores over the positions that a query sees; the lab's `logit_variance` is
    over all positions. The softmax gives the scores up to a constant, which cancels."""
    seen = attention > 0
    count = seen.sum(dim=-1, keepdim=True)
    scores = torch.where(seen, attention, 1.0).log()
    centred = torch.where(seen, scores - scores.sum(dim=-1, keepdim=True) / count, 0.0)
    return ((centred**2).sum(dim=-1) / count[..., 0]).mean()


def _stack(layers: list[Tensor], names: list[str]) -> Tensor:
    """L times (B, H, Q, T) -> (B, Q, L*H, T)."""
    if len({layer.shape[2:] for layer in layers}) > 1:
        told = ", ".join(f"{n} ({la.shape[3]})" for n, la in zip(names, layers, strict=True))
        raise CaptureError(
            f"The chosen layers look at different numbers of positions: {told}. Choose layers that "
            "read the same sequence."
        )
    return torch.cat(layers, dim=1).transpose(1, 2)


def _join(parts: list[Tensor]) -> Tensor:  # (n, ..., T)
    """Batches together, shorter sequences padded with positions that get no attention."""
    longest = max(part.shape[-1] for part in parts)
    if len({part.shape[1:-1] for part in parts}) > 1:
        raise CaptureError("The training and test batches give different numbers of heads.")
    return torch.cat([F.pad(part, (0, longest - part.shape[-1])) for part in parts])
