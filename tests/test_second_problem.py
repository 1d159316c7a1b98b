"""A problem without tokens goes the whole way: trained, resumed, stored, reported, judged."""

from __future__ import annotations

import numpy as np
import pytest

import grokscope as gs
from grokscope.claims.evidence import Event, Tables, collect
from grokscope.claims.judgements import Share
from grokscope.claims.studies import Claim, Paper, Setting, Study, plan
from grokscope.draw.charts import CHARTS
from grokscope.engine import training
from grokscope.engine.executors import InProcess, LocalProcesses
from grokscope.pages.book import Book
from grokscope.pages.paper import render_markdown
from grokscope.pages.reading import group_runs
from grokscope.pages.run import write_page
from grokscope.spec import read_spec
from regression import RegressionSpec

SEEDS = 5


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(gs.KINDS, "regression", RegressionSpec)


@pytest.fixture(scope="module")
def specs():
    wide = RegressionSpec().replace(hidden=64)
    return [
        spec.replace(seed=seed) for spec in (wide, wide.replace(hidden=1)) for seed in range(SEEDS)
    ]


@pytest.fixture(scope="module")
def finished(specs, tmp_path_factory):
    gs.KINDS["regression"] = RegressionSpec
    store = gs.Store(tmp_path_factory.mktemp("regression"))
    return gs.train(specs, store, processes=1)


def test_specs(specs):
    assert len({spec.id for spec in specs}) == 2 * SEEDS
    assert read_spec(specs[0].to_dict()) == specs[0]
    with pytest.raises(gs.SpecError, match=r"curve\.points is 1; it must be at least 2"):
        RegressionSpec().replace(**{"curve.points": 1})
    with pytest.raises(gs.SpecError, match="one of never, fitted"):
        RegressionSpec().replace(**{"training.stop": "grokked"})


def test_it_learns_and_is_stored(finished):
    wide = finished[:SEEDS]
    assert all(run.status == "finished" for run in finished)
    for run in wide:
        assert run.outcome["final"]["train_loss"] < 0.02
        assert run.outcome["fitted"]["epoch"] is not None
        assert not run.outcome["fitted"]["rising"]
        assert set(run.weights()) == {"inner.weight", "outer.weight", "bias"}
        assert run.outcome["phases"] == []
    assert all(run.outcome["fitted"]["epoch"] is None for run in finished[SEEDS:])
    store = gs.Store(wide[0].path.parent)
    assert store.verify() == []
    table = store.table()
    assert {"fitted", "test_loss", "curve_points", "hidden"} <= set(table.columns)
    assert len(store.sql("select run from runs where fitted is not null")) == SEEDS


def test_it_stops_by_its_own_event(specs, store):
    stopping = specs[0].replace(**{"training.stop": "fitted", "training.stop_after": 40})
    (run,) = gs.train(stopping, store, processes=1)
    assert run.outcome["ended_by"] == "fitted"
    # A streak settles at its last row; the event is dated from its first.
    settled = run.outcome["fitted"]["epoch"] + 2 * 20
    assert run.outcome["epochs"] == settled + 40


def test_it_resumes_to_the_same_bits(specs, finished, store, monkeypatch):
    class Stop(KeyboardInterrupt):
        pass

    def stop(event):
        if event.kind == "advanced" and event.epoch >= 200:
            raise Stop

    monkeypatch.setattr(training, "CHUNK_SECONDS", 1e-9)
    with pytest.raises(Stop):
        gs.train(specs[0], store, executor=InProcess(), sinks=stop)
    seen = []
    (run,) = gs.train(specs[0], store, executor=InProcess(), sinks=[seen.append, lambda e: None])
    assert [event.kind for event in seen if event.kind in ("started", "resumed")] == ["resumed"]
    told = [row["epoch"] for event in seen for row in event.rows]
    assert told == run.curve["epoch"].to_list()  # every row, once
    for name, array in run.weights().items():
        assert array.tobytes() == finished[0].weights()[name].tobytes()
    assert run.curve.equals(finished[0].curve)


def test_workers_learn_of_the_kind(specs, store):
    runs = gs.train(specs[:2], store, executor=LocalProcesses(2))
    assert [run.status for run in runs] == ["finished"] * 2


def test_a_store_without_the_kind_says_so(finished, monkeypatch):
    monkeypatch.delitem(gs.KINDS, "regression")
    store = gs.Store(finished[0].path.parent)
    assert store.runs() == []
    assert "unknown kind 'regression'" in store.verify()[0].sentence


def test_a_batch_agrees(specs, finished, store):
    batched = gs.train(specs[:2], store, execution="vmap", processes=1)
    for one, other in zip(batched, finished, strict=False):
        for name, array in one.weights().items():
            np.testing.assert_allclose(array, other.weights()[name], atol=1e-3)


def test_it_is_reported(finished, tmp_path):
    """The page has the problem's own measures and event, and none of the token tasks'."""
    page = write_page(tmp_path / "page.html", group_runs(finished)).read_text()
    assert "fitted" in page
    assert "hidden units 64" in page
    for word in ("grokked", "ttention", "ccuracy"):
        assert word not in page.split("<script")[0]
    assert CHARTS["loss"](group_runs(finished)).to_dict(validate=False)


def test_it_is_judged_by_a_claim(specs, finished):
    fitting = Event("fitted", "fit", "fitting epoch")
    by_seed = {(spec.hidden, spec.seed): spec for spec in specs}
    study = Study(
        name="width",
        source="Figure 1",
        title="Does width matter?",
        paper_says="It does.",
        how="We count.",
        settings=lambda scale: [Setting(scale, "sine", specs[0], stop="fitted")],
        arms=lambda setting, seed: {"wide": by_seed[64, seed], "narrow": by_seed[1, seed]},
        claims=(
            Claim("wide fits", "It fits.", Share("wide", "most", event=fitting)),
            Claim("narrow does not", "It does not.", Share("narrow", "few", event=fitting)),
        ),
        draw=lambda evidence: [],
        caption="",
        seeds={"smoke": SEEDS, "laptop": SEEDS, "paper": SEEDS},
    )
    paper = Paper(
        name="sines",
        title="Sines",
        reference="",
        summary="",
        studies=(study,),
        regimes={"sine": "A sine."},
        deviations=(),
        revisions=(),
        glossary={},
    )
    runs = {run.id: run for run in finished}
    tables = collect(paper, plan([study], "laptop"), runs, Tables.empty())
    evidence = tables.evidence(study, "laptop")
    rulings = [evidence.findings(claim)["sine"].ruling for claim in study.claims]
    assert rulings == ["supported", "supported"]
    assert "It fits." in render_markdown(Book.read(paper, {"laptop": tables}))
