"""The attention calls of a forward, by module path, and which of them are meant.

B examples, H heads, Q chosen rows, T positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from grokscope.bridge.calls import Call, CaptureError, find_hidden, normalise, take_rows

Layers = Sequence[int | str] | None


@dataclass(eq=False)
class Layer:
    """An attention call of a forward, in the order in which the model makes them."""

    path: str  # of the module that makes it
    key: tuple[str, int]  # the door, and how many came through it before
    sizes: tuple[int, int, int, int]  # examples, heads, queries, keys
    device: torch.device
    turn: int = 0  # which forward of that module
    name: str = ""  # the path, numbered where one module makes several calls
    call: Call | None = None
    own: Callable[..., Tensor] | None = None  # the model's own computation of it
    known: Tensor | None = None  # (B, H, T, T) or (B, T, T): weights that the model computes itself
    scores: Tensor | None = None  # what they are the softmax of
    rows: Tensor | None = None  # (B, Q): those that are explicit
    weights: Tensor | None = None  # (B, H, Q, T), or `known`: the loss can be differentiated by it

    def read(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # (B, Q) -> twice (B, H, Q, T)
        """Weights in float32 or wider, and where a mask hides a position."""
        if self.weights is not None and self.rows is not None:
            assert self.scores is not None
            return widen(self.weights), find_hidden(self.scores)
        if self.call is not None:
            scores = self.call.scores(rows)
            return normalise(scores), find_hidden(scores)
        assert self.known is not None
        weights = take_rows(with_heads(self.known), rows)
        hidden = weights == 0
        if self.scores is not None:
            hidden = find_hidden(take_rows(with_heads(self.scores), rows))
        return widen(weights), hidden


def with_heads(tensor: Tensor) -> Tensor:  # (B, H, T, T) or (B, T, T) -> (B, H, T, T)
    return tensor if tensor.dim() == 4 else tensor[:, None]


def widen(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


@dataclass(frozen=True)
class ReadModule:
    """Attention weights from a module of your own: `function(module, inputs, output)` is called
    after each forward of the modules whose dotted name ends in `name`, and returns the weights
    (B, H, T, T), or (B, T, T) for one head. The model must be seen to multiply them with values;
    `trusted` takes them as they are."""

    name: str
    function: Callable[[nn.Module, tuple[Any, ...], Any], Tensor]
    trusted: bool = False


def choose_layers(found: Sequence[Layer], layers: Layers, model: nn.Module) -> list[Layer]:
    """The calls that `layers` names, by number or by a part of their module path, in which * stands
    for anything; all if None."""
    if not found:
        raise CaptureError(
            f"No attention was seen in a forward of {type(model).__name__}: neither a fused kernel "
            "nor nn.MultiheadAttention nor the interface of transformers, nor a softmax over the "
            "last axis whose result is multiplied with values. Reach it with "
            "attention=ReadModule(name, function)."
        )
    names = ", ".join(layer.name for layer in found)
    by_hand = Counter(layer.turn for layer in found if layer.key[0] == "softmax")
    if layers is None:
        sides = {s for s in ("encoder", "decoder") for layer in found if s in layer.path}
        if len(sides) > 1:
            raise CaptureError(
                "The model has an encoder and a decoder, whose positions are not the same; name "
                f"the layers that you mean, for instance layers=['decoder']. There are: {names}."
            )
        chosen = list(found)
    else:
        chosen = []
        for asked in layers:
            if isinstance(asked, str):
                part, number = asked.partition("#")[::2]
                fits = [
                    layer
                    for layer in found
                    if fnmatchcase(f".{layer.path}.", f"*.{part}.*")
                    and (not number or layer.name.endswith(f"#{number}"))
                ]
                if not fits:
                    raise CaptureError(f"No attention is made in {asked!r}. There are: {names}.")
            else:
                fits = choose(found, [asked], "Layer", f": {names}")
            chosen += [layer for layer in fits if layer not in chosen]
        if any(isinstance(asked, int) or "#" in asked for asked in layers):
            return chosen
    for layer in chosen:
        if layer.key[0] == "softmax" and by_hand[layer.turn] > 1:
            same = ", ".join(
                f"{other.name} ({other.sizes[2]} × {other.sizes[3]})"
                for other in found
                if other.turn == layer.turn
            )
            raise CaptureError(
                f"More than one softmax of {layer.path} is multiplied with values: {same}. Say "
                "which you mean with layers=[...], by these names or by number."
            )
    return chosen


def choose(items: Sequence[Any], numbers: Sequence[int], kind: str, known: str = "") -> list[Any]:
    count = len(items)
    for number in numbers:
        if not -count <= number < count:
            raise CaptureError(
                f"{kind} {number} was asked for, but there are {count}, from 0{known}."
            )
    return [items[number] for number in numbers]
