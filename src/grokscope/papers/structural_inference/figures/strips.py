"""Figures 2, 4, 6, 7, 8, 10 and 11: a row an arm, its name above its runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.draw.layers import inline
from grokscope.papers.structural_inference.figures.marks import (
    ATTENTION,
    BATCH,
    CONTROL,
    INK,
    MOMENTUM,
    NONE,
    OPTIMISER,
    PALE,
    PRIORS,
    ROW,
    SOFT,
    STRIP,
    TICKET,
    WITH_ATTENTION,
    count_runs,
    decades,
    ending,
    is_sound,
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
from grokscope.spec import OptimiserSpec, RunSpec

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
                draw_strips(strips, x, [[threshold]] * len(strips), [4, 3]),
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
    x = epoch_axis(evidence)
    for regime, sample in present(evidence):
        strips = [
            Strip(arm, colour_of(arm.spec), seen_times(arm, sample.budget), *middle_of(arm))
            for arm in sample.arms.values()
        ]
        chart = draw_strips(strips, x, [[sample.budget]] * len(strips), [1, 3])
        panels.append(Panel(regime, chart, count_runs(sample)))
    return panels


def draw_tasks(evidence: Evidence) -> list[Panel]:
    """Grok epochs of every task; how far its gradient on attention falls; how near the bound."""
    chosen = dict(present(evidence))
    every = [
        (f"{task}, {arm.name}", sample, arm)
        for task, sample in chosen.items()
        for arm in sample.arms.values()
    ]
    if not every:
        return []
    alone = [entry for entry in every if entry[2].spec.prior.kind == "none"]
    epochs = [
        Strip(arm, _ticket_colour(arm.spec), seen_times(arm, sample.budget), *middle_of(arm), name)
        for name, sample, arm in every
    ]
    budgets = [[sample.budget] for _, sample, _ in every]
    note = "; ".join(dict.fromkeys(count_runs(sample) for sample in chosen.values()))
    panels = [Panel("grok epoch", draw_strips(epochs, epoch_axis(evidence), budgets, [1, 3]), note)]
    for title, axis, column, limit, entries in (
        ("fall of the gradient", "Peak over plateau (log scale)", "starvation", 10.0, alone),
        ("gradient over its bound", "Largest ratio (log scale)", "bound_ratio", 1.0, every),
    ):
        strips = []
        for name, _, arm in entries:
            values = arm.values(column)
            known = values[np.isfinite(values)]
            words = f"median {np.median(known):.2g}" if len(known) else "no number"
            strips.append(Strip(arm, _ticket_colour(arm.spec), values, words, name=name))
        seen = [v for strip in strips for v in strip.values if math.isfinite(v) and v > 0]
        low, high = min([*seen, limit]) / 1.5, max([*seen, limit]) * 1.5
        x = alt.X(
            "value:Q",
            title=axis,
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(values=decades(low, high), format="~g"),
        )
        panels.append(Panel(title, draw_strips(strips, x, [[limit]] * len(strips), [1, 3]), note))
    return panels


def epoch_axis(evidence: Evidence) -> alt.X:
    """Grok epochs of a study, from its earliest run to a little beyond its budget."""
    low, high = time_span(evidence)
    return alt.X(
        "value:Q",
        title="Grok epoch (log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=ticks(low, high), format=",d"),
    )


def draw_rates(evidence: Evidence) -> list[Panel]:
    """Contraction of the norm on every run's plateau, a panel a regime."""
    rates = {regime: _rates_of(sample) for regime, sample in present(evidence)}
    drawn = [strip.values[np.isfinite(strip.values)] for found in rates.values() for strip in found]
    known = np.concatenate([[-0.5, 2.2], *drawn])  # at least what the claim asks for
    low, high = 1.1 * known.min(), 1.1 * known.max()
    panels = []
    for regime, strips in rates.items():
        x = alt.X(
            "value:Q",
            title="Contraction in units of the decay",
            # Linear around 0, logarithmic far from it: a weak decay can be outrun many times.
            scale=alt.Scale(type="symlog", constant=1, domain=[low, high], nice=False),
            axis=alt.Axis(values=[v for v in RATES if low <= v <= high], format="~g"),
        )
        note = f"{count_runs(evidence.samples[regime])}; a run without a plateau has no rate"
        panels.append(Panel(regime, draw_strips(strips, x, [[0.5, 2]] * len(strips), [4, 3]), note))
    return panels


RATES = (-50, -20, -10, -5, -2, -1, 0, 0.5, 1, 2, 5, 10, 20, 50)


def _rates_of(sample: Sample) -> list[Strip]:
    strips = []
    for arm in sample.arms.values():
        values = arm.values("norm_rate")
        known = values[np.isfinite(values)]
        sound = sum(map(is_sound, arm.rows))
        middle = float(known.mean()) if len(known) == sound > 0 else None
        summary = f"{len(known)} of {sound} have a plateau" if sound else "not run"
        if middle is not None:
            summary = f"mean {middle:.2f}"
        strips.append(Strip(arm, _rate_colour(arm.spec), values, summary, middle))
    return strips


def _rate_colour(spec: RunSpec) -> str:
    usual, given = OptimiserSpec(), spec.optimiser
    if given.kind != usual.kind:
        return OPTIMISER
    if given.batch:
        return BATCH
    return NONE if (given.beta1, given.beta2) == (usual.beta1, usual.beta2) else MOMENTUM


class Strip(NamedTuple):
    """A row of a strip plot."""

    arm: ArmRuns
    colour: str
    values: np.ndarray  # (seeds,), NaN where there is nothing to draw
    summary: str
    """At the right end, above the runs."""
    middle: float | None = None
    """Where to put a bar."""
    name: str = ""
    """Above the runs; the arm's own name if there is none."""


def draw_strips(
    strips: Sequence[Strip], x: alt.X, limits: Sequence[Sequence[float]], dash: list[float]
) -> alt.LayerChart:
    """Tracks from top to bottom, a name above each, single runs spread a little; lines across each
    track at its limits."""
    height = ROW * len(strips)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None)
    tracks, crossings, names, points, bars = [], [], [], [], []
    for place, strip in enumerate(strips):
        top = place * ROW
        track = {"top": top + 16, "bottom": top + ROW - 3}
        tracks.append(track)
        crossings += [{**track, "limit": limit} for limit in limits[place]]
        name = strip.name or strip.arm.name
        names.append({"y": top + 8, "name": name, "summary": strip.summary})
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
    grounds = alt.Chart(inline(tracks)).mark_rect(color=PALE)
    written = alt.Chart(inline(names)).encode(y=y)
    return alt.LayerChart(
        layer=[
            grounds.encode(x=alt.value(0), x2=alt.value(STRIP), y=renamed(y, "top"), y2="bottom:Q"),
            alt.Chart(inline(crossings))
            .mark_rule(color=SOFT, strokeDash=dash)
            .encode(x=renamed(x, "limit"), y=renamed(y, "top"), y2="bottom:Q"),
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
    mask, frozen = spec.interventions.mask, spec.interventions.frozen_attention
    taught = frozen in ("teacher", "oracle")
    if mask.kind == "none" and frozen != "uniform":
        return ATTENTION if taught else PRIORS[spec.prior.kind]
    if taught:
        return WITH_ATTENTION
    return TICKET if mask.kind == "magnitude" and mask.effect == "prune" else CONTROL
