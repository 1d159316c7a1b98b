"""Marks that charts are made of: lines with bands, runs by how they ended, rules, notes, events,
phases, and the cursor of an interactive chart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from grokscope.draw import theme
from grokscope.draw.axes import ROOM, renamed
from grokscope.draw.glossary import Measure
from grokscope.draw.reading import Reading
from grokscope.draw.tables import Lines

REACHED, CENSORED, UNDER_WAY, FAILED = "reached", "censored", "under way", "failed"
SHAPES = {REACHED: "circle", CENSORED: "triangle-right", UNDER_WAY: "diamond", FAILED: "cross"}
UNSEEN = {"finished": CENSORED, "partial": UNDER_WAY, "failed": FAILED}
"""By the status of a run: how it ended without the event."""
HEADROOM = 34  # pixels above a plot, for the names of events
ABOVE = -6  # pixels: just above a plot
Rows = list[dict[str, Any]]


def inline(rows: Rows) -> alt.Data:
    """A few rows. Whole curves are passed by name instead, since Altair copies charts often."""
    return alt.Data(values=rows)


def own_colour() -> alt.Color:
    """Each row has its own colour, in the column `colour`."""
    return alt.Color("colour:N", scale=None)


def draw_text(text: str, x: float, y: float, colour: str, **style: Any) -> alt.Chart:
    """A note at a place given in pixels."""
    mark = {"align": "left", "fontSize": 11.5, "color": colour, **style}
    place = {"x": alt.value(x), "y": alt.value(y), "text": alt.value(text)}
    return alt.Chart(inline([{}])).mark_text(**mark).encode(**place)


def draw_rule(channel: str, value: float, dash: list[int]) -> alt.Chart:
    """A rule across the whole plot, at a value of `x` or `y`."""
    rule = alt.Chart().mark_rule(color=theme.SOFT, strokeDash=dash)
    return rule.encode(**{channel: alt.datum(value)})


def draw_runs(
    rows: Rows, x: alt.X, y: alt.Y, upwards: bool = False, names: Mapping[str, str] | None = None
) -> alt.Chart:
    """A mark per run, shaped by how it ended. Triangles point where the true value lies. Endings
    that have `names` are explained in a legend."""
    shapes = {**SHAPES, CENSORED: "triangle-up"} if upwards else SHAPES
    legend = None
    if names:
        found = [ending for ending in names if any(row["ending"] == ending for row in rows)]
        rows = [{**row, "ending": names[row["ending"]]} for row in rows]
        shapes = {names[ending]: shapes[ending] for ending in found}
        legend = make_legend(list(shapes), orient="bottom", symbolFillColor=theme.SOFT)
    scale = alt.Scale(domain=list(shapes), range=list(shapes.values()))
    points = alt.Chart(inline(rows)).mark_point(
        filled=True, size=48, opacity=0.85, stroke="#FFFFFF", strokeWidth=0.5
    )
    tips = ["arm:N", "seed:Q", alt.Tooltip("text:N", title="outcome")] if names else []
    shape = alt.Shape("ending:N", scale=scale, legend=legend)
    return points.encode(x=x, y=y, color=own_colour(), shape=shape, tooltip=tips)


def name_endings(event: str, until: str) -> dict[str, str]:
    """What a legend calls the endings of runs that are about an event."""
    known = {REACHED: event, CENSORED: f"not {event} by {until}"}
    return {**known, UNDER_WAY: "unfinished", FAILED: "failed"}


def draw_band(data: Any, column: str, colour: str, x: alt.X, y: alt.Y) -> alt.Chart:
    """The range over seeds of a column."""
    area = alt.Chart(data).mark_area(color=colour, opacity=theme.BAND_OPACITY, aria=False)
    return area.encode(x=x, y=renamed(y, f"{column}_low"), y2=f"{column}_high:Q")


def name_data(lines: Lines, name: str, series: Mapping[str, Measure]) -> dict[str, Rows]:
    """The datasets that `draw_lines` asks for under this name, without the ranges that it does not
    draw."""
    unused = [f"{c}_{end}" for c, s in series.items() if not s.band for end in ("low", "high")]
    table = lines.table.drop(unused, strict=False)
    strays = {f"{name}_stray{i}": stray.to_dicts() for i, stray in enumerate(lines.strays)}
    return {name: table.to_dicts(), **strays}


def make_legend(labels: Sequence[str], **options: Any) -> alt.Legend:
    """A legend in one line where the plot is wide enough, else in two columns or one."""
    widths = [6.8 * len(label) + 36 for label in labels]  # pixels, generously
    wide, half = f"{ROOM} + 40 >= {sum(widths):.0f}", f"{ROOM} + 40 >= {2 * max(widths):.0f}"
    columns = alt.ExprRef(f"{wide} ? {len(labels)} : {half} ? 2 : 1")
    # No label is cut, and fonts wider than the one that was measured do not touch the next label.
    return alt.Legend(title=None, columns=columns, labelLimit=0, columnPadding=22, **options)


def draw_lines(
    lines: Lines,
    name: str,
    series: Mapping[str, Measure],
    x: alt.X,
    y: alt.Y,
    among: Iterable[Measure] = (),
    headroom: int = HEADROOM,
) -> list[alt.Chart]:
    """Bands first, then single runs beyond the common epochs, then the lines.

    `y` is the axis without its field. The legend names all series that the lines are `among`.
    """
    everyone = list(among) or list(series.values())
    scale = alt.Scale(domain=[s.label for s in everyone], range=[s.colour for s in everyone])
    names = None
    if len(everyone) > 1:
        names = make_legend([s.label for s in everyone], symbolType="stroke", offset=headroom)
    data = alt.NamedData(name)
    bands, strays, middles = [], [], []
    for column, s in series.items():
        if lines.banded and s.band:
            bands.append(draw_band(data, column, s.colour, x, y))
        strays += [
            alt.Chart(alt.NamedData(f"{name}_stray{i}"))
            .mark_line(color=s.colour, strokeWidth=1, opacity=0.6, aria=False)
            .encode(x=x, y=renamed(y, column))
            for i in range(len(lines.strays))
        ]
        stroke = alt.Stroke("series:N", scale=scale, legend=names)
        line = alt.Chart(data).transform_calculate(series=json.dumps(s.label)).mark_line()
        middles.append(line.encode(x=x, y=renamed(y, column), stroke=stroke))
    return [*bands, *strays, *middles]


def draw_cursor(
    name: str, series: Mapping[str, Measure], x: alt.X, banded: bool
) -> list[alt.Chart]:
    """A rule that follows the pointer and shows the values of the nearest row of a dataset.

    Invisible strips, one per row, catch the pointer: with Vega-Lite's own `nearest`, tooltips miss
    calculated fields.
    """
    near = alt.selection_point(
        name=f"near_{name}", on="pointerover", clear="pointerout", fields=["epoch"], empty=False
    )
    data = alt.Chart(alt.NamedData(name))
    rule = data.transform_filter(near).mark_rule(style="cursor", aria=False).encode(x=x)
    strips = data.transform_window(
        before="lag(epoch)", after="lead(epoch)", sort=[alt.SortField("epoch")]
    ).transform_calculate(
        left="isValid(datum.before) ? (datum.before + datum.epoch) / 2 : datum.epoch",
        right="isValid(datum.after) ? (datum.after + datum.epoch) / 2 : datum.epoch",
    )
    tips = [alt.Tooltip("epoch:Q", title="epoch", format=",d")]
    for index, (column, s) in enumerate(series.items()):
        # Vega would format a missing value as zero.
        text, low, high = (
            f"format(datum['{column}{end}'], '{s.format}')" for end in ("", "_low", "_high")
        )
        if banded and s.band:
            text += f" + ' (' + {low} + ' to ' + {high} + ')'"
        tip = f"isValid(datum['{column}']) ? {text} : 'none'"
        strips = strips.transform_calculate(**{f"tip{index}": tip})
        tips.append(alt.Tooltip(f"tip{index}:N", title=s.label))
    catcher = strips.mark_rect(fillOpacity=0, aria=False)
    places = {"x": renamed(x, "left"), "x2": "right:Q", "tooltip": tips}
    return [rule, catcher.encode(**places).add_params(near)]


def draw_threshold(value: float, colour: str | None = None) -> alt.Chart:
    """A dashed rule at a value of the vertical axis."""
    mark = {"style": "threshold", "color": colour} if colour else {"style": ["event", "threshold"]}
    return alt.Chart(inline([{"threshold": value}])).mark_rule(**mark).encode(y="threshold:Q")


def draw_phases(reading: Reading, x: alt.X, last: int) -> list[alt.Chart]:
    """The phases found in a run, shaded and numbered; the legend names them."""
    rows: Rows = []
    for number, phase in enumerate(reading.phases, start=1):
        if phase.start is not None:
            until = reading.epochs if phase.end is None else phase.end
            place = {"epoch": phase.start, "until": until, "middle": (phase.start + until) / 2}
            rows.append({**place, "phase": f"{number} {phase.name}", "number": str(number)})
    if not rows:
        return []
    labels, found = [row["phase"] for row in rows], [p.name for p in reading.phases if p.found]
    colours = [theme.kind_colour(theme.PHASES, name) for name in found]
    names = make_legend(labels, orient="bottom", symbolType="square", symbolOpacity=0.45)
    fill = alt.Fill("phase:N", scale=alt.Scale(domain=labels, range=colours), legend=names)
    shades = alt.Chart(inline(rows)).mark_rect(opacity=theme.PHASE_OPACITY)
    wide = [row for row in rows if row["until"] - row["epoch"] >= 0.03 * last]  # room for a number
    numbers = alt.Chart(inline(wide)).mark_text(style="phase-number", baseline="bottom")
    return [
        shades.encode(x=x, x2="until:Q", fill=fill),
        numbers.encode(x="middle:Q", y=alt.value(ABOVE + 2), text="number:N"),
    ]


def draw_events(readings: Sequence[Reading], x: alt.X, last: int) -> list[alt.Chart]:
    """When each event happened, as upright rules with names above the plot."""
    layers = []
    for row, word in enumerate(dict.fromkeys(name for r in readings for name in r.events)):
        epochs = [epoch for r in readings if (epoch := r.time_of(word)) is not None]
        if not epochs:
            continue
        share = f" ({len(epochs)} of {len(readings)} seeds)" if len(readings) > 1 else ""
        late = min(epochs) > last / 2
        rules = alt.Chart(inline([{"epoch": epoch} for epoch in epochs]))
        at, height = max(epochs) if late else min(epochs), ABOVE + 3 - 13 * row
        layers += [
            rules.mark_rule(style="event", opacity=1 if len(epochs) == 1 else 0.6).encode(x=x),
            name_event(word + share, at, x, height, late, gap=-1, baseline="bottom"),
        ]
    return layers


def name_event(
    text: str, epoch: float, x: alt.X, y: float, late: bool, gap: int = 4, **style: Any
) -> alt.Chart:
    """The name of an event beside its rule: on the left of a late one, where there is room."""
    side = {"align": "right", "dx": -gap} if late else {"align": "left", "dx": gap}
    note = alt.Chart(inline([{"epoch": epoch, "note": text}]))
    mark = note.mark_text(**{"style": "note", **side, **style})
    return mark.encode(x=x, y=alt.value(y), text="note:N")
