"""The figures of the in-context studies, each with the optimal predictor beside the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.draw import evidence as charts
from grokscope.draw import theme
from grokscope.draw.evidence import Curves, Stack, present
from grokscope.draw.marks import Rows, inline
from grokscope.draw.words import count_runs
from grokscope.papers.epistemic_icl.quantities import RULES, SIGNALS, optimum
from grokscope.papers.epistemic_icl.settings import BOTH, KINDS, QUESTIONS, Question

ACCURACIES = {
    "id_train_accuracy": "seen",
    "id_val_accuracy": "new pairs",
    "ood_train_accuracy": "new tasks",
    "ood_val_accuracy": "both",
}
FOUR = (theme.TRAIN, theme.ARMS[6], theme.ARMS[1], theme.TEST)  # in this order
COLOURS = dict(zip(ACCURACIES, FOUR, strict=True))
EU = {"ood_train_posterior_eu_corrected": "EU, new tasks", "ood_val_posterior_eu_corrected": "both"}
AU = {"ood_train_posterior_au": "AU, new tasks", "ood_val_posterior_au": "both"}
SPREAD = dict(zip((*EU, *AU), 2 * FOUR[2:], strict=True))
Points = list[tuple[float, float, str]]  # of lines: where, how much, who
REFERENCE = {
    "all tasks": "optimum, all tasks",
    "seen tasks": "optimum, seen tasks",
    "look-up": "a multiple, else a guess",
}
# How each of them is drawn.
BROKEN = ((theme.SOFT, [6, 3]), (theme.NEUTRAL, [2, 3]), (theme.INK, [9, 3, 2, 3]))
STYLES = dict(zip(REFERENCE.values(), BROKEN, strict=True))
ROOM = 1.08  # of an axis of shares, so that a line at 1 is not under the frame

MAPPED = {
    "ood_val_final_accuracy": "accuracy, new tasks and pairs",
    "ood_train_final_accuracy": "accuracy, new tasks",
    "id_val_final_eu_corrected": "EU, new pairs",
    "id_val_final_au": "AU, new pairs",
}


def best_accuracy(task: Any, cell: str) -> float:
    """Of the optimal predictor that knows all tasks, at the last question."""
    every = optimum(task, cell).filter(prior="all tasks", sweep="context")
    return float(every["accuracy"][-1])


def draw_trajectories(evidence: Evidence) -> list[Panel]:
    """Accuracy in the four cells and uncertainty over training; the line across is the accuracy of
    the optimal predictor that knows all tasks."""
    stacks, optima = [], {}
    for regime, sample in present(evidence):
        for arm in sample.arms.values():
            best = best_accuracy(arm.spec.task, BOTH.cell)
            plots = (
                Curves(ACCURACIES, 110, COLOURS, limit=best),
                Curves(EU, 70, SPREAD, shared=False),
                Curves(AU, 70, SPREAD, shared=False),
                Curves({"parameter_norm": "Weight norm"}),
            )
            events = ("memorised", "carried", "grokked")
            title = f"{regime}, {arm.name}"
            stacks.append(Stack(title, sample, arm, plots, events))
            optima[title] = f"optimal predictor {best:.2f}"
    panels = charts.draw_stacks(evidence, stacks)
    for panel in panels:
        _make_room(panel.chart.vconcat[0])
    return [replace(panel, note=f"{panel.note}; {optima[panel.title]}") for panel in panels]


def _make_room(chart: Any) -> None:
    """The line of a predictor that is always right would lie under the frame."""
    for layer in chart.layer:
        if isinstance(y := layer.encoding.y, alt.Y):
            layer.encoding.y = y.scale(domain=[0, ROOM], nice=False)


def asked(sample: Sample) -> Sequence[Question]:
    """The cells that some run has generalised to; the paper's if there is none."""
    arms = sample.arms.values()
    met = [q for q in QUESTIONS if any(np.isfinite(arm.times(q.event)).any() for arm in arms)]
    return met or [BOTH]


def draw_sweep(evidence: Evidence, sweep: str, title: str) -> list[Panel]:
    """Accuracy, AU and EU against what is swept: medians over seeds of each arm, and the optimum:
    its total uncertainty is drawn with the networks' AU. EU has an axis in logarithms: between
    methods, and between few and many tasks, it differs tenfold and more."""
    panels = []
    for regime, sample in present(evidence):
        task = next(iter(sample.arms.values())).spec.task
        for cell, words, *_ in asked(sample):
            best = optimum(task, cell).filter(sweep=sweep)
            places = best["at"].unique(maintain_order=True)
            for column, name in (("accuracy", "accuracy"), ("au", "AU"), ("eu_corrected", "EU")):
                points = [
                    (at, arm.median(f"{cell}_{sweep}_{at:g}_{column}"), arm.name)
                    for arm in sample.arms.values()
                    for at in places
                ]
                if reference := {"accuracy": "accuracy", "au": "tu"}.get(column):
                    drawn = best.select("at", reference, pl.col("prior").replace(REFERENCE))
                    points += drawn.rows()
                chart = _lines(points, title, name, log=name == "EU")
                panels.append(Panel(f"{regime}: {name}, {words}", chart, count_runs(sample)))
    return panels


draw_context = partial(draw_sweep, sweep="context", title="Examples in context")
draw_noise = partial(draw_sweep, sweep="noise", title="Share of wrong labels in context")


def _lines(points: Points, x_title: str, y_title: str, log: bool = False) -> alt.LayerChart:
    known = [(at, v, who) for at, v, who in points if np.isfinite(v) and (v > 0 or not log)]
    rows: Rows = [{"at": at, "value": v, "who": who} for at, v, who in known]
    names = list(dict.fromkeys(row["who"] for row in rows))
    styles = [STYLES.get(name, (theme.arm_colour(i), [1, 0])) for i, name in enumerate(names)]
    ranges = [list(each) for each in zip(*styles, strict=True)] if styles else [[], []]
    colours, dashes = (alt.Scale(domain=names, range=each) for each in ranges)
    legend = alt.Legend(title=None, orient="bottom", columns=2)
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g", tickCount=4))
    y = y if log else alt.Y("value:Q")
    line = (
        alt.Chart(inline(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("at:Q", title=x_title),
            y=y.title(f"{y_title} (log scale)" if log else y_title),
            color=alt.Color("who:N", scale=colours, legend=legend),
            strokeDash=alt.StrokeDash("who:N", scale=dashes, legend=None),
        )
    )
    return alt.LayerChart(layer=[line], width=charts.WIDTH, height=charts.HEIGHT)


def draw_map(evidence: Evidence) -> list[Panel]:
    """Final accuracy on new tasks and final EU over tasks and pairs, one field per arm."""
    panels = []
    for _, sample in present(evidence):
        for (method, kind), (column, title) in product(KINDS.items(), MAPPED.items()):
            arms = [arm for arm in sample.arms.values() if arm.spec.optimiser.kind == kind]
            cells = [_cell(arm, column) for arm in arms]
            chart = charts.draw_heat_map(cells, "Seen tasks", "Share of pairs seen")
            panels.append(Panel(f"{method}: {title}", chart, count_runs(sample)))
    return panels


def _cell(arm: ArmRuns, column: str) -> dict[str, Any]:
    """A field of the map; an accuracy stands beside what it can be at best."""
    value, task = arm.median(column), arm.spec.task
    cell, of_accuracy, _ = column.partition("_final_accuracy")
    note = f" of {best_accuracy(task, cell):.2f}" if of_accuracy else ""
    known = np.isfinite(value)
    return {
        "x": task.tasks,
        "y": task.train_fraction,
        "value": value if known else None,
        "text": f"{value:{'.2f' if of_accuracy else '.2g'}}{note}" if known else "–",
    }


def draw_alarms(evidence: Evidence) -> list[Panel]:
    """Share of runs that raise each alarm, against its level, in every arm. The optimal predictor
    does not learn and has no alarm."""
    return [
        Panel(
            f"{regime}, {arm.name}: a signal {way}, {words}",
            _lines(_raised(arm, cell, way), "Share by which it does", "Share of runs"),
            count_runs(sample),
        )
        for regime, sample in present(evidence)
        for cell, words, *_ in asked(sample)
        for arm in sample.arms.values()
        for way in ("falls", "rises")
    ]


def _raised(arm: ArmRuns, cell: str, way: str) -> Points:
    """Levels, the share of the runs with known alarms that raise them, and the signal."""
    points = []
    for signal, called in SIGNALS.items():
        for place, (each, level) in enumerate(RULES):
            times = arm.values(f"{cell}_alarm_{signal}_{place}")
            if each == way and not np.isnan(times).all():
                share = np.isfinite(times).sum() / (~np.isnan(times)).sum()
                points.append((level, float(share), called))
    return points
