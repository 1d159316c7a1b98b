"""Figures of evidence, for any paper: strips with a row per arm, runs over a field, curves under
each other, heat maps over two fields.

A dot is a run that got there (grokked, by default), a triangle one that had not when its budget
ended, a cross one that failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.claims.verdicts import median_time
from grokscope.draw import marks, theme
from grokscope.draw.axes import fitting_axis, in_unit, log_axis, renamed
from grokscope.draw.glossary import measure_of
from grokscope.draw.marks import Rows, inline, own_colour
from grokscope.draw.tables import band_of_runs
from grokscope.draw.words import count_reached, count_runs, is_sound

WIDTH, HEIGHT = 270, 230  # of a panel's plot, in pixels: three stand side by side
STRIP = 306  # width of a plot without a vertical axis
ROW = 36  # height of an arm's row: its name above its runs
BUDGET, LIMIT = [1, 3], [4, 3]  # dashes: dotted where training ends, dashed for what is asked


def present(evidence: Evidence) -> Iterator[tuple[str, Sample]]:
    """Regimes with at least one run that has ended."""
    for regime, sample in evidence.samples.items():
        if any(row is not None for arm in sample.arms.values() for row in arm.rows):
            yield regime, sample


def draw_regimes(
    evidence: Evidence, draw: Callable[[Sample], alt.LayerChart], note: str = "", title: str = "{}"
) -> list[Panel]:
    """A panel per regime, whose name stands in the title."""
    end = f"; {note}" if note else ""
    regimes = present(evidence)
    return [Panel(title.format(r), draw(s), count_runs(s) + end) for r, s in regimes]


def curve_of(evidence: Evidence, run: str, column: str) -> pl.DataFrame:
    """The kept rows of a run that have this column; none where no curve was kept."""
    if column not in evidence.curves.columns:
        return pl.DataFrame()
    kept = (pl.col("run") == run) & pl.col(column).is_not_null()
    return evidence.curves.filter(kept).sort("epoch")


def ending_of(row: Mapping[str, Any], event: str) -> str:
    if not is_sound(row):
        return marks.FAILED
    return marks.CENSORED if row[event] is None else marks.REACHED


def seen_times(arm: ArmRuns, budget: int, event: str = "grokked") -> np.ndarray:  # (seeds,)
    """Time of the event; the budget where there is none, the last epoch of a failed run."""
    times, last = arm.values(event), np.maximum(arm.values("epochs"), 1)
    return np.where(arm.finished, np.nan_to_num(times, nan=budget), last)


def middle_of(arm: ArmRuns, event: str = "grokked") -> tuple[str, float | None]:
    """Median time of the finished runs, in words and as a number."""
    times = arm.times(event)[arm.finished]
    if not len(times):
        return "not run", None
    middle = median_time(times)
    if math.isinf(middle):
        return f"{count_reached(arm.rows, event)} {event}", None
    return f"median {middle:,.0f}", middle


def arms_of(evidence: Evidence) -> list[ArmRuns]:
    """All arms of the regimes that have runs."""
    return [arm for _, sample in present(evidence) for arm in sample.arms.values()]


def time_axis(channel: Any, evidence: Evidence, title: str = "Grok epoch", *others: str) -> Any:
    """Times of the study's event, from its earliest run to a little beyond its budget, with room
    for the times in `others`."""
    budget = max((sample.budget for sample in evidence.samples.values()), default=1)
    values = [
        value
        for _, sample in present(evidence)
        for arm in sample.arms.values()
        for value in (*seen_times(arm, sample.budget), *(v for o in others for v in arm.values(o)))
        if math.isfinite(value) and value > 0
    ]
    return log_axis(channel, "value", title, (min([*values, budget / 4]) / 1.25, budget * 1.2))


def run_rows(
    arm: ArmRuns,
    values: np.ndarray,  # (seeds,)
    colour: str,
    at: float | np.ndarray,  # (), or (seeds,)
    factor: float = 1.0,
    shift: float = 0.0,
    event: str = "grokked",
) -> Rows:
    """A row per run that has a value, `at` a place; seeds are spread over a factor or a shift."""
    aside = np.linspace(-0.5, 0.5, len(values)) if len(values) > 1 else np.zeros(len(values))
    places = at * factor**aside + shift * aside
    return [
        {"value": float(v), "place": float(p), "ending": ending_of(row, event), "colour": colour}
        for row, v, p in zip(arm.rows, values, places, strict=True)
        if row is not None and math.isfinite(v) and math.isfinite(p)
    ]


class Strip(NamedTuple):
    """A row of a strip plot."""

    arm: ArmRuns
    colour: str
    values: np.ndarray  # (seeds,), NaN where there is nothing to draw
    summary: str  # at the right end, above the runs
    middle: float | None = None  # where to put a bar
    limits: Sequence[float] = ()  # where to put lines across
    name: str = ""  # above the runs; the arm's own name if there is none
    event: str = "grokked"  # what the runs' shapes tell


def draw_strips(strips: Sequence[Strip], x: alt.X, dash: list[int] = BUDGET) -> alt.LayerChart:
    """A track per arm, from top to bottom, with its name above its runs."""
    height = ROW * len(strips)
    y = alt.Y("place:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None)
    tracks: Rows = []
    crossings, names, points, bars = [], [], [], []
    for number, strip in enumerate(strips):
        top = number * ROW
        track = {"place": top + 16, "bottom": top + ROW - 3}
        tracks.append(track)
        crossings += [{**track, "value": limit} for limit in strip.limits]
        words = {"name": strip.name or strip.arm.name, "summary": strip.summary}
        names.append({"place": top + 8, **words})
        arm, at = strip.arm, top + 24.5
        points += run_rows(arm, strip.values, strip.colour, at, shift=9, event=strip.event)
        if strip.middle is not None:
            bars.append({**track, "value": strip.middle, "colour": strip.colour})
    grounds = alt.Chart(inline(tracks)).mark_rect(color=theme.PALE)
    crossing = alt.Chart(inline(crossings)).mark_rule(color=theme.SOFT, strokeDash=dash)
    bar = alt.Chart(inline(bars)).mark_rule(strokeWidth=3, opacity=0.55)
    written = alt.Chart(inline(names)).encode(y=y)
    title = written.mark_text(align="left", fontSize=10.8, color=theme.INK)
    summary = written.mark_text(align="right", style="note")
    layers = [
        grounds.encode(x=alt.value(0), x2=alt.value(STRIP), y=y, y2="bottom:Q"),
        crossing.encode(x=x, y=y, y2="bottom:Q"),
        bar.encode(x=x, y=y, y2="bottom:Q", color=own_colour()),
        marks.draw_runs(points, x, y),
        title.encode(x=alt.value(0), text="name:N"),
        summary.encode(x=alt.value(STRIP), text="summary:N"),
    ]
    return alt.LayerChart(layer=layers, width=STRIP, height=height)


def time_strip(
    sample: Sample, arm: ArmRuns, colour: str, name: str = "", event: str = "grokked"
) -> Strip:
    """The times of an arm's runs, with their median and the budget."""
    times = seen_times(arm, sample.budget, event)
    return Strip(arm, colour, times, *middle_of(arm, event), (sample.budget,), name, event)


def draw_tracks(
    evidence: Evidence,
    strip: Callable[[Sample, ArmRuns], Strip],
    x: alt.X,
    dash: list[int] = BUDGET,
    note: str = "",
    title: str = "{}",
) -> list[Panel]:
    """A panel per regime, with a track per arm."""

    def draw(sample: Sample) -> alt.LayerChart:
        return draw_strips([strip(sample, arm) for arm in sample.arms.values()], x, dash)

    return draw_regimes(evidence, draw, note, title)


def draw_times(
    evidence: Evidence,
    colour_of: Callable[[ArmRuns], str],
    title: str = "Grok epoch",
    event: str = "grokked",
) -> list[Panel]:
    """Times of every run with the median of each arm, one panel per regime."""
    x = time_axis(alt.X, evidence, title, event)
    return draw_tracks(evidence, lambda s, arm: time_strip(s, arm, colour_of(arm), event=event), x)


def draw_over(
    points: Rows,
    x: alt.X,
    y: alt.Y,
    lines: Sequence[tuple[Rows, dict[str, Any]]] = (),
    under: Sequence[alt.Chart] = (),
    over: Sequence[alt.Chart] = (),
    height: int = HEIGHT,
    upwards: bool = False,
) -> alt.LayerChart:
    """Runs as points over a field, lines (each with its style) beneath them."""
    drawn = [
        alt.Chart(inline(rows))
        .mark_line(**style)
        .encode(x=x, y=y, color=own_colour(), detail="colour:N")
        for rows, style in lines
    ]
    layers = [*under, *drawn, marks.draw_runs(points, x, y, upwards), *over]
    return alt.LayerChart(layer=layers, width=WIDTH, height=height)


class Curves(NamedTuple):
    """One of the plots that stand under each other: columns with what to call them, and what the
    glossary does not say."""

    labels: Mapping[str, str]
    height: int = 70
    colours: Mapping[str, str] = {}
    dashed: tuple[str, ...] = ()  # lines that are told apart without colour
    limit: float | None = None  # a line across
    shared: bool = True  # one axis for all panels of the figure


class Stack(NamedTuple):
    """A panel of plots under each other: one arm's curves."""

    title: str
    sample: Sample
    arm: ArmRuns
    plots: Sequence[Curves]
    events: Sequence[str] = ("memorised", "grokked")


def draw_stacks(evidence: Evidence, stacks: Sequence[Stack], root: bool = False) -> list[Panel]:
    """Median and range over seeds of every stack that has curves, with the median times of its
    events. On a `root` scale the first tenth of training takes a third of the width."""
    tables = []
    for stack in stacks:
        columns = [column for plot in stack.plots for column in plot.labels]
        runs = [row["run"] for row in stack.arm.rows if row is not None and is_sound(row)]
        tables.append(band_of_runs(evidence.curves, runs, columns).to_dicts())
    everything = [row for table in tables for row in table]
    panels = []
    for stack, table in zip(stacks, tables, strict=True):
        if table:
            arm = stack.arm
            medians = {n: median_time(arm.times(n)[arm.finished]) for n in stack.events}
            events = [{"epoch": t, "event": n} for n, t in medians.items() if math.isfinite(t)]
            budget = stack.sample.budget
            views = []
            for index, plot in enumerate(stack.plots):
                title = in_unit(arm.spec.unit) if plot is stack.plots[-1] else None
                x = _epochs(budget, root, title)
                within = everything if plot.shared else table
                named = budget if index == 0 else None
                views.append(_draw_curves(plot, table, within, events, x, named))
            chart = alt.vconcat(*views, spacing=26)
            panels.append(Panel(stack.title, chart, count_runs(stack.sample)))
    return panels


def _epochs(budget: int, root: bool, title: str | None) -> alt.X:
    """Training time; only the last of several plots has a title and numbers."""
    shares = (0, 0.02, 0.1, 0.25, 0.5, 1)
    ticks = {"values": [round(budget * s) for s in shares]} if root else {"tickCount": 5}
    kind: Any = "sqrt" if root else alt.Undefined
    scale = alt.Scale(domain=[0, budget], nice=False, type=kind)
    axis = alt.Axis(format=",d", labels=title is not None, **ticks)
    return alt.X("epoch:Q", title=title, scale=scale, axis=axis)


def _draw_curves(
    plot: Curves, table: Rows, within: Rows, events: Rows, x: alt.X, budget: int | None
) -> alt.LayerChart:
    """One plot with the names of its lines above it; its axis fits all rows `within`. Events are
    named in the first plot, which is given the budget."""
    first = measure_of(next(iter(plot.labels)))
    scale = first.scale
    ends = [row[f"{c}_{end}"] for row in within for c in plot.labels for end in ("low", "high")]
    ends += [] if plot.limit is None else [plot.limit]
    percent = {"format": ".0%"} if scale == "share" else {"labelExpr": "format(datum.value, ',~r')"}
    ticks = {"tickCount": 4 if budget else 3, **({} if scale == "log" else percent)}
    y = fitting_axis(None, scale, ends, **ticks)
    layers: list[alt.Chart] = []
    if plot.limit is not None:
        limit = alt.Chart(inline([{"limit": plot.limit}])).mark_rule(color=theme.SOFT)
        layers.append(limit.encode(y=renamed(y, "limit")))
    left = 0.0
    for column, label in plot.labels.items():
        colour = plot.colours.get(column, measure_of(column).colour)
        keys = ("epoch", column, f"{column}_low", f"{column}_high")
        rows = [{k: row[k] for k in keys} for row in table if row[keys[2]] > 0 or scale != "log"]
        dash = [5, 3] if column in plot.dashed else alt.Undefined
        line = alt.Chart(inline(rows)).mark_line(color=colour, strokeDash=dash)
        layers += [
            marks.draw_band(inline(rows), column, colour, x, y),
            line.encode(x=x, y=renamed(y, column)),
            marks.draw_text(label, left, -9, colour, fontWeight=600),
        ]
        left += 7 * len(label) + 14
    layers.append(alt.Chart(inline(events)).mark_rule(style="event").encode(x=x))
    for number, event in enumerate(events if budget else []):
        at, height = event["epoch"], 48 + 14 * number
        late = at > 0.7 * (budget or 0)
        layers.append(marks.name_event(event["event"], at, x, height, late))
    return alt.LayerChart(layer=layers, width=WIDTH, height=plot.height)


def draw_heat_map(
    cells: Rows, x_title: str, y_title: str, most: float | None = None
) -> alt.LayerChart:
    """Cells with `x`, `y`, `value` and `text`: light is small, dark is large, black is "never".
    With `most` colours run up to it on a log scale, else from 0."""
    values = [cell["value"] for cell in cells if cell["value"] is not None] or [1.0]
    high = max(most or 0.0, *values, 1.0)
    low = min(*values, high / 2) if most else 0.0
    bright = low**0.3 * high**0.7 if most else high / 4  # beyond it, letters are white
    for cell in cells:
        dark = cell["text"] == "never" or (cell["value"] or 0) > bright
        cell["ink"] = "#FFFFFF" if dark else theme.INK
    plain = alt.Axis(labelAngle=0, domain=False, ticks=False)
    x = alt.X("x:O", title=x_title, axis=plain)
    names = alt.Axis(labelExpr="datum.value == 0 ? 'none' : format(datum.value, '~g')")
    y = alt.Y("y:O", title=y_title, sort="descending", axis=names)
    base = alt.Chart(inline(cells)).encode(x=x, y=y)
    square: dict[str, Any] = {"stroke": "#FFFFFF", "strokeWidth": 2}
    colours = theme.theme()["range"]["heatmap"][:3]
    kind: Any = "log" if most else "symlog"
    scale = alt.Scale(type=kind, domain=[low, high], range=colours, interpolate="lab")
    known = base.transform_filter("isValid(datum.value)").mark_rect(**square)
    never = base.transform_filter("datum.text == 'never'").mark_rect(color=theme.LATE, **square)
    layers = [
        base.mark_rect(color=theme.PALE, **square),
        known.encode(color=alt.Color("value:Q", scale=scale, legend=None)),
        never,
        base.mark_text(fontSize=10.5).encode(text="text:N", color=alt.Color("ink:N", scale=None)),
    ]
    apart = alt.Resolve(scale=alt.ScaleResolveMap(color="independent"))
    height = 34 * len({cell["y"] for cell in cells})
    return alt.LayerChart(layer=layers, width=WIDTH, height=height, resolve=apart)


def median_cell(arm: ArmRuns, column: str, event: bool = False) -> dict[str, Any]:
    """Value and text of a field: the median of the finished runs, "never" where an event's median
    is not reached, a dash where there is none."""
    values = [row.get(column) for row in arm.rows if row is not None and is_sound(row)]
    known = [math.inf if v is None else v for v in values if v is not None or event]
    # An event's median is not between a time and never.
    middle = float((median_time if event else np.median)(np.array(known or [math.nan])))
    text = "never" if math.isinf(middle) else "–" if math.isnan(middle) else f"{middle:,.0f}"
    return {"value": middle if math.isfinite(middle) else None, "text": text}
