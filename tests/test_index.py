"""The index and the change feed: what has not changed is not read, and nothing is believed that the
directories do not say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope import cli, management
from grokscope.engine.executors.ray import pack
from grokscope.spec import ObservedSpec
from grokscope.store import index
from grokscope.store import store as store_module
from grokscope.store.run import Run
from hardening.faults import FaultyDisk, under
from hardening.loop import SPEC, train_plainly

SPECS = gs.sweep(SPEC, {"seed": range(3)})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store = gs.Store(tmp_path_factory.mktemp("made") / "runs")
    with under(FaultyDisk(-1, "crash")):  # which waits for no disk
        for spec in SPECS:
            train_plainly(store, spec)
    return store.root


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    """A store whose entries are kept from the first one on, however young they are."""
    monkeypatch.setattr(index, "KEEP_FROM", 1)
    monkeypatch.setattr(index, "RECENT", -1.0)
    return shutil.copytree(made, tmp_path / "runs")


@pytest.fixture
def read(monkeypatch):
    """Names of the runs whose files are read."""
    names: list[str] = []
    about = Run.read_about
    monkeypatch.setattr(Run, "read_about", lambda run: names.append(run.id) or about(run))
    return names


def test_only_what_has_changed_is_read(root, read):
    assert len(gs.Store(root).table()) == len(read) == 3
    before = gs.Store(root).table()
    assert len(read) == 3
    assert gs.Store(root).sql("select run from runs where seed = 1")["run"][0] == SPECS[1].id
    assert [run.id for run in gs.Store(root).runs()] == sorted(spec.id for spec in SPECS)
    assert len(read) == 3
    fourth = gs.Store(root).begin(SPEC.replace(seed=9))
    assert len(gs.Store(root).table()) == 4
    assert read[3:] == [fourth.id]
    shutil.rmtree(fourth.path)
    assert gs.Store(root).table().equals(before)
    assert len(read) == 4


@pytest.mark.parametrize("how", ["in place", "replaced", "same size"])
def test_a_run_that_changed_is_read_again(root, how):
    store = gs.Store(root)
    assert len(store.table()) == 3
    path = store.find(SPECS[0]).path / "outcome.json"
    text = path.read_text()
    changed = text.replace('"finished"', '"finish3d"') if how == "same size" else "{}"
    if how == "replaced":
        path.unlink()
    path.write_text(changed)
    for reader in (store, gs.Store(root)):
        assert len(reader.table()) == 2
        assert list(reader.left_out) == [path.parent]
    path.write_text(text)
    assert len(store.table()) == 3
    assert store.left_out == {}


def test_what_changed_a_moment_ago_is_not_kept(root, read, monkeypatch):
    """A file may change twice within one tick of the clock of its file system."""
    monkeypatch.setattr(index, "RECENT", 1000.0)
    assert len(gs.Store(root).table()) == 3
    assert len(gs.Store(root).table()) == 3
    assert len(read) == 6


def test_all_that_a_row_tells_of_is_looked_at(root):
    """Annotations, and the date of a run that is under way."""
    store = gs.Store(root)
    store.begin(spec := SPEC.replace(seed=9))
    assert set(store.table()["name"]) == {None}
    store.find(SPECS[0]).annotate(name="slow", tag=["keep"], note="look")
    segment = {"started": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "versions": {}}
    curve = {"epoch": np.array([0]), "train_loss": np.array([1.0])}
    store.save_progress(store.find(spec), curve, None, {"segments": [segment]})
    for reader in (store, gs.Store(root)):
        found = reader.sql("select run, tags, note from runs where name = 'slow'").rows()
        assert found == [(SPECS[0].id, "keep", "look")]
        assert reader.table().filter(run=spec.id)["started"].to_list() == [segment["started"]]
    (store.find(SPECS[0]).path / "notes.json").unlink()
    assert set(gs.Store(root).table()["name"]) == {None}


def test_what_is_discarded_is_listed_no_more_until_it_is_back(root):
    store = gs.Store(root)
    before = store.table()
    run = store.find(SPECS[0])
    trash = store.discard(run)
    for reader in (store, gs.Store(root)):
        assert reader.table().equals(before.filter(pl.col("run") != run.id))
    trash.rename(run.path)
    for reader in (store, gs.Store(root)):
        assert reader.table().equals(before)


def test_curves_that_cannot_be_read_are_named_though_the_index_is_whole(root):
    gs.Store(root).table()
    store = gs.Store(root)
    path = store.find(SPECS[0]).path
    (path / "curve.parquet").write_bytes(b"no curve")
    assert len(store.sql("select distinct run from curves")) == 2
    assert list(store.left_out) == [path]


@pytest.mark.parametrize("damage", ["deleted", "torn", "flipped", "bomb", "foreign", "folder"])
def test_a_damaged_index_is_made_anew(root, damage, tmp_path):
    whole = gs.Store(root).table()
    path = root / ".index" / "runs"
    content = path.read_bytes()
    path.unlink()
    if damage == "torn":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    elif damage == "foreign":
        pl.DataFrame({"run": ["x"]}).write_parquet(path)
    elif damage == "bomb":
        zeros = pl.repeat(0, 120_000_000, eager=True, dtype=pl.Int64)
        pl.DataFrame({"run": zeros}).write_parquet(tmp_path / "bomb")
        data = (tmp_path / "bomb").read_bytes()
        path.write_bytes(index.hashlib.sha256(data).digest() + data)
    elif damage == "folder":
        path.mkdir()
    assert gs.Store(root).table().equals(whole)
    assert gs.Store(root).verify() == []
    if damage != "folder":
        assert index.Index(root, None)._load().height == 3


def test_other_code_makes_its_own(root, read, monkeypatch):
    gs.Store(root).table()
    monkeypatch.setattr(index, "_code", lambda: "newer")
    assert len(gs.Store(root).table()) == 3
    assert len(read) == 6


def test_a_store_that_cannot_be_written_is_listed(root):
    for fault in ("ENOSPC", "EIO", "partial"):
        with under(FaultyDisk(0, fault)):
            assert len(gs.Store(root).table()) == 3
    assert not (root / ".index" / "runs").exists()


def test_kept_and_new_rows_make_the_same_table(root):
    """Settings of watched runs may be a number here, a text or a list there."""
    store = gs.Store(root)
    for number, depth in enumerate([1, "two", 2.5, True, None]):
        settings = {} if depth is None else {"depth": depth}
        store.begin(ObservedSpec(name=f"run {number}", settings=settings))
        grown = gs.Store(root).table()  # each time by one row
        shutil.rmtree(root / ".index")
        fresh = gs.Store(root).table()
        assert sorted(grown.columns) == sorted(fresh.columns)
        assert grown["run"].to_list() == fresh["run"].to_list()
        told = [frame["settings_depth"].cast(pl.String).to_list() for frame in (grown, fresh)]
        assert told[0] == told[1]


def test_kinds_of_ones_own_are_not_kept(root, read, monkeypatch):
    """A process that does not know the kind must not list the run."""
    monkeypatch.setattr(store_module, "is_ours", lambda spec: spec.seed != 1)
    gs.Store(root).table()
    gs.Store(root).table()
    assert read[3:] == [SPECS[1].id]


def test_the_feed_tells_each_change_once(store):
    seen = store.changes()
    assert not seen
    run = store.begin(SPEC)

    def look():
        nonlocal seen
        seen = store.changes(seen.until)
        return seen

    assert look().changed == {run.id}
    assert not look()
    curve = {"epoch": np.array([0]), "train_loss": np.array([1.0])}
    store.save_progress(run, curve, None, {"segments": []})
    assert look().changed == {run.id}
    assert not look()
    store.finish(run, curve, None, {"status": "finished"}, {"segments": []})
    assert look().changed == {run.id}
    assert not look()
    store.set_aside(run.path)  # as an observer does that begins again
    store.begin(SPEC)
    assert run.id in look().changed
    store.set_aside(run.path)
    assert look().gone == {run.id}


def test_the_feed_asks_nothing_about_what_has_ended(root, monkeypatch):
    os.utime(root, (1, 1))  # not just now
    seen = gs.Store(root).changes()
    assert len(seen.changed) == 3
    asked = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **kw: asked.append(path) or stat(path, **kw))
    assert not gs.Store(root).changes(seen.until)
    assert asked == [root]


def test_runs_are_followed(root, monkeypatch, capsys):
    """Everything once, then what happens; `--where` holds for both."""
    store = gs.Store(root)
    steps = iter(
        [
            lambda: store.begin(SPEC.replace(seed=7)),
            lambda: store.begin(SPEC.replace(seed=8)),
            lambda: train_plainly(store, SPEC.replace(seed=7)),
            lambda: store.set_aside(store.find(SPECS[0]).path),
        ]
    )

    def pass_time(seconds):
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    # Only here: the thread that keeps leases alive sleeps as well.
    monkeypatch.setattr(management, "time", SimpleNamespace(sleep=pass_time))
    assert cli.run(["runs", "--follow", "--where", "seed <> 8", "--store", str(root)]) == 0
    *table, begun, ended, gone = capsys.readouterr().out.splitlines()
    name = SPEC.replace(seed=7).id[:8]
    assert sum(spec.id[:6] in line for line in table for spec in SPECS) == 3
    assert begun.startswith(f"{name}  at 0 of 40")
    assert ended.startswith(f"{name}  finished")
    assert gone == f"{SPECS[0].id[:8]}  gone"


@pytest.mark.parametrize("empty", [True, False])
def test_runs_are_followed_by_what_they_do_not_have_yet(root, empty, tmp_path, monkeypatch, capsys):
    """Runs that were begun have no measures."""
    store = gs.Store(tmp_path / "empty" if empty else root)
    spec = SPEC.replace(seed=7)
    steps = iter([lambda: store.begin(spec), lambda: train_with_final(store, spec)])

    def pass_time(seconds):
        next(steps, interrupt)()

    def interrupt():
        raise KeyboardInterrupt

    if not empty:
        train_with_final(store, SPEC.replace(seed=6))
    monkeypatch.setattr(management, "time", SimpleNamespace(sleep=pass_time))
    where = ["--where", "train_loss < 5"]
    assert cli.run(["runs", "--follow", *where, "--store", str(store.root)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{spec.id[:8]}  finished")


def train_with_final(store, spec):
    run = store.begin(spec)
    curve = {"epoch": np.array([0]), "train_loss": np.array([1.0])}
    outcome = {"status": "finished", "epochs": 0, "ended_by": "budget", "final": {"train_loss": 1}}
    store.finish(run, curve, None, outcome, {"segments": []})


def test_a_filter_looks_once(root, monkeypatch, capsys):
    looks = []
    look = index.Index.look
    monkeypatch.setattr(index.Index, "look", lambda self, n: looks.append(1) or look(self, n))
    for options in (["--where", "seed = 1"], ["--sql", "select run from runs where seed = 1"]):
        looks.clear()
        assert cli.run(["runs", *options, "--store", str(root)]) == 0
        assert SPECS[1].id[:6] in capsys.readouterr().out
        assert len(looks) == 1


def test_listing_loads_little(root):
    """Half of the time of a listing is Python's start."""
    code = "import sys\nfrom grokscope import cli\ncli.run(sys.argv[1:])\nprint(*sys.modules)"
    command = [sys.executable, "-c", code, "runs", "--store", str(root)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "grokscope.terminal" in loaded
    assert not {"numpy", "jaxtyping", "typeguard", "grokscope.engine", "jax"} & set(loaded)


def test_several_list_while_runs_come_and_go(root, tmp_path):
    """What two processes keep while a third adds and removes runs is what a new index says."""
    code = """if True:
        import sys, time
        import grokscope as gs
        from grokscope.store import index
        index.KEEP_FROM, index.RECENT = 1, float(sys.argv[2])
        until = time.monotonic() + 1
        while time.monotonic() < until:
            store = gs.Store(sys.argv[1])
            store.table()
            assert len(store.left_out) <= 1, store.left_out  # one that is being moved
    """
    command = [sys.executable, "-c", code, str(root), str(index.RECENT)]
    listing = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    store, seed = gs.Store(root), 100
    while any(process.poll() is None for process in listing):
        seed += 1
        with under(FaultyDisk(-1, "crash")):
            run = train_plainly(store, SPEC.replace(seed=seed))
        if seed % 2:
            store.discard(run)
    errors = [process.communicate()[1] for process in listing]
    assert [process.returncode for process in listing] == [0, 0], errors
    assert (root / ".index" / "runs").exists()
    kept = gs.Store(root).table()
    shutil.rmtree(root / ".index")
    fresh = gs.Store(root).table()
    assert kept.select(fresh.columns).equals(fresh)
    assert len(fresh) == 3 + (seed - 100) // 2


def test_many_runs_are_cut_short_in_tables_only(root, monkeypatch, capsys):
    monkeypatch.setattr(management, "MOST_LISTED", 2)
    assert cli.run(["runs", "--store", str(root)]) == 0
    shown = capsys.readouterr().out
    assert "the 2 newest of 3 runs" in shown
    assert SPECS[0].id[:8] not in shown  # it ended first
    assert cli.run(["runs", "--sort", "seed", "--store", str(root)]) == 0
    shown = capsys.readouterr().out
    assert "the first 2 of 3 runs" in shown
    assert SPECS[2].id[:8] not in shown
    assert cli.run(["runs", "--limit", "3", "--store", str(root)]) == 0
    assert "of 3 runs" not in capsys.readouterr().out
    assert cli.run(["runs", "--json", "--store", str(root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([json.loads(line) for line in lines]) == 3


def test_what_people_say_of_a_run_stays_when_it_comes_from_elsewhere(root, tmp_path):
    home = gs.Store(tmp_path / "home")
    home.begin(SPECS[0]).annotate(name="slow")
    home.receive(SPECS[0].id, pack(root / SPECS[0].id))
    assert home.get("slow").status == "finished"
    assert home.table()["name"].to_list() == ["slow"]
    assert home.verify() == []
