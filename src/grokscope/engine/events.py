"""What the engine tells while it works. Events are plain data, so they cross process borders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

EventKind = Literal[
    "skipped", "started", "resumed", "advanced", "finished", "failed", "refused", "warned"
]


@dataclass(frozen=True)
class Event:
    kind: EventKind
    run: str
    epoch: int = 0
    epochs: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Every row of the curve since the last event of this run; all of them if it was resumed."""
    message: str = ""
    error: str = ""
    """Of a run that was refused or died: the name of its error's class."""

    @property
    def row(self) -> dict[str, Any]:
        """The latest row, empty if there is none."""
        return self.rows[-1] if self.rows else {}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Event:
        return Event(**json.loads(text))


DONE = "done"  # what a worker process says, instead of an event, when an order is carried out
TIRED = 75  # exit code of one that got no further order for a while

Sink = Callable[[Event], None]
"""Whatever listens: a terminal, a notebook, a tracker, the browser lab."""


def fan_out(sinks: Sink | Iterable[Sink]) -> Sink:
    """One sink that tells several."""
    listed = [sinks] if callable(sinks) else list(sinks)

    def tell(event: Event) -> None:
        for sink in listed:
            sink(event)

    return tell
