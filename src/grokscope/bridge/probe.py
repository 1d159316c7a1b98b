"""What one batch shows: losses, right answers, attention at the query, and the task's gradient on
the scores behind it.

n = B * Q inputs (a query of an example each), L layers, H heads, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.capture import ReadModule, Recorder, check_rows, check_same
from grokscope.bridge.positions import Positions, check_visible
from grokscope.bridge.scoring import Score


@dataclass(frozen=True)
class Probe:
    """The numbers of one batch, free of the graph."""

    losses: Tensor | None  # (B,) or ()
    right: Tensor | None  # (B,)
    attention: Tensor  # (n, L*H, T)
    oracle: Tensor | None  # (n, T)
    gradient: Tensor | None  # (n, L*H, T), of each example's loss on the scores at its query


def choose_heads(weights: Tensor, heads: Sequence[int] | None) -> Tensor:  # (B, H, Q, T)
    if heads is None:
        return weights
    count = weights.shape[1]
    for head in heads:
        if not -count <= head < count:
            raise CaptureError(f"Head {head} was asked for, but there are {count}, from 0 on.")
    return weights[:, list(heads)]


def stack(layers: list[Tensor]) -> Tensor:  # L times (B, H, Q, T) -> (n, L*H, T)
    shapes = {tuple(layer.shape[2:]) for layer in layers}
    if len(shapes) > 1:
        raise CaptureError(
            f"The chosen layers look at different numbers of positions {sorted(shapes)}; name "
            "layers that read the same sequence."
        )
    return torch.cat(layers, dim=1).transpose(1, 2).flatten(0, 1)


def take_probe(
    model: nn.Module,
    batch: Any,
    score: Score,
    positions: Positions,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    read: ReadModule | None,
    gradient: bool,
    check: bool,
) -> Probe:
    """Run the model on a batch with its attention in the open. With `check`, once more with its own
    kernels: the losses must agree.

    The gradient is dL_x/da_t for the loss L_x of each example x and each score a_t at its query,
    from the weights' own: dL/da_t = alpha_t (g_t - sum_s alpha_s g_s), g = dL/dalpha. Like the
    lab's, it is the task's alone, free of any prior.
    """
    with torch.set_grad_enabled(gradient), Recorder(model, "explicit", read) as recorder:
        losses, right = score(model, batch)
    whole = recorder.weights(layers)  # (B, H, T, T) each
    if check and losses is not None:
        with torch.no_grad():
            check_same(score(model, batch)[0], losses)
    size, length = len(whole[0]), whole[0].shape[2]
    rows = positions.rows(batch, size, length, whole[0].device)

    def at_query(weights: Tensor) -> Tensor:  # (B, H, T, T) -> (B, H, Q, T)
        index = rows[:, None, :, None].expand(-1, weights.shape[1], -1, weights.shape[3])
        return choose_heads(torch.gather(weights, 2, index), heads)

    oracle = positions.oracle(batch, rows, whole[0].shape[3])
    slopes = None
    broken = losses is not None and not torch.isfinite(losses).all()
    asked = [at_query(weights.detach()) for weights in whole]
    if not broken:
        for weights in asked:
            check_rows(weights)
        if oracle is not None and check:
            check_visible(torch.cat(asked, dim=1), oracle, rows)
    reached = losses is not None and losses.requires_grad and all(w.requires_grad for w in whole)
    if losses is not None and reached:
        # A mean over examples is turned back into their sum: no score is shared among examples.
        total = losses.sum() if losses.dim() else losses * size
        found = torch.autograd.grad(total, whole, allow_unused=True)
        # Weights that the loss does not depend on are a copy of those in use: nothing is known.
        if all(part is not None for part in found):
            alpha, g = stack(asked), stack([at_query(part) for part in found])
            slopes = alpha * (g - (alpha * g).sum(dim=-1, keepdim=True))
    return Probe(
        losses=None if losses is None else losses.detach(),
        right=right,
        attention=stack(asked),
        oracle=None if oracle is None else oracle.flatten(0, 1),
        gradient=slopes,
    )
