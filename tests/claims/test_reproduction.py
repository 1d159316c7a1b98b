"""`grokscope reproduce` on a small paper of its own: from plan to page, resumed, failing closed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import grokscope as gs
import tiny_paper
from grokscope import cli, papers
from grokscope.claims import evidence, reproduction
from grokscope.claims.evidence import Tables, collect, read_tables
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, plan
from grokscope.engine import planning
from grokscope.pages import paper as page
from grokscope.pages import reproduction as pages

PAPER = tiny_paper.PAPER


@pytest.fixture
def reproduce(tmp_path, monkeypatch, capsys):
    """Run `grokscope reproduce tiny` in an empty directory: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GROKSCOPE_STORE", raising=False)
    monkeypatch.setitem(papers.PAPERS, "tiny", "tiny_paper")

    def call(*arguments):
        code = cli.run(["reproduce", "tiny", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A store with everything that the small paper asks for at laptop scale."""
    store = gs.Store(tmp_path_factory.mktemp("tiny") / "runs")
    gs.train(list({i.spec.id: i.spec for i in plan(PAPER.studies, "laptop")}.values()), store)
    return store


def test_from_plan_to_page(reproduce, runs):
    code, out, _ = reproduce("--scale", "laptop", "--dry-run")
    assert code == 0
    assert "8 runs are asked for, 4 of them by several arms: 4 in all" in out
    assert "Left to train at laptop scale: 4, about" in out
    assert not Path("runs").exists()
    code, out, _ = reproduce("--scale", "smoke")
    assert code == 0
    assert len(gs.Store("runs").runs()) == 2  # shared runs are trained once
    for name in ("tiny.md", "tiny.html", "norms.md", "figures/norms.svg"):
        assert f"reproduction/{name}" in out
        assert Path("reproduction", name).exists()
    assert "# Norms of 1 runs" in Path("reproduction/norms.md").read_text()
    tables = read_tables(Path("reproduction/tiny/smoke"))
    assert set(tables.runs.columns) >= {"memorised", "grokked", "test_accuracy", "steps"}
    plain = {r.id for r in gs.Store("runs").runs() if r.spec.prior.kind == "none"}
    assert set(tables.curves["run"]) == plain
    trained = {run.id: run.provenance for run in gs.Store("runs").runs()}
    _, out, _ = reproduce("--scale", "smoke")
    assert "Nothing is left to train." in out
    assert {run.id: run.provenance for run in gs.Store("runs").runs()} == trained


def test_everything_is_done_once(reproduce, runs, monkeypatch):
    """One plan, tables read once, every claim judged once, every figure drawn once."""
    shutil.copytree(runs.root, "runs")
    assert reproduce("--scale", "laptop", "--quiet")[0] == 0
    counts = Counter()

    def counted(name, function):
        def call(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return call

    def watched(study):
        arms, draw = counted(f"plan {study.name}", study.arms), counted("draw", study.draw)
        for claim in study.claims:
            test = type(claim.test)
            monkeypatch.setattr(test, "judge", counted(f"judge {test.__name__}", test.judge))
        return replace(study, arms=arms, draw=draw)

    paper = replace(PAPER, studies=tuple(watched(study) for study in PAPER.studies))
    monkeypatch.setattr(tiny_paper, "PAPER", paper)
    monkeypatch.setattr(evidence, "read_frames", counted("read", evidence.read_frames))
    monkeypatch.setattr(pages, "read_frames", counted("read", pages.read_frames))
    Path("README.md").write_text("\n".join([*page.marks(paper), ""]))
    assert reproduce("--scale", "laptop", "--readme", "README.md")[0] == 0
    assert "**[A Tiny Paper](docs/tiny.md)**" in Path("README.md").read_text()
    # Two seeds each; two figures; the tables of three scales and of the annex.
    once = {"plan first": 2, "plan second": 2, "draw": 2, "judge Share": 1, "judge Faster": 1}
    assert counts == {**once, "read": 4}


def test_tables_grow_and_pages_need_no_store(reproduce, runs):
    shutil.copytree(runs.root, "runs")
    assert reproduce("1", "--scale", "laptop", "--quiet")[0] == 0
    before = read_tables(Path("reproduction/tiny/laptop")).runs
    assert findings()["faster"].ruling == "not run"
    assert not Path("reproduction/norms.md").exists()
    assert reproduce("second", "--scale", "laptop", "--quiet")[0] == 0
    after = read_tables(Path("reproduction/tiny/laptop")).runs
    assert set(before["run"]) < set(after["run"])
    assert findings()["faster"].ruling != "not run"

    page = Path("reproduction/tiny.md").read_text()
    Path("runs").rename("elsewhere")
    Path("reproduction/tiny.md").unlink()
    code, out, _ = reproduce("--no-train")
    assert code == 0
    assert "laptop scale" in out
    assert Path("reproduction/tiny.md").read_text() == page
    assert not Path("runs").exists()

    # A verdict disappears with its run.
    prior = after.filter(pl.col("spec").str.contains("oracle"))["run"][0]
    table = Path("reproduction/tiny/laptop/runs.parquet")
    after.filter(pl.col("run") != prior).write_parquet(table)
    assert findings()["faster"].ruling == "not run"
    assert findings()["groks"].ruling != "not run"
    table.write_bytes(b"no table")
    with pytest.raises(gs.StoreError, match="cannot be read"):
        read_tables(table.parent)


def findings():
    tables = read_tables(Path("reproduction/tiny/laptop"))
    return {
        claim.name: finding
        for study in PAPER.studies
        for claim in study.claims
        for finding in tables.evidence(study, "laptop").findings(claim).values()
    }


def test_what_the_tables_have_is_not_trained_again(reproduce, runs):
    shutil.copytree(runs.root, "runs")
    assert reproduce("--scale", "laptop", "--quiet")[0] == 0
    Path("runs").rename("elsewhere")
    before = read_tables(Path("reproduction/tiny/laptop"))
    code, out, _ = reproduce("--scale", "laptop")
    assert code == 0
    assert "Known from the tables alone: 4. Nothing is left to train." in out
    assert not Path("runs").exists()
    after = read_tables(Path("reproduction/tiny/laptop"))
    assert after.runs.equals(before.runs)
    assert after.curves.equals(before.curves)
    _, out, _ = reproduce("--scale", "laptop", "--retrain", "--dry-run")
    assert "Left to train at laptop scale: 4, " in out
    # A lost row or a lost curve is missed; the annex has tables of its own, or it has not.
    ids = {i.arm: i.spec.id for i in plan(PAPER.studies, "laptop") if i.seed == 0}
    table = Path("reproduction/tiny/laptop/runs.parquet")
    after.runs.filter(pl.col("run") != ids["prior"]).write_parquet(table)
    assert "Left to train at laptop scale: 1, " in reproduce("--scale", "laptop", "--dry-run")[1]
    curves = Path("reproduction/tiny/laptop/curves.parquet")
    after.curves.filter(pl.col("run") != ids["plain"]).write_parquet(curves)
    assert "Left to train at laptop scale: 2, " in reproduce("--scale", "laptop", "--dry-run")[1]
    shutil.rmtree("reproduction/norms")
    assert "Left to train at laptop scale: 3, " in reproduce("--scale", "laptop", "--dry-run")[1]
    assert reproduce("second", "--scale", "laptop", "--quiet")[0] == 0  # trains both
    again = read_tables(Path("reproduction/tiny/laptop"))
    assert again.runs.drop("seconds", "commit").equals(before.runs.drop("seconds", "commit"))


def test_a_teacher_that_only_the_tables_know_is_trained_for_its_pupil(runs):
    def arms(setting, seed):
        teacher = setting.baseline(seed)
        taught = {"prior.kind": "teacher", "prior.teacher": teacher.id}
        return {"teacher": teacher, "pupil": setting.variant(seed, taught)}

    study = replace(PAPER.studies[0], arms=arms, curve_arms=(), summarise=None)
    found = {run.id: run for run in runs.runs()}
    tables = collect(PAPER, plan([PAPER.studies[0]], "smoke"), found, Tables.empty())
    empty = gs.Store(runs.root.parent / "empty")
    work = reproduction.survey([study], "smoke", None, empty, tables)
    assert len(work.tabled) == 1
    assert [spec.prior.kind for spec in work.left] == ["none", "teacher"]
    newer = replace(study, arms=PAPER.studies[0].arms, summarise=lambda run: {"more": 1.0})
    newer = replace(newer, name="newer")  # reads off a run what no row has
    assert reproduction.survey([newer], "smoke", None, empty, tables).left
    assert not reproduction.survey([newer], "smoke", None, runs, tables).left


def test_an_interruption_leaves_tables(reproduce, monkeypatch):
    def interrupted(specs, store, executor, sinks):
        planning.train(specs[:1], store, sinks=sinks)
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "train", interrupted)
    assert reproduce("second", "--scale", "smoke", "--quiet")[0] == 130  # as shells have it
    assert len(read_tables(Path("reproduction/tiny/smoke")).runs) == 1
    monkeypatch.undo()


def test_a_study_names_its_seeds():
    study = replace(PAPER.studies[0], seeds={"laptop": (456, 789)})
    assert [item.seed for item in plan([study], "laptop")] == [456, 789]
    assert [item.spec.seed for item in plan([study], "laptop", 4)] == [456, 789, 0, 1]
    assert [item.seed for item in plan([study], "laptop", 1)] == [456]
    assert PAPER.studies[0].seeds_at("laptop", 3) == [0, 1, 2]
    chosen_on = replace(study, pilots=(0, 2))
    assert chosen_on.seeds_at("laptop", 5) == [456, 789, 1, 3, 4]
    assert [evidence._number(item) for item in plan([chosen_on], "laptop", 5)] == [1, 2, 3, 4, 5]


def test_tables_remember_how_many_named_seeds_were_run(runs):
    study = replace(PAPER.studies[0], seeds={"laptop": (1, 0)})
    paper = replace(PAPER, studies=(study,))
    found = {run.id: run for run in runs.runs()}
    tables = collect(paper, plan([study], "laptop"), found, Tables.empty())
    assert tables.about["seeds"] == {"first": 2}
    (arm,) = tables.evidence(study, "laptop").samples["constant"].arms.values()
    assert [spec.seed for spec in arm.specs] == [1, 0]
    assert arm.sound


def test_all_papers_at_once(reproduce, runs, capsys, monkeypatch):
    """Pages of every paper that has tables, each with its own block of the README."""
    shutil.copytree(runs.root, "runs")
    assert reproduce("--scale", "laptop", "--quiet")[0] == 0
    other = replace(PAPER, name="other", annexes=())
    monkeypatch.setattr(tiny_paper, "OTHER", type("module", (), {"PAPER": other}), raising=False)
    monkeypatch.setitem(sys.modules, "tiny_other", tiny_paper.OTHER)
    monkeypatch.setitem(papers.PAPERS, "other", "tiny_other")
    shutil.copytree("reproduction/tiny", "reproduction/other")
    marks = [*page.marks(PAPER), *page.marks(other), ""]
    Path("README.md").write_text("\n".join(marks))
    assert cli.run(["reproduce", "all", "--no-train", "--readme", "README.md"]) == 0
    assert Path("README.md").read_text().count("A Tiny Paper") == 2
    written = capsys.readouterr().out
    assert "reproduction/tiny.md" in written
    assert "reproduction/other.md" in written
    assert "structural-inference" not in written  # it has no tables here


def test_open_claims_are_looked_at_again(reproduce, monkeypatch):
    """A claim that no number of seeds decides, and one that five do: only the first costs more."""
    _, second = PAPER.studies
    claims = (
        Claim("coin", "It shows heads.", Level("plain", "coin", "heads", low=0.5)),
        Claim("trains", "It trains.", Level("prior", "steps", "steps", low=1)),
    )

    def summarise(run):
        return {"coin": float(run.spec.seed % 2), "steps": float(run.outcome["epochs"])}

    study = replace(
        second,
        claims=claims,
        summarise=summarise,
        seeds={**second.seeds, "laptop": 5},
        most_seeds={"laptop": 10},
    )
    monkeypatch.setattr(tiny_paper, "PAPER", replace(PAPER, studies=(study,), annexes=()))
    code, out, _ = reproduce("--scale", "laptop")
    assert code == 0
    assert "Open: 1 claim. For their next look 10 runs are asked for" in out
    assert "Left to train at laptop scale: 5, " in out  # those of one arm
    tables = read_tables(Path("reproduction/tiny/laptop"))
    assert (tables.about["seeds"], tables.about["looks"]) == (
        {"second": 5},
        {"second": {"constant": 10}},
    )
    found = tables.evidence(study, "laptop")
    (sample,) = found.samples.values()
    assert {name: len(arm.rows) for name, arm in sample.arms.items()} == {"plain": 10, "prior": 5}
    assert all(arm.sound for arm in sample.arms.values())
    coin, trains = (found.findings(claim)["constant"] for claim in claims)
    assert (coin.ruling, coin.seeds) == ("inconclusive", 10)
    assert (trains.ruling, trains.seeds) == ("supported", 5)
    # The last look has been taken: nothing is left, and a fixed number is not extended.
    _, out, _ = reproduce("--scale", "laptop")
    assert "Nothing is left to train." in out
    assert "Open" not in out
    table = tables.runs.filter(pl.col("seed") < 5)
    table.write_parquet("reproduction/tiny/laptop/runs.parquet")
    shutil.rmtree("runs")
    _, out, _ = reproduce("--scale", "laptop", "--dry-run")
    assert "Left to train at laptop scale: 5, " in out
    _, out, _ = reproduce("--scale", "laptop", "--seeds", "5", "--dry-run")
    assert "Open" not in out


def test_the_next_look_at_pupils_trains_their_teachers(tmp_path):
    """Though no claim asks for them. The first look is made up."""

    def arms(setting, seed):
        teacher = setting.baseline(seed)
        taught = {"prior.kind": "teacher", "prior.teacher": teacher.id}
        return {"teacher": teacher, "pupil": setting.variant(seed, taught)}

    coin = Claim("coin", "Heads.", Level("pupil", "coin", "heads", low=0.5))
    study = replace(PAPER.studies[0], arms=arms, curve_arms=(), claims=(coin,), seeds={"laptop": 5})
    rows = [
        {"run": item.spec.id, "status": "finished", "coin": float(item.seed % 2)}
        for item in plan([study], "laptop")
    ]
    tables = Tables(pl.DataFrame(rows), pl.DataFrame(), {"seeds": {"first": 5}})
    work = reproduction.survey_next([study], "laptop", gs.Store(tmp_path), tables)
    assert [(claim.name, regime) for _, regime, claim in work.open] == [("coin", "constant")]
    assert Counter(spec.prior.kind for spec in work.left) == {"none": 5, "teacher": 5}
    assert {spec.seed for spec in work.left} == set(range(5, 10))


def test_more_seeds_can_be_asked_for(reproduce, runs):
    shutil.copytree(runs.root, "runs")  # smoke and laptop scale are the same here
    code, out, _ = reproduce("--scale", "smoke", "--seeds", "3", "--dry-run")
    assert code == 0
    assert "12 runs are asked for" in out
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
    with pytest.raises(gs.SpecError, match="Did you mean structural-inference"):
        papers.find_paper("structural-interference")
    with pytest.raises(gs.SpecError, match=r"Known: .*structural-inference, tiny"):
        papers.find_paper("quantum")


def test_a_run_is_summarised_for_every_study_that_uses_it(runs):
    """Also when only one of them is asked for, with more seeds than usual or not: the shared row
    must not lose the others' numbers."""
    first, second = PAPER.studies
    weighs = replace(
        second,
        summarise=lambda run: {"heads": float(run.spec.model.heads)},
        trace=lambda run: pl.DataFrame({"epoch": [0, 100], "weight": [1.0, 2.0]}),
    )
    paper = replace(PAPER, studies=(first, weighs))
    found = {run.id: run for run in runs.runs()}
    one = plan([first], "smoke")
    tables = collect(paper, one, found, Tables.empty())
    (name,) = (item.spec.id for item in one)
    assert tables.by_id[name]["heads"] == 1
    traced = tables.curves.drop_nulls("weight")
    assert traced["weight"].to_list() == [1.0, 2.0]
    assert traced["run"].unique().to_list() == [name]
    assert len(tables.curves.drop_nulls("test_accuracy")) > 2
    many = plan([weighs], "smoke", 2)
    again = collect(paper, plan([first], "smoke", 2), found, collect(paper, many, found, tables))
    assert all(again.by_id[item.spec.id]["heads"] == 1 for item in many)


def test_every_event_of_an_outcome_becomes_a_column():
    """Whatever the problem declares: a run need not memorise, grok, or know tokens."""
    outcome = {
        "status": "finished",
        "epochs": 10,
        "solved": {"measure": "error", "threshold": 0.1, "epoch": 7},
        "diverged": {"measure": "error", "threshold": 9.0, "epoch": None},
        "final": {"error": 0.05},
    }
    assert evidence.event_times(outcome) == {"solved": 7, "diverged": None}


def test_what_cannot_be_trained_is_reported_after_the_tables(reproduce, monkeypatch):
    def arms(setting, seed):
        blown = {"optimiser.kind": "sgd", "optimiser.lr": 1e30, "optimiser.weight_decay": 0}
        broken = setting.variant(seed, blown)
        taught = {"prior.kind": "teacher", "prior.teacher": broken.id}
        return {"broken": broken, "pupil": setting.variant(seed, taught)}

    studies = (replace(PAPER.studies[0], arms=arms, curve_arms=()),)
    annex = replace(tiny_paper.NORMS, arms=arms)
    monkeypatch.setattr(tiny_paper, "PAPER", replace(PAPER, studies=studies, annexes=(annex,)))
    code, _, err = reproduce("--scale", "smoke", "--quiet")
    assert code != 0
    assert "finished" in err
    tables = read_tables(Path("reproduction/tiny/smoke"))
    assert tables.runs["status"].to_list() == ["failed"]
    assert not Path("reproduction/norms.md").exists()
    assert Path("reproduction/tiny.md").exists()


def test_the_estimate_learns_from_the_store(runs):
    work = reproduction.survey(PAPER.studies, "smoke", 3, runs)
    assert len(work.done) == 4
    assert len(work.left) == 2
    plain, helped = sorted(work.left, key=lambda spec: spec.prior.kind)
    expected = planning.estimate_seconds(plain) + planning.expected_seconds(helped)
    total = work.slowness * expected + 2 * reproduction.STARTING
    assert work.seconds_left() == pytest.approx(total / planning.choose_processes(work.left))


def test_claims_know_no_paper():
    modules = "grokscope.claims.reproduction, grokscope.claims.judgements"
    code = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    known = [name for name in done.stdout.split() if name.startswith("grokscope.papers.")]
    # Measures share two formulas with a paper's theory; no study, figure or setting is loaded.
    assert all("theory" in name or name.count(".") == 2 for name in known), known
    assert not any(name.startswith("grokscope.pages") for name in done.stdout.split())
