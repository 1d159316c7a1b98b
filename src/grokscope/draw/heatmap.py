"""The heat map of attention: position in the sequence by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from grokscope.draw import layers
from grokscope.draw.reading import Reading
from grokscope.spec import PER_EXAMPLE, ObservedSpec, Spec, TaskSpec, WatchSpec

ROW, LEAST, MOST = 26, 120, 420  # pixels: of a row, of the whole

Names = list[tuple[str, bool]]  # of positions, and whether they are informative for every input


def name_positions(task: TaskSpec) -> Names:
    """The names on the axis. Where operands stand anywhere, only the query has one; in a stream
    attention is a mean over questions, each with operands of its own."""
    if task.kind == "parity_stream":
        return [(str(position), False) for position in range(task.blocks * (task.bits + 1) - 1)]
    slots = task.bits if task.kind == "parity" else (task.length or 2 * task.operands + 1) - 1
    informative = {i * slots // task.operands for i in range(task.operands)}
    names: Names = []
    for position in range(slots):
        if task.positions == "random":
            names.append((str(position), False))
        elif position in informative:
            names.append((f"{position} operand", True))
        else:
            names.append((f"{position} distractor", False))
    return [*names, (f"{slots} query", False)]


def name_watched(watch: WatchSpec, count: int) -> Names:
    """The names where a model of the user's was watched; positions per example have none."""

    def places(text: str) -> set[int]:
        known = text not in ("", PER_EXAMPLE)
        return {int(place) % count for place in text.split(", ")} if known else set()

    query, informative = places(watch.query), places(watch.informative)
    return [
        (
            f"{place}{' informative' * (place in informative)}{' query' * (place in query)}",
            place in informative,
        )
        for place in range(count)
    ]


def name_cells(cells: list[dict[str, Any]], spec: Spec) -> tuple[list[dict[str, Any]], Names]:
    """The cells with the names of their positions, and all the names."""
    count = max(cell["position"] for cell in cells) + 1
    if isinstance(spec, ObservedSpec):
        names = name_watched(spec.watch, count)
    else:
        names = name_positions(spec.task)
    if len(names) != count:  # a curve of another making: the task does not know its positions
        names = [(str(position), False) for position in range(count)]
    return [{**cell, "name": names[cell["position"]][0]} for cell in cells], names


def describe_mean(readings: Sequence[Reading]) -> str:
    """What the colours are a mean of."""
    over = ["inputs"]
    spec = readings[0].spec
    if isinstance(spec, ObservedSpec):
        over.append("watched layers and heads")
    elif spec.model.heads > 1:
        over.append("heads")
    sound = sum(reading.status != "failed" for reading in readings)
    if len(readings) > 1:
        over.append(f"{sound or len(readings)} seeds")
    text = "mean over " + " and ".join([", ".join(over[:-1]), over[-1]] if over[1:] else over)
    if isinstance(spec, ObservedSpec):
        fixed = spec.watch.informative not in ("", PER_EXAMPLE)
        return f"{text} · framed: the positions that determine the answer" if fixed else text
    if spec.task.positions == "fixed":
        return f"{text} · framed: the positions that determine the answer"
    return f"{text} · operands stand at other positions in each input"


def draw_heat_map(
    readings: Sequence[Reading], data: str, names: Names, most: float, last: int
) -> alt.LayerChart:
    """Cells of the named dataset, the informative positions framed, events marked. Colours run
    from 0 to `most`."""
    order = [name for name, _ in names]
    x = layers.epoch_axis(last, readings[0].unit)
    y = alt.Y("name:N", sort=order, title="Position in the sequence", scale=alt.Scale(domain=order))
    cells = (
        alt.Chart(alt.NamedData(data))
        .mark_rect(aria=False)
        .encode(
            x=x,
            x2="until:Q",
            y=y,
            color=alt.Color(
                "attention:Q",
                scale=alt.Scale(domain=[0, most], nice=False),
                legend=alt.Legend(
                    title="attention weight",
                    titleOrient="left",
                    gradientLength=140,
                    format=".2~f",
                    offset=layers.HEADROOM,
                ),
            ),
            tooltip=[
                alt.Tooltip("name:N", title="position"),
                alt.Tooltip("epoch:Q", format=",d"),
                alt.Tooltip("attention:Q", format=".3f"),
            ],
        )
    )
    frames = [
        alt.Chart(layers.inline([{"name": name}]))
        .mark_rect(style="informative", filled=False, aria=False)
        .encode(y=y)
        for name, matters in names
        if matters
    ]
    return alt.LayerChart(
        layer=[cells, *frames, *layers.draw_events(readings, x, last)],
        height=max(LEAST, min(ROW * len(names), MOST)),
    )
