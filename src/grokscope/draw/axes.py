"""Axes of every chart: epochs, logarithms with readable ticks, shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

# Only whoever places a plot knows its width, and must set this parameter.
ROOM = "room"
POWERS = (  # 0.01 and 1,000 as they are, 1e-7 beyond
    "datum.value >= 1e-4 && datum.value < 1e6 ? format(datum.value, ',~r') "
    ": replace(format(datum.value, '~e'), '+', '')"
)


def in_unit(unit: str) -> str:
    """The title of training time."""
    return f"Training time ({unit}s)"


def in_log(title: str) -> str:
    """The title of a logarithmic axis."""
    return f"{title[:-1]}, log scale)" if title.endswith(")") else f"{title} (log scale)"


def epoch_axis(last: int, unit: str = "epoch", log: bool = False) -> alt.X:
    """Training time from 0 to the last epoch, with as many ticks as there is room for. A log
    scale is that of log(1 + epoch), so that epoch 0 has a place."""
    title, last = in_unit(unit), max(last, 1)
    scale, axis = alt.Scale(domain=[0, last], nice=False, zero=False), alt.Axis(format=",d")
    if log:
        scale.type, title = "symlog", in_log(title)
        axis.values = [0, *(10**power for power in range(len(str(last))))]
    else:
        axis.tickCount = alt.ExprRef(f"max(2, floor({ROOM} / 80))")
    return alt.X("epoch:Q", title=title, scale=scale, axis=axis)


def log_axis(
    channel: Any, field: str, title: str, domain: tuple[float, float], values: Sequence[float] = ()
) -> Any:
    """A logarithmic axis (`alt.X` or `alt.Y`) over exactly this domain; ticks at 1, 2, 5, 10, ...
    unless `values` are given."""
    low, high = domain
    return channel(
        f"{field}:Q",
        title=in_log(title),
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=list(values) or ticks(low, high), format=",~r" if values else ",d"),
    )


def share_axis(channel: Any, field: str, title: str | None, low: float = 0.0) -> Any:
    """From 0 to 100 %, with room for the marks at the ends."""
    return channel(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[low, 1.02], nice=False),
        axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
    )


def fitting_axis(title: str | None, scale: str, values: Iterable[float | None], **axis: Any) -> Any:
    """A vertical axis, its field yet to be named, that fits the values: a share of 1,
    logarithmic, from zero, or around them."""
    known = [v for v in values if v is not None and (v > 0 or scale != "log")] or [0.1, 1.0]
    low, high = min(known), max(known)
    if scale == "share":
        options: dict[str, Any] = {"domain": [0, 1]}
    elif scale == "log":
        options = {"type": "log", "domain": [low, max(high, 1.01 * low)], "nice": True}
        axis = {"labelExpr": POWERS, **axis}
        title = in_log(title) if title else title
    else:
        low = min(low, 0.0) if scale == "zero" else low
        options = {"domain": [low, high if high > low else low + 1], "nice": True, "zero": False}
    return alt.Y(title=title, scale=alt.Scale(**options), axis=alt.Axis(**axis))


def renamed(axis: Any, field: str) -> Any:
    """The same axis for another column."""
    named = axis.copy()
    named.shorthand = f"{field}:Q"
    return named


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... within the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten within the range, at most six of them."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, math.ceil((last - first + 1) / 6))
    return [10.0**power for power in range(last, first - 1, -step)]
