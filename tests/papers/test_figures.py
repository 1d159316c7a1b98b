"""Figures of the structural-inference studies, from made-up runs of every fate."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import altair as alt
import polars as pl
import pytest

from grokscope.claims.evidence import Tables
from grokscope.claims.studies import plan
from grokscope.draw import marks, theme
from grokscope.pages.book import Drawing
from grokscope.pages.paper import draw_together
from grokscope.papers.structural_inference.paper import PAPER

STUDIES = {study.name: study for study in PAPER.studies}
SCALE = {name: "smoke" if study.settings("smoke") else "laptop" for name, study in STUDIES.items()}
SEEDS = 3
TRACED = {
    "explaining-away": ("gradient_mean", "bound_mean", "ratio_worst", "ratio_median"),
}


def make_up(spec, grokked, status="finished"):
    """A row of the runs table."""
    return {
        "run": spec.id,
        "seed": spec.seed,
        "status": status,
        "epochs": spec.training.epochs if status == "finished" else 40,
        "memorised": 100 if status == "finished" else None,
        "grokked": grokked,
        "seconds": 6.0,
        "commit": "abc1234",
        "test_accuracy": 0.99 if grokked else 0.1,
        "starved": 50.0 if status == "finished" else None,
        **{f"accuracy_at_{length}": 0.8 if status == "finished" else None for length in (6, 16)},
    }


def evidence_of(name, scale, make=lambda item: make_up(item.spec, 300 + 10 * item.seed)):
    """A study with the rows that `make` gives (None: missing), and curves of its baselines."""
    study = STUDIES[name]
    items = {item.spec.id: item for item in plan([study], scale, SEEDS)}
    rows = [row for row in map(make, items.values()) if row is not None]
    columns = (*study.curves, *TRACED.get(name, ()))
    curves = [
        {"run": row["run"], "epoch": epoch, **dict.fromkeys(columns, 0.5)}
        for row in rows
        for epoch in (0, 25, 50)
        if items[row["run"]].arm in study.curve_arms
    ]
    runs = pl.DataFrame(rows, infer_schema_length=None)
    tables = Tables(runs, pl.DataFrame(curves), {"seeds": {name: SEEDS}})
    return tables.evidence(study, scale)


def mixed(item):
    """Every fourth run is missing, fails, never groks, or groks."""
    number = int(item.spec.id, 16) % 4
    if number == 0:
        return None
    if number == 1:
        return make_up(item.spec, None, "failed")
    return make_up(item.spec, None if number == 2 else 400)


def points(chart):
    """Rows behind the marks that are shaped by how runs ended."""
    found = []

    def visit(node):
        if isinstance(node, dict):
            if "shape" in node.get("encoding", {}):
                found.extend(node["data"]["values"])
            for value in node.values():
                visit(value)
        elif isinstance(node, list):
            for value in node:
                visit(value)

    visit(chart.to_dict(validate=False))
    return found


def words(chart):
    return json.dumps(chart.to_dict(validate=False), ensure_ascii=False)


def first_regime(name, make):
    """One regime is drawn as the next, and drawing takes seconds."""
    evidence = evidence_of(name, SCALE[name], make)
    regime = next(iter(evidence.samples))
    return replace(evidence, samples={regime: evidence.samples[regime]})


@pytest.mark.parametrize("name", STUDIES)
def test_whatever_runs_there_are_can_be_drawn(name):
    """Missing, failed, censored and grokked ones; every run that has ended is in the picture."""
    panels = STUDIES[name].draw(first_regime(name, mixed))
    assert panels
    svg = draw_together([Drawing(panel) for panel in panels])
    assert svg.startswith("<svg")
    assert "NaN" not in svg
    for panel in panels:
        assert panel.heading in svg
        assert panel.note in svg


@pytest.mark.parametrize("name", STUDIES)
def test_figures_are_valid_vega_lite(name):
    for panel in STUDIES[name].draw(first_regime(name, lambda item: make_up(item.spec, 500))):
        alt.Chart.from_dict(panel.chart.to_dict(validate=False))


@pytest.mark.parametrize("name", STUDIES)
def test_nothing_is_drawn_from_nothing(name):
    assert list(STUDIES[name].draw(evidence_of(name, SCALE[name], lambda _: None))) == []


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if study.read])
def test_an_arm_may_have_more_seeds_than_the_others(name):
    """Those that a claim which was open has asked for."""
    right = {"right_at_memorisation": 0.5}
    evidence = evidence_of(name, SCALE[name], lambda item: {**make_up(item.spec, 300), **right})
    samples = dict(evidence.samples)
    for regime, sample in samples.items():
        first, arm = next(iter(sample.arms.items()))
        more = replace(arm, specs=2 * arm.specs, rows=2 * arm.rows)
        samples[regime] = replace(sample, arms={**sample.arms, first: more})
    assert isinstance(STUDIES[name].read(replace(evidence, samples=samples)), str)


def test_what_is_guaranteed_is_read_where_it_is_known():
    study = STUDIES["optimisers"]

    def half_known(item):
        known = {"norm_rate": 0.5, "certified_rate": None if item.arm == "Lion" else -2.0}
        return {**make_up(item.spec, 300), **(known if item.seed else {"norm_rate": None})}

    text = study.read(evidence_of(study.name, "laptop", half_known))
    assert "Constant: 22 of 33 runs have a plateau; the norm shrinks on it in 22 of these." in text
    assert "SGD -2 (measured 0.5), Muon -2 (measured 0.5); below 0" in text
    assert study.read(evidence_of(study.name, "laptop")) == ""


def test_rates_are_drawn_where_there_is_a_plateau():
    def shrinking(item):
        has_plateau = item.arm != "SGD" or item.seed == 0
        rate = {"SGD": -8.0, "Lion": 1.0}.get(item.arm, 0.1 * item.seed)
        return {**make_up(item.spec, 300), "norm_rate": rate if has_plateau else None}

    evidence = evidence_of("optimisers", "laptop", shrinking)
    for panel in STUDIES["optimisers"].draw(evidence):
        arms = len(evidence.samples[panel.title].arms)
        values = [point["value"] for point in points(panel.chart)]
        assert len(values) == SEEDS * arms - 2
        assert values.count(-8.0) == 1
        summaries = re.findall(r'"summary": "([^"]+)"', words(panel.chart))
        assert set(summaries) == {"1 of 3 have a plateau", "mean 1.00", "mean 0.10"}


@pytest.mark.parametrize("name", ["acceleration", "tickets"])
def test_a_censored_run_stands_at_its_budget_as_a_triangle(name):
    def never_with_a_prior(item):
        return make_up(item.spec, None if item.spec.prior.kind == "oracle" else 300)

    evidence = evidence_of(name, "smoke", never_with_a_prior)
    budget = next(iter(evidence.samples.values())).budget
    for panel in STUDIES[name].draw(evidence):
        drawn = points(panel.chart)
        helped = [p for p in drawn if p["colour"] == theme.PRIORS["oracle"]]
        others = [p for p in drawn if p["colour"] != theme.PRIORS["oracle"]]
        assert {(p["ending"], p["value"]) for p in helped} == {(marks.CENSORED, budget)}
        assert {(p["ending"], p["value"]) for p in others} == {(marks.REACHED, 300)}
        assert marks.SHAPES[marks.CENSORED].startswith("triangle")


def test_a_failed_run_is_a_cross_and_counted():
    study = STUDIES["acceleration"]
    evidence = evidence_of(study.name, "smoke", lambda i: make_up(i.spec, None, "failed"))
    for panel in study.draw(evidence):
        assert {p["ending"] for p in points(panel.chart)} == {"failed"}
        assert "9 failed" in panel.note


def test_missing_runs_are_counted():
    def first_seed_only(item):
        return make_up(item.spec, 300) if item.seed == 0 else None

    panel = STUDIES["tickets"].draw(evidence_of("tickets", "smoke", first_seed_only))[0]
    arms = len(next(iter(evidence_of("tickets", "smoke").samples.values())).arms)
    assert f"{2 * arms} of {3 * arms} runs missing" in panel.note


def test_outcomes_tell_a_high_accuracy_from_grokking():
    """A run may end above the threshold without having stayed there: it is no dot."""

    def late(item):
        return {**make_up(item.spec, None), "test_accuracy": 0.97}

    panel = STUDIES["norm-and-structure"].draw(evidence_of("norm-and-structure", "smoke", late))[0]
    assert {p["ending"] for p in points(panel.chart)} == {marks.CENSORED}
    assert "0 of 3" in words(panel.chart)


def test_the_law_is_drawn_where_all_its_runs_are_there():
    def lawful(item):
        dose = item.spec.prior.strength if item.spec.prior.kind == "oracle" else 0.001
        return make_up(item.spec, round(300 + 10 / dose) if dose > 0.005 else None)

    def incomplete(item):
        return None if (item.spec.prior.strength, item.seed) == (3.0, 1) else lawful(item)

    def law_of(make):
        chart = STUDIES["acceleration"].draw(evidence_of("acceleration", "laptop", make))[0].chart
        layers = chart.to_dict(validate=False)["layer"]
        return next(la["data"]["values"] for la in layers if la["mark"]["type"] == "line")

    assert law_of(incomplete) == []
    line = law_of(lawful)
    assert line
    for place in line:
        assert place["value"] == pytest.approx(300 + 10 / place["place"], rel=0.05)


def test_the_map_says_never_and_shows_gaps():
    def noisy(item):
        spec = item.spec
        if spec.prior.kind == "oracle" and spec.task.alphabet == 1:
            return None
        return make_up(spec, None if spec.prior.kind == "none" else 450)

    epochs, starvation = STUDIES["map"].draw(evidence_of("map", "smoke", noisy))
    cells = {
        (cell["x"], cell["y"]): cell["text"]
        for cell in epochs.chart.to_dict(validate=False)["data"]["values"]
    }
    assert cells == {(1, 0): "never", (29, 0): "never", (1, 1): "–", (29, 1): "450"}
    assert '"50"' in words(starvation.chart)
