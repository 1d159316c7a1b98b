"""The map: medians over two hyperparameters."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.studies import Panel
from grokscope.claims.verdicts import median_time
from grokscope.draw import theme
from grokscope.draw.layers import inline
from grokscope.papers.structural_inference.figures.marks import (
    INK,
    LATE,
    PALE,
    WIDTH,
    count_runs,
    is_sound,
    present,
)


def draw_map(evidence: Evidence) -> list[Panel]:
    """Median grok epoch by alphabet and strength, by alphabet and decay; median starvation."""
    panels = []
    for _, sample in present(evidence):
        usual = sample.setting.base.optimiser.weight_decay
        arms = list(sample.arms.values())
        decayed = [arm for arm in arms if arm.spec.optimiser.weight_decay == usual]
        alone = [arm for arm in arms if arm.spec.prior.kind == "none"]
        for title, level, column, chosen in (
            ("Grok epoch, by strength of the prior", "Strength λ", "grokked", decayed),
            ("Grok epoch without a prior, by decay", "Weight decay", "grokked", alone),
            ("Epochs of starvation, by strength", "Strength λ", "starved", decayed),
        ):
            cells = [_cell(arm, level, column) for arm in chosen]
            if len({cell["level"] for cell in cells}) > 1:
                most = sample.budget if column == "grokked" else None
                panels.append(Panel(title, _heat_map(cells, level, most), count_runs(sample)))
    return panels


def _cell(arm: ArmRuns, level: str, column: str) -> dict[str, Any]:
    """What a field says: the median of the finished runs, "never", or a dash if there are none."""
    spec = arm.spec
    strength = spec.prior.strength if spec.prior.kind != "none" else 0.0
    values = [row.get(column) for row in arm.rows if row is not None and is_sound(row)]
    if column == "grokked":
        middle = median_time(np.array([math.inf if v is None else v for v in values] or [math.nan]))
    else:
        known = [value for value in values if value is not None]
        middle = float(np.median(known)) if known else math.nan
    cell = {
        "alphabet": spec.task.alphabet,
        "level": strength if level.startswith("Strength") else spec.optimiser.weight_decay,
        "value": middle if math.isfinite(middle) else None,
        "text": f"{middle:,.0f}" if math.isfinite(middle) else "–",
    }
    return {**cell, "text": "never"} if math.isinf(middle) else cell


def _heat_map(cells: list[dict[str, Any]], level: str, most: float | None) -> alt.LayerChart:
    """Light is early, dark is late, and black is never. Numbers stand in the fields."""
    values = [cell["value"] for cell in cells if cell["value"] is not None] or [1.0]
    high = max(most or 0.0, *values, 1.0)
    low = min(*values, high / 2) if most else 0.0
    bright = low**0.3 * high**0.7 if most else high / 4  # beyond it, letters are white
    for cell in cells:
        dark = cell["text"] == "never" or (cell["value"] or 0) > bright
        cell["ink"] = "#FFFFFF" if dark else INK
    x = alt.X(
        "alphabet:O",
        title="Distractor tokens r",
        axis=alt.Axis(labelAngle=0, domain=False, ticks=False),
    )
    y = alt.Y(
        "level:O",
        title=level,
        sort="descending",
        axis=alt.Axis(labelExpr="datum.value == 0 ? 'none' : format(datum.value, '~g')"),
    )
    base = alt.Chart(inline(cells))
    square: dict[str, Any] = {"stroke": "#FFFFFF", "strokeWidth": 2}
    colours = theme.theme()["range"]["heatmap"]
    scale = alt.Scale(
        type="log" if most else "symlog", domain=[low, high], range=colours[:3], interpolate="lab"
    )
    return alt.LayerChart(
        layer=[
            base.mark_rect(color=PALE, **square).encode(x=x, y=y),
            base.transform_filter("isValid(datum.value)")
            .mark_rect(**square)
            .encode(x=x, y=y, color=alt.Color("value:Q", scale=scale, legend=None)),
            base.transform_filter("datum.text == 'never'")
            .mark_rect(color=LATE, **square)
            .encode(x=x, y=y),
            base.mark_text(fontSize=10.5).encode(
                x=x, y=y, text="text:N", color=alt.Color("ink:N", scale=None)
            ),
        ],
        width=WIDTH,
        height=34 * len({cell["level"] for cell in cells}),
        resolve=alt.Resolve(scale=alt.ScaleResolveMap(color="independent")),
    )
