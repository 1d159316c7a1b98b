"""The store: reading back, filtering, damage, and a disk that says no."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

import grokscope as gs
from grokscope.spec import from_dict
from grokscope.store import run as run_module
from grokscope.store.files import read_json


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """Two finished runs; tests that do damage copy it first."""
    store = gs.Store(tmp_path_factory.mktemp("store"))
    base = tiny.replace(**{"training.snapshots": 2})
    gs.train(gs.sweep(base, {"seed": [0, 1]}), store, processes=1)
    return store


@pytest.fixture
def copied(trained, tmp_path):
    shutil.copytree(trained.root, tmp_path / "runs")
    return gs.Store(tmp_path / "runs")


def test_reading_back(trained):
    run = trained.runs()[0]
    assert from_dict(json.loads((run.path / "spec.json").read_text())).id == run.id
    assert run.curve["epoch"].to_list() == list(range(0, 101, 10))
    assert len(run.curve["attention"][0]) == 5
    assert run.weights()["hidden"].shape == (8, 16)
    assert run.snapshots == [0, 50]
    assert not np.array_equal(run.weights(0)["hidden"], run.weights()["hidden"])
    with pytest.raises(gs.StoreError, match="no snapshot at epoch 7"):
        run.weights(7)
    assert "task.modulus=11" in repr(run)


def test_an_outcome_says_how_it_was_judged(trained):
    outcome = trained.runs()[0].outcome
    assert outcome["grokked"] == {
        "measure": "test_accuracy",
        "threshold": 0.95,
        "persistence": 3,
        "epoch": None,
        "observed_until": 100,
        "rising": True,
    }
    assert [phase["name"] for phase in outcome["phases"]] == [
        "memorisation",
        "plateau",
        "resurgence",
        "grokking",
    ]


def test_nothing_is_pickled(trained):
    suffixes = {path.suffix for path in trained.root.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".parquet", ".safetensors"}


def test_names_may_be_shortened(trained):
    run = trained.runs()[0]
    assert trained.get(run.id[:7]).id == run.id
    with pytest.raises(gs.StoreError, match="There is no run 'zzz'") as refusal:
        trained.get("zzz")
    assert str(refusal.value).endswith("`grokscope runs` lists all 2.")
    assert run.id not in str(refusal.value)
    with pytest.raises(gs.StoreError, match=f"Did you mean {run.id}"):
        trained.get(run.id[:15] + "x")
    with pytest.raises(gs.StoreError, match="It is empty"):
        gs.Store(trained.root / "nowhere").get("abc")


def test_an_ambiguous_name_gets_a_sentence(copied):
    one, two = copied.ids()
    os.rename(copied.root / two, copied.root / (one[:15] + "f"))
    with pytest.raises(gs.StoreError, match="ambiguous"):
        copied.get(one[:4])


def test_filtering_by_sql(trained):
    table = trained.table()
    assert table["task_modulus"].to_list() == [11, 11]
    one = trained.sql("select run from runs where seed = 1")
    assert len(one) == 1
    best = trained.sql("select run, max(train_accuracy) as best from curves group by run")
    assert len(best) == 2
    assert 0 < best["best"].min() <= 1
    with pytest.raises(gs.SpecError, match=r"no column 'sead'\. Did you mean seed"):
        trained.sql("select run from runs where sead = 0")
    with pytest.raises(gs.SpecError, match="The query failed"):
        trained.sql("select nothing from nowhere")


def test_each_file_is_read_once(trained, monkeypatch):
    read = []
    monkeypatch.setattr(run_module, "read_json", lambda p: read.append(p) or read_json(p))
    names = ["outcome.json", "provenance.json", "spec.json"]
    for listing in (gs.Store.runs, gs.Store.table, lambda store: store.sql("select run from runs")):
        read.clear()
        assert len(listing(gs.Store(trained.root))) == 2  # a store that has seen nothing yet
        assert sorted(p.name for p in read) == sorted(2 * names)


def test_a_query_opens_the_curves_only_if_it_asks_for_them(copied):
    (copied.runs()[0].path / "curve.parquet").write_bytes(b"no curve")
    assert len(copied.sql("select run from runs")) == 2
    assert not copied.left_out
    assert len(copied.sql("select distinct run from Curves")) == 1
    (sentence,) = copied.left_out.values()  # the others are asked all the same
    assert "curve.parquet cannot be read" in sentence


def test_an_outcome_without_status_is_not_listed(copied):
    (copied.runs()[0].path / "outcome.json").write_text("{}")
    assert len(copied.runs()) == len(copied.table()) == 1


def test_a_sound_store_has_no_problems(trained):
    assert trained.verify() == []
    with pytest.raises(gs.StoreError, match="no store"):
        gs.Store(trained.root / "nowhere").verify()


@pytest.mark.parametrize("name", ["curve.parquet", "weights.safetensors", "spec.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damage_is_found(copied, name, damage):
    file = copied.runs()[0].path / name
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    else:
        file.unlink()
    (problem,) = copied.verify()
    assert problem.kind == ("foreign" if (name, damage) == ("spec.json", "gone") else "damaged")
    assert copied.runs()  # the other one is still there
    assert copied.table().height >= 1


def test_damaged_snapshots_are_found(copied):
    one, two = copied.runs()
    file = one.path / "snapshots" / "00000050.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    (two.path / "snapshots" / "00000000.safetensors").unlink()
    assert [problem.kind for problem in copied.verify()] == ["damaged", "damaged"]


def test_a_damaged_spec_is_not_trusted(tiny, store):
    run = store.begin(tiny)
    (run.path / "spec.json").write_text("{")
    (trained,) = gs.train(tiny, store, processes=1)
    assert trained.spec == tiny
    assert store.verify() == []
    assert len(list((store.root / "set-aside").iterdir())) == 1


def test_damaged_outcomes_are_found(copied):
    (copied.runs()[0].path / "outcome.json").write_text("{}")
    (problem,) = copied.verify()
    assert problem.kind == "damaged"
    assert len(copied.runs()) == 1


def test_foreign_entries_are_named_and_kept(copied):
    (copied.root / "notes.txt").write_text("mine")
    (copied.root / ("0" * 16)).mkdir()
    one = copied.runs()[0]
    shutil.copytree(one.path, copied.root / ("f" * 16))
    kinds = {problem.path.name: problem.kind for problem in copied.verify()}
    assert kinds == {"notes.txt": "foreign", "0" * 16: "foreign", "f" * 16: "foreign"}
    moved = copied.set_aside(copied.root / "notes.txt")
    assert moved.read_text() == "mine"
    assert "notes.txt" not in {problem.path.name for problem in copied.verify()}


def test_partial_runs_are_named(copied):
    run = copied.runs()[0]
    (run.path / "outcome.json").unlink()
    (problem,) = copied.verify()
    assert problem.kind == "partial"
    assert "training the same spec again" in problem.sentence
    assert run.status == "partial"


def test_a_resume_point_without_its_row_is_not_gone_on_from(tiny, store):
    """A store that was copied while it was written to: the curve is older than the state."""
    (whole,) = gs.train(tiny, store.root / "whole", processes=1)
    rows = {name: np.array(whole.curve[name].to_list()) for name in whole.curve.columns}
    run = store.begin(tiny)

    def stand_at_50(count):
        curve = {name: column[:count] for name, column in rows.items()}
        store.save_progress(run, curve, {"step": np.int32(50)}, whole.provenance)
        return store.load_progress(run)

    for count in (6, 8):
        assert stand_at_50(count)[1]["epoch"].to_list() == [0, 10, 20, 30, 40, 50]
    for count in (0, 5):
        with pytest.raises(gs.StoreError, match="no row at its epoch, 50"):
            stand_at_50(count)
    assert [problem.kind for problem in store.verify() if problem.path == run.path] == ["damaged"]
    events = []
    (again,) = gs.train(tiny, store, processes=1, sinks=events.append)
    assert [event.kind for event in events][:2] == ["warned", "started"]
    assert again.curve["epoch"].to_list() == list(range(0, 101, 10))


def test_what_a_run_under_way_lacks_is_not_called_damaged(tiny, copied):
    run = copied.runs()[0]
    (run.path / "outcome.json").unlink()
    (run.path / "weights.safetensors").unlink()
    for read, what in ((lambda: run.outcome, "outcome"), (run.weights, "final weights")):
        with pytest.raises(gs.StoreError, match=f"has no {what} yet: it is under way"):
            read()
    absent = copied.find(tiny.replace(seed=7))
    assert repr(absent) == f"<Run {absent.id} absent>"
    for read in (lambda: absent.outcome, absent.weights, lambda: absent.curve):
        with pytest.raises(gs.StoreError, match=f"There is no run {absent.id}"):
            read()


def test_lost_weights_of_a_lab_run_are_damage(copied):
    run = copied.runs()[0]
    (run.path / "weights.safetensors").unlink()
    with pytest.raises(gs.StoreError, match=r"weights\.safetensors cannot be read"):
        run.weights()


@pytest.mark.parametrize("name", ["spec.json", "outcome.json"])
def test_a_damaged_run_can_be_printed(copied, name):
    run = copied.find(copied.runs()[0].spec)
    (run.path / name).write_text("{}" if name == "outcome.json" else "{")
    assert repr(run) == f"<Run {run.id} damaged>"


def test_reading_damage_gets_a_sentence(copied):
    run = copied.runs()[0]
    (run.path / "curve.parquet").write_bytes(b"PAR1")
    (run.path / "weights.safetensors").write_bytes(b"x")
    (run.path / "outcome.json").write_text("{")
    for read in (lambda: run.curve, run.weights, lambda: run.outcome):
        with pytest.raises(gs.StoreError, match="cannot be read"):
            read()


def test_a_claim_is_exclusive_between_processes(store):
    code = (
        "import sys, grokscope as gs\n"
        "with gs.Store(sys.argv[1]).claim('abc') as mine:\n"
        "    print(mine)"
    )
    command = [sys.executable, "-c", code, str(store.root)]
    with store.claim("abc") as mine:
        assert mine
        assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "False"
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "True"


def test_a_full_disk_gets_a_sentence(tiny, store):
    """A real limit on the size of files: the operating system refuses the write."""
    gs.train(tiny, store, processes=1)
    finished = {p: p.read_bytes() for p in store.find(tiny).path.iterdir() if p.is_file()}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(gs.StoreError, match="The disk is full") as refusal:
            gs.train(tiny.replace(seed=1), store, processes=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "Nothing finished is lost" in str(refusal.value)
    assert {p: p.read_bytes() for p in finished} == finished
    leftovers = [p for p in store.root.rglob(".*") if p.is_file()]
    assert leftovers == []
    assert gs.train(tiny.replace(seed=1), store, processes=1)[0].status == "finished"


def test_an_unwritable_store_gets_a_sentence(tiny, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.raises(gs.StoreError, match="make room or choose another"):
        gs.train(tiny, blocked / "runs", processes=1)


def test_the_default_place(monkeypatch, tmp_path):
    """Of the environment, of the nearest configuration, or here; always absolute."""
    monkeypatch.delenv("GROKSCOPE_STORE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    below = tmp_path / "project" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert gs.Store().root == below / "runs"
    (tmp_path / "project" / "grokscope.toml").write_text('store = "all-runs"')
    assert gs.Store().root == tmp_path / "project" / "all-runs"
    monkeypatch.setenv("GROKSCOPE_STORE", "elsewhere")
    assert gs.Store().root == below / "elsewhere"
    monkeypatch.delenv("GROKSCOPE_STORE")
    (tmp_path / "project" / "grokscope.toml").write_text("store = 3")
    with pytest.raises(gs.StoreError, match=r"place of the store from .*grokscope\.toml"):
        gs.Store()


def test_names_tags_and_notes_change_no_run(copied):
    first, second = copied.runs()
    first.annotate(name="baseline", note="the slow one", tag=["figure-2", "keep"])
    first.annotate(untag=["keep"])
    assert copied.get("baseline").id == first.id
    assert copied.get("baseline").annotation == ("baseline", ("figure-2",), "the slow one")
    assert not copied.verify()
    found = copied.sql("select run, name, note from runs where tags = 'figure-2'").to_dicts()
    assert found == [{"run": first.id, "name": "baseline", "note": "the slow one"}]
    with pytest.raises(gs.SpecError, match=f"Run {first.id} has the name 'baseline' already"):
        second.annotate(name="baseline")
    shutil.copy(first.path / "notes.json", second.path)  # by hand
    with pytest.raises(gs.StoreError, match="ambiguous"):
        copied.get("baseline")
    (second.path / "notes.json").write_text("{")
    assert copied.get("baseline").id == first.id
    assert copied.table()["name"].to_list().count("baseline") == 1
    assert [problem.kind for problem in copied.verify()] == ["damaged"]
    with pytest.raises(gs.SpecError, match="first digits"):
        first.annotate(name="beef")
    with pytest.raises(gs.SpecError, match="one word"):
        first.annotate(tag=["two words"])


def test_discarded_runs_can_be_had_back(copied):
    run, other = copied.runs()
    with copied.claim(run.id), pytest.raises(gs.StoreError, match="is being trained"):
        gs.Store(copied.root).discard(run)
    moved = copied.discard(run)
    assert [left.id for left in copied.runs()] == [other.id]
    assert not copied.verify()
    moved.rename(run.path)
    assert len(copied.runs()) == 2
    copied.discard(run)
    copied.empty_trash()
    copied.empty_trash()
    assert not moved.parent.exists()
