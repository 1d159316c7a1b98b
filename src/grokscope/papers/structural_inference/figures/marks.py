"""What the figures share: sizes, colours, and how a run is drawn.

A dot is a run that grokked, a triangle one that had not when its budget ended, a cross one that
failed; vermilion has no prior, green the oracle's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.verdicts import median_time
from grokscope.draw import theme
from grokscope.draw.layers import ENDINGS, inline

WIDTH = 270  # of a panel's plot, in pixels: three stand side by side, one fills a phone
STRIP = 306  # of a plot without a vertical axis
ROW = 36  # height of an arm's row: its name above its runs
NONE, ORACLE, ADVERSARIAL = theme.ARMS[:3]
PRIORS = {"none": NONE, "oracle": ORACLE, "adversarial": ADVERSARIAL}
TICKET, WITH_ATTENTION, ATTENTION, CONTROL = (theme.ARMS[i] for i in (3, 7, 4, 5))
OPTIMISER, BATCH, MOMENTUM = (theme.ARMS[i] for i in (3, 4, 5))
GROKKED, CENSORED, _, FAILED = ENDINGS
INK, SOFT, PALE, LATE = "#1E252F", "#5B6675", "#F3F5F8", "#2B323C"


def present(evidence: Evidence) -> Iterator[tuple[str, Sample]]:
    """Regimes with at least one run that has ended."""
    for regime, sample in evidence.samples.items():
        if any(row is not None for arm in sample.arms.values() for row in arm.rows):
            yield regime, sample


def is_sound(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row["status"] == "finished"


def ending(row: Mapping[str, Any]) -> str:
    if not is_sound(row):
        return FAILED
    return CENSORED if row["grokked"] is None else GROKKED


def seen_times(arm: ArmRuns, budget: int) -> np.ndarray:  # (seeds,)
    """Grok epoch; the budget where there is none, the last epoch of a run that failed."""
    values = []
    for row in arm.rows:
        if row is None:
            values.append(math.nan)
        elif is_sound(row):
            values.append(row["grokked"] if row["grokked"] is not None else budget)
        else:
            values.append(max(row["epochs"], 1))
    return np.array(values, float)


def count_runs(sample: Sample) -> str:
    """Seeds, and the runs that are not there to see."""
    rows = [row for arm in sample.arms.values() for row in arm.rows]
    seeds = max(len(arm.rows) for arm in sample.arms.values())
    words = [f"{seeds} seed{'s' * (seeds > 1)}"]
    missing = sum(row is None for row in rows)
    failed = sum(row is not None and not is_sound(row) for row in rows)
    if missing:
        words.append(f"{missing} of {len(rows)} runs missing")
    if failed:
        words.append(f"{failed} failed")
    return ", ".join(words)


def time_span(evidence: Evidence) -> tuple[float, float]:
    """The range of grok epochs, from the earliest run to a little beyond the budget."""
    budget = max((sample.budget for sample in evidence.samples.values()), default=1)
    values = [
        value
        for _, sample in present(evidence)
        for arm in sample.arms.values()
        for value in seen_times(arm, sample.budget)
        if math.isfinite(value)
    ]
    return min([*values, budget / 4]) / 1.25, budget * 1.2


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


def spread(index: int, n: int) -> float:
    """Where a seed stands among its own, from -1/2 to 1/2."""
    return index / (n - 1) - 0.5 if n > 1 else 0.0


def renamed(axis: alt.X | alt.Y, field: str) -> Any:
    named = axis.copy()
    named.shorthand = f"{field}:Q"
    return named


def text_mark(text: str, x: float, y: float, colour: str, **style: Any) -> alt.Chart:
    mark = {"align": "left", "fontSize": 11.5, "color": colour, **style}
    return (
        alt.Chart(inline([{}]))
        .mark_text(**mark)
        .encode(x=alt.value(x), y=alt.value(y), text=alt.value(text))
    )


def run_points(
    rows: list[dict[str, Any]], x: alt.X, y: alt.Y, colour: alt.Color, upwards: bool = False
) -> alt.Chart:
    """Runs, shaped by how they ended."""
    shapes = {**ENDINGS, CENSORED: "triangle-up"} if upwards else ENDINGS
    scale = alt.Scale(domain=list(shapes), range=list(shapes.values()))
    return (
        alt.Chart(inline(rows))
        .mark_point(filled=True, size=48, opacity=0.85, stroke="#FFFFFF", strokeWidth=0.5)
        .encode(x=x, y=y, color=colour, shape=alt.Shape("ending:N", scale=scale, legend=None))
    )


def middle_of(arm: ArmRuns) -> tuple[str, float | None]:
    """Median grok epoch of the finished runs, in words and as a number."""
    times = arm.times()[[is_sound(row) for row in arm.rows]]
    if not len(times):
        return "not run", None
    middle = median_time(times)
    if math.isinf(middle):
        return f"{share_of(arm)} grok", None
    return f"median {middle:,.0f}", middle


def share_of(arm: ArmRuns) -> str:
    """How many grok ("4 of 5"), of the runs that have finished."""
    sound = [row for row in arm.rows if is_sound(row)]
    if not sound:
        return "not run"
    return f"{sum(row['grokked'] is not None for row in sound if row)} of {len(sound)}"
