"""What the engine tells while it works. Events are plain data, so they cross process borders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Literal

EventKind = Literal["skipped", "started", "resumed", "advanced", "finished", "failed", "warned"]


@dataclass(frozen=True)
class Event:
    kind: EventKind
    run: str
    epoch: int = 0
    epochs: int = 0
    row: dict[str, float] = field(default_factory=dict)  # the latest scalars of the curve
    message: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Event:
        return Event(**json.loads(text))


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of those who do not listen."""
