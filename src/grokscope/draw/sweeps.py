"""Figures of one's own sweeps: when an event happened, or where a measure ended, against one field
of the spec (a dot per run, the median as a line) or over two (a heat map)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import altair as alt

from grokscope.draw import marks, theme
from grokscope.draw.axes import in_log
from grokscope.draw.charts import HEIGHT, WIDTH, Arms, Look, as_arms, complete
from grokscope.draw.glossary import measure_of
from grokscope.draw.reading import Reading
from grokscope.draw.words import capitalise, count, list_varying
from grokscope.errors import SpecError, suggest

SEEDS = ("seed", "task.seed", "task.fingerprint")
MOST_CELLS = 60  # along one side of a map


@dataclass(frozen=True)
class Quantity:
    """What is drawn of each run: when an event happened, or the last value of a measure."""

    name: str
    title: str
    format: str
    event: bool

    def of(self, reading: Reading) -> tuple[float, str] | None:
        """The value of a run, and how it is meant; None where there is none."""
        if not self.event:
            value = reading.final.get(self.name, math.nan)
            return (value, marks.REACHED) if math.isfinite(value) else None
        event = reading.events.get(self.name)
        if event is None or (event.epoch is None and not event.observed_until):
            return None
        if event.epoch is not None:
            return event.epoch, marks.REACHED
        return event.observed_until or 0, marks.UNSEEN[reading.status]


def find_quantity(readings: Sequence[Reading], name: str) -> Quantity:
    """An event or a measure by its name; by default what the runs are about."""
    events = dict.fromkeys(event for reading in readings for event in reading.events)
    measures = dict.fromkeys(column for reading in readings for column in reading.final)
    name = name or next((reading.goal for reading in readings if reading.goal), "")
    unit = readings[0].unit
    if name in events:
        return Quantity(name, f"{name.capitalize()} at {unit}", ",d", event=True)
    if name in measures:
        found = measure_of(name)
        return Quantity(name, f"{capitalise(found.noun)} at the end", found.format, event=False)
    hint = suggest(name, [*events, *measures])
    raise SpecError(f"These runs have neither an event nor a measure {name!r}.{hint}")


def draw_sweep(arms: Arms, x: str, y: str, look: Look) -> Any:
    """The quantity against the field `x`, or with `y` over both."""
    readings = [reading for arm in as_arms(arms) for reading in arm.readings]
    quantity = find_quantity(readings, look.measure)
    flat = [reading.spec.effective() for reading in readings]
    known = dict.fromkeys(name for fields in flat for name in fields)
    for name in (x, y) if y else (x,):
        if name not in known:
            if not name:
                raise SpecError("Name the field to draw against, such as --x prior.strength.")
            hint = suggest(name, known)
            raise SpecError(f"There is no field {name!r} to draw against.{hint}")
    others = [name for name in list_varying(flat) if name not in (x, y, *SEEDS)]
    rows = []
    left_out: Counter[str] = Counter()
    for reading, fields in zip(readings, flat, strict=True):
        found = quantity.of(reading)
        lacking = [name for name in (x, y) if name and fields.get(name) is None]
        if found is None:
            name = quantity.name
            left_out[f"{name} was not measured" if quantity.event else f"no finite {name}"] += 1
        elif lacking:
            idle = reading.spec.without_effect().get(lacking[0])
            left_out[f"no {lacking[0]}" + f": {idle}" * bool(idle)] += 1
        else:
            words = [f"{name.rpartition('.')[2]} {fields.get(name)}" for name in others]
            place = {"x": fields[x], "y": fields.get(y), "arm": ", ".join(words)}
            rows.append({**place, "value": found[0], "ending": found[1], "seed": reading.seed})
    if not rows:
        raise SpecError(f"None of these runs has {quantity.name} and a value of {x}.")
    notes = [f"left out: {count(many, 'run')} ({why})" for why, many in left_out.items()]
    if not y:
        return _times(rows, quantity, x, look, notes)
    if look.log:
        raise SpecError("The axes of a map are lists of values; they have no log scale.")
    if others:
        raise SpecError(
            f"These runs also differ in {', '.join(others)}; choose some with a condition, so that "
            "each cell of the map is one setting."
        )
    return _map(rows, quantity, x, y, look, notes)


def _times(rows: marks.Rows, quantity: Quantity, x: str, look: Look, notes: Sequence[str]) -> Any:
    across = _axis(alt.X, "x", x, [row["x"] for row in rows], "x" in look.log)
    values = [row["value"] for row in rows]
    upwards = _axis(alt.Y, "value", quantity.title, values, "y" in look.log)
    names = marks.name_endings(quantity.name, "then")
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    colours = theme.arm_colours(len(arms)) if len(arms) > 1 else [theme.TEST]
    colour_of = dict(zip(arms, colours, strict=True))
    dots = [{**row, "colour": colour_of[row["arm"]], "text": f"{row['value']:,g}"} for row in rows]
    groups: dict[tuple[str, Any], list[float]] = defaultdict(list)
    for row in rows:
        there = row["ending"] == marks.REACHED
        groups[row["arm"], row["x"]].append(row["value"] if there else math.inf)
    middles = [{"arm": arm, "x": v, "value": median(some)} for (arm, v), some in groups.items()]
    middles = [row for row in middles if math.isfinite(row["value"])]
    scale = alt.Scale(domain=arms, range=colours)
    legend = marks.make_legend(arms, symbolType="stroke") if len(arms) > 1 else None
    stroke = alt.Stroke("arm:N", scale=scale, legend=legend)
    base = alt.Chart(marks.inline(middles))
    named = not _are_numbers(row["x"] for row in rows)  # there is nothing between two names
    line = base.mark_tick(size=40, thickness=2) if named else base.mark_line(opacity=0.7)
    most = max(Counter(row["arm"] for row in middles).values(), default=0)
    median_is = "tick" if named and most else "line" if most > 1 else ""
    parts = [
        line.encode(x=across, y=upwards, stroke=stroke),
        marks.draw_runs(dots, across, upwards, True, names if quantity.event else None),
    ]
    note = "a mark per run"
    note += f"; {median_is}: median over seeds, where it is known" if median_is else ""
    head = alt.Title(look.title or f"{quantity.title} against {x}", subtitle=[note, *notes])
    return _finish(parts, head, look, HEIGHT + 60)


def _map(
    rows: marks.Rows, quantity: Quantity, x: str, y: str, look: Look, notes: Sequence[str]
) -> Any:
    groups: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["x"], row["y"]].append(row)
    sides = [[str(v) for v in sorted({key[i] for key in groups}, key=_order)] for i in (0, 1)]
    for side, name in zip(sides, (x, y), strict=True):
        if len(side) > MOST_CELLS:
            raise SpecError(f"{name} has {len(side)} values; a map shows at most {MOST_CELLS}.")
    cells = []
    for (across, upwards), some in groups.items():
        there = [row["value"] for row in some if row["ending"] == marks.REACHED]
        known = 2 * len(there) > len(some)  # then the median is known, censored times or not
        value = median([row["value"] for row in some]) if known else None
        share = f"{len(there)} of {len(some)}"
        cells.append({"x": str(across), "y": str(upwards), "value": value, "share": share})
    legend = alt.Legend(format=quantity.format.replace("d", "~r"), gradientLength=160)
    colour = alt.Color("value:Q", title=quantity.title, legend=legend)
    base = alt.Chart(marks.inline(cells)).encode(
        x=alt.X("x:N", sort=sides[0], title=x, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("y:N", sort=sides[1][::-1], title=y),
        tooltip=["x:N", "y:N", "value:Q", "share:N"],
    )
    parts = [
        base.transform_filter("isValid(datum.value)").mark_rect().encode(color=colour),
        base.transform_filter("!isValid(datum.value)")
        .mark_text(fontSize=11, color=theme.SOFT)
        .encode(text="share:N"),
    ]
    missing = any(cell["value"] is None for cell in cells)
    note = ["median over seeds"]
    note += [f"text: too few seeds {quantity.name} for a median"] * missing
    note += notes
    head = alt.Title(look.title or f"{quantity.title} over {x} and {y}", subtitle=note)
    return _finish(parts, head, look, max(120, min(30 * len(sides[1]), 420)))


def _finish(parts: Sequence[alt.Chart], head: alt.Title, look: Look, height: int) -> Any:
    size: Any = {"width": look.width or WIDTH, "height": look.height or height}
    return complete(alt.LayerChart(layer=parts, title=head, **size), size["width"], {})


def _order(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _axis(channel: Any, field: str, title: str, values: Sequence[Any], log: bool) -> Any:
    """An axis that fits: of names where a value is no number, else linear or logarithmic."""
    if not _are_numbers(values):
        if log:
            raise SpecError(f"{title} has values that are no numbers; it has no log scale.")
        return channel(f"{field}:N", title=title, axis=alt.Axis(labelAngle=0))
    if log and min(values) <= 0:
        raise SpecError(f"{title} goes down to {min(values):g}; a log scale has no such value.")
    scale = alt.Scale(type="log" if log else "linear", zero=False, nice=True, padding=8)
    return channel(f"{field}:Q", title=in_log(title) if log else title, scale=scale)
