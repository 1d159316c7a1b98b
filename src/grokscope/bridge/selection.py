"""Which attention is read, and where it ought to go.

B examples, H heads, Q query positions, T positions, k informative ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.capture import ReadModule, Recorder, choose
from grokscope.spec import PER_EXAMPLE, WatchSpec

Query = int | Iterable[int] | Callable[[Any], Tensor]
Informative = Iterable[int] | Callable[[Any], Tensor] | None
SUM_TOLERANCE = 2e-3  # of a row of probabilities; half precision rounds to a thousandth
Layer = tuple[Tensor, Tensor | None]  # weights (B, H, Q, T), oracle (B, Q, T)


@dataclass(frozen=True)
class Selection:
    """Query and informative positions, and the layers and heads to read; None for all.

    A `query` function returns integers (B,) or (B, Q). An `informative` function returns integer
    positions (B, k), a mask (B, T) or (B, Q, T), or a whole posterior of that shape in floats that
    sum to one. Negative positions count from the end. Without `informative` there is no oracle.
    """

    query: Query = -1
    informative: Informative = None
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    attention: ReadModule | None = None

    def __post_init__(self) -> None:
        if isinstance(self.query, int):
            object.__setattr__(self, "query", (self.query,))
        for name in ("query", "informative"):
            value = getattr(self, name)
            if not callable(value) and (name == "query" or value is not None):
                object.__setattr__(self, name, _check_positions(name, value))

    @property
    def spec(self) -> WatchSpec:
        """As text, for the spec of a run."""
        given = ((item.name, getattr(self, item.name)) for item in fields(WatchSpec))
        texts = {
            name: PER_EXAMPLE if callable(value) else ", ".join(map(str, value))
            for name, value in given
            if value is not None
        }
        return WatchSpec(**texts)

    def read(self, recorder: Recorder, batch: Any) -> tuple[Tensor, list[Layer]]:
        """The query positions (B, Q), and what was recorded there in a forward on this batch."""
        calls = recorder.chosen(self.layers)
        size, _, length, _ = calls[0].asked.shape
        rows = self._find_rows(batch, size, length, calls[0].asked.device)
        weights = [self.choose_heads(call.weights(rows)) for call in calls]
        lengths = {layer.shape[-1] for layer in weights}
        oracles = {length: self._find_oracle(batch, rows, length) for length in lengths}
        return rows, [(layer, oracles[layer.shape[-1]]) for layer in weights]

    def choose_heads(self, weights: Tensor) -> Tensor:  # (B, H, Q, T)
        if self.heads is None:
            return weights
        return torch.stack(choose(weights.unbind(dim=1), self.heads, "Head"), dim=1)

    def _find_rows(self, batch: Any, size: int, length: int, device: torch.device) -> Tensor:
        """Query positions (B, Q) of each example, counted from the front."""
        rows = _evaluate(self.query, batch, size, device).long()
        rows = rows[:, None] if rows.dim() == 1 else rows
        if rows.dim() != 2 or len(rows) != size:
            raise CaptureError(
                f"The query function returned shape {tuple(rows.shape)} for {size} examples; it "
                "must return one position, or the same number of positions, for each."
            )
        return _count_from_front(rows, length, "query")

    def _find_oracle(self, batch: Any, rows: Tensor, length: int) -> Tensor | None:
        """The posterior over positions (B, Q, T) for each query: 1/k on the informative ones."""
        if self.informative is None:
            return None
        size, asked = rows.shape
        given = _evaluate(self.informative, batch, size, rows.device)
        shape = tuple(given.shape)
        if len(given) == size and given.dtype != torch.bool and not given.dtype.is_floating_point:
            places = _count_from_front(given.reshape(size, -1).long(), length, "informative")
            empty = torch.zeros(size, length, dtype=torch.bool, device=rows.device)
            given = empty.scatter(1, places, True)  # a place named twice counts once
        given = given[:, None] if given.dim() == 2 else given
        allowed = given.dim() == 3 and len(given) == size and given.shape[1] in (1, asked)
        if not allowed or given.shape[2] > length:
            raise CaptureError(
                f"The informative function returned shape {shape}; it must be ({size}, k) for "
                f"positions, or ({size}, {length}) or ({size}, {asked}, {length}) for a mask or a "
                "posterior."
            )
        given = torch.nn.functional.pad(given, (0, length - given.shape[2]))
        total = given.sum(dim=-1, keepdim=True)
        if given.dtype == torch.bool:
            if (total == 0).any():
                raise CaptureError("The informative function names no position in some example.")
            given = given / total
        elif not torch.isfinite(given).all() or ((total - 1).abs() > 1e-3).any():
            raise CaptureError(
                "The informative function returned a posterior whose rows do not sum to one; "
                "return a mask of truth values, positions as integers, or probabilities."
            )
        return given.float().expand(size, asked, length)


def _check_positions(name: str, values: Any) -> tuple[int, ...]:
    listed = tuple(values) if isinstance(values, Iterable) else ()
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in listed)
    if not listed or not whole or len(set(listed)) < len(listed):
        raise CaptureError(
            f"{name} is {values!r}; give different positions as whole numbers, or a function of "
            "the batch."
        )
    return listed


def _evaluate(positions: Any, batch: Any, size: int, device: torch.device) -> Tensor:
    if callable(positions):
        return torch.as_tensor(positions(batch), device=device)
    return torch.tensor(positions, device=device).expand(size, -1)


def _count_from_front(places: Tensor, length: int, name: str) -> Tensor:
    wrong = (places < -length) | (places >= length)
    if wrong.any():
        raise CaptureError(
            f"The {name} position {int(places[wrong][0])} is out of range: the sequences have "
            f"{length} positions, 0 to {length - 1} (or -{length} to -1 from the end)."
        )
    return places.remainder(length)


def check_rows(weights: Tensor) -> None:  # (B, H, Q, T)
    """Attention must be finite, not negative, and sum to one."""
    total = weights.detach().sum(dim=-1)
    worst = total.flatten()[(total - 1).abs().argmax()].item()  # nan, if there is one
    if not (abs(worst - 1) <= SUM_TOLERANCE and weights.min() >= -SUM_TOLERANCE):
        raise CaptureError(
            f"Attention at the query sums to {worst:.4g} in some row, not to one. If that is not "
            "finite, the model's weights or inputs are broken; if the query is padding, name other "
            "positions; a ReadModule must return weights after softmax and before dropout."
        )


def check_visible(weights: Tensor, oracle: Tensor, rows: Tensor) -> None:
    """Refuse an oracle that a causal model can never reach.  (B, H, Q, T), (B, Q, T), (B, Q)"""
    later = torch.arange(oracle.shape[-1], device=rows.device) > rows[..., None]
    lost = (oracle > 0) & later & (weights.detach() == 0).all(dim=1)
    if lost.any():
        example, query, place = lost.nonzero()[0].tolist()
        raise CaptureError(
            f"The informative position {place} comes after the query position "
            f"{int(rows[example, query])}, and the model never looks ahead. Name a later query."
        )
