"""A self-contained page about runs: what happened, the figures, and how sure we are.

One HTML file: Vega is inlined once, charts are drawn from JSON, nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from grokscope.draw import theme
from grokscope.draw.arms import Arm, describe_subject
from grokscope.draw.charts import NARROW, Arms, as_arms
from grokscope.draw.layers import ROOM, Panel
from grokscope.draw.panels import PANELS
from grokscope.draw.reading import Reading, read_run
from grokscope.draw.tables import ROWS
from grokscope.pages import facts
from grokscope.pages.files import (
    read_resource,
    script_json,
    template,
    vega_bundle,
    write_file,
)
from grokscope.spec import ObservedSpec, RunSpec

TITLE = "What happened in these runs"


@dataclass(frozen=True)
class Section:
    """A figure of the page, and how to read it."""

    kind: str
    heading: str
    caption: str


COMPARISON = Section(
    "comparison",
    "The arms side by side",
    "Accuracy on examples that were never trained on. A filled dot marks where a run grokked; an "
    "open triangle marks a run that had not when it was last seen.",
)
SECTIONS = (
    Section(
        "accuracy",
        "Accuracy on seen and unseen examples",
        "Where the first line is up and the second is not, the network has memorised without "
        "generalising; grokking is the late rise of the second line.",
    ),
    Section(
        "structure",
        "Has attention found the structure?",
        "Divergence is zero when attention rests evenly on exactly the positions that determine "
        "the answer. The mean over inputs can look right long before the worst input does, so "
        "watch the darkest line: the structural condition asks that even it stays above τ.",
    ),
    Section(
        "starvation",
        "Does the task still teach attention?",
        "Training moves attention by this gradient. When the training examples are right, little "
        "error is left to learn from and the signal can dry up before attention is right; each "
        "grid line down is ten times weaker.",
    ),
    Section(
        "attention",
        "Where attention looks",
        "Each row is a position in the sequence, time runs to the right, a stronger colour means "
        "more attention. This is the mean over inputs; the figures on structure show what that "
        "hides.",
    ),
)
SHADED = " Shading shows the phases that were found."
MARKED = " Dotted upright lines mark when each seed memorised and grokked."
AGAIN = "These lines train the same runs again; fields that are not named have their defaults."
WATCHED = "Of a model of your own only the settings are known, not the code that trained it."
NUMBERS = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


def write_page(
    path: str | Path, arms: Arms, title: str = TITLE, introduction: str | None = None
) -> Path:
    """Write one self-contained HTML file about the runs of these arms.

    `introduction` is set before the general explanation. Runs may be finished, failed or still
    under way; what the page says follows from what they show now.
    """
    return write_file(Path(path), render_page(arms, title, introduction).encode())


def render_page(arms: Arms, title: str = TITLE, introduction: str | None = None) -> str:
    """The text of the page."""
    arms = as_arms(arms)
    groups = [(arm, [read_run(run) for run in arm.runs]) for arm in arms]
    readings = [reading for _, group in groups for reading in group]
    charts: list[dict[str, Any]] = []
    comparison_figure = _lay_out(COMPARISON, arms, charts) if len(arms) > 1 else None
    figures = [_lay_out(section, arms, charts) for section in SECTIONS]
    return template("page.html").render(
        title=title,
        introduction=introduction,
        explanation=_explain(readings),
        comparison=_compare(groups),
        cards=[_card(place, arm, group) for place, (arm, group) in enumerate(groups)],
        runs=[_row(place, arm, r) for place, (arm, group) in enumerate(groups) for r in group],
        comparison_figure=comparison_figure,
        figures=figures,
        phases=_phases(readings),
        units=" or ".join(dict.fromkeys(f"{reading.unit}s" for reading in readings)),
        doubts=facts.doubts([(arm.label, group) for arm, group in groups]),
        recipe_note=_introduce_recipes(readings),
        recipes=[_recipe(arm, group) for arm, group in groups],
        machines=_machines(readings),
        style=read_resource("page.css"),
        script=read_resource("page.js"),
        bundle=vega_bundle(),
        charts=script_json(charts),
        themes=script_json({"light": theme.theme(), "dark": theme.theme(dark=True)}),
    )


def rows_each(arms: int) -> int:
    """Rows per line: fewer where there are more arms, so that the file stays below 3 MB. The plots
    are smaller then, too."""
    return max(60, min(ROWS, 1600 // arms))


def _lay_out(section: Section, arms: Sequence[Arm], charts: list[dict[str, Any]]) -> dict[str, Any]:
    """A section with its plots in rows; their descriptions are appended to `charts`."""
    rows = PANELS[section.kind](arms, rows_each(len(arms)))
    cells = []
    for panel in (panel for row in rows for panel in row):
        label = ": ".join(part for part in (panel.title, panel.arm) if part)
        charts.append({**_describe(panel), "description": label})  # for those who cannot see it
        named = panel.arm if len(arms) > 1 else ""
        cells.append(
            {
                "heading": named or panel.title,
                "more": panel.title if named and len(rows) > 1 else "",
                "note": panel.note,
                "label": label,
                "chart": len(charts) - 1,
            }
        )
    columns = max(len(row) for row in rows)
    if columns == 1 and len(rows) > 1:
        columns = len(rows)  # one arm: its plots stand side by side instead
    caption = section.caption
    if section.kind == "accuracy":
        seeds = [len(arm.runs) for arm in arms]
        caption += SHADED * (min(seeds) == 1) + MARKED * (max(seeds) > 1)
    return {
        "section": section,
        "caption": caption,
        "cells": cells,
        "columns": columns if columns <= 3 else 2,
    }


def _describe(panel: Panel) -> dict[str, Any]:
    """A plot as wide as what it stands in, without colours of surroundings: the page has those."""
    view = panel.view.properties(width="container")
    # The script overwrites the value with the true width before it draws. An expression of the
    # width would do too late: Vega lays out a legend's columns before it knows the container.
    own = view.params if isinstance(view.params, list) else []
    view.params = [*own, alt.VariableParameter(name=ROOM, value=NARROW)]
    view.autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    view.datasets = panel.datasets
    spec = view.to_dict(validate=False)
    spec.pop("config", None)
    return spec


def _explain(readings: Sequence[Reading]) -> str:
    tasks = list(dict.fromkeys(describe_subject(reading.spec) for reading in readings))
    task = "; ".join(tasks) if len(tasks) <= 3 else f"{len(tasks)} tasks in all"
    total = len(readings)
    number = NUMBERS[total - 1] if total <= len(NUMBERS) else f"{total:,}"
    small = "" if any(isinstance(reading.spec, ObservedSpec) for reading in readings) else "small "
    noun = f"{small}transformer is" if total == 1 else f"{small}transformers are"
    return (
        f"{number} {noun} trained on a task whose answer depends on a few positions of a sequence; "
        f"the other positions are distractors ({task}). A network can learn its training examples "
        "by heart first and get unseen ones right only much later, if at all: that late jump is "
        "called grokking. This page follows both accuracies and asks, at every step, whether "
        "attention rests on the positions that matter."
    )


def _compare(groups: Sequence[tuple[Arm, Sequence[Reading]]]) -> str:
    if len(groups) != 2:
        return ""
    (first, one), (second, other) = groups
    return facts.compare(one, other, (first.label, second.label))


def _card(place: int, arm: Arm, readings: Sequence[Reading]) -> dict[str, str]:
    verdict = facts.judge(readings)
    return {
        "colour": theme.arm_colour(place),
        "label": arm.label,
        "headline": verdict.headline,
        "detail": verdict.detail,
    }


def _row(place: int, arm: Arm, reading: Reading) -> dict[str, Any]:
    return {
        "colour": theme.arm_colour(place),
        "arm": arm.label,
        "seed": str(reading.spec.seed),
        "cells": [
            ("Memorised", facts.state_event(reading, reading.memorised), ""),
            ("Grokked", facts.state_event(reading, reading.grokked), ""),
            ("Plateau", facts.state_plateau(reading), ""),
            ("Final test accuracy", *facts.state_accuracy(reading)),
            ("Structural condition", *facts.state_structure(reading)),
        ],
        "phases": [
            (phase.name.capitalize(), facts.state_phase(reading, phase), phase.found)
            for phase in reading.phases
        ],
    }


def _phases(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """Each phase: its colour, what it is, and by which rule (or rules) it was looked for."""
    rules: dict[str, list[str]] = {name: [] for name in facts.PHASES}
    for reading in readings:
        for phase in reading.phases:
            if phase.rule not in rules[phase.name]:
                rules[phase.name].append(phase.rule)
    return [
        {
            "number": number,
            "name": name,
            "colour": theme.PHASES[name],
            "meaning": facts.PHASES[name],
            "rules": rules[name],
        }
        for number, name in enumerate(facts.PHASES, start=1)
    ]


def _introduce_recipes(readings: Sequence[Reading]) -> str:
    watched = {isinstance(reading.spec, ObservedSpec) for reading in readings}
    return " ".join([AGAIN] * (False in watched) + [WATCHED] * (True in watched))


def _recipe(arm: Arm, readings: Sequence[Reading]) -> dict[str, Any]:
    """What to type to train the same runs again."""
    spec = readings[0].spec
    if isinstance(spec, ObservedSpec):
        return _observed_recipe(arm, readings)
    changed = spec.changed()
    for name in ("seed", "task.seed", "task.fingerprint"):
        changed.pop(name, None)
    fields = "".join(
        f"    {json.dumps(name)}: {json.dumps(value)},\n" for name, value in changed.items()
    )
    over: dict[str, list[int]] = {"seed": [reading.spec.seed for reading in readings]}
    inner = [r.spec.task.seed for r in readings if isinstance(r.spec, RunSpec)]
    text = "spec = gs.RunSpec()" + (f".replace(**{{\n{fields}}})" if fields else "")
    if set(inner) == {-1}:
        specs = f"gs.sweep(spec, {json.dumps(over)})"
    else:
        pairs = list(zip(over["seed"], inner, strict=True))
        specs = f'[spec.replace(**{{"seed": a, "task.seed": b}}) for a, b in {pairs!r}]'
    return {
        "label": arm.label,
        "code": f"import grokscope as gs\n\n{text}\nruns = gs.train({specs})",
    }


def _observed_recipe(arm: Arm, readings: Sequence[Reading]) -> dict[str, Any]:
    """What is known of a model of the user's; her code is not among it."""
    changed = {k: v for k, v in readings[0].spec.changed().items() if k != "seed"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in changed.items()]
    seeds = ", ".join(str(reading.spec.seed) for reading in readings)
    return {
        "label": arm.label,
        "code": "\n".join(["# a model of your own, watched; seeds " + seeds, *lines]),
    }


def _machines(readings: Sequence[Reading]) -> list[dict[str, str]]:
    """Versions, commit and time of each run."""
    rows = []
    for reading in readings:
        last = reading.segments[-1] if reading.segments else {}
        seconds = sum(float(segment.get("seconds") or 0) for segment in reading.segments)
        versions = last.get("versions") or {}
        rows.append(
            {
                "id": reading.run_id,
                "status": {"partial": "under way"}.get(reading.status, reading.status),
                "epochs": f"{reading.epochs:,}",
                "seconds": f"{seconds:,.1f} s" if reading.segments else "unknown",
                "backend": str(last.get("backend", "unknown")),
                "commit": str(last.get("commit") or "unknown"),
                "versions": ", ".join(f"{name} {value}" for name, value in versions.items()),
            }
        )
    return rows
