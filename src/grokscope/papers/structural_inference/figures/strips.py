"""Figures 2, 4, 6 and 7: a row an arm, its name above its runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import altair as alt
import numpy as np

from grokscope.papers.evidence import ArmRuns, Evidence, Sample
from grokscope.papers.structural_inference.figures.marks import (
    ATTENTION,
    CONTROL,
    INK,
    PALE,
    PRIORS,
    ROW,
    SOFT,
    STRIP,
    TICKET,
    WITH_ATTENTION,
    count_runs,
    ending,
    middle_of,
    present,
    renamed,
    run_points,
    seen_times,
    share_of,
    spread,
    ticks,
    time_span,
)
from grokscope.papers.studies import Panel
from grokscope.report.layers import inline
from grokscope.spec import RunSpec

TEACHING = "a teacher: "
"""How the names of arms begin that are trained for their attention only."""
KINDS = {
    **PRIORS,
    "entropy": CONTROL,
    "sparsity": CONTROL,
    "teacher": ATTENTION,
    "inferred": WITH_ATTENTION,
}


def draw_outcomes(evidence: Evidence) -> list[Panel]:
    """Final test accuracy of every run, a panel a regime."""
    panels = []
    for regime, sample in present(evidence):
        x = alt.X(
            "value:Q",
            title="Final accuracy on unseen examples",
            scale=alt.Scale(domain=[-0.02, 1.02], nice=False),
            axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
        )
        threshold = sample.setting.base.training.test_threshold
        strips = [
            Strip(arm, PRIORS[arm.spec.prior.kind], arm.values("test_accuracy"), share_of(arm))
            for arm in sample.arms.values()
        ]
        panels.append(
            Panel(
                regime,
                _draw_strips(strips, x, threshold, [4, 3]),
                f"{count_runs(sample)}; right: how many grok; triangles do not",
            )
        )
    return panels


def draw_tickets(evidence: Evidence) -> list[Panel]:
    """Grok epoch of every run with the median of each arm, a panel a regime."""
    return _draw_times(evidence, _ticket_colour)


def draw_priors(evidence: Evidence) -> list[Panel]:
    """The same by kind of prior, without the runs that only teach."""
    shown = {
        regime: Sample(
            sample.setting,
            {name: arm for name, arm in sample.arms.items() if not name.startswith(TEACHING)},
        )
        for regime, sample in evidence.samples.items()
    }
    return _draw_times(replace(evidence, samples=shown), lambda spec: KINDS[spec.prior.kind])


def _draw_times(evidence: Evidence, colour_of: Callable[[RunSpec], str]) -> list[Panel]:
    panels = []
    low, high = time_span(evidence)
    for regime, sample in present(evidence):
        x = alt.X(
            "value:Q",
            title="Grok epoch (log scale)",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(values=ticks(low, high), format=",d"),
        )
        strips = [
            Strip(arm, colour_of(arm.spec), seen_times(arm, sample.budget), *middle_of(arm))
            for arm in sample.arms.values()
        ]
        chart = _draw_strips(strips, x, sample.budget, [1, 3])
        panels.append(Panel(regime, chart, count_runs(sample)))
    return panels


class Strip(NamedTuple):
    """A row of a strip plot."""

    arm: ArmRuns
    colour: str
    values: np.ndarray  # (seeds,), NaN where there is nothing to draw
    summary: str
    """At the right end, above the runs."""
    middle: float | None = None
    """Where to put a bar."""


def _draw_strips(
    strips: Sequence[Strip], x: alt.X, limit: float, dash: list[float]
) -> alt.LayerChart:
    """Tracks from top to bottom, a name above each, single runs spread a little; a line across the
    tracks at the limit."""
    height = ROW * len(strips)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None)
    tracks, names, points, bars = [], [], [], []
    for place, strip in enumerate(strips):
        top = place * ROW
        tracks.append({"top": top + 16, "bottom": top + ROW - 3})
        names.append({"y": top + 8, "name": strip.arm.name, "summary": strip.summary})
        for index, (row, value) in enumerate(zip(strip.arm.rows, strip.values, strict=True)):
            if row is not None and math.isfinite(value):
                points.append(
                    {
                        "value": float(value),
                        "y": top + 24.5 + 9 * spread(index, len(strip.values)),
                        "ending": ending(row),
                        "colour": strip.colour,
                    }
                )
        if strip.middle is not None:
            bars.append(
                {
                    "value": strip.middle,
                    "y": top + 16,
                    "bottom": top + ROW - 3,
                    "colour": strip.colour,
                }
            )
    colour = alt.Color("colour:N", scale=None)
    track = alt.Chart(inline(tracks)).mark_rect(color=PALE)
    written = alt.Chart(inline(names)).encode(y=y)
    return alt.LayerChart(
        layer=[
            track.encode(x=alt.value(0), x2=alt.value(STRIP), y=renamed(y, "top"), y2="bottom:Q"),
            alt.Chart(inline(tracks))
            .mark_rule(color=SOFT, strokeDash=dash)
            .encode(x=alt.datum(limit), y=renamed(y, "top"), y2="bottom:Q"),
            alt.Chart(inline(bars))
            .mark_rule(strokeWidth=3, opacity=0.55)
            .encode(x=x, y=y, y2="bottom:Q", color=colour),
            run_points(points, x, y, colour),
            written.mark_text(align="left", fontSize=10.8, color=INK).encode(
                x=alt.value(0), text="name:N"
            ),
            written.mark_text(align="right", style="note").encode(
                x=alt.value(STRIP), text="summary:N"
            ),
        ],
        width=STRIP,
        height=height,
    )


def _ticket_colour(spec: RunSpec) -> str:
    mask, taught = spec.interventions.mask, spec.interventions.frozen_attention == "teacher"
    if mask.kind == "none":
        return ATTENTION if taught else PRIORS[spec.prior.kind]
    if taught:
        return WITH_ATTENTION
    return TICKET if mask.kind == "magnitude" and mask.effect == "prune" else CONTROL
