"""Which positions ask, which are informative, and whether attention can be what it is read as.

B examples, H heads, Q query positions, T positions, k informative ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.layers import Layer, Layers, ReadModule, choose
from grokscope.spec import PER_EXAMPLE, WatchSpec

Query = int | Iterable[int] | Callable[[Any], Tensor]
Informative = Query | None
SUM_TOLERANCE = 2e-3  # of a row of probabilities; half precision rounds to a thousandth


@dataclass(frozen=True)
class Selection:
    """Query and informative positions, and the layers and heads to read; None for all.

    A `query` function returns integers (B,) or (B, Q). An `informative` function returns integer
    positions (B, k), a mask (B, T) or (B, Q, T), or a whole posterior of that shape in floats that
    sum to one. Negative positions count from the end. Without `informative` there is no oracle.
    """

    query: Query = -1
    informative: Informative = None
    layers: Layers = None
    heads: Sequence[int] | None = None
    attention: ReadModule | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        for name in ("query", "informative"):
            value = getattr(self, name)
            if not callable(value) and (name == "query" or value is not None):
                object.__setattr__(self, name, _check_positions(name, value))
        if isinstance(self.layers, str | int):
            object.__setattr__(self, "layers", (self.layers,))

    @property
    def spec(self) -> WatchSpec:
        """As text, for the spec of a run."""
        texts = {
            name: PER_EXAMPLE if callable(value) else ", ".join(map(str, value))
            for name in ("query", "informative", "layers", "heads")
            if (value := getattr(self, name)) is not None
        }
        return WatchSpec(**texts, offset=self.offset or 0)

    def find_rows(self, batch: Any, layer: Layer, inputs: Sequence[Any]) -> Tensor:
        """Query positions (B, Q) of each example, counted from the front. `inputs` are tensors
        that show how long the sequences are."""
        size, _, queries, keys = layer.sizes
        lengths = {n for part in inputs for n in _find_lengths(part, size)}
        if not lengths:
            _check_groups(layer, inputs)
        extra = keys not in lengths if lengths else queries not in (1, keys)
        if self.offset is None and extra:
            told = f"the sequences have {min(lengths)}" if lengths else f"asks from {queries}"
            raise CaptureError(
                f"{layer.path} looks at {keys} positions, but {told}: some keys (memory, a prefix, "
                "a class token) are no positions of yours. Say offset=k, the number of them that "
                "stand before your position 0; it is 0 if they stand at the end."
            )
        if lengths and (self.offset or 0) > (most := max(0, keys - min(lengths))):
            raise CaptureError(
                f"offset is {self.offset}, but {layer.path} looks at {keys} positions, and the "
                f"sequences have {min(lengths)}: at most {most} can stand before your position 0."
            )
        rows = _evaluate(self.query, batch, size, layer.device).long()
        rows = rows[:, None] if rows.dim() == 1 else rows
        if rows.dim() != 2 or len(rows) != size:
            raise CaptureError(
                f"The query function returned shape {tuple(rows.shape)} for {size} examples; it "
                "must return one position, or the same number of positions, for each."
            )
        shift = (self.offset or 0) if queries == keys else 0
        return _count_from_front(rows, queries, "query", shift)

    def choose_heads(self, weights: Tensor) -> Tensor:  # (B, H, Q, T)
        if self.heads is None:
            return weights
        return torch.stack(choose(weights.unbind(dim=1), self.heads, "Head"), dim=1)

    def find_oracle(self, batch: Any, rows: Tensor, length: int) -> Tensor | None:
        """The posterior over positions (B, Q, T) for each query: 1/k on the informative ones."""
        if self.informative is None:
            return None
        (size, asked), shift = rows.shape, self.offset or 0
        given = _evaluate(self.informative, batch, size, rows.device)
        shape = tuple(given.shape)
        if len(given) == size and given.dtype != torch.bool and not given.dtype.is_floating_point:
            places = given.reshape(size, -1).long()
            places = _count_from_front(places, length, "informative", shift)
            empty = torch.zeros(size, length, dtype=torch.bool, device=rows.device)
            given, shift = empty.scatter(1, places, True), 0  # a place named twice counts once
        given = given[:, None] if given.dim() == 2 else given
        allowed = given.dim() == 3 and len(given) == size and given.shape[1] in (1, asked)
        if not allowed or given.shape[2] + shift > length:
            raise CaptureError(
                f"The informative function returned shape {shape}; positions must be ({size}, k), "
                f"masks and posteriors ({size}, {length}) or ({size}, {asked}, {length})."
            )
        given = F.pad(given, (shift, length - shift - given.shape[2]))
        if given.dtype == torch.bool:
            given = given / given.sum(dim=-1, keepdim=True)  # nan, if there is none
        if not torch.isfinite(given).all() or ((given.sum(dim=-1) - 1).abs() > 1e-3).any():
            raise CaptureError(
                "The informative function names no position in some example, or returned "
                "probabilities that do not sum to one; return positions as integers, a mask of "
                "truth values, or a posterior."
            )
        return given.float().expand(size, asked, length)


def _find_lengths(tensor: Any, size: int) -> set[int]:
    """Positions of whole-number (B, T) or (T, B), or of (B, T, d) or (T, B, d)."""
    if not isinstance(tensor, Tensor) or tensor.dim() not in (2, 3):
        return set()
    if tensor.dim() == 2 and tensor.dtype.is_floating_point:
        return set()  # features, perhaps
    first, second = tensor.shape[:2]
    return {second} if first == size else {first} if second == size else set()


def _check_groups(layer: Layer, inputs: Sequence[Any]) -> None:
    """Where heads and examples share an axis (B * H, T, T), neither can be told from the other."""
    size, heads, _, keys = layer.sizes
    for part in inputs:
        for examples in (1, *part.shape[:2]) if heads == 1 and part.dim() in (2, 3) else ():
            if examples > 1 and size % examples == 0 and keys in _find_lengths(part, examples):
                raise CaptureError(
                    f"{layer.path} attends in {size} groups, but there are {examples} examples: "
                    "examples and heads share an axis there. Name them with "
                    "attention=ReadModule, whose function returns the weights as (batch, heads, "
                    "positions, positions)."
                )


def _check_positions(name: str, values: Any) -> tuple[int, ...]:
    listed = tuple(values) if isinstance(values, Iterable) else (values,)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in listed)
    if not listed or not whole or len(set(listed)) < len(listed):
        raise CaptureError(
            f"{name} is {values!r}; give distinct whole numbers, or a function of the batch."
        )
    return listed


def _evaluate(positions: Any, batch: Any, size: int, device: torch.device) -> Tensor:
    if callable(positions):
        return torch.as_tensor(positions(batch), device=device)
    return torch.tensor(positions, device=device).expand(size, -1)


def _count_from_front(places: Tensor, length: int, name: str, shift: int = 0) -> Tensor:
    wrong = (places < -length) | (places >= length - shift)
    if wrong.any():
        count = length - shift
        there = f"are {count} positions, 0 to {count - 1} (or -{count} to -1 from the end)"
        raise CaptureError(
            f"The {name} position {int(places[wrong][0])} is out of range: in the sequences there "
            f"{there if count > 1 else f'is 1 {name} position, 0'}."
        )
    return torch.where(places < 0, places + length, places + shift)


def check_attention(weights: Tensor) -> None:  # (..., T)
    """Attention must be finite, not negative and sum to one."""
    weights = weights.detach()
    total = weights.sum(dim=-1)
    worst = total.flatten()[(total - 1).abs().argmax()].item()  # nan, if there is one
    if not (abs(worst - 1) <= SUM_TOLERANCE and weights.min() >= -SUM_TOLERANCE):
        raise CaptureError(
            f"Attention at the query sums to {worst:.4g} in some row, not to one. If that is not "
            "finite, the model's weights or inputs are broken; if the query is padding, name other "
            "positions; a ReadModule must return weights after softmax and before dropout."
        )


def check_reach(hidden: Tensor, oracle: Tensor | None, rows: Tensor) -> None:
    """No informative position of the oracle (B, Q, T) may be hidden (B, Q, T) from its query
    (B, Q): the divergence would be infinite, and no training could lower it."""
    if oracle is not None and (lost := hidden & (oracle > 0)).any():
        example, query, place = lost.nonzero()[0].tolist()
        row = int(rows[example, query])
        why = "the model never looks ahead" if place > row else "a window or padding hides it"
        order = "comes after" if place > row else "cannot be seen from"
        raise CaptureError(
            f"The informative position {place} {order} the query position {row} in example "
            f"{example}: {why}. Name another query, other positions, or layers that see them."
        )
