"""Figures of one's own sweeps, and of many arms."""

from __future__ import annotations

import json

import pytest

import grokscope as gs
from grokscope.draw import theme
from grokscope.pages.facts import judge
from grokscope.pages.reading import group_runs
from grokscope.pages.run import render_page


@pytest.fixture
def sweep(make_run):
    """Two strengths, two alphabets, three seeds; the weaker one groks in one seed of three."""
    return [
        make_run(
            grok=300 * (1 + seed) if strength == 1 or seed == 0 else None,
            seed=seed,
            **{"prior.kind": "oracle", "prior.strength": strength, "task.alphabet": alphabet},
        )
        for strength in (0.1, 1.0)
        for alphabet in (4, 8)
        for seed in range(3)
    ]


def layers(chart):
    return chart.to_dict()["layer"]


def test_times_against_a_field(sweep):
    line, dots = layers(gs.plot(sweep, "times", x="prior.strength", log="xy", title="Mine"))
    assert line["encoding"]["x"]["scale"]["type"] == "log"
    assert line["encoding"]["y"]["title"] == "Grokked at epoch (log scale)"
    rows = dots["data"]["values"]
    assert len(rows) == 12
    assert sum(row["ending"] == "not grokked by then" for row in rows) == 4
    # The median of three times is known if two have been seen.
    found = {(row["arm"], row["x"]): row["value"] for row in line["data"]["values"]}
    assert found == {("alphabet 4", 1.0): 600, ("alphabet 8", 1.0): 600}


def test_runs_that_are_left_out_are_counted(sweep, make_run):
    """Those that have no strength, and why; a single median makes no line."""
    plain = [make_run(grok=600, seed=seed, **{"task.alphabet": 4}) for seed in range(2)]
    runs = [run for run in sweep if run.spec.task.alphabet == 4]
    chart = gs.plot([*runs, *plain], "times", x="prior.strength").to_dict()
    assert chart["title"]["subtitle"] == [
        "a mark per run",
        "left out: 2 runs (no prior.strength: prior.kind is none)",
    ]


def test_medians_over_names_are_ticks(make_run):
    """There is nothing between two names that a line could show."""
    runs = [make_run(grok=600, **{"prior.kind": kind}) for kind in ("oracle", "entropy")]
    chart = gs.plot(runs, "times", x="prior.kind")
    assert layers(chart)[0]["mark"]["type"] == "tick"
    assert "tick: median over seeds" in chart.to_dict()["title"]["subtitle"][0]


def test_a_map_over_two_fields(sweep):
    chart = gs.plot(sweep, "map", x="task.alphabet", y="prior.strength").to_dict()
    cells = chart["data"]["values"]
    found = {(c["x"], c["y"]): (c["value"], c["share"]) for c in cells}
    assert found["4", "1.0"] == (600, "3 of 3")
    assert found["8", "0.1"] == (None, "1 of 3")
    last = gs.plot(sweep, "map", x="task.alphabet", y="prior.strength", measure="test_accuracy")
    assert layers(last)[0]["encoding"]["color"]["title"] == "Test accuracy at the end"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "times"}, "Name the field to draw against, such as --x"),
        ({"kind": "times", "x": "prior.strenght"}, "Did you mean prior.strength"),
        ({"kind": "times", "x": "prior.kind", "log": "x"}, "no numbers"),
        ({"kind": "times", "x": "seed", "log": "x"}, "goes down to 0"),
        ({"kind": "times", "x": "seed", "measure": "groked"}, "Did you mean grokked"),
        ({"kind": "map", "x": "seed"}, "two fields"),
        ({"kind": "map", "x": "prior.kind", "y": "prior.strength"}, "also differ in task.alphabet"),
        ({"kind": "accuracy", "x": "seed"}, "takes no x"),
        ({"kind": "accuracy", "measure": "acuracy"}, "Did you mean"),
    ],
)
def test_what_cannot_be_drawn_says_so(sweep, options, words):
    with pytest.raises(gs.SpecError, match=words):
        gs.plot(sweep, **options)


def test_axes_say_what_they_are(make_run):
    """Another measure, on log axes, in another size."""
    chart = gs.plot(
        make_run(), measure="weakest_min", log="xy", title="Mine", width=300, height=99
    ).to_dict()
    assert (chart["title"]["text"], chart["width"], chart["height"]) == ("Mine", 300, 99)
    axes = next(layer["encoding"] for layer in chart["layer"] if "stroke" in layer["encoding"])
    assert axes["x"]["title"] == "Training time (epochs, log scale)"
    assert axes["x"]["scale"]["type"] == "symlog"
    assert axes["y"]["title"] == "Attention weight (share of 1, log scale)"
    assert axes["y"]["scale"]["type"] == "log"
    linear = json.dumps(
        gs.plot(make_run(), measure="logit_gradient_mean", kind="comparison").to_dict()
    )
    assert "Size of the task's gradient (log scale)" in linear


def test_many_arms_can_be_told_apart(make_run):
    runs = [make_run(until=100, grok=None, **{"task.alphabet": 2 + i}) for i in range(9)]
    runs += [
        make_run(until=100, grok=None, **{"prior.kind": "oracle", "prior.end": 100 + i})
        for i in range(4)
    ]
    arms = group_runs(runs)
    assert len({arm.label for arm in arms}) == len(set(theme.arm_colours(len(arms)))) == 13
    chart = json.dumps(gs.plot(runs, "comparison").to_dict())
    assert '"labelLimit": 0' in chart
    page = render_page(arms)
    assert page.count('class="plot"') == 1
    assert "With 13 arms" in page
    assert "Its last test accuracy was 10\u00a0%." in page


def test_cards_say_the_best_accuracy_that_was_reached(make_run):
    lost = [make_run(grok=950, seed=seed, **{"training.persistence": 9}) for seed in (1, 2)]
    headline, text = judge(group_runs(lost)[0].readings)
    assert headline == "0 of 2 seeds grokked"
    assert text.endswith("The best test accuracy reached was 100\u00a0%.")


def test_a_page_explains_its_measures(make_run):
    page = render_page(group_runs([make_run(status="partial", until=200)]))
    assert "<dt><code>weakest_min</code></dt>" in page
    assert ">unfinished<" in page
    assert "under way" not in page
