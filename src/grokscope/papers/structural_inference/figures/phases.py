"""Figures 1 and 5: what happens over training, plots under each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.studies import Panel
from grokscope.claims.verdicts import median_time
from grokscope.draw import theme
from grokscope.draw.layers import EPOCH_TITLE, inline
from grokscope.draw.panels import POWERS
from grokscope.papers.structural_inference.figures.marks import (
    SOFT,
    WIDTH,
    count_runs,
    is_sound,
    present,
    text_mark,
)


class Curve(NamedTuple):
    """One of the plots that stand under each other."""

    columns: Mapping[str, tuple[str, str]]
    """Columns with what to call them and their colours."""
    height: int
    scale: Mapping[str, Any]
    labels: str = "format(datum.value, ',~r')"
    dashed: tuple[str, ...] = ()
    """Columns whose lines are dashed, to be told apart without colour."""
    limit: float | None = None
    """A line across."""


CURVES = (
    Curve(
        {
            "train_accuracy": ("Accuracy: seen", theme.TRAIN),
            "test_accuracy": ("unseen", theme.TEST),
        },
        110,
        {"domain": [0, 1]},
        "format(datum.value, '.0%')",
    ),
    Curve({"divergence": ("Divergence of attention", theme.DIVERGENCE)}, 70, {"zero": True}),
    Curve(
        {"interaction_gradient": ("Gradient on attention", theme.GRADIENTS[0])},
        70,
        {"type": "log"},
        POWERS,
    ),
    Curve({"mlp_norm": ("Norm of the MLP", theme.NORMS[0])}, 70, {"zero": False}),
)


def draw_phases(evidence: Evidence) -> list[Panel]:
    """Accuracy, divergence, gradient and norm over training, a panel a regime."""
    bands = {}
    for regime, sample in present(evidence):
        arm = next(iter(sample.arms.values()))
        table = bands_of(evidence, arm, CURVES)
        if table:
            bands[regime] = (sample, arm, table)
    everything = [row for _, _, table in bands.values() for row in table]
    panels = []
    for regime, (sample, arm, table) in bands.items():
        # Divergences are too far apart between regimes for one axis.
        within = [table if "divergence" in curve.columns else everything for curve in CURVES]
        chart = stack_curves(CURVES, table, within, arm, Epochs(sample.budget))
        panels.append(Panel(regime, chart, count_runs(sample)))
    return panels


class Epochs(NamedTuple):
    """The horizontal axis."""

    budget: int
    scale: Mapping[str, Any] = {}
    ticks: Mapping[str, Any] = {"tickCount": 5}

    def axis(self, labels: bool) -> alt.X:
        return alt.X(
            "epoch:Q",
            title=EPOCH_TITLE if labels else None,
            scale=alt.Scale(domain=[0, self.budget], nice=False, **self.scale),
            axis=alt.Axis(format=",d", labels=labels, **self.ticks),
        )


def stack_curves(
    curves: Sequence[Curve],
    table: Sequence[Mapping[str, float]],
    within: Sequence[Sequence[Mapping[str, float]]],
    arm: ArmRuns,
    epochs: Epochs,
) -> alt.VConcatChart:
    """Plots of one arm under each other, the events named in the first. Each plot's axis fits the
    rows that stand for it in `within`."""
    plots = [
        _plot(curve, table, rows, _events(arm), epochs, index == 0, index == len(curves) - 1)
        for index, (curve, rows) in enumerate(zip(curves, within, strict=True))
    ]
    return alt.vconcat(*plots, spacing=26)


def bands_of(evidence: Evidence, arm: ArmRuns, curves: Sequence[Curve]) -> list[dict[str, float]]:
    """Median and range of every column at the epochs that all finished runs have."""
    import polars as pl

    runs = [row["run"] for row in arm.rows if row is not None and row["status"] == "finished"]
    if not runs or not len(evidence.curves):
        return []
    columns = [name for curve in curves for name in curve.columns]
    if not {*columns} <= {*evidence.curves.columns}:
        return []
    # Rows that another study computed have other columns.
    mine = evidence.curves.filter(pl.col("run").is_in(runs)).drop_nulls(columns)
    return (
        mine.group_by("epoch")
        .agg(
            pl.len().alias("runs"),
            *(pl.col(name).median() for name in columns),
            *(pl.col(name).min().alias(f"{name}_low") for name in columns),
            *(pl.col(name).max().alias(f"{name}_high") for name in columns),
        )
        .filter(pl.col("runs") == mine["run"].n_unique())
        .drop("runs")
        .with_columns(pl.all().exclude("epoch").round_sig_figs(5))
        .sort("epoch")
        .to_dicts()
    )


def _events(arm: ArmRuns) -> list[dict[str, Any]]:
    """Median epochs of memorisation and grokking, where most runs got there."""
    events = []
    for column in ("memorised", "grokked"):
        times = arm.times(column)[[is_sound(row) for row in arm.rows]]
        middle = median_time(times)
        if math.isfinite(middle):
            events.append({"epoch": middle, "event": column})
    return events


def _plot(
    curve: Curve,
    table: Sequence[Mapping[str, float]],
    within: Sequence[Mapping[str, float]],
    events: list[dict[str, Any]],
    epochs: Epochs,
    first: bool,
    last: bool,
) -> alt.LayerChart:
    """One measure with its name above it; the axis fits all rows `within`."""
    logarithmic = curve.scale.get("type") == "log"
    ends = [
        row[f"{name}_{end}"] for row in within for name in curve.columns for end in ("low", "high")
    ]
    ends = [value for value in ends if value > 0 or not logarithmic]
    domain = curve.scale.get("domain")
    if domain is None and ends:
        domain = [0 if curve.scale.get("zero") else min(ends), max(ends)]
    scale = alt.Scale(**{**curve.scale, "domain": domain or [0.1, 1], "nice": domain != [0, 1]})
    x = epochs.axis(labels=last)
    axis = alt.Axis(title=None, labelExpr=curve.labels, tickCount=4 if first else 3)
    rules = [
        alt.Chart(inline(events)).mark_rule(style="event").encode(x=x),
        *(_event_names(events, x, epochs.budget) if first else []),
    ]
    lines: list[alt.Chart] = []
    if curve.limit is not None:
        limit = alt.Chart(inline([{"limit": curve.limit}])).mark_rule(color=SOFT)
        lines.append(limit.encode(y=alt.Y("limit:Q", scale=scale, axis=axis)))
    left = 0.0
    for name, (label, colour) in curve.columns.items():
        y = alt.Y(f"{name}:Q", scale=scale, axis=axis)
        rows = [
            {
                "epoch": row["epoch"],
                **{key: row[key] for key in (name, f"{name}_low", f"{name}_high")},
            }
            for row in table
            if row[f"{name}_low"] > 0 or not logarithmic
        ]
        drawn = alt.Chart(inline(rows))
        dash = [5, 3] if name in curve.dashed else alt.Undefined
        lines += [
            drawn.mark_area(color=colour, opacity=theme.BAND_OPACITY).encode(
                x=x, y=alt.Y(f"{name}_low:Q", scale=scale, axis=axis), y2=f"{name}_high:Q"
            ),
            drawn.mark_line(color=colour, strokeDash=dash).encode(x=x, y=y),
            text_mark(label, left, -9, colour, fontWeight=600),
        ]
        left += 8.2 * len(label)
    return alt.LayerChart(layer=[*lines, *rules], width=WIDTH, height=curve.height)


def _event_names(events: list[dict[str, Any]], x: alt.X, budget: int) -> list[alt.Chart]:
    """Beside their rules, on the side where there is room."""
    names = []
    for height, event in enumerate(events):
        left = event["epoch"] > 0.7 * budget
        names.append(
            alt.Chart(inline([event]))
            .mark_text(
                style="note",
                align="right" if left else "left",
                dx=-4 if left else 4,
                y=48 + 14 * height,
            )
            .encode(x=x, text="event:N")
        )
    return names
