from __future__ import annotations

import html as html_text
import json
import re
from collections import Counter

import pytest

import grokscope
from grokscope import cli
from grokscope.draw.words import share
from grokscope.errors import SpecError, StoreError
from grokscope.pages import facts
from grokscope.pages.reading import group_runs, read_arm, read_run
from grokscope.pages.run import (
    AGAIN,
    SECTIONS,
    WATCHED,
    lay_out,
    recipe_of,
    render_page,
    rows_each,
    write_page,
)
from grokscope.store import Run
from grokscope.terminal import OutcomeTable, say, show_run

from .test_files import fetched


def words(page: str) -> str:
    """What a reader sees: no scripts, no styles, no tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html_text.unescape(re.sub(r"<[^>]+>", " ", body)))


def charts_of(page: str) -> list[dict]:
    found = re.search(r'<script id="charts" type="application/json">(.*?)</script>', page)
    assert found
    return json.loads(found.group(1))


def sayings(runs) -> str:
    """What the page says of the outcomes, without drawing anything."""
    arms = group_runs(runs)
    said = [". ".join(facts.judge(arm.readings)) for arm in arms]
    if len(arms) == 2:
        said.append(facts.compare(*arms))
    return " ".join(said)


def test_page_is_self_contained_complete_and_true(make_run, tmp_path):
    runs = [make_run(grok=None), make_run(grok=500, **{"prior.kind": "oracle"})]
    page = write_page(tmp_path / "page.html", group_runs(runs), title="A < B").read_text()
    assert AGAIN in page
    assert WATCHED not in page
    assert fetched(page) == []
    assert not re.search(r"cdn|unpkg|jsdelivr", page, re.IGNORECASE)
    assert page.count("window.vegaEmbed") == 1
    assert len(page.encode()) < 1_500_000
    charts = charts_of(page)
    places = [int(place) for place in re.findall(r'data-chart="(\d+)"', page)]
    assert sorted(places) == list(range(len(charts)))
    assert len(charts) == 1 + 2 * 5  # comparison; five plots for each of two arms
    for chart in charts:
        assert chart["width"] == "container"
        assert "config" not in chart
        assert max(len(data) for data in chart["datasets"].values()) >= 21
        assert [param["name"] for param in chart["params"] if "value" in param] == ["room"]
    text = words(page).replace("\u00a0", " ")
    assert "A < B" in text
    for run in runs:  # the numbers on the page are those of the store
        assert run.id in page
        for name in ("memorised", "grokked"):
            time = run.outcome[name]["epoch"]
            assert (f"epoch {time:,}" if time else "not within 1,000 epochs") in text
        for phase in run.outcome["phases"]:
            assert phase["rule"].replace(">=", "≥") in text
        assert f"weakest weight {run.outcome['final']['weakest_min']:.3g}" in text
        (segment,) = run.provenance["segments"]
        assert f"{segment['seconds']} s" in text
        assert segment["commit"] in text


def test_a_page_of_runs_that_have_not_finished(make_run):
    runs = [
        make_run(grok=None, status="partial", until=300),
        make_run(grok=None, status="failed", until=200, **{"task.alphabet": 4}),
        make_run(status="empty", **{"task.alphabet": 5}),
    ]
    text = words(render_page(group_runs(runs)))
    for claim in ("not yet, at epoch 300", "Failed at epoch 200", "No rows yet", "1 run failed"):
        assert claim in text
    assert "Grokked at" not in text


def test_a_page_shows_what_a_problem_measures_and_nothing_else(regression):
    page = render_page(group_runs([regression]))
    assert [chart["description"] for chart in charts_of(page)] == [
        "Loss on training and on unseen examples",
        "Residual rank",
    ]
    text = words(page)
    assert "Generalised at epoch 400" in text
    assert "test loss reaches 0.01" in text
    for word in ("attention", "accuracy", "grokked", "transformer", "phase"):
        assert word not in text.lower(), word


def test_every_run_is_read_once(make_run, monkeypatch, tmp_path):
    """By each command that shows runs, whatever it shows of them."""
    runs = [make_run(seed=seed) for seed in range(2)]
    read: Counter[tuple[str, str]] = Counter()

    def counting(name):
        getter = vars(Run)[name].fget

        def get(run):
            read[name, run.id] += 1
            return getter(run)

        return property(get)

    for name in ("curve", "outcome", "provenance"):
        monkeypatch.setattr(Run, name, counting(name))
    asked = [*(run.id for run in runs), "--store", str(runs[0].path.parent)]
    for command in (
        ["report", *asked, "--out", str(tmp_path / "page.html")],
        ["figure", *asked, "--kind", "structure", "--out", str(tmp_path / "figure.json")],
    ):
        read.clear()
        assert cli.run(command) == 0
        assert set(read.values()) == {1}, (command[0], read)
        assert {run for _, run in read} == {run.id for run in runs}


def test_nobody_grokked_nobody_is_said_to_have(make_run):
    text = sayings(
        [make_run(grok=None), make_run(memorise=None, grok=None, **{"prior.kind": "oracle"})]
    )
    assert not re.search(r"Grokked at|grokked before|seeds grokked|grokked at epoch", text)
    assert "Memorised: not within 1,000 epochs." in text


def test_everyone_grokked_nobody_is_said_to_be_censored(make_run):
    text = sayings([make_run(seed=0), make_run(seed=1, grok=700)])
    assert "censored" not in text
    assert "2 of 2 seeds grokked" in text
    assert "grokked, at epochs 500 to 700" in text


def test_seeds_are_told_apart_from_confidence(make_run):
    runs = [make_run(seed=s, grok=g) for s, g in ((0, 400), (1, 500), (2, None))]
    runs += [make_run(seed=s, grok=300, **{"prior.kind": "oracle"}) for s in range(3)]
    text = sayings(runs)
    assert "2 of 3 seeds grokked" in text
    assert "The other: not within 1,000 epochs." in text
    assert "Every “oracle prior, strength 1” run grokked before any “no prior” run had" in text
    assert "once in 20 times" in text


def test_overlapping_arms_are_not_ranked(make_run):
    runs = [make_run(seed=s, grok=g) for s, g in ((0, 400), (1, 800))]
    runs += [make_run(seed=s, grok=600, **{"prior.kind": "oracle"}) for s in range(2)]
    assert "Neither arm is ahead in every run" in sayings(runs)


def test_a_run_cut_off_before_the_other_grokked_proves_nothing(make_run):
    runs = [
        make_run(grok=None, status="partial", until=300),
        make_run(grok=500, **{"prior.kind": "oracle"}),
    ]
    assert "Neither arm is ahead in every run" in sayings(runs)


def test_losing_it_again_is_said(make_run):
    reading = read_run(make_run(grok=500))
    assert "again" not in facts.judge([reading])[1]
    reading.final["test_accuracy"] = 0.8
    assert "below the threshold again" in facts.judge([reading])[1]


def test_a_last_minute_crossing_is_not_believed(make_run):
    headline, detail = facts.judge([read_run(make_run(grok=1000, **{"training.persistence": 5}))])
    assert headline == "Not grokked within 1,000 epochs"
    assert "was not held there for 5 rows" in detail


def test_generalising_at_once_is_not_called_late(make_run):
    _, detail = facts.judge([read_run(make_run(memorise=700, grok=500))])
    assert "later" in detail
    assert "200 epochs later" not in detail


def test_text_is_escaped(make_run):
    evil = '<img src=x onerror="alert(1)"></script>'
    page = render_page(read_arm(evil, [make_run()]), title=evil, introduction=evil)
    visible = re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert visible.count("<img") == 0
    assert len(charts_of(page)) == 5  # the JSON was not cut short
    assert words(page).count(evil) >= 4  # title, introduction, arm


def test_recipes_train_the_same_runs(make_run, monkeypatch):
    runs = [make_run(seed=s, **{"prior.kind": "oracle"}) for s in (3, 1)]
    runs += [make_run(seed=s, **{"task.seed": 9}) for s in (0, 4)]
    trained: list[str] = []
    monkeypatch.setattr(
        grokscope, "train", lambda specs: trained.extend(s.id for s in specs), raising=False
    )
    for arm in group_runs(runs):
        exec(recipe_of(arm.readings), {})
    assert trained == [run.id for run in runs]


def test_long_curves_of_many_arms_stay_below_three_megabytes(make_run):
    """The bundle takes 0.9 MB. Four arms have all the rows there may be; more arms share them."""
    assert all(rows_each(arms) * arms <= 4 * rows_each(1) for arms in range(1, 27))
    runs = [make_run(seed=seed, **{"training.log_every": 1}) for seed in range(2)]
    charts: list[dict] = []
    for kind in ("comparison", *SECTIONS):
        lay_out(kind, group_runs(runs), charts)
    assert len(json.dumps(charts)) < 2_000_000 / 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "100 %"), (0.9999, "over 99.9 %"), (0.5, "50 %"), (0.0001, "under 0.1 %"), (0.0, "0 %")],
)
def test_shares_never_round_to_all_or_nothing(value, text):
    assert share(value).replace("\u00a0", " ") == text


def test_no_runs_or_no_room_are_sentences(make_run, tmp_path):
    with pytest.raises(SpecError, match="no run to draw"):
        write_page(tmp_path / "p.html", [])
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        write_page(tmp_path / "file" / "p.html", group_runs([make_run(status="empty")]))


def test_the_terminal_shows_what_a_problem_measures(regression, capsys):
    say(OutcomeTable([regression]), *show_run(regression))
    shown = capsys.readouterr().out
    assert shown.count("generalised at") == 2
    assert "400" in shown
    assert "residual_rank" in shown
    for word in ("grokked", "memorised", "plateau", "structure"):
        assert word not in shown, word
