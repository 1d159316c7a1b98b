"""The figures of docs/performance.md, in the theme of every other figure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from benchmarks.comparison import CONTENDERS
from benchmarks.goals import ALONE
from benchmarks.growth import BASE, SHORTEST, fit_exponent, middles
from grokscope.draw.axes import decades, ticks
from grokscope.draw.marks import inline
from grokscope.draw.theme import arm_colour, theme

WIDTH, HEIGHT = 420, 240
# Beside long names: the reader's font may be wider than the one that the figure was laid out with.
ROOM = {"left": 48, "right": 24, "top": 4, "bottom": 4}
DASH = 7  # pixels
Series = Mapping[str, Sequence[tuple[float, float]]]  # label: (size, cost)


def draw(measured: Mapping[str, Any]) -> dict[str, alt.TopLevelMixin]:
    """Every figure by the end of its file's name."""
    growth, points = measured["growth"], measured["storage"]["points"]
    figures = {"comparison": draw_comparison(measured["comparison"])}
    curves = [row for row in measured["agreement"]["curves"] if row["scale"] != "general"]
    if curves:
        figures["losses"] = draw_losses(curves)
        figures["differences"] = draw_differences(curves, measured["agreement"]["tolerance"])
    for axis in growth["axes"]:
        values = [point["value"] for point in axis["points"]]
        line = {
            "an epoch": list(zip(values, [1e3 * m for m in middles(axis["points"])], strict=True))
        }
        figures[axis["axis"]] = draw_power_laws(line, axis["title"], "Milliseconds per epoch")
    series = members_series(measured["comparison"])
    figures["members"] = draw_power_laws(
        series, "members trained", "Milliseconds per epoch, paper scale"
    )
    figures["measures"] = draw_power_laws(
        {f"{scale} scale": pairs for scale, pairs in measures_series(growth["measures"]).items()},
        "measures in a row",
        "Milliseconds per row",
    )
    costs: dict[str, tuple[str, Callable[[Any], float]]] = {
        "compile": ("Seconds to the first row", lambda point: point["first"]),
        "memory": ("Memory of the program (MB)", lambda point: 1e-6 * point["bytes"]["program"]),
    }
    for name, (title, cost) in costs.items():
        series = {
            axis["title"]: [(point["value"] / _base(axis), cost(point)) for point in axis["points"]]
            for axis in growth["axes"]
        }
        figures[name] = draw_power_laws(series, "size, 1 = laptop scale", title)
    figures["store"] = draw_power_laws(
        {
            name: [(point["runs"], point[name]) for point in points]
            for name in ("list", "filter", "load one", "verify")
        },
        "runs in the store",
        "Seconds",
    )
    figures["breakdown"] = draw_breakdown(measured["breakdown"])
    return figures


def _base(axis: Mapping[str, Any]) -> float:
    """The size that laptop scale has."""
    return {"modulus": BASE.task.modulus, "width": BASE.model.width, "length": SHORTEST}[
        axis["axis"]
    ]


def members_series(comparison: Mapping[str, Any]) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of an epoch of all members at paper scale, by contender, for those that have a
    number for one member."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in comparison["times"]:
        if row["scale"] == "paper" and not row["contender"].startswith("floor"):
            point = (row["members"], 1e3 * statistics.median(row["seconds"]))
            series.setdefault(row["contender"], []).append(point)
    return {name: points for name, points in series.items() if points[0][0] == 1}


def measures_series(measures: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of a row by the number of its columns, by scale."""
    return {
        found["scale"]: [
            (float(columns), 1e3 * statistics.median(group["seconds"]))
            for columns, group in zip(
                itertools.accumulate(group["columns"] for group in found["groups"]),
                found["groups"],
                strict=True,
            )
        ]
        for found in measures
    }


def draw_comparison(comparison: Mapping[str, Any]) -> alt.TopLevelMixin:
    rows = [
        {
            "contender": row["contender"],
            "panel": f"{row['scale'].capitalize()} scale",
            "members": str(row["members"]),
            "milliseconds": 1e3 * statistics.median(row["seconds"]) / row["members"],
        }
        for row in comparison["times"]
        if row["contender"] != ALONE
    ]
    counts = sorted({row["members"] for row in rows}, key=int)
    present = {row["contender"] for row in rows}
    order = [contender.name for contender in CONTENDERS if contender.name in present]
    chart = (
        alt.Chart(inline(rows))
        .mark_point(filled=True, size=64, opacity=0.9)
        .encode(
            x=alt.X(
                "milliseconds:Q",
                title="Milliseconds per member and epoch (log scale)",
                scale=alt.Scale(type="log", nice=False, padding=10),
                axis=alt.Axis(
                    format="~g", grid=True, values=_ticks([row["milliseconds"] for row in rows])
                ),
            ),
            y=alt.Y("contender:N", title=None, sort=order, axis=alt.Axis(labelLimit=260)),
            color=_colours("members", counts, title="Members"),
            shape=alt.Shape("members:N", scale=alt.Scale(domain=counts)),
        )
        .properties(width=270, height=22 * len(order))
    )
    return _beside_each_other(chart).properties(padding=ROOM)


def draw_losses(curves: Sequence[Mapping[str, Any]]) -> alt.TopLevelMixin:
    """The curves coincide, so each has dashes where the others leave gaps."""
    names = list(dict.fromkeys(row["contender"] for row in curves))
    chart = _along_epochs(curves, "losses", names).encode(
        y=alt.Y("value:Q", title="Training loss", scale=alt.Scale(zero=False))
    )
    lines = [
        chart.mark_line(
            strokeWidth=3,
            strokeCap="butt",
            strokeDash=[DASH, DASH * (len(names) - 1)],
            strokeDashOffset=-DASH * index,
        ).transform_filter(alt.datum.contender == name)
        for index, name in enumerate(names)
    ]
    return _beside_each_other(alt.layer(*lines))


def draw_differences(curves: Sequence[Mapping[str, Any]], tolerance: float) -> alt.TopLevelMixin:
    names = list(dict.fromkeys(row["contender"] for row in curves))
    chart = _along_epochs(curves, "differences", names).encode(
        y=alt.Y(
            "value:Q",
            title="Relative difference from double precision (log scale)",
            scale=alt.Scale(type="log", domainMax=2 * tolerance),
            axis=alt.Axis(format="~e", values=[10.0**power for power in range(-9, 0)]),
        )
    )
    once = (alt.datum.contender == names[0]) & (alt.datum.epoch == 0)  # a rule for each panel
    bound = (
        chart.transform_filter(once)
        .mark_rule(strokeDash=[4, 4])
        .encode(x=alt.X(), y=alt.datum(tolerance), color=alt.value("black"))
    )
    return _beside_each_other(alt.layer(chart, bound))


def _along_epochs(
    curves: Sequence[Mapping[str, Any]], column: str, names: Sequence[str]
) -> alt.Chart:
    """A line for each contender, with a gap where a value has no place on a log scale."""
    rows = [
        {
            "panel": f"{row['scale'].capitalize()} scale",
            "contender": row["contender"],
            "epoch": index * row["every"],
            "value": value if 0 < value < math.inf else None,
        }
        for row in curves
        for index, value in enumerate(row[column])
    ]
    return (
        alt.Chart(inline(rows))
        .mark_line()
        .encode(
            x=alt.X("epoch:Q", title="Epoch"),
            color=_colours("contender", names, columns=3, labelLimit=260),
        )
        .properties(width=270, height=HEIGHT)
    )


def _beside_each_other(chart: Any) -> alt.TopLevelMixin:
    return chart.facet(facet=alt.Facet("panel:N", title=None), columns=2).configure(**theme())


def draw_power_laws(series: Series, x_title: str, y_title: str) -> alt.TopLevelMixin:
    """Measured points and, where there are three, the fitted line of each series, on log scales."""
    points: list[dict[str, Any]] = []
    lines, labels = [], []
    for name, pairs in series.items():
        label = name
        sizes, costs = (np.array(column, float) for column in zip(*pairs, strict=True))
        if len(pairs) > 2:
            slope, _, _ = fit_exponent(sizes, costs)
            label = f"{name}: exponent {slope:.2f}"
            level = np.exp(np.mean(np.log(costs)) - slope * np.mean(np.log(sizes)))
            lines += [
                {"label": label, "size": float(x), "cost": float(level * x**slope)} for x in sizes
            ]
        labels.append(label)
        points += [{"label": label, "size": x, "cost": y} for x, y in pairs]
    columns = 1 if max(map(len, labels)) > 32 else 2
    colour = _colours("label", labels, columns=columns, labelLimit=460)
    x = alt.X(
        "size:Q",
        title=f"{x_title[0].upper()}{x_title[1:]} (log scale)",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(format="~g", values=sorted({point["size"] for point in points})),
    )
    y = alt.Y(
        "cost:Q",
        title=f"{y_title} (log scale)",
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(format="~g", values=_ticks([point["cost"] for point in points])),
    )
    dots = alt.Chart(inline(points)).mark_point(filled=True, size=48).encode(x=x, y=y, color=colour)
    fitted = alt.Chart(inline(lines)).mark_line(opacity=0.6).encode(x=x, y=y, color=colour)
    return (fitted + dots).properties(width=WIDTH, height=HEIGHT).configure(**theme())


def _colours(field: str, labels: Sequence[str], **legend: Any) -> alt.Color:
    scale = alt.Scale(domain=list(labels), range=[arm_colour(i) for i in range(len(labels))])
    title = legend.get("title", alt.Undefined)
    return alt.Color(f"{field}:N", title=title, scale=scale, legend=alt.Legend(**legend))


def _ticks(costs: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, ... around what is shown; powers of ten alone where that is a wide range."""
    low = 10.0 ** math.floor(math.log10(min(costs)))
    high = 10.0 ** math.ceil(math.log10(max(costs)))
    return ticks(low, 5 * high) if max(costs) / min(costs) < 300 else decades(low, high)


def draw_breakdown(breakdown: Mapping[str, Any]) -> alt.TopLevelMixin:
    total = sum(breakdown["seconds"].values())
    rows = [
        {"part": name, "share": seconds / total, "text": f"{100 * seconds / total:.1f} %"}
        for name, seconds in breakdown["seconds"].items()
    ]
    y = alt.Y("part:N", title=None, sort=list(breakdown["seconds"]))
    x = alt.X("share:Q", title="Share of the cores' time", axis=alt.Axis(format="%"))
    base = alt.Chart(inline(rows)).encode(x=x, y=y)
    bars = base.mark_bar(color=arm_colour(1))
    words = base.mark_text(align="left", dx=4, style="note").encode(text="text:N")
    figure = (bars + words).properties(width=WIDTH, height=22 * len(rows), padding=ROOM)
    return figure.configure(**theme())
