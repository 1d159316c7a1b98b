"""Figure 8: accuracy on sequences longer than those trained on."""

from __future__ import annotations

import altair as alt
import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.studies import Panel
from grokscope.draw.layers import inline
from grokscope.papers.structural_inference.figures.marks import (
    PRIORS,
    WIDTH,
    count_runs,
    ending,
    present,
    run_points,
    spread,
    text_mark,
)

HEIGHT = 190
COLUMN = "accuracy_at_"
"""Begins the names of the columns, which end with the length."""


def draw_lengths(evidence: Evidence) -> list[Panel]:
    """Every run at every length, a line through the medians of each arm; a panel an encoding."""
    panels = []
    lengths = sorted(
        {
            int(name.removeprefix(COLUMN))
            for _, sample in present(evidence)
            for arm in sample.arms.values()
            for row in arm.rows
            for name, value in (row or {}).items()
            if name.startswith(COLUMN) and value is not None
        }
    )
    if not lengths:
        return []
    x = alt.X(
        "length:Q",
        title="Length of the sequence",
        scale=alt.Scale(domain=[lengths[0] - 0.6, lengths[-1] + 0.6], nice=False),
        axis=alt.Axis(values=lengths, format="d", grid=False),
    )
    y = alt.Y(
        "accuracy:Q",
        title=None,
        scale=alt.Scale(domain=[0, 1.02], nice=False),
        axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    colour = alt.Color("colour:N", scale=None)
    for regime, sample in present(evidence):
        points, middles, names = [], [], []
        for number, (name, arm) in enumerate(sample.arms.items()):
            shade = PRIORS[arm.spec.prior.kind]
            for length in lengths:
                values = arm.values(f"{COLUMN}{length}")
                for index, (row, value) in enumerate(zip(arm.rows, values, strict=True)):
                    if row is not None and np.isfinite(value):
                        # The arms side by side, or one would hide the other.
                        place = length + 0.36 * (number - 0.5) + 0.25 * spread(index, len(values))
                        points.append(
                            {
                                "length": place,
                                "accuracy": float(value),
                                "colour": shade,
                                "ending": ending(row),
                            }
                        )
                if np.isfinite(values).any():
                    middle = float(np.nanmedian(values))
                    middles.append({"length": length, "accuracy": middle, "colour": shade})
            names.append(text_mark(name, 6 + 90 * number, -9, shade, fontWeight=600))
        line = (
            alt.Chart(inline(middles))
            .mark_line(strokeWidth=2)
            .encode(x=x, y=y, color=colour, detail="colour:N")
        )
        chart = alt.LayerChart(
            layer=[line, run_points(points, x, y, colour), *names], width=WIDTH, height=HEIGHT
        )
        panels.append(Panel(regime, chart, f"{count_runs(sample)}; trained at length {lengths[0]}"))
    return panels
