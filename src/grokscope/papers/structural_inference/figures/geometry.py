"""Figure 9: grok epochs against the width; the weakest weight of one head and of all four."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import altair as alt

from grokscope.claims.evidence import Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.claims.verdicts import median_time
from grokscope.draw.layers import inline
from grokscope.papers.structural_inference.figures.marks import (
    INK,
    PRIORS,
    SOFT,
    WIDTH,
    count_runs,
    decades,
    ending,
    is_sound,
    present,
    run_points,
    seen_times,
    spread,
    text_mark,
    ticks,
    time_span,
)
from grokscope.papers.structural_inference.figures.strips import draw_tickets

NAMES = {"none": "no prior", "oracle": "oracle"}
LEAST = 1e-8  # weights below it are drawn here: a log axis has no zero


def draw_widths(evidence: Evidence) -> list[Panel]:
    """Grok epoch against the width, and from when attention is right, a panel a regime."""
    widths = sorted(
        {arm.spec.model.width for s in evidence.samples.values() for arm in s.arms.values()}
    )
    low, high = time_span(evidence)
    rights = [
        value
        for _, sample in present(evidence)
        for arm in sample.arms.values()
        for value in arm.values("structured")
        if value > 0
    ]
    low = min([low, *(value / 1.25 for value in rights)])
    x = alt.X(
        "width:Q",
        title="Width d (log scale)",
        scale=alt.Scale(type="log", domain=[widths[0] / 1.5, widths[-1] * 2.6], nice=False),
        axis=alt.Axis(values=widths, format="d"),
    )
    y = alt.Y(
        "value:Q",
        title="Epoch (log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=ticks(low, high), format=",d"),
    )
    panels = []
    for regime, sample in present(evidence):
        colour = alt.Color("colour:N", scale=None)
        medians = alt.Chart(inline(_medians(sample, "grokked")))
        right = alt.Chart(inline(_medians(sample, "structured")))
        layer = [
            alt.Chart().mark_rule(color=SOFT, strokeDash=[1, 3]).encode(y=alt.datum(sample.budget)),
            medians.mark_line(opacity=0.7).encode(x=x, y=y, color=colour, detail="arm:N"),
            right.mark_line(strokeDash=[4, 3], opacity=0.7).encode(
                x=x, y=y, color=colour, detail="arm:N"
            ),
            run_points(_by_width(sample), x, y, colour, upwards=True),
            alt.Chart(inline(_last(sample)))
            .mark_text(align="left", dx=16, fontSize=10.8, color=INK)
            .encode(x=x, y=y, text="arm:N"),
        ]
        chart = alt.LayerChart(layer=layer, width=WIDTH, height=230)
        panels.append(
            Panel(regime, chart, f"{count_runs(sample)}; dashed: from when attention is right")
        )
    return panels


def _by_width(sample: Sample) -> list[dict[str, Any]]:
    """Every run at its width, seeds side by side."""
    return [
        {
            "width": arm.spec.model.width * 2 ** (0.3 * spread(index, len(arm.rows))),
            "value": float(value),
            "ending": ending(row),
            "colour": PRIORS[arm.spec.prior.kind],
        }
        for arm in sample.arms.values()
        for index, (row, value) in enumerate(
            zip(arm.rows, seen_times(arm, sample.budget), strict=True)
        )
        if row is not None
    ]


def _medians(sample: Sample, event: str) -> list[dict[str, Any]]:
    """Median time of an event by arm, where every run has finished and half of them have it."""
    return [
        {
            "arm": NAMES[arm.spec.prior.kind],
            "width": arm.spec.model.width,
            "value": middle,
            "colour": PRIORS[arm.spec.prior.kind],
        }
        for arm in sample.arms.values()
        if arm.sound and math.isfinite(middle := median_time(arm.times(event))) and middle > 0
    ]


def _last(sample: Sample) -> list[dict[str, Any]]:
    """Where the names of the lines stand: at their right ends."""
    ends: dict[str, dict[str, Any]] = {}
    for place in _medians(sample, "grokked"):
        if place["arm"] not in ends or place["width"] > ends[place["arm"]]["width"]:
            ends[place["arm"]] = place
    return list(ends.values())


def draw_heads(evidence: Evidence) -> list[Panel]:
    """The best head's weakest weight against the pooled one, without a prior; grok epochs by
    arm."""
    panels = []
    for _, sample in present(evidence):
        places = [
            {
                "best": max(row["best_head_min"], LEAST),
                "pooled": max(row["weakest_min"], LEAST),
                "ending": ending(row),
                "colour": PRIORS[arm.spec.prior.kind],
            }
            for arm in sample.arms.values()
            if arm.spec.prior.kind == "none"
            for row in arm.rows
            if row is not None and is_sound(row) and row.get("best_head_min") is not None
        ]
        x = alt.X("best:Q", title="Best single head (log scale)", **_log_scale(places, "best"))
        y = alt.Y("pooled:Q", title="Mean over heads (log scale)", **_log_scale(places, "pooled"))
        tau = sample.setting.base.structure_threshold
        rule = alt.Chart().mark_rule(color=SOFT, strokeDash=[4, 3])
        layer = [
            rule.encode(x=alt.datum(tau)),
            rule.encode(y=alt.datum(tau)),
            run_points(places, x, y, alt.Color("colour:N", scale=None)),
            text_mark("the heads together, no single one", 6, 10, SOFT, fontSize=10.8),
        ]
        chart = alt.LayerChart(layer=layer, width=WIDTH, height=230)
        note = f"{count_runs(sample)}, without a prior; dashed: the condition"
        panels.append(Panel("weakest weight on any input", chart, note))
    return [*panels, *(replace(panel, title="grok epoch") for panel in draw_tickets(evidence))]


def _log_scale(places: list[dict[str, Any]], field: str) -> dict[str, Any]:
    """Scale and axis of weights, from a little below the smallest to 1."""
    low = min([0.1, *(place[field] for place in places)]) / 1.5
    return {
        "scale": alt.Scale(type="log", domain=[low, 1], nice=False),
        "axis": alt.Axis(values=decades(low, 1), format="~g"),
    }
