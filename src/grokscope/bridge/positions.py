"""Which positions ask, and which ought to be looked at.

B examples, Q query positions, T positions, k informative ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grokscope.bridge.calls import CaptureError
from grokscope.spec import PER_EXAMPLE

Query = int | Iterable[int] | Callable[[Any], Tensor]
Informative = Iterable[int] | Callable[[Any], Tensor] | None


@dataclass(frozen=True)
class Positions:
    """Query and informative positions: the same for every example, or functions of the batch.

    A `query` function gives integers (B,) or (B, Q). An `informative` function gives integer
    positions (B, k), a mask (B, T) or (B, Q, T), or a whole posterior of that shape in floats that
    sum to one. Negative positions count from the end. Without `informative` there is no oracle.
    """

    query: Query = -1
    informative: Informative = None

    def __post_init__(self) -> None:
        query, informative = self.query, self.informative
        if not callable(query):
            listed = _listed("query", [query] if isinstance(query, int) else query)
            object.__setattr__(self, "query", listed)
        if informative is not None and not callable(informative):
            object.__setattr__(self, "informative", _listed("informative", informative))

    @property
    def names(self) -> tuple[str, str]:
        """Both as text, for the spec of a run."""
        parts = []
        for value in (self.query, self.informative):
            if value is None:
                parts.append("")
            elif callable(value):
                parts.append(PER_EXAMPLE)
            else:
                parts.append(", ".join(map(str, _listed("", value))))
        return parts[0], parts[1]

    def rows(self, batch: Any, size: int, length: int, device: torch.device) -> Tensor:  # (B, Q)
        """Query positions of each example, counted from the front."""
        if callable(self.query):
            rows = torch.as_tensor(self.query(batch), device=device).long()
            rows = rows[:, None] if rows.dim() == 1 else rows
            if rows.dim() != 2 or len(rows) != size:
                raise CaptureError(
                    f"The query function returned shape {tuple(rows.shape)} for {size} examples; "
                    "it must return one position, or the same number of positions, for each."
                )
        else:
            rows = torch.tensor(_listed("", self.query), device=device).expand(size, -1)
        return _inside(rows, length, "query")

    def oracle(self, batch: Any, rows: Tensor, length: int) -> Tensor | None:  # (B, Q, T)
        """The posterior over positions for each query: 1/k on the informative ones."""
        if self.informative is None:
            return None
        size, asked = rows.shape
        if not callable(self.informative):
            places = torch.tensor(list(self.informative), device=rows.device).expand(size, -1)
            return _spread(places, length).expand(size, asked, length)
        given = torch.as_tensor(self.informative(batch), device=rows.device)
        if len(given) != size:
            raise CaptureError(
                f"The informative function returned {len(given)} rows for {size} examples."
            )
        if given.dtype != torch.bool and not given.dtype.is_floating_point:
            return _spread(given.reshape(size, -1).long(), length).expand(size, asked, length)
        given = given[:, None] if given.dim() == 2 else given
        if given.dim() != 3 or given.shape[1] not in (1, asked) or given.shape[2] > length:
            raise CaptureError(
                f"The informative function returned shape {tuple(given.shape)}; a mask or a "
                f"posterior must be ({size}, {length}) or ({size}, {asked}, {length})."
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


def _listed(name: str, values: Any) -> tuple[int, ...]:
    try:
        listed = tuple(values)
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in listed)
    except TypeError:
        whole, listed = False, ()
    if not whole or not listed:
        raise CaptureError(
            f"{name} is {values!r}; give positions as whole numbers, or a function of the batch."
        )
    if len(set(listed)) != len(listed):
        raise CaptureError(f"{name} is {values!r}, which names a position twice.")
    return listed


def _spread(places: Tensor, length: int) -> Tensor:  # (B, k) -> (B, 1, T)
    """Equal shares on the places of each example; one that is named twice counts once."""
    places = _inside(places, length, "informative")
    mask = torch.zeros(len(places), length, device=places.device)
    mask = mask.scatter(1, places, 1.0)
    return (mask / mask.sum(dim=1, keepdim=True))[:, None]


def _inside(places: Tensor, length: int, name: str) -> Tensor:
    wrong = (places < -length) | (places >= length)
    if wrong.any():
        raise CaptureError(
            f"The {name} position {int(places[wrong][0])} is out of range: the sequences have "
            f"{length} positions, 0 to {length - 1} (or -{length} to -1 from the end)."
        )
    return places.remainder(length)


def check_visible(weights: Tensor, oracle: Tensor, rows: Tensor) -> None:
    """Refuse an oracle that a causal model can never reach.  (B, H, Q, T), (B, Q, T), (B, Q)"""
    later = torch.arange(oracle.shape[-1], device=rows.device) > rows[..., None]
    lost = (oracle > 0) & later & (weights.detach() == 0).all(dim=1)
    if lost.any():
        example, query, place = (int(index[0]) for index in torch.nonzero(lost, as_tuple=True))
        raise CaptureError(
            f"The informative position {place} comes after the query position "
            f"{int(rows[example, query])}, and the model never looks ahead. Name a later query."
        )
