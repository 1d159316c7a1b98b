"""The figures of the in-context studies, each with the optimal predictor beside the networks."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.draw import evidence as charts
from grokscope.draw import theme
from grokscope.draw.evidence import Curves, Stack, present
from grokscope.draw.marks import Rows, inline
from grokscope.draw.words import count_runs
from grokscope.papers.epistemic_icl.quantities import NOISES, RULES, SIGNALS, optimum
from grokscope.papers.epistemic_icl.settings import BOTH, QUESTIONS, Question

ACCURACIES = {
    "id_train_accuracy": "seen",
    "id_val_accuracy": "new pairs",
    "ood_train_accuracy": "new tasks",
    "ood_val_accuracy": "both",
}
COLOURS = dict(
    zip(ACCURACIES, (theme.TRAIN, theme.ARMS[6], theme.ARMS[1], theme.TEST), strict=True)
)
EU = {"ood_train_posterior_eu_corrected": "EU, new tasks", "ood_val_posterior_eu_corrected": "both"}
AU = {"ood_train_posterior_au": "AU, new tasks", "ood_val_posterior_au": "both"}
SPREAD = dict(zip((*EU, *AU), 2 * (theme.ARMS[1], theme.TEST), strict=True))
REFERENCE = {"all tasks": "optimum, all tasks", "seen tasks": "optimum, seen tasks"}


def task_of(sample: Sample) -> Any:
    return next(iter(sample.arms.values())).spec.task


def draw_trajectories(evidence: Evidence) -> list[Panel]:
    """Accuracy in the four cells and uncertainty over training; the line across is the accuracy of
    the optimal predictor that knows all tasks."""
    stacks = []
    for _, sample in present(evidence):
        for arm in sample.arms.values():
            best = optimum(arm.spec.task, BOTH.cell).filter(prior="all tasks", sweep="context")
            plots = (
                Curves(ACCURACIES, 110, COLOURS, limit=float(best["accuracy"][-1])),
                Curves(EU, 70, SPREAD, shared=False),
                Curves(AU, 70, SPREAD, shared=False),
                Curves({"parameter_norm": "Weight norm"}),
            )
            stacks.append(Stack(arm.name, sample, arm, plots, ("memorised", "carried", "grokked")))
    return charts.draw_stacks(evidence, stacks)


def median(arm: ArmRuns, column: str) -> float:
    values = arm.values(column)
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def asked(sample: Sample) -> list[Question]:
    """The cells that some run has generalised to; the paper's if there is none."""
    arms = sample.arms.values()
    return [q for q in QUESTIONS if any(np.isfinite(a.times(q.event)).any() for a in arms)] or [
        BOTH
    ]


def draw_sweep(evidence: Evidence, sweep: str, places: list[float], title: str) -> list[Panel]:
    """Accuracy, AU and EU against what is swept: medians over seeds of each arm, and the optimum:
    its total uncertainty is drawn with the networks' AU."""
    panels = []
    for _, sample in present(evidence):
        for cell, words, *_ in asked(sample):
            reference = optimum(task_of(sample), cell).filter(sweep=sweep)
            for column, name in (("accuracy", "accuracy"), ("au", "AU"), ("eu_corrected", "EU")):
                rows: Rows = [
                    {"at": at, "value": median(arm, f"{cell}_{sweep}_{at:g}_{column}"), "who": n}
                    for n, arm in sample.arms.items()
                    for at in places
                ]
                if column != "eu_corrected":
                    rows += [
                        {
                            "at": row["at"],
                            "value": row["accuracy" if column == "accuracy" else "tu"],
                            "who": REFERENCE[row["prior"]],
                        }
                        for row in reference.to_dicts()
                    ]
                rows = [row for row in rows if np.isfinite(row["value"])]
                chart = _lines(rows, title, name)
                panels.append(Panel(f"{name}, {words}", chart, count_runs(sample)))
    return panels


def _lines(rows: Rows, x_title: str, y_title: str) -> alt.LayerChart:
    names = list(dict.fromkeys(row["who"] for row in rows))
    colours = [
        theme.SOFT if n in REFERENCE.values() else theme.arm_colour(i) for i, n in enumerate(names)
    ]
    dashes = [[5, 3] if name in REFERENCE.values() else [1, 0] for name in names]
    legend = alt.Legend(title=None, orient="bottom", columns=2)
    line = (
        alt.Chart(inline(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("at:Q", title=x_title),
            y=alt.Y("value:Q", title=y_title),
            color=alt.Color("who:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash(
                "who:N", scale=alt.Scale(domain=names, range=dashes), legend=None
            ),
        )
    )
    return alt.LayerChart(layer=[line], width=charts.WIDTH, height=charts.HEIGHT)


def draw_context(evidence: Evidence) -> list[Panel]:
    triples = max((task_of(s).triples for s in evidence.samples.values()), default=0)
    places = [float(k) for k in range(triples)]
    return draw_sweep(evidence, "context", places, "Examples in context")


def draw_noise(evidence: Evidence) -> list[Panel]:
    return draw_sweep(evidence, "noise", list(NOISES), "Share of wrong labels in context")


def draw_map(evidence: Evidence) -> list[Panel]:
    """Final accuracy on new tasks and final EU over tasks and pairs, one field per arm."""
    panels = []
    for _, sample in present(evidence):
        for kind, words in (("adamw", "AdamW"), ("ivon", "IVON")):
            arms = [a for a in sample.arms.values() if a.spec.optimiser.kind == kind]
            for column, title in (
                ("ood_val_final_accuracy", "accuracy, new tasks and pairs"),
                ("ood_train_final_accuracy", "accuracy, new tasks"),
                ("id_val_final_eu_corrected", "EU, new pairs"),
                ("id_val_final_au", "AU, new pairs"),
            ):
                cells: Rows = []
                for arm in arms:
                    value, task, note = median(arm, column), arm.spec.task, ""
                    if "accuracy" in column:
                        best = optimum(task, column[: -len("_final_accuracy")])
                        best = best.filter(prior="all tasks", sweep="context")
                        note = f" of {best['accuracy'][-1]:.2f}"
                    known = np.isfinite(value)
                    cells.append(
                        {
                            "x": task.tasks,
                            "y": task.train_fraction,
                            "value": value if known else None,
                            "text": f"{value:.2f}{note}" if known else "–",
                        }
                    )
                chart = charts.draw_heat_map(cells, "Seen tasks", "Share of pairs seen")
                panels.append(Panel(f"{words}: {title}", chart, count_runs(sample)))
    return panels


def draw_alarms(evidence: Evidence) -> list[Panel]:
    """Share of runs that raise each alarm, against its level, in every arm. The optimal predictor
    does not learn and has no alarm."""
    return [
        Panel(
            f"{arm.name}: a signal {way}, {words}",
            _lines(
                [
                    {"at": level, "value": float(np.isfinite(known).mean()), "who": words}
                    for signal, words in SIGNALS.items()
                    for place, (each, level) in enumerate(RULES)
                    if each == way
                    for found in [arm.values(f"{cell}_alarm_{signal}_{place}")]
                    if len(known := found[~np.isnan(found)])
                ],
                "Share by which it does",
                "Share of runs",
            ),
            count_runs(sample),
        )
        for _, sample in present(evidence)
        for cell, words, *_ in asked(sample)
        for arm in sample.arms.values()
        for way in ("falls", "rises")
    ]
