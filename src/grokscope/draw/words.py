"""Words that terminal, pages and figures share: counts, shares, event times, phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grokscope.draw.reading import Event, Phase

if TYPE_CHECKING:
    from grokscope.claims.evidence import Sample


def share(value: float) -> str:
    """A share in per cent that never rounds to all or to nothing."""
    if not math.isfinite(value):
        return "not a number"
    if 0.9995 <= value < 1:
        return "over 99.9\u00a0%"
    if 0 < value < 0.0005:
        return "under 0.1\u00a0%"
    return f"{100 * value:.1f}".removesuffix(".0") + "\u00a0%"


def count(number: int, noun: str) -> str:
    """1 seed, 1,200 seeds"""
    return f"{number:,} {noun}" + "s" * (number != 1)


def capitalise(text: str) -> str:
    """With a large first letter; the others stay as they are."""
    return text[:1].upper() + text[1:]


def join(parts: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def clock(seconds: float) -> str:
    """45 s, 12 min, 1 h 40 min"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def cell(value: Any) -> str:
    """A value in a table: 0.1235, a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def state_event(
    event: Event | None, unit: str = "", status: str = "finished", failed_at: int | None = None
) -> str:
    """When it happened, or up to when it had not: "epoch 500", "not within 1,000 epochs". Without
    a unit in brief: "500", "not by 1,000"."""
    if event is None:
        return "no rows yet"
    if event.epoch is not None:
        return f"{unit} {event.epoch:,}".lstrip()
    if event.observed_until is None:
        return "not measured"
    if not unit:
        return f"not by {event.observed_until:,}"
    if status == "failed":
        return f"not before it failed at {unit} {failed_at or 0:,}"
    if status == "partial":
        return f"not yet, at {unit} {event.observed_until:,}"
    return f"not within {count(event.observed_until, unit)}"


def state_phase(phase: Phase | None, last: int) -> str:
    """From when to when it lasted."""
    if phase is None or phase.start is None:
        return "not found"
    if phase.end is None:
        return f"{phase.start:,} to {last:,}, not over"
    return f"{phase.start:,} to {phase.end:,}"


def state_plateau(phases: Sequence[Phase], last: int, unit: str = "") -> str:
    """How long the plateau lasted; without a unit in brief ("900+")."""
    plateau = next((phase for phase in phases if phase.name == "plateau"), None)
    if plateau is None or plateau.start is None:
        return "none found" if unit else "none"
    length = (last if plateau.end is None else plateau.end) - plateau.start
    if not unit:
        return f"{length:,}" + "+" * (plateau.end is None)
    return f"{'at least ' * (plateau.end is None)}{count(length, unit)}"


def list_varying(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields that have more than one value, where they have one."""
    values: dict[str, set[str]] = {}
    for fields in specs:
        for name, value in fields.items():
            values.setdefault(name, set()).update([repr(value)] * (value is not None))
    return [name for name, found in values.items() if len(found) > 1]


def is_sound(row: Mapping[str, Any] | None) -> bool:
    """Is there a run, and has it finished?"""
    return row is not None and row["status"] == "finished"


def count_reached(rows: Sequence[Mapping[str, Any] | None], event: str = "grokked") -> str:
    """How many of the finished runs got there: "4 of 5"."""
    sound = [row for row in rows if row is not None and is_sound(row)]
    if not sound:
        return "not run"
    return f"{sum(row[event] is not None for row in sound)} of {len(sound)}"


def count_runs(sample: Sample) -> str:
    """Seeds, and how many runs are missing or failed."""
    rows = [row for arm in sample.arms.values() for row in arm.rows]
    words = [count(max(len(arm.rows) for arm in sample.arms.values()), "seed")]
    missing = sum(row is None for row in rows)
    failed = len(rows) - missing - sum(map(is_sound, rows))
    words += [f"{missing} of {len(rows)} runs missing"] * bool(missing)
    words += [f"{failed} failed"] * bool(failed)
    return ", ".join(words)


def state_watching(segment: Mapping[str, Any]) -> list[str]:
    """What was read and measured of a model of the user's own, and what was not: a line each."""
    lines = []
    if layers := segment.get("layers"):
        lines.append(f"Attention was read in {join(layers)}.")
    if left_out := segment.get("left_out"):
        lines.append(f"Not measured ({'; '.join(left_out)}).")
    if gaps := segment.get("gaps"):
        many, first = count(len(gaps), "gap"), gaps[0]
        lines.append(f"{many}, from step {first['step']:,} on: {first['error']}")
    return lines
