"""Building blocks of the charts: lines with bands, shaded phases, marked events, the cursor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from grokscope.draw import theme
from grokscope.draw.reading import Reading
from grokscope.draw.tables import Lines

EPOCH_TITLE = "Training time (epochs)"
NO_ROWS = "No rows to draw yet."
# The width of a plot is known only where it is put: whoever does so must set this parameter.
ROOM = "room"
HEADROOM = 34  # pixels above a plot, for the names of events
ENDINGS = {
    "grokked": "circle",
    "not grokked by its last epoch": "triangle-right",
    "still under way": "diamond",
    "failed": "cross",
}
ABOVE = -6  # where notes stand, in pixels: just above the plot


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    measure: str
    label: str
    colour: str
    format: str = ".4~g"
    band: bool = True  # draw the range over seeds?


@dataclass(frozen=True)
class Panel:
    """One plot. Its words stay apart from it, since a page sets them as text."""

    title: str
    arm: str  # label of the arm, empty if the plot shows several
    note: str
    view: alt.LayerChart
    datasets: dict[str, list[dict[str, Any]]]  # by the names under which the view asks for them


def inline(rows: list[dict[str, Any]]) -> alt.Data:
    """A few rows. Whole curves go by name instead: Altair copies charts again and again."""
    return alt.Data(values=rows)


def name_data(lines: Lines, name: str, series: Sequence[Series]) -> dict[str, list[dict[str, Any]]]:
    """The datasets that `draw_lines` asks for under this name; ranges that it does not draw are
    left out."""
    unused = [f"{s.measure}_{end}" for s in series if not s.band for end in ("low", "high")]
    table = lines.table.drop(unused, strict=False)
    strays = {f"{name}_stray{i}": stray.to_dicts() for i, stray in enumerate(lines.strays)}
    return {name: table.to_dicts(), **strays}


def epoch_axis(last: int, unit: str = "epoch") -> alt.X:
    return alt.X(
        "epoch:Q",
        title=EPOCH_TITLE.replace("epoch", unit),
        scale=alt.Scale(domain=[0, max(last, 1)], nice=False, zero=False),
        axis=alt.Axis(format=",d", tickCount=alt.ExprRef(f"max(2, floor({ROOM} / 80))")),
    )


def legend(labels: Sequence[str], **options: Any) -> alt.Legend:
    """A legend in one line where the plot is wide enough, else in two columns, else in one."""
    widths = [6.8 * len(label) + 36 for label in labels]  # pixels, generously
    wide, half = f"{ROOM} + 40 >= {sum(widths):.0f}", f"{ROOM} + 40 >= {2 * max(widths):.0f}"
    columns = alt.ExprRef(f"{wide} ? {len(labels)} : {half} ? 2 : 1")
    return alt.Legend(title=None, columns=columns, **options)


def draw_lines(
    lines: Lines,
    name: str,
    series: Sequence[Series],
    x: alt.X,
    y: alt.Y,
    among: Sequence[Series] = (),
    headroom: int = HEADROOM,
) -> list[alt.Chart]:
    """Bands first, then lone stretches, then the lines, which carry the legend.

    `y` is the axis without its field. The legend names all series that the lines are `among`.
    """
    everyone = among or series
    scale = alt.Scale(domain=[s.label for s in everyone], range=[s.colour for s in everyone])
    names = None
    if len(everyone) > 1:
        names = legend([s.label for s in everyone], symbolType="stroke", offset=headroom)
    data = alt.NamedData(name)
    bands, strays, middles = [], [], []
    for s in series:
        if lines.banded and s.band:
            bands.append(
                alt.Chart(data)
                .mark_area(color=s.colour, opacity=theme.BAND_OPACITY, aria=False)
                .encode(x=x, y=_of(y, f"{s.measure}_low"), y2=f"{s.measure}_high:Q")
            )
        strays += [
            alt.Chart(alt.NamedData(f"{name}_stray{i}"))
            .mark_line(color=s.colour, strokeWidth=1, opacity=0.6, aria=False)
            .encode(x=x, y=_of(y, s.measure))
            for i in range(len(lines.strays))
        ]
        middles.append(
            alt.Chart(data)
            .transform_calculate(series=json.dumps(s.label))
            .mark_line()
            .encode(
                x=x,
                y=_of(y, s.measure),
                stroke=alt.Stroke("series:N", scale=scale, legend=names),
            )
        )
    return [*bands, *strays, *middles]


def _of(axis: alt.Y, field: str) -> alt.Y:
    named = axis.copy()
    named.shorthand = f"{field}:Q"
    return named


def draw_cursor(name: str, series: Sequence[Series], x: alt.X, banded: bool) -> list[alt.Chart]:
    """A rule that follows the pointer and tells the values of the nearest row of a dataset.

    Invisible strips, one per row, catch the pointer. Vega-Lite's own `nearest` would not do: its
    tips look for calculated fields in the wrong place.
    """
    near = alt.selection_point(
        name=f"near_{name}", on="pointerover", clear="pointerout", fields=["epoch"], empty=False
    )
    rule = (
        alt.Chart(alt.NamedData(name))
        .transform_filter(near)
        .mark_rule(style="cursor", aria=False)
        .encode(x=x)
    )
    strips = alt.Chart(alt.NamedData(name)).transform_window(
        before="lag(epoch)", after="lead(epoch)", sort=[alt.SortField("epoch")]
    )
    strips = strips.transform_calculate(
        left="isValid(datum.before) ? (datum.before + datum.epoch) / 2 : datum.epoch",
        right="isValid(datum.after) ? (datum.after + datum.epoch) / 2 : datum.epoch",
    )
    tips = [alt.Tooltip("epoch:Q", title="epoch", format=",d")]
    for index, s in enumerate(series):
        # Vega would format a missing value as zero; the tip says that it is missing.
        text = f"format(datum.{s.measure}, '{s.format}')"
        if banded and s.band:
            low, high = (
                f"format(datum.{s.measure}_{end}, '{s.format}')" for end in ("low", "high")
            )
            text += f" + ' (' + {low} + ' to ' + {high} + ')'"
        tip = f"isValid(datum.{s.measure}) ? {text} : 'none'"
        strips = strips.transform_calculate(**{f"tip{index}": tip})
        tips.append(alt.Tooltip(f"tip{index}:N", title=s.label))
    start = x.copy()
    start.shorthand = "left:Q"
    catcher = (
        strips.mark_rect(fillOpacity=0, aria=False)
        .encode(x=start, x2="right:Q", tooltip=tips)
        .add_params(near)
    )
    return [rule, catcher]


def draw_threshold(value: float, colour: str | None = None) -> alt.Chart:
    mark = {"style": "threshold", "color": colour} if colour else {"style": ["event", "threshold"]}
    return alt.Chart(inline([{"threshold": value}])).mark_rule(**mark).encode(y="threshold:Q")


def draw_phases(readings: Sequence[Reading], x: alt.X, last: int) -> list[alt.Chart]:
    """The phases that were found in a single run, shaded and numbered; the legend names them."""
    (reading,) = readings
    found = [(phase.name, phase.start, phase.end) for phase in reading.phases if phase.found]
    if not found:
        return []
    numbers = {name: number for number, name in enumerate(theme.PHASES, start=1)}
    rows = []
    for name, start, end in found:
        until = reading.epochs if end is None else end
        rows.append(
            {
                "epoch": start,
                "until": until,
                "phase": f"{numbers[name]} {name}",
                "number": str(numbers[name]),
                "middle": ((start or 0) + until) / 2,
                "wide": until - (start or 0) >= 0.03 * last,  # else a number has no room
            }
        )
    labels = [f"{numbers[name]} {name}" for name, _, _ in found]
    scale = alt.Scale(domain=labels, range=[theme.PHASES[name] for name, _, _ in found])
    shades = (
        alt.Chart(inline(rows))
        .mark_rect(opacity=theme.PHASE_OPACITY)
        .encode(
            x=x,
            x2="until:Q",
            fill=alt.Fill(
                "phase:N",
                scale=scale,
                legend=legend(labels, orient="bottom", symbolType="square", symbolOpacity=0.45),
            ),
        )
    )
    figures = (
        alt.Chart(inline([row for row in rows if row["wide"]]))
        .mark_text(style="phase-number", baseline="bottom")
        .encode(x="middle:Q", y=alt.value(ABOVE + 2), text="number:N")
    )
    return [shades, figures]


def draw_events(readings: Sequence[Reading], x: alt.X, last: int) -> list[alt.Chart]:
    """Memorisation and grokking as upright rules, named above the plot, each at its own height."""
    layers = []
    for row, word in enumerate(("memorised", "grokked")):
        events = [getattr(reading, word) for reading in readings]
        epochs = [event.epoch for event in events if event is not None and event.epoch is not None]
        if not epochs:
            continue
        share = f" ({len(epochs)} of {len(readings)} seeds)" if len(readings) > 1 else ""
        left = min(epochs) <= last / 2
        layers += [
            alt.Chart(inline([{"epoch": epoch} for epoch in epochs]))
            .mark_rule(style="event", opacity=1 if len(epochs) == 1 else 0.6)
            .encode(x=x),
            alt.Chart(
                inline([{"epoch": min(epochs) if left else max(epochs), "note": word + share}])
            )
            .mark_text(
                style="note",
                align="left" if left else "right",
                baseline="bottom",
                dx=-1 if left else 1,
            )
            .encode(x=x, y=alt.value(ABOVE + 3 - 13 * row), text="note:N"),
        ]
    return layers


def draw_endings(marks: list[dict[str, Any]], x: alt.X) -> alt.Chart:
    """A mark per run: filled where it grokked, hollow or crossed where it was last seen."""
    kinds = [kind for kind in ENDINGS if any(mark["ending"] == kind for mark in marks)]
    return (
        alt.Chart(inline(marks))
        .mark_point(size=64, strokeWidth=1.75, opacity=1)
        .encode(
            x=x,
            y="accuracy:Q",
            stroke=alt.Stroke("colour:N", scale=None),
            fill=alt.condition(
                alt.datum.ending == "grokked",
                alt.Fill("colour:N", scale=None),
                alt.value("transparent"),
            ),
            shape=alt.Shape(
                "ending:N",
                scale=alt.Scale(domain=kinds, range=[ENDINGS[kind] for kind in kinds]),
                legend=legend(kinds, orient="bottom", symbolStrokeColor=theme.NORMS[0]),
            ),
            tooltip=[
                alt.Tooltip("arm:N"),
                alt.Tooltip("seed:Q"),
                alt.Tooltip("text:N", title="outcome"),
            ],
        )
    )


def empty_panel(title: str, arm: str, note: str, height: int, words: str = NO_ROWS) -> Panel:
    text = (
        alt.Chart(inline([{"note": words}]))
        .mark_text(style="note", fontSize=13)
        .encode(text="note:N")
    )
    return Panel(title, arm, note, alt.LayerChart(layer=[text], height=height), {})
