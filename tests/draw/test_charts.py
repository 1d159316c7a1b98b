from __future__ import annotations

import html
import re
from typing import get_args

import pytest

from grokscope import spec
from grokscope.draw import theme
from grokscope.draw.charts import CHARTS, is_measured
from grokscope.draw.reading import Arm
from grokscope.errors import SpecError
from grokscope.measures.outcomes import find_phases
from grokscope.pages.files import save_chart
from grokscope.pages.reading import group_runs, read_arm


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def draw(kind, runs, folder) -> str:
    return save_chart(CHARTS[kind](group_runs(runs)), folder / "figure.svg").read_text()


OWN = [kind for kind in CHARTS if kind != "others"]  # that the lab's own runs have


@pytest.mark.parametrize("chart", OWN)
def test_every_chart_draws_every_kind_of_input(chart, cases, tmp_path):
    for name, runs in cases.items():
        svg = draw(chart, runs, tmp_path)
        assert svg.startswith("<svg"), name
        assert not re.search(r'[ML,"(]-?(NaN|Infinity)', svg), name
        words = texts(svg)
        if name == "no rows":
            assert "No rows to draw yet." in words
        else:
            assert "Training time (epochs)" in words, name


@pytest.mark.parametrize("chart", CHARTS)
def test_every_chart_is_valid_and_becomes_a_sharp_png(chart, make_run, tmp_path):
    drawing = CHARTS[chart](group_runs([make_run(until=300)]))
    drawing.to_dict(validate=True)
    data = save_chart(drawing, tmp_path / "f.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") > 1200  # pixels across: twice the nominal 600


@pytest.mark.parametrize("chart", ["accuracy", "attention"])
def test_a_first_row_can_be_drawn(chart, make_run, tmp_path):
    assert draw(chart, [make_run(status="partial", until=0, grok=None)], tmp_path)


def test_a_long_sequence_names_its_positions(make_run, tmp_path):
    parity = {"task.kind": "parity", "task.modulus": 59, "task.operands": 3}
    words = texts(draw("attention", [make_run(**parity)], tmp_path))
    assert {"0 operand", "5 distractor", "13 operand", "20 query"} <= set(words)


def rows_in(spec) -> list[dict]:
    """Every row of data anywhere in a chart."""
    if isinstance(spec, list):
        return [row for inner in spec for row in rows_in(inner)]
    if not isinstance(spec, dict):
        return []
    named = [row for data in spec.get("datasets", {}).values() for row in data]
    return named + spec.get("values", []) + rows_in([v for k, v in spec.items() if k != "datasets"])


def test_lines_are_where_the_data_are(make_run, tmp_path):
    """The last point of the test line lies at 100 %, i.e. at the top of the plot."""
    svg = draw("accuracy", [make_run(grok=500)], tmp_path)
    paths = [
        p for p in re.findall(r'<path[^>]*d="(M0,[^"]+)"[^>]*stroke="#2274B5"', svg) if "L" in p
    ]
    x, y = paths[0].rpartition("L")[2].split(",")
    assert float(x) == pytest.approx(600)
    assert float(y) == pytest.approx(0, abs=1e-3)


def test_phases_of_a_single_run_are_named_if_found(make_run, tmp_path):
    run = make_run(memorise=100, grok=800)
    columns = {
        n: run.curve[n].to_numpy()
        for n in ("epoch", "train_accuracy", "test_accuracy", "divergence")
    }
    phases = find_phases(columns, run.spec.training)
    found = {f"{i} {p.name}" for i, p in enumerate(phases, start=1) if p.found}
    assert "2 plateau" in found
    words = set(texts(draw("accuracy", [run], tmp_path)))
    assert {word for word in words if re.match(r"\d [a-z]+$", word)} == found


def test_no_phase_is_drawn_for_a_run_that_never_memorised(make_run, tmp_path):
    words = texts(draw("accuracy", [make_run(memorise=None, grok=None)], tmp_path))
    assert not [word for word in words if re.match(r"\d [a-z]+$", word)]


def test_seeds_are_counted_where_events_are_marked(make_run, tmp_path):
    runs = [make_run(seed=0, grok=500), make_run(seed=1, grok=None)]
    words = texts(draw("starvation", runs, tmp_path))
    assert "memorised (2 of 2 seeds)" in words
    assert "grokked (1 of 2 seeds)" in words


def test_comparison_marks_every_kind_of_ending(make_run, tmp_path):
    runs = [
        make_run(grok=500),
        make_run(grok=None, **{"task.alphabet": 4}),
        make_run(grok=None, status="partial", until=300, **{"task.alphabet": 5}),
        make_run(grok=None, status="failed", until=300, **{"task.alphabet": 6}),
    ]
    chart = CHARTS["comparison"](group_runs(runs)).to_dict(validate=False)
    marks = {row["arm"]: (row["ending"], row["epoch"]) for row in rows_in(chart) if "ending" in row}
    assert marks == {
        "alphabet 1": ("grokked", 500),
        "alphabet 4": ("not grokked by the last epoch", 1000),
        "alphabet 5": ("unfinished", 300),
        "alphabet 6": ("failed", 250),
    }
    words = texts(draw("comparison", runs, tmp_path))
    assert {ended for ended, _ in marks.values()} <= set(words)


@pytest.mark.parametrize("chart", ["loss", "starvation"])
def test_log_scales_receive_nothing_they_cannot_show(chart, cases):
    rows = rows_in(CHARTS[chart](group_runs(cases["seeds, one failed"])).to_dict(validate=False))
    drawn = [v for row in rows for k, v in row.items() if re.search("_loss|gradient", k)]
    assert None in drawn  # there were zeros and NaN to drop
    assert all(value > 0 for value in drawn if value is not None)


def test_structure_shows_the_worst_input_beside_the_mean(make_run, tmp_path):
    chart = CHARTS["structure"](group_runs([make_run()]))
    rows = chart.to_dict(validate=False)["datasets"]["mass_mean_0"]
    assert rows[-1] == {
        "epoch": 1000,
        "mass_mean": 1.0,
        "weakest_q10": 0.45,
        "weakest_q01": 0.42,
        "weakest_min": 0.41,
    }
    words = texts(save_chart(chart, tmp_path / "f.svg").read_text())
    assert {"all together, mean over inputs", "weakest, worst input"} <= set(words)


def test_long_curves_are_thinned(make_run):
    arms = group_runs([make_run(**{"training.log_every": 1})])
    for kind, most in (("starvation", 400), ("attention", 200 * 5)):
        (data,) = CHARTS[kind](arms).to_dict(validate=False)["datasets"].values()
        assert most / 2 < len(data) <= most


def test_labels_with_quotes_survive(make_run, tmp_path):
    label = 'say "no" \\ it\'s'
    arms = [read_arm(label, [make_run(grok=None)]), read_arm("b", [make_run(seed=1)])]
    svg = save_chart(CHARTS["comparison"](arms), tmp_path / "f.svg").read_text()
    assert label in [html.unescape(text) for text in texts(svg)]
    lines = re.findall(r'<path[^>]*d="M0,[^"]+L[^"]+"[^>]*stroke="(#[0-9A-F]+)"', svg)
    assert lines == ["#D55E00", "#009E73"]


def test_an_arm_or_a_list_give_the_same_chart(make_run):
    arms = group_runs([make_run()])
    assert CHARTS["loss"](arms).to_dict() == CHARTS["loss"](arms[0]).to_dict()


def test_nothing_to_draw_is_a_sentence():
    with pytest.raises(SpecError, match="no run to draw"):
        CHARTS["accuracy"]([])
    with pytest.raises(SpecError, match="no run to draw"):
        CHARTS["accuracy"](Arm("empty", ()))


def test_a_problem_without_tokens_has_the_charts_of_its_measures(regression, tmp_path):
    arms = group_runs([regression])
    charted = {kind for kind in CHARTS if is_measured(kind, arms)}
    assert charted == {"loss", "others", "comparison"}
    words = texts(draw("loss", [regression], tmp_path))
    assert {"generalised", "unseen test examples"} <= set(words)
    assert not {"memorised", "grokked"} & set(words)
    words = texts(draw("others", [regression], tmp_path))
    assert "Residual rank" in words
    chart = CHARTS["comparison"](arms).to_dict(validate=False)
    (mark,) = [row for row in rows_in(chart) if "ending" in row]
    assert (mark["ending"], mark["epoch"], mark["value"]) == ("generalised", 400, 0.01)
    for kind in OWN:  # whatever is asked for gives a picture, if only to say that it is empty
        assert draw(kind, [regression], tmp_path)


def test_an_unknown_kind_has_a_colour_of_its_own():
    known = {*theme.ARMS, *theme.PHASES.values(), *theme.PRIORS.values()}
    for colours in (theme.PRIORS, theme.OPTIMISERS, theme.PHASES):
        assert theme.kind_colour(colours, "of tomorrow") == theme.NEUTRAL
    assert theme.NEUTRAL not in known


def test_every_kind_has_a_colour():
    assert theme.PRIORS.keys() == set(get_args(spec.PriorKind))
    assert theme.OPTIMISERS.keys() == set(get_args(spec.OptimiserKind))
