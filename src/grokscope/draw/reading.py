"""A run as charts and pages see it: plain data, whether it has ended or is still under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from grokscope.measures.times import EventTime as Event
from grokscope.measures.times import Phase

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Reading:
    """What is known of a run now. A run without rows has no events and no phases."""

    run_id: str
    spec: Any
    subject: str  # what the run is about, in words
    status: Literal["finished", "failed", "partial"]
    curve: pl.DataFrame
    events: Mapping[str, Event]  # by name, what the run is about last
    phases: tuple[Phase, ...]
    final: dict[str, float]  # the last row; NaN where it was not finite
    failed_at: int | None = None
    stopped_early: bool = False
    segments: tuple[dict[str, Any], ...] = ()  # provenance, one entry per stretch of training
    thresholds: Mapping[str, float] = field(default_factory=dict)  # by measure
    positions: tuple[tuple[str, bool], ...] = ()  # name, and whether it is always informative
    averaged: str = ""  # what attention is a mean over, besides inputs and seeds
    watched: bool = False  # a model of the user's own

    @property
    def seed(self) -> int:
        return self.spec.seed

    @property
    def epochs(self) -> int:
        """Last epoch on the curve."""
        return int(self.curve["epoch"][-1]) if len(self.curve) else 0

    @property
    def seconds(self) -> float:
        """How long it trained."""
        return sum(float(segment.get("seconds") or 0) for segment in self.segments)

    @property
    def unit(self) -> str:
        """What time is counted in."""
        return self.spec.unit

    @property
    def goal(self) -> str:
        """Name of the last event, the one that the run is about; empty if it has none."""
        return list(self.events)[-1] if self.events else ""

    def time_of(self, event: str) -> int | None:
        return self.events[event].epoch if event in self.events else None


@dataclass(frozen=True)
class Arm:
    """Runs that answer the same question with different seeds."""

    label: str
    readings: tuple[Reading, ...]


def events_of(outcome: Mapping[str, Any]) -> dict[str, Event]:
    """The events of an outcome by name: those on training examples first, those on unseen ones
    last (the file of an outcome does not keep their order)."""
    events = {
        name: Event(**value)
        for name, value in outcome.items()
        if isinstance(value, Mapping) and "threshold" in value
    }
    ranks = {"train": 0, "test": 2}
    return dict(sorted(events.items(), key=lambda e: ranks.get(e[1].measure.partition("_")[0], 1)))


def phases_of(outcome: Mapping[str, Any]) -> tuple[Phase, ...]:
    """The phases of an outcome; none where the problem has none."""
    return tuple(Phase(**phase) for phase in outcome.get("phases") or ())
