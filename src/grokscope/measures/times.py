"""When events and phases happened. Apart from `outcomes`, which finds them: listing runs needs no
NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EventTime:
    """First row from which `measure` stays at or above `threshold` (below, unless `rising`) for
    `persistence` rows."""

    measure: str
    threshold: float
    persistence: int
    epoch: int | None  # None: not seen
    # Last epoch of the curve: the censoring time where epoch is None; None if never measured.
    observed_until: int | None
    rising: bool = True

    @property
    def censored(self) -> bool:
        return self.epoch is None


@dataclass(frozen=True)
class Phase:
    """One of the paper's four phases. `start` is None where the rule did not find it, `end` is None
    where it was still going on at the end of the curve."""

    name: Literal["memorisation", "plateau", "resurgence", "grokking"]
    start: int | None
    end: int | None
    rule: str

    @property
    def found(self) -> bool:
        return self.start is not None
