from __future__ import annotations

import html as html_text
import json
import re

import pytest

import grokscope
from grokscope.draw.arms import Arm, group_runs
from grokscope.draw.reading import read_run
from grokscope.errors import SpecError, StoreError
from grokscope.pages import facts
from grokscope.pages.run import (
    AGAIN,
    COMPARISON,
    SECTIONS,
    WATCHED,
    _lay_out,
    _recipe,
    render_page,
    rows_each,
    write_page,
)

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
    """Every sentence of the page that depends on outcomes, without drawing anything."""
    groups = [(arm.label, [read_run(run) for run in arm.runs]) for arm in group_runs(runs)]
    verdicts = [facts.judge(group) for _, group in groups]
    said = [f"{verdict.headline}. {verdict.detail}" for verdict in verdicts]
    if len(groups) == 2:
        said.append(facts.compare(groups[0][1], groups[1][1], (groups[0][0], groups[1][0])))
    return " ".join([*said, *facts.doubts(groups)])


def test_page_is_self_contained_complete_and_true(make_run, tmp_path):
    arms = group_runs([make_run(grok=None), make_run(grok=500, **{"prior.kind": "oracle"})])
    page = write_page(tmp_path / "page.html", arms, title="A < B").read_text()
    assert "Epochs, from and to." in page
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
    text = words(page)
    for claim in (
        "A < B",
        "Two small transformers are trained",
        "Not grokked within 1,000 epochs",
        "Grokked at epoch 500",
        "not within 1,000 epochs",
        "at least 900 epochs",  # the plateau of the run that did not grok
        "1 of 2 runs had not grokked when last seen",
        "The “oracle prior, strength 1” run grokked before the “no prior” run had",
        "luck alone gives this order half the time",
        "not found",
        "train accuracy ≥ 0.99 for 3 rows",
        "20\u00a0% of inputs",
        "weakest weight 0.01",
        "at τ = 0.25",
        "One seed shows that something can happen",
        "12.5 s",
        "abc1234+",
        "jax 0.10.2",
    ):
        assert claim.replace("\u00a0", " ") in text.replace("\u00a0", " ")


def test_a_page_of_runs_that_have_not_finished(make_run):
    runs = [
        make_run(grok=None, status="partial", until=300),
        make_run(grok=None, status="failed", until=200, **{"task.alphabet": 4}),
        make_run(status="empty", **{"task.alphabet": 5}),
    ]
    text = words(render_page(group_runs(runs)))
    for claim in (
        "Not grokked yet, at epoch 300",
        "not yet, at epoch 300",
        "Failed at epoch 200",
        "not before it failed at epoch 200",
        "No rows yet",
        "1 run failed because",
    ):
        assert claim in text
    assert "Grokked at" not in text


def test_nobody_grokked_nobody_is_said_to_have(make_run):
    text = sayings(
        [make_run(grok=None), make_run(memorise=None, grok=None, **{"prior.kind": "oracle"})]
    )
    assert not re.search(r"Grokked at|grokked before|seeds grokked|grokked at epoch", text)
    assert "No run of either arm has grokked" in text
    assert "Memorised: not within 1,000 epochs." in text


def test_everyone_grokked_nobody_is_said_to_be_censored(make_run):
    text = sayings([make_run(seed=0), make_run(seed=1, grok=700)])
    assert "censored" not in text
    assert "2 of 2 seeds grokked" in text
    assert "Grokked between epochs 500 and 700." in text
    assert "One seed shows" not in text


def test_seeds_are_told_apart_from_confidence(make_run):
    runs = [make_run(seed=s, grok=g) for s, g in ((0, 400), (1, 500), (2, None))]
    runs += [make_run(seed=s, grok=300, **{"prior.kind": "oracle"}) for s in range(3)]
    text = sayings(runs)
    assert "2 of 3 seeds grokked" in text
    assert "The other: not within 1,000 epochs." in text
    assert "Every “oracle prior, strength 1” run grokked before any “no prior” run had" in text
    assert "once in 20 times" in text
    assert "not a confidence interval" in text


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
    assert "again" not in facts.judge([reading]).detail
    reading.final["test_accuracy"] = 0.8
    assert "is below the threshold again" in facts.judge([reading]).detail


def test_a_last_minute_crossing_is_not_believed(make_run):
    verdict = facts.judge([read_run(make_run(grok=1000, **{"training.persistence": 5}))])
    assert verdict.headline == "Not grokked within 1,000 epochs"
    assert "reaches the threshold, but was not held there for 5 rows" in verdict.detail


def test_generalising_at_once_is_not_called_late(make_run):
    verdict = facts.judge([read_run(make_run(memorise=700, grok=500))])
    assert "no later than the training examples" in verdict.detail


def test_text_is_escaped(make_run):
    evil = '<img src=x onerror="alert(1)"></script>'
    page = render_page(Arm(evil, (make_run(),)), title=evil, introduction=evil)
    visible = re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert visible.count("<img") == 0
    assert len(charts_of(page)) == 5  # the JSON was not cut short
    assert words(page).count(evil) >= 4  # title, introduction, arm
    assert words(page).index(evil) < words(page).index("One small transformer is trained")


def test_recipes_train_the_same_runs(make_run, monkeypatch):
    runs = [make_run(seed=s, **{"prior.kind": "oracle"}) for s in (3, 1)]
    runs += [make_run(seed=s, **{"task.seed": 9}) for s in (0, 4)]
    trained: list[str] = []
    monkeypatch.setattr(
        grokscope, "train", lambda specs: trained.extend(s.id for s in specs), raising=False
    )
    for arm in group_runs(runs):
        exec(_recipe(arm, [read_run(run) for run in arm.runs])["code"], {})
    assert trained == [run.id for run in runs]


def test_long_curves_of_many_arms_stay_below_three_megabytes(make_run):
    """The bundle takes 0.9 MB. Four arms have all the rows there may be; more arms share them."""
    assert all(rows_each(arms) * arms <= 4 * rows_each(1) for arms in range(1, 27))
    runs = [make_run(seed=seed, **{"training.log_every": 1}) for seed in range(2)]
    charts: list[dict] = []
    for section in (COMPARISON, *SECTIONS):
        _lay_out(section, group_runs(runs), charts)
    assert len(json.dumps(charts)) < 2_000_000 / 4


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "100 %"), (0.9999, "over 99.9 %"), (0.5, "50 %"), (0.0001, "under 0.1 %"), (0.0, "0 %")],
)
def test_shares_never_round_to_all_or_nothing(value, text):
    assert facts.share(value).replace("\u00a0", " ") == text


def test_no_runs_or_no_room_are_sentences(make_run, tmp_path):
    with pytest.raises(SpecError, match="no run to draw"):
        write_page(tmp_path / "p.html", [])
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        write_page(tmp_path / "file" / "p.html", group_runs([make_run(status="empty")]))
