"""`grokscope reproduce` from plan to page, on a paper that trains in a second."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import grokscope as gs
import tiny_paper
from grokscope import cli
from grokscope.claims import reproduction
from grokscope.claims.evidence import Tables, collect, read_tables
from grokscope.claims.studies import plan
from grokscope.engine import execution
from grokscope.engine.events import ignore
from grokscope.errors import GrokscopeError, SpecError, StoreError
from grokscope.spec import RunSpec

PAPER = tiny_paper.PAPER


@pytest.fixture
def reproduce(tmp_path, monkeypatch, capsys):
    """Run `grokscope reproduce tiny` in an empty directory: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GROKSCOPE_STORE", raising=False)
    monkeypatch.setitem(reproduction.PAPERS, "tiny", "tiny_paper")

    def call(*arguments):
        code = cli.run(["reproduce", "tiny", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_from_plan_to_page(reproduce):
    code, out, _ = reproduce("--scale", "laptop", "--dry-run")
    assert code == 0
    assert "6 runs are asked for, 2 of them by several arms: 4 in all" in out
    assert "4 are left to train at laptop scale: about" in out
    assert not Path("runs").exists()

    code, out, _ = reproduce("--scale", "laptop")
    assert code == 0
    assert len(gs.Store("runs").runs()) == 4  # shared runs are trained once
    assert "groks" in out
    assert "faster" in out
    for name in ("tiny.md", "tiny.html"):
        assert f"reproduction/{name}" in out
        assert Path("reproduction", name).exists()
    tables = read_tables(Path("reproduction/tiny/laptop"))
    assert len(tables.runs) == 4
    assert set(tables.curves["run"]) == {
        r.id for r in gs.Store("runs").runs() if r.spec.prior.kind == "none"
    }

    trained = {run.id: run.provenance for run in gs.Store("runs").runs()}
    code, out, _ = reproduce("--scale", "laptop")
    assert "The store has 4" in out
    assert "Nothing is left to train." in out
    assert {run.id: run.provenance for run in gs.Store("runs").runs()} == trained


def test_tables_grow_and_pages_need_no_store(reproduce):
    assert reproduce("1", "--scale", "laptop", "--quiet")[0] == 0
    before = read_tables(Path("reproduction/tiny/laptop")).runs
    findings = _findings()
    assert findings["faster"].ruling == "not run"
    assert reproduce("second", "--scale", "laptop", "--quiet")[0] == 0
    after = read_tables(Path("reproduction/tiny/laptop")).runs
    assert set(before["run"]) < set(after["run"])
    assert _findings()["faster"].ruling != "not run"

    page = Path("reproduction/tiny.md").read_text()
    Path("runs").rename("elsewhere")
    Path("reproduction/tiny.md").unlink()
    code, out, _ = reproduce("--no-train")
    assert code == 0
    assert "laptop scale" in out
    assert Path("reproduction/tiny.md").read_text() == page
    assert not Path("runs").exists()


def _findings():
    tables = read_tables(Path("reproduction/tiny/laptop"))
    return {
        claim.name: finding
        for study in PAPER.studies
        for claim in study.claims
        for finding in tables.evidence(study, "laptop").findings(claim).values()
    }


def test_a_verdict_is_gone_with_its_run(reproduce):
    reproduce("--scale", "laptop", "--quiet")
    folder = Path("reproduction/tiny/laptop")
    runs = read_tables(folder).runs
    prior = runs.filter(pl.col("spec").str.contains("oracle"))["run"][0]
    runs.filter(pl.col("run") != prior).write_parquet(folder / "runs.parquet")
    assert _findings()["faster"].ruling == "not run"
    assert _findings()["groks"].ruling != "not run"


def test_more_seeds_can_be_asked_for(reproduce):
    code, out, _ = reproduce("--scale", "smoke", "--seeds", "3", "--dry-run")
    assert code == 0
    assert "9 runs are asked for" in out
    reproduce("--scale", "smoke", "--seeds", "2", "--quiet")
    reproduce("--scale", "smoke", "--quiet")  # one seed: what was run still counts
    about = json.loads(Path("reproduction/tiny/smoke/about.json").read_text())
    assert about["seeds"] == {"first": 2, "second": 2}


def test_bad_requests_are_sentences(reproduce):
    code, _, err = reproduce("figure9")
    assert code == 2
    assert "tiny has no study 'figure9'" in err
    code, _, err = reproduce("--seeds", "0")
    assert code == 2
    assert "--seeds is 0; it must be at least 1." in err
    code, _, err = reproduce("--no-train")
    assert code == 3
    assert "There are no tables of tiny in reproduction" in err
    assert cli.run(["reproduce", "structural-interference"]) == 2
    with pytest.raises(SpecError, match="Did you mean structural-inference"):
        reproduction.find_paper("structural-interference")


def test_damaged_tables_are_named(reproduce):
    reproduce("--scale", "smoke", "--quiet")
    Path("reproduction/tiny/smoke/runs.parquet").write_bytes(b"no table")
    with pytest.raises(StoreError, match="cannot be read"):
        read_tables(Path("reproduction/tiny/smoke"))


# The real paper's plan, without training it


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_arm_of_the_paper_is_a_sound_run(scale):
    paper = reproduction.find_paper("structural-inference")
    planned = plan(paper.studies, scale)
    assert planned
    by_id: dict[str, RunSpec] = {}
    for item in planned:
        assert by_id.setdefault(item.spec.id, item.spec) == item.spec
    # Whatever a run needs from another is planned as well.
    for spec in by_id.values():
        for needed in (spec.prior.teacher, spec.interventions.mask.source):
            assert not needed or needed in by_id
    # Seeds differ in nothing but their seed, and what is cut from it.
    for study in paper.studies:
        for setting in study.settings(scale):
            names = [list(study.arms(setting, seed)) for seed in range(2)]
            assert names[0] == names[1]


NOT_ASKED = {
    ("laptop", "noise"): {
        "attention is the ticket",  # there is no ticket
        "mask beats random",
        "mask beats shuffled",
        "not just the norm",
        *(f"norm contracts, batch of {size}" for size in (512, 256, 128)),  # they do not memorise
        "teacher beats decay",  # no run without help groks, so none can teach
        "oracle matches teacher",
        "teacher keeps the gain",
        "teacher of another seed",
        "teacher of another modulus",
        "teacher of another width",
        "the teacher must have grokked",
    },
    ("laptop", "constant"): {
        "wider groks earlier with the prior",  # the prior gains nothing there at any width
        "prior helps the narrow",
        "prior helps the wide",
        "late start works",  # the wait is over by then
        "very late start works",
        "teacher of another seed",  # there is no gain that a teacher could keep
        "teacher of another modulus",
        "teacher of another width",
        "teacher from constant distractors",
        "the teacher must have grokked",
    },
    ("paper", "bottleneck"): {
        "matched norm, decay elsewhere",  # figure 2 has its main arms only
        "too large a norm",
        "query-key control",
    },
}


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_every_claim_is_asked_but_for_those_named(scale):
    """A misspelt arm would else make its claim disappear."""
    paper = reproduction.find_paper("structural-inference")
    empty = Tables(pl.DataFrame(), pl.DataFrame(), {})
    missing: dict[tuple[str, str], set[str]] = {}
    for study in paper.studies:
        for regime, sample in empty.evidence(study, scale).samples.items():
            for claim in study.claims:
                if not sample.asks(claim):
                    missing.setdefault((scale, regime), set()).add(claim.name)
    assert missing == {where: names for where, names in NOT_ASKED.items() if where[0] == scale}


def test_the_study_of_contributing_works():
    """The example that shows how to add a study is one."""
    text = (Path(__file__).parent.parent.parent / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(code, names)
    study = names["STUDY"]
    planned = plan([study], "laptop")
    assert {item.arm for item in planned} == {"dense", "wide"}
    assert all(claim.test.describe() for claim in study.claims)
    paper = reproduction.find_paper("structural-inference")
    shared = {item.spec.id for item in plan(paper.studies, "laptop")}
    assert all(i.spec.id in shared for i in planned if i.arm == "dense")


def test_studies_by_name_and_number():
    paper = reproduction.find_paper("structural-inference")
    assert [s.name for s in paper.select(["3", "Figure3", "map"])] == ["acceleration", "map"]
    assert paper.select([]) == paper.studies
    main, appendix = paper.select(["main"]), paper.select(["appendix"])
    assert {*(s.name for s in main), *(s.name for s in appendix)} == {s.name for s in paper.studies}
    assert not any(study.appendix for study in main)


def test_a_run_is_summarised_for_every_study_that_uses_it(store):
    """Also when only one of them is asked for: the shared row must not lose the others' numbers."""
    first, second = PAPER.studies
    weighs = replace(
        second,
        summarise=lambda run: {"heads": float(run.spec.model.heads)},
        trace=lambda run: pl.DataFrame({"epoch": [0, 100], "weight": [1.0, 2.0]}),
    )
    paper = replace(PAPER, studies=(first, weighs))
    asked = plan([first], "smoke")
    (run,) = gs.train([item.spec for item in asked], store)
    tables = collect(paper, asked, store, Tables(pl.DataFrame(), pl.DataFrame(), {}))
    assert tables.by_id[run.id]["heads"] == 1
    traced = tables.curves.drop_nulls("weight")
    assert traced["weight"].to_list() == [1.0, 2.0]
    assert traced["run"].unique().to_list() == [run.id]
    assert len(tables.curves.drop_nulls("test_accuracy")) > 2


def test_so_it_is_with_more_seeds_than_usual(store):
    """What one study knows of a run that it has asked for itself stays when another asks again."""
    first, second = PAPER.studies
    weighs = replace(second, summarise=lambda run: {"heads": float(run.spec.model.heads)})
    paper = replace(PAPER, studies=(first, weighs))
    many, few = plan([weighs], "smoke", 2), plan([first], "smoke", 2)
    gs.train([item.spec for item in [*many, *few]], store)
    tables = collect(paper, many, store, Tables(pl.DataFrame(), pl.DataFrame(), {}))
    again = collect(paper, few, store, tables)
    for item in many:
        assert again.by_id[item.spec.id]["heads"] == 1


def test_a_failed_teacher_leaves_the_tables(store, tmp_path):
    """What cannot be trained is told when everything else is safe."""

    def arms(setting, seed):
        broken = setting.variant(
            seed, optimiser__kind="sgd", optimiser__lr=1e30, optimiser__weight_decay=0
        )
        pupil = setting.variant(seed, prior__kind="teacher", prior__teacher=broken.id)
        return {"plain": setting.baseline(seed), "broken": broken, "pupil": pupil}

    paper = replace(PAPER, studies=(replace(PAPER.studies[0], arms=arms),))
    work = reproduction.survey(paper.studies, "smoke", None, store)
    with pytest.raises(GrokscopeError, match="finished"):
        reproduction.carry_out(paper, work, "smoke", store, tmp_path, sinks=ignore)
    tables = reproduction.read_all(paper, tmp_path)["smoke"]
    assert sorted(tables.runs["status"]) == ["failed", "finished"]


def test_the_estimate_learns_from_the_store(store):
    specs = list(tiny_paper.second_arms(tiny_paper.settings("smoke")[0], 0).values())
    gs.train(specs[0], store)
    work = reproduction.survey(PAPER.studies, "smoke", None, store)
    run = work.done[0]
    seconds = run.seconds
    assert work.saved_seconds == pytest.approx(seconds)
    # What is left is as long as what was trained, but stops early.
    expected = seconds * execution.STOPS_EARLY + reproduction.STARTING
    assert work.seconds_left() == pytest.approx(expected, rel=1e-6)
