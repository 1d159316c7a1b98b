"""A self-contained page about runs: what happened, the figures, and how sure we are.

One HTML file: Vega is inlined once, charts are drawn from JSON, nothing is fetched. A section whose
measures no run has is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from grokscope.claims.studies import Panel
from grokscope.draw import theme, words
from grokscope.draw.charts import FIGURES, NARROW, Arms, as_arms, give_room, is_measured
from grokscope.draw.glossary import measure_of
from grokscope.draw.reading import Arm, Reading
from grokscope.draw.tables import ROWS
from grokscope.pages import facts
from grokscope.pages.files import read_resource, script_json, template, vega_bundle
from grokscope.store.files import write_file

TITLE = "What happened in these runs"
SECTIONS = ("accuracy", "structure", "starvation", "attention", "others")
MOST_ARMS = 8  # with figures of their own; of more, one plot shows them all
AGAIN = "These lines train the same runs again; fields that are not named have their defaults."
WATCHED = "Of a model of your own only the settings are known, not the code that trained it."


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
    readings = [reading for arm in arms for reading in arm.readings]
    charts: list[dict[str, Any]] = []
    phases = _phases(readings)
    started = [reading.curve.columns for reading in readings if len(reading.curve)]
    watched = {reading.watched for reading in readings}
    return template("page.html").render(
        title=title,
        introduction=introduction,
        subjects=list(dict.fromkeys(reading.subject for reading in readings)),
        attentive=not started or any("attention" in columns for columns in started),
        own=watched == {True},
        arms=arms,
        readings=readings,
        colours=theme.arm_colours(len(arms)),
        cells={reading.run_id: _cells(reading, arms, bool(phases)) for reading in readings},
        facts=facts,
        words=words,
        structured=is_measured("structure", arms),
        comparison_figure=lay_out("comparison", arms, charts) if len(arms) > 1 else None,
        figures=[lay_out(kind, arms, charts) for kind in choose_sections(arms)]
        if len(arms) <= MOST_ARMS
        else [],
        crowded=len(arms) > MOST_ARMS,
        phases=phases,
        units=" or ".join(dict.fromkeys(f"{reading.unit}s" for reading in readings)),
        censored=[r for r in readings if r.goal and r.time_of(r.goal) is None],
        mirrored=any(facts.tell_accuracy(reading)[1] for reading in readings),
        glossary={
            name: measure_of(name).definition
            for name in dict.fromkeys(name for columns in started for name in columns)
            if measure_of(name).definition
        },
        recipe_note=" ".join([AGAIN] * (False in watched) + [WATCHED] * (True in watched)),
        recipe_of=recipe_of,
        style=read_resource("page.css"),
        script=read_resource("page.js"),
        bundle=vega_bundle(),
        charts=script_json(charts),
        themes=script_json({"light": theme.theme(), "dark": theme.theme(dark=True)}),
    )


def choose_sections(arms: Sequence[Arm]) -> list[str]:
    """The figures that some run has measures for. Losses are shown where there is no accuracy;
    before the first row every figure of the lab's own tasks is expected."""
    if not any(len(reading.curve) for arm in arms for reading in arm.readings):
        return list(SECTIONS[:-1])
    chosen = [kind for kind in SECTIONS if is_measured(kind, arms)]
    losses = not is_measured("accuracy", arms) and is_measured("loss", arms)
    return ["loss"] * losses + chosen


def rows_each(arms: int) -> int:
    """Rows per line: fewer where there are more arms, so that the file stays below 3 MB."""
    return max(60, min(ROWS, 1600 // arms))


def lay_out(kind: str, arms: Sequence[Arm], charts: list[dict[str, Any]]) -> dict[str, Any]:
    """A figure with its plots in rows; their descriptions are appended to `charts`."""
    rows = FIGURES[kind](arms, rows_each(len(arms)))
    cells = []
    for row in rows:
        for place, panel in enumerate(row):
            named = arms[place].label if len(arms) > 1 and len(row) == len(arms) else ""
            label = ": ".join(part for part in (panel.title, named) if part)
            charts.append({**_describe(panel), "description": label})  # for screen readers
            more = panel.title if named and len(rows) > 1 else ""
            texts = {"heading": named or panel.title, "more": more, "note": panel.note}
            cells.append({**texts, "label": label, "chart": len(charts) - 1})
    columns = max(len(row) for row in rows)
    if columns == 1 and len(rows) > 1:
        columns = len(rows)  # one arm: its plots stand side by side instead
    return {"kind": kind, "cells": cells, "columns": columns if columns <= 3 else 2}


def _describe(panel: Panel) -> dict[str, Any]:
    """A plot as wide as its place on the page, without a theme: the page has two."""
    data = panel.chart.datasets
    panel.chart.datasets = alt.Undefined
    view = panel.chart.properties(width="container")
    # The script overwrites the value with the true width before it draws. An expression would come
    # too late: Vega lays out a legend's columns before it knows the container.
    give_room(view, NARROW)
    view.autosize = alt.AutoSizeParams(type="fit-x", contains="padding")
    view.datasets = data
    spec = view.to_dict(validate=False)
    spec.pop("config", None)
    return spec


def _cells(reading: Reading, arms: Sequence[Arm], phased: bool) -> list[tuple[str, str, str]]:
    """A run in the table, as heading, text and small print: its events, and what is measured."""
    names = dict.fromkeys(name for arm in arms for r in arm.readings for name in r.events)
    cells = [(name.capitalize(), facts.tell_event(reading, name), "") for name in names]
    if phased:
        plateau = words.state_plateau(reading.phases, reading.epochs, reading.unit)
        cells.append(("Plateau", plateau, ""))
    if is_measured("accuracy", arms):
        cells.append(("Final test accuracy", *facts.tell_accuracy(reading)))
    if is_measured("structure", arms):
        cells.append(("Structural condition", *facts.tell_structure(reading)))
    return cells or [("Events", "no rows yet", "")]


def _phases(readings: Sequence[Reading]) -> list[tuple[str, str, list[str]]]:
    """Each phase: its name, its colour, and by which rule (or rules) it was looked for."""
    rules: dict[str, dict[str, None]] = {}
    for reading in readings:
        for phase in reading.phases:
            rules.setdefault(phase.name, {})[phase.rule] = None
    return [(n, theme.kind_colour(theme.PHASES, n), list(found)) for n, found in rules.items()]


def recipe_of(readings: Sequence[Reading]) -> str:
    """What to type to train the same runs again; of the user's own model, what is known."""
    spec = readings[0].spec
    changed = spec.changed()
    for name in ("seed", "task.seed", "task.fingerprint"):
        changed.pop(name, None)
    seeds = [reading.seed for reading in readings]
    if readings[0].watched:
        lines = [f"{name} = {json.dumps(value)}" for name, value in changed.items()]
        known = ", ".join(map(str, seeds))
        return "\n".join([f"# a model of your own, watched; seeds {known}", *lines])
    fields = "".join(f"    {json.dumps(n)}: {json.dumps(v)},\n" for n, v in changed.items())
    text = f"spec = gs.{type(spec).__name__}()" + f".replace(**{{\n{fields}}})" * bool(fields)
    inner = [getattr(getattr(r.spec, "task", None), "seed", -1) for r in readings]
    specs = f"gs.sweep(spec, {json.dumps({'seed': seeds})})"
    if set(inner) != {-1}:
        pairs = list(zip(seeds, inner, strict=True))
        specs = f'[spec.replace(**{{"seed": a, "task.seed": b}}) for a, b in {pairs!r}]'
    return f"import grokscope as gs\n\n{text}\nruns = gs.train({specs})"
