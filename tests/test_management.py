"""Commands about runs that are there."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope import cli


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """Two priors, two seeds, 20 epochs each."""
    place = tmp_path_factory.mktemp("management") / "runs"
    over = {"prior.kind": ["none", "oracle"], "seed": [0, 1]}
    gs.train(gs.sweep(tiny.replace(training={"epochs": 20}), over), place)
    return place


@pytest.fixture
def call(trained, tmp_path, monkeypatch, capsys):
    """Run a command line in a directory with a copy of the store: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GROKSCOPE_STORE", raising=False)
    shutil.copytree(trained, tmp_path / "runs")

    def call(*arguments):
        try:
            code = cli.run(list(arguments))
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_runs_are_sorted_and_limited(call):
    code, out, _ = call("runs", "--sort", "seed", "--reverse", "--limit", "2", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["seed"] for row in rows] == [1, 1]
    assert {row["prior_strength"] for row in rows} == {None, 1.0}  # null without a prior
    code, _, err = call("runs", "--sort", "sead")
    assert (code, "Did you mean seed" in err) == (2, True)


def test_names_tags_and_notes(call):
    first, second = (run.id for run in gs.Store("runs").runs()[:2])
    assert call("name", first, "slow")[0] == 0
    assert call("tag", "slow", second, "--add", "figure-2", "keep")[0] == 0
    assert call("tag", "slow", "--remove", "keep")[1].split() == [first, "figure-2"]
    assert call("note", "slow", "the one to look at")[0] == 0
    out = call("show", "slow")[1]
    assert "slow #figure-2 the one to look at" in out
    out = call("runs", "--where", "tags like '%keep%'", "--json")[1]
    assert json.loads(out)["run"] == second
    assert call("tag", first)[0] == 2


def test_a_name_belongs_to_one_run(call):
    """Whether it was given, or comes from a watched loop; the same name again is no change."""
    first, second = (run.id for run in gs.Store("runs").runs()[:2])
    store = gs.Store("runs")
    watched = store.begin(gs.spec.ObservedSpec("my run"))
    store.save_progress(watched, {"epoch": np.array([0])}, None, {"segments": []})
    assert watched.id in call("show", "my run")[1]
    assert call("name", first, "slow")[0] == call("name", first, "slow")[0] == 0
    for name, owner in (("slow", first), ("my run", watched.id)):
        code, _, err = call("name", second, name)
        assert (code, f"Run {owner} has the name {name!r} already" in err) == (2, True)


def test_a_limit_is_positive(call):
    for limit in ("0", "-1"):
        code, _, err = call("runs", "--limit", limit)
        assert (code, err) == (2, f"grokscope: --limit is {limit}; it must be at least 1.\n")


def test_rm_asks_and_moves_to_the_trash(call, monkeypatch):
    code, _, err = call("rm", "--where", "seed = 1")
    assert code == 2  # nobody can be asked here
    assert "Move 2 runs to the trash? There is no terminal to ask on; add --yes." in err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "n")
    call("rm", "--where", "seed = 1")
    assert len(gs.Store("runs").ids()) == 4
    monkeypatch.setattr("builtins.input", lambda question: "y")
    code, out, _ = call("rm", "--where", "seed = 1")
    assert code == 0
    assert out.count("trash") == 2
    assert len(gs.Store("runs").ids()) == 2
    assert call("verify")[1].startswith("2 sound, 0 partial, 0 bad")
    assert call("rm", "--empty-trash", "--yes")[0] == 0
    assert not (gs.Store("runs").root / "trash").exists()
    assert call("rm")[0] == 2


def test_diff_names_what_differs(call):
    plain, prior = (run.id for run in gs.Store("runs").runs() if run.spec.seed == 0)
    lines = call("diff", plain, prior)[1].splitlines()
    assert sorted(lines[1].split()) == ["none", "oracle", "prior.kind"]
    assert any(line.startswith("test_accuracy ") for line in lines)
    assert "the same" in call("diff", plain, plain)[1]


def test_exports(call):
    files = ["--csv", "a.csv", "--parquet", "a.parquet", "--json", "a.json"]
    assert call("export", "--where", "seed = 1", *files)[0] == 0
    table = pl.read_parquet("a.parquet")
    assert table["seed"].to_list() == [1, 1]
    assert pl.read_csv("a.csv")["run"].to_list() == table["run"].to_list()
    assert len(pl.read_ndjson("a.json")) == 2
    assert call("export", "--curves", *files)[0] == 0
    assert len(pl.read_csv("a.csv")) == 4 * 3
    assert "attention" in pl.read_parquet("a.parquet").columns
    assert call("export")[0] == 2


def test_figures_of_a_sweep(call):
    code, out, _ = call(
        *("figure", "--where", "seed < 9", "--kind", "times", "--x", "prior.kind"),
        *("--measure", "test_loss", "--log", "y", "--title", "My sweep", "--out", "times.pdf"),
    )
    assert (code, out.strip()) == (0, "times.pdf")
    with open("times.pdf", "rb") as file:
        assert file.read(4) == b"%PDF"
    assert call("figure", "--where", "seed < 9", "--kind", "map", "--x", "seed")[0] == 2
    assert "times" in call("figure", "--kind", "help")[1]
    assert call("figure")[2].startswith("grokscope: Name at least one run")
    assert call("report", "--where", "seed = 0", "--out", "page.html")[0] == 0


def test_columns_are_explained(call):
    code, out, _ = call("columns", "accuracy")
    assert code == 0
    assert "Share of the unseen examples that are right." in out
    assert call("columns", "nonsense")[0] == 2


def test_every_column_of_a_run_is_explained(trained):
    from grokscope.draw.glossary import columns

    store = gs.Store(trained)
    names = {*store.table().columns, *store.runs()[0].curve.columns}
    assert names <= columns().keys()


def test_more_epochs(call):
    run = gs.Store("runs").runs()[0]
    assert call("train", run.id, "--more", "20", "--quiet")[0] == 0
    longer = gs.Store("runs").find(run.spec.replace(training={"epochs": 40}))
    assert longer.curve["epoch"][-1] == 40
    code, _, err = call("train", run.id, "--more", "20", "--optimiser.lr", "0.1")
    assert code == 2
    assert "optimiser.lr" in err
    assert "grokscope fork" in err


def test_overrides_may_be_equations(call):
    """Hyphens and underscores are the same; several values are a sweep."""
    out = call("train", "smoke", "prior.kind=oracle", "training.log-every=50", "--dry-run")[1]
    assert "prior.kind=oracle" in out
    assert "training.log_every=50" in out
    flag = ["--training.log_every", "50"]
    assert call("train", "smoke", *flag, "--prior.kind=oracle", "--dry-run")[1] == out
    out = call("train", "seed=0..2", "--over", "optimiser.weight-decay=0,1", "--dry-run")[1]
    assert len(out.splitlines()) == 6
    code, _, err = call("train", "smoke", "prior.strenght=3")
    assert code == 2
    assert "Did you mean prior.strength" in err


def test_fields_without_effect_are_refused_by_name(call, tmp_path):
    code, _, err = call("train", "smoke", "--prior.strength", "3", "--dry-run")
    assert code == 2
    assert "prior.strength has no effect: prior.kind is none." in err
    code, _, err = call("train", "smoke", "--over", "prior.strength=1,3", "--dry-run")
    assert (code, "prior.strength has no effect" in err) == (2, True)
    over = ["prior.kind=none,oracle", "prior.strength=1,3"]
    assert call("train", "smoke", "--over", *over, "--dry-run")[0] == 0
    (tmp_path / "mine.toml").write_text("[prior]\nstrength = 3\n")
    code, _, err = call("train", "mine.toml", "--dry-run")
    assert (code, "prior.strength has no effect" in err) == (0, True)


def test_python_warns_of_fields_without_effect(tiny, store):
    with pytest.warns(UserWarning, match=r"prior\.strength has no effect: prior\.kind is none\."):
        gs.train(tiny.replace(prior={"strength": 3}, training={"epochs": 10}), store)


def test_names_and_tags_are_listed(call):
    run = gs.Store("runs").runs()[0]
    call("name", run.id, "first try")
    call("tag", run.id, "--add", "good")
    assert "first try #good" in call("runs")[1]
    assert "first try" in gs.Store("runs")._repr_html_()


def test_a_fork_refuses_what_has_no_effect(call):
    run = gs.Store("runs").runs()[0]
    code, _, err = call("fork", run.id, "--at", "10", "--prior.strength", "3")
    assert code == 2
    assert "prior.strength has no effect" in err
