"""Figures of runs: from arms to one Altair chart each, to be saved as PNG, SVG, HTML or JSON.

Every figure has one plot (or a column of plots) per arm, all with the same axes; "comparison" puts
the arms into one plot. A single run is drawn as it is, several seeds as their median and the band
from the lowest to the highest.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from grokscope.claims.studies import Panel
from grokscope.draw import marks, theme
from grokscope.draw.axes import ROOM, epoch_axis, fitting_axis, renamed
from grokscope.draw.glossary import MEASURES, Measure, measure_of
from grokscope.draw.reading import Arm, Reading
from grokscope.draw.tables import ROWS, attention_cells, gather, thin
from grokscope.draw.words import capitalise, join, state_event
from grokscope.errors import SpecError, suggest

Arms = Arm | Sequence[Arm]
Chart = alt.LayerChart | alt.ConcatChart

WIDTH, NARROW, HEIGHT = 600, 420, 220  # pixels of a plot; narrow where plots stand side by side
MOST_ARMS = 8  # side by side
CELLS = 4500  # at most, in a heat map
ROW, LEAST, MOST = 26, 120, 420  # pixels of a heat map: of a row, of the whole
NO_ROWS, NOT_MEASURED = "No rows to draw yet.", "Not measured in these runs."

_WORDS = theme.read_toml("figures.toml")
KINDS = {kind: words["about"] for kind, words in _WORDS.items()}
PLOTS: dict[str, dict[str, Sequence[str]]] = {  # by figure: title of each plot, its measures
    kind: words["plots"] for kind, words in _WORDS.items() if "plots" in words
}


@dataclass(frozen=True)
class Look:
    """What a figure is asked to be, where that is not as usual."""

    measure: str = ""  # another column of the curve; for sweeps also an event
    log: tuple[str, ...] = ()  # axes
    title: str = ""
    width: int | None = None  # of each plot, in pixels
    height: int | None = None


USUAL = Look()


def as_arms(arms: Arms) -> list[Arm]:
    """One arm or several, as a list; refuses to draw nothing."""
    listed = [arm for arm in ([arms] if isinstance(arms, Arm) else arms) if arm.readings]
    if not listed:
        raise SpecError("There is no run to draw; name at least one run of the store.")
    return listed


def is_measured(kind: str, arms: Sequence[Arm]) -> bool:
    """Does some run have what the figure shows? A run without rows may still get it."""
    readings = [reading for arm in arms for reading in arm.readings]
    columns = {column for reading in readings for column in reading.curve.columns}
    if kind == "others":
        return bool(_others(readings))
    if kind == "comparison":
        return any(reading.goal for reading in readings)
    wanted = {"attention"} if kind == "attention" else {c for s in PLOTS[kind].values() for c in s}
    return bool(wanted & columns)


def _others(readings: Sequence[Reading]) -> list[str]:
    """Measures that the glossary does not know, such as those of a problem of the user's own."""
    columns = {n: kind for reading in readings for n, kind in reading.curve.schema.items()}
    return [n for n, kind in columns.items() if kind.is_float() and n not in MEASURES]


def _draw_lines(kind: str, arms: Sequence[Arm], rows: int, look: Look = USUAL) -> list[list[Panel]]:
    """A row per plot of the figure; "others" has one for each measure without a figure. A measure
    that is asked for takes the place of the figure's own."""
    names = _others([reading for arm in arms for reading in arm.readings])
    plots = PLOTS.get(kind) or {measure_of(name).axis: (name,) for name in names}
    if look.measure:
        plots = {capitalise(measure_of(look.measure).noun): (look.measure,)}
    drawn = [_line_row(*plot, kind, arms, rows, look.log) for plot in plots.items()]
    return drawn or [[_empty("Other measures", "", NOT_MEASURED) for _ in arms]]


def _line_row(
    title: str,
    columns: Sequence[str],
    kind: str,
    arms: Sequence[Arm],
    rows: int,
    log: Sequence[str],
) -> list[Panel]:
    """A plot per arm of the same measures over training; those that no run has are left out."""
    taken = {c for arm in arms for reading in arm.readings for c in reading.curve.columns}
    columns = [column for column in columns if column in taken] or columns
    series = {column: measure_of(column) for column in columns}
    first = series[columns[0]]
    first = replace(first, scale="log") if "y" in log else first
    names = {column: column for column in columns}
    gathered = [gather(arm.readings, names, first.scale == "log", rows) for arm in arms]
    known = [arm.readings[0].thresholds for arm in arms]
    limits = [{c: limit[c] for c in series if limit.get(c)} for limit in known]
    ends = [v for limit in limits for v in limit.values()]
    tables = [table.drop("epoch") for lines in gathered for table in (lines.table, *lines.strays)]
    ends += [v for table in tables for end in (table.min(), table.max()) for v in end.row(0)]
    y = fitting_axis(first.axis, first.scale, ends, **_labels(first))
    x, last = _time(arms, log)
    shaded = kind == "accuracy" and all(len(arm.readings) == 1 for arm in arms)
    panels = []
    for place, (arm, lines, limit) in enumerate(zip(arms, gathered, limits, strict=True)):
        words = [_count(arm.readings), _describe_limits(limit, series)]
        if lines.strays:
            words.insert(1, "thin lines: single seeds where not all have rows")
        note = " · ".join(word for word in words if word)
        nothing = all(lines.table[column].is_null().all() for column in columns)
        if not len(lines.table) or (nothing and not lines.strays):
            panels.append(_empty(title, note, NOT_MEASURED if len(lines.table) else NO_ROWS))
            continue
        name = f"{columns[0]}_{place}"
        first_run = arm.readings[0]
        if kind == "accuracy" and len(arm.readings) == 1 and first_run.phases:
            under = marks.draw_phases(first_run, x, last)
        else:
            under = marks.draw_events(arm.readings, x, last)
        parts = [
            *under,
            *(marks.draw_threshold(value, series[c].colour) for c, value in limit.items()),
            # Numbers of phases need less room above the plot than names of events.
            *marks.draw_lines(lines, name, series, x, y, headroom=20 if shaded else marks.HEADROOM),
            *marks.draw_cursor(name, series, x, lines.banded),
        ]
        panels.append(_panel(title, note, parts, HEIGHT, marks.name_data(lines, name, series)))
    return panels


def _describe_limits(limits: Mapping[str, float], series: Mapping[str, Measure]) -> str:
    if not limits:
        return ""
    named = len(series) > 1
    words = [f"{v:.4g}" + f" ({series[c].label})" * named for c, v in limits.items()]
    return f"dashed: threshold{'s' * (len(words) > 1)} {join(words)}"


def _draw_attention(arms: Sequence[Arm], rows: int, look: Look = USUAL) -> list[list[Panel]]:
    """Mean attention as heat maps, position by epoch, in the same colours for all arms. Positions
    that determine the answer of every input are framed."""
    cells = [attention_cells(arm.readings, rows // 2, CELLS) for arm in arms]
    most = max((cell["attention"] for part in cells for cell in part), default=1.0)
    x, last = _time(arms, look.log)
    panels = []
    for place, (arm, found) in enumerate(zip(arms, cells, strict=True)):
        title, first = "Attention at each position", arm.readings[0]
        sound = sum(reading.status != "failed" for reading in arm.readings)
        over = ["inputs", *([first.averaged] if first.averaged else [])]
        over += [f"{sound or len(arm.readings)} seeds"] * (len(arm.readings) > 1)
        words = [_state(first)] if len(arm.readings) == 1 else []
        words.append(f"mean over {join(over)}")
        if not found:
            panels.append(_empty(title, " · ".join(words), NO_ROWS))
            continue
        number = max(cell["position"] for cell in found) + 1
        names = first.positions
        if len(names) != number:  # the spec does not say what these positions are
            names = tuple((str(position), False) for position in range(number))
        if any(informative for _, informative in names):
            words.append("framed: the positions that determine the answer")
        name = f"attention_{place}"
        named = [{**cell, "name": names[cell["position"]][0]} for cell in found]
        parts = [*_heat_layers(name, names, most, x), *marks.draw_events(arm.readings, x, last)]
        height = max(LEAST, min(ROW * number, MOST))
        panels.append(_panel(title, " · ".join(words), parts, height, {name: named}))
    return [panels]


def _heat_layers(
    data: str, names: Sequence[tuple[str, bool]], most: float, x: alt.X
) -> list[alt.Chart]:
    """The cells of the named dataset, in colours from 0 to `most`, and the frames."""
    order = [name for name, _ in names]
    y = alt.Y("name:N", sort=order, title="Position in the sequence", scale=alt.Scale(domain=order))
    look: dict[str, Any] = {"titleOrient": "left", "gradientLength": 140, "format": ".2~f"}
    legend = alt.Legend(title="attention weight", offset=marks.HEADROOM, **look)
    scale = alt.Scale(domain=[0, most], nice=False)
    cells = alt.Chart(alt.NamedData(data)).mark_rect(aria=False)
    tips = ["name:N", alt.Tooltip("epoch:Q", format=",d"), alt.Tooltip("attention:Q", format=".3f")]
    colour = alt.Color("attention:Q", scale=scale, legend=legend)
    framed = [alt.Chart(marks.inline([{"name": name}])) for name, matters in names if matters]
    return [
        cells.encode(x=x, x2="until:Q", y=y, color=colour, tooltip=tips),
        *(f.mark_rect(style="informative", filled=False, aria=False).encode(y=y) for f in framed),
    ]


def _draw_comparison(arms: Sequence[Arm], rows: int, look: Look = USUAL) -> list[list[Panel]]:
    """The measure of the last event (test accuracy, for grokking) of all arms in one plot, and how
    each run ended: where it got there, or where it was last seen (censored). Any other measure
    can take its place, without the endings."""
    readings = [reading for arm in arms for reading in arm.readings]
    goal = next((r.goal for r in readings if r.goal), "")
    events = [reading.events[goal] for reading in readings if goal in reading.events]
    if not events and not look.measure:
        return [[_empty("The arms side by side", "", NO_ROWS)]]
    column = look.measure or events[0].measure
    judged = bool(events) and column == events[0].measure
    what = measure_of(column)
    what = replace(what, scale="log") if "y" in look.log else what
    title = f"{capitalise(what.noun)} of all arms"
    shown = replace(what, band=True)
    series = {
        f"arm{place}": replace(shown, label=arm.label, colour=colour)
        for place, (arm, colour) in enumerate(zip(arms, theme.arm_colours(len(arms)), strict=True))
    }
    thresholds = sorted({event.threshold for event in events}) if judged else []
    positive = what.scale == "log"
    full = [
        gather(arm.readings, {name: column}, positive, rows=10**9)
        for arm, name in zip(arms, series, strict=True)
    ]
    ends = [*thresholds, *(v for f in full for t in (f.table, *f.strays) for v in t[t.columns[1]])]
    x, y = _time(arms, look.log)[0], fitting_axis(what.axis, what.scale, ends, **_labels(what))
    parts = [marks.draw_threshold(value) for value in thresholds]
    data: dict[str, marks.Rows] = {}
    endings: marks.Rows = []
    for arm, (name, s) in zip(arms, series.items(), strict=True):
        lines = gather(arm.readings, {name: column}, positive, rows)
        parts += marks.draw_lines(lines, name, {name: s}, x, y, series.values(), headroom=8)
        data |= marks.name_data(lines, name, {name: s})
        found = [_ending(reading, goal) for reading in arm.readings if judged]
        endings += [{"arm": s.label, "colour": s.colour, **mark} for mark in found if mark]
    banded = max(len(arm.readings) for arm in arms) > 1
    data["all"] = _join([lines.table for lines in full], list(series), banded, rows)
    parts += marks.draw_cursor("all", series, x, banded)
    if endings:
        names = marks.name_endings(goal, "the last epoch")
        parts.append(marks.draw_runs(endings, x, renamed(y, "value"), names=names))
    words = ["lines: median over seeds, bands: lowest to highest"] * banded
    known = ", ".join(f"{value:.4g}" for value in thresholds)
    note = " · ".join([*words, *([f"dashed: threshold {known}"] if known else [])])
    return [[_panel(title, note, parts, HEIGHT + 60, data)]]


def _join(
    tables: Sequence[pl.DataFrame], names: Sequence[str], banded: bool, rows: int
) -> marks.Rows:
    """One table of all arms, for the cursor; a single run among banded arms is its own range."""
    joined = pl.concat(tables, how="align").sort("epoch")
    single = [name for name in names if banded and f"{name}_low" not in joined.columns]
    ends = [pl.col(name).alias(f"{name}_{end}") for name in single for end in ("low", "high")]
    joined = joined.with_columns(*ends)
    return thin(joined, names, rows).to_dicts()


def _ending(reading: Reading, goal: str) -> dict[str, Any] | None:
    """How a run ended, and where to mark it: at the time of the event, or where it was last
    seen."""
    event = reading.events.get(goal)
    if event is None or event.observed_until is None:
        return None
    text = state_event(event, reading.unit, reading.status, reading.failed_at)
    epoch, value, kind = event.epoch, event.threshold, marks.REACHED
    if epoch is None:
        rows = reading.curve.filter(pl.col(event.measure).is_finite())
        if not len(rows):
            return None
        epoch, value = int(rows["epoch"][-1]), float(rows[event.measure][-1])
        kind = marks.UNSEEN[reading.status]
    place = {"epoch": epoch, "value": float(f"{value:.4g}"), "seed": reading.seed}
    return {**place, "ending": kind, "text": f"{goal}: {text}"}


# The plots of each figure, one list per row of it; lines have at most so many rows of data.
FIGURES: dict[str, Callable[..., list[list[Panel]]]] = {
    **{kind: partial(_draw_lines, kind) for kind in (*PLOTS, "others")},
    "attention": _draw_attention,
    "comparison": _draw_comparison,
}


def draw_figure(kind: str, arms: Arms, look: Look = USUAL) -> Chart:
    """A figure with its titles, complete."""
    listed = as_arms(arms)
    if wanted := look.measure:
        known = dict.fromkeys(c for a in listed for r in a.readings for c in r.curve.columns)
        if wanted not in known:
            raise SpecError(f"These runs have no measure {wanted!r}.{suggest(wanted, known)}")
        if kind == "attention":
            raise SpecError("The figure attention draws attention; leave the measure out.")
    rows = FIGURES[kind](listed, ROWS, look)
    across = len(rows[0])
    if len(rows) > 1 and across > MOST_ARMS:
        raise SpecError(
            f"{across} arms side by side cannot be read, {MOST_ARMS} can. Choose fewer, or draw "
            "one measure of all of them: --kind comparison --measure NAME."
        )
    width = look.width or (WIDTH if across == 1 else NARROW)
    letters = int(width / 6.2)  # that fit above a plot
    views: list[Any] = []
    datasets: dict[str, marks.Rows] = {}
    for row in rows:
        for place, panel in enumerate(row):
            label = listed[place].label if len(row) == len(listed) else ""
            lines = [line for text in (label, panel.note) for line in textwrap.wrap(text, letters)]
            head = look.title if look.title and len(rows) * across == 1 else panel.title
            datasets |= panel.chart.datasets
            panel.chart.datasets = alt.Undefined
            above = alt.Title(head, subtitle=lines) if lines else alt.Title(head)
            size = {"width": width, **({"height": look.height} if look.height else {})}
            views.append(panel.chart.properties(title=above, **size))
    chart: Chart = views[0]
    if len(views) > 1:
        # Arms side by side, at most three; a figure of several rows keeps one column per arm.
        chart = alt.concat(*views, columns=across if len(rows) > 1 else min(across, 3))
        scales: Any = dict.fromkeys(("stroke", "fill", "color"), "independent")
        chart.resolve = alt.Resolve(scale=alt.ScaleResolveMap(**scales))
        chart.title = look.title or alt.Undefined
    return complete(chart, width, datasets)


def complete(chart: Any, width: int, datasets: dict[str, marks.Rows]) -> Any:
    """A chart with its data, its theme and the width that its axes ask for."""
    # Set directly: Altair's methods for these copy the whole chart each time.
    give_room(chart, width)
    chart.datasets = datasets
    chart.config = alt.Config(**theme.theme())
    return chart


def give_room(chart: Any, width: int) -> None:
    own = chart.params if isinstance(chart.params, list) else []
    chart.params = [*own, alt.VariableParameter(name=ROOM, value=width)]


CHARTS: dict[str, Callable[[Arms], Chart]] = {kind: partial(draw_figure, kind) for kind in FIGURES}


def _panel(
    title: str, note: str, parts: list[Any], height: int, data: dict[str, marks.Rows]
) -> Panel:
    view = alt.LayerChart(layer=parts, height=height)
    view.datasets = data
    return Panel(title, view, note)


def _empty(title: str, note: str, words: str) -> Panel:
    text = alt.Chart(marks.inline([{"note": words}])).mark_text(style="note", fontSize=13)
    return _panel(title, note, [text.encode(text="note:N")], HEIGHT, {})


def _time(arms: Sequence[Arm], log: Sequence[str]) -> tuple[alt.X, int]:
    """The axis of training time that all arms share, and the last epoch of any run."""
    readings = [reading for arm in arms for reading in arm.readings]
    last = max(reading.epochs for reading in readings)
    units = " or ".join(sorted({reading.unit for reading in readings}))
    return epoch_axis(last, units, "x" in log), last


def _labels(measure: Measure) -> dict[str, str]:
    return {"format": ".0%"} if measure.format.endswith("%") else {}


def _state(reading: Reading) -> str:
    """The seed of a run, and how it stands unless it has finished."""
    words = {
        "partial": f" · unfinished, {reading.unit} {reading.epochs:,}",
        "failed": f" · failed at {reading.unit} {reading.failed_at or 0:,}",
    }
    return f"seed {reading.seed}{words.get(reading.status, '')}"


def _count(readings: Sequence[Reading]) -> str:
    """How many runs a plot shows, and how they stand."""
    if len(readings) == 1:
        return _state(readings[0])
    drawn = [reading for reading in readings if len(reading.curve)]
    sound = [reading for reading in drawn if reading.status != "failed"] or drawn
    words = [f"seed {reading.seed}" for reading in sound]
    if len(sound) > 1:
        words = [f"median of {len(sound)} seeds, band from lowest to highest"]
    tally = Counter(reading.status for reading in readings)
    words += [f"{tally['failed']} failed"] * bool(tally["failed"])
    words += [f"{tally['partial']} unfinished"] * bool(tally["partial"])
    return " · ".join(words)
