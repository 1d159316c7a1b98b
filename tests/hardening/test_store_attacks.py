"""Attacks on a store: flipped bits, hostile contents, folders that are none, somebody's code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope import cli, parts
from grokscope.probes import is_taken, take
from grokscope.spec import read_spec
from grokscope.store import files
from grokscope.store.parquet import check_size
from hardening.faults import Crash, FaultyDisk, under
from hardening.loop import SPEC, assert_sound, content_of, train_plainly

FINISHED, PARTIAL = SPEC, SPEC.replace(seed=1)
ESCAPE = "\x1b]0;owned\x07\x9b31m\u202e"
STEERING = set("\x1b\x07\x9b\u202e")


def seal_again(path, change):
    """What an attacker does: change an outcome and make its checksum fit."""
    data = {**json.loads(path.read_text()), "sha256": files.OPEN_SEAL}
    change(data)
    text = json.dumps(data, indent=1, sort_keys=True) + "\n"
    path.write_bytes(files.seal(text.encode()))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A finished run, and one that stands at epoch 20."""
    store = gs.Store(tmp_path_factory.mktemp("base") / "runs")
    with under(FaultyDisk(-1, "crash")):
        train_plainly(store, FINISHED)
    counted = FaultyDisk(-1, "crash")
    probe = gs.Store(tmp_path_factory.mktemp("probe"))
    with under(counted):
        train_plainly(probe, PARTIAL)
    at = counted.count
    while True:  # the last operation before which the run stands at epoch 20
        at -= 1
        shutil.rmtree(store.find(PARTIAL).path, ignore_errors=True)
        with under(FaultyDisk(at, "crash")), contextlib.suppress(Crash):
            train_plainly(store, PARTIAL)
        saved = store.load_progress(store.find(PARTIAL))
        if saved and int(saved[0]["step"]) == 20:
            store.verify()  # which removes what the crash has left
            return store


@pytest.fixture
def copied(base, tmp_path):
    return gs.Store(shutil.copytree(base.root, tmp_path / "runs"))


def flip(path, draw):
    content = bytearray(path.read_bytes())
    place = draw.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)


def files_of(run):
    return sorted(p for p in run.path.rglob("*") if p.is_file())


def test_no_flipped_bit_of_a_finished_run_goes_unseen(copied):
    draw = random.Random(1)
    for file in files_of(copied.find(FINISHED)):
        content = file.read_bytes()
        for _ in range(25):
            flip(file, draw)
            found = [d.kind for d in copied.verify() if FINISHED.id in str(d.path)]
            assert found in (["damaged"], ["foreign"]), file.name
            file.write_bytes(content)


def test_no_flipped_bit_of_a_partial_run_changes_its_end(base, tmp_path):
    draw = random.Random(2)
    whole = gs.Store(tmp_path / "whole")
    with under(FaultyDisk(-1, "crash")):
        train_plainly(whole, PARTIAL)
        for file in files_of(base.find(PARTIAL)):
            for number in range(12):
                store = gs.Store(shutil.copytree(base.root, tmp_path / f"{file.name}{number}"))
                flip(store.find(PARTIAL).path / file.relative_to(base.find(PARTIAL).path), draw)
                run = train_plainly(store, PARTIAL)
                for name in ("spec.json", "curve.parquet", "weights.safetensors"):
                    mine, theirs = run.path / name, whole.find(PARTIAL).path / name
                    assert mine.read_bytes() == theirs.read_bytes(), file.name
                assert run.snapshots == [0, 20]
                assert store.verify() == []
                shutil.rmtree(store.root)


def test_empty_snapshots_are_not_laundered(copied):
    run = copied.find(PARTIAL)
    (run.path / "snapshots" / "00000000.safetensors").write_bytes(b"")
    assert [d.kind for d in copied.verify()] == ["damaged"]
    run = train_plainly(copied, PARTIAL)
    assert run.weights(0)["weight"].tolist() == [0, 0, 0]
    outcome = copied.find(FINISHED).path / "outcome.json"
    seal_again(outcome, lambda data: data["files"].pop("snapshots/00000020.safetensors"))
    (defect,) = copied.verify()
    assert defect.sentence == "it was never written"


def test_a_damaged_curve_is_not_read(copied):
    run = copied.find(FINISHED)
    flip(run.path / "weights.safetensors", random.Random(3))
    with pytest.raises(gs.StoreError, match="its checksum is wrong"):
        run.weights()


DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE = [
    ("spec.json", lambda d: d.update(seed=None)),
    ("spec.json", lambda d: d.update(training=None)),
    ("spec.json", lambda d: d["optimiser"].update(lr=10**400)),
    ("spec.json", lambda d: d["task"].update(kind=["addition"])),
    ("spec.json", lambda d: d.update(kind=["observed"])),
    ("spec.json", lambda d: d.update(kind="observed")),
    ("spec.json", DEEP),
    ("spec.json", "1" * 5000),
    ("spec.json", '{"seed": ' + "1" * 5000 + "}"),
    ("spec.json", ""),
    ("spec.json", "\ufeff{}"),
    ("outcome.json", DEEP),
    ("outcome.json", "null"),
    ("outcome.json", lambda d: d.pop("final")),
    ("outcome.json", lambda d: d.update(final=None)),
    ("outcome.json", lambda d: d.update(final={"test_accuracy": "high"})),
    ("outcome.json", lambda d: d.update(epochs=10**400)),
    ("outcome.json", lambda d: d.update(epochs=None)),
    ("outcome.json", lambda d: d.update(grokked=None)),
    ("outcome.json", lambda d: d.update(grokked={"epoch": "soon"})),
    ("outcome.json", lambda d: d.update(phases=[None])),
    ("outcome.json", lambda d: d.update(phases=[{"name": "x"}])),
    ("outcome.json", lambda d: d.update(files=None)),
    ("outcome.json", lambda d: d["files"].update({"/dev/zero": "0"})),
    ("outcome.json", lambda d: d["files"].update({"../../secret": "0"})),
    ("outcome.json", lambda d: d.update(status=["finished"])),
    ("outcome.json", lambda d: d.update(status="failed")),
    ("provenance.json", lambda d: d.update(segments=None)),
    ("provenance.json", lambda d: d.update(segments=[{"seconds": "long"}])),
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_one_bad_entry_does_not_break_the_store(copied, number, capsys):
    name, change = HOSTILE[number]
    path = copied.find(FINISHED).path / name
    if isinstance(change, str):
        path.write_text(change)
    else:
        seal_again(path, change)
    root = ["--store", str(copied.root)]
    assert cli.run(["runs", *root]) == 0
    shown = capsys.readouterr()
    assert PARTIAL.id[:8] in shown.out
    if name != "provenance.json":
        assert FINISHED.id[:8] not in shown.out
        assert FINISHED.id in shown.err  # it is named
    assert cli.run(["verify", *root]) == 3
    assert cli.run(["runs", "--json", *root]) == 0
    assert cli.run(["show", FINISHED.id, *root]) in (2, 3)
    assert len(copied.table()) in (1, 2)
    assert cli.run(["verify", "--set-aside", *root]) == 0
    assert cli.run(["verify", *root]) == 0
    assert "Traceback" not in capsys.readouterr().err


def short(curve):
    return [[1.0] * (1 + place) for place in range(len(curve))]


CURVES = {  # what a curve may hold with every checksum in order
    "a number": lambda c: c.with_columns(attention=pl.lit(1.0)),
    "lists of other lengths": lambda c: c.with_columns(attention=pl.Series(short(c))),
    "empty lists": lambda c: c.with_columns(
        attention=pl.Series([[]] * len(c), dtype=pl.List(float))
    ),
    "no lists": lambda c: c.with_columns(attention=pl.lit(None, pl.List(pl.Float32))),
    "a list": lambda c: c.with_columns(train_loss=pl.concat_list(pl.lit(1.0), pl.lit(2.0))),
    "another run": lambda c: c.with_columns(run=pl.lit(1.0)),
    "too wide": lambda c: c.with_columns(train_loss=pl.lit(10**30, pl.Int128)),
    "too late": lambda c: c.with_columns(epoch=pl.col("epoch").cast(pl.UInt64) + 2**63),
    "markup": lambda c: c.with_columns(pl.lit(1.0).alias(f"</script>{ESCAPE}")),
}
OUTCOMES = {
    "final": lambda d: d["final"].update(run=3),
    "phases": lambda d: d.update(
        phases=[{"name": f"x{ESCAPE}", "start": None, "end": 2**53, "rule": ""}]
    ),
}


@pytest.mark.parametrize("what", [*CURVES, *OUTCOMES, "weights", "marker"])
def test_every_reader_of_a_hostile_store(copied, what, capsys, tmp_path):
    """A result or a sentence, whatever a run holds, and never the loss of the others."""
    run, root = copied.find(FINISHED), ["--store", str(copied.root)]
    name = "weights.safetensors" if what == "weights" else "curve.parquet"
    if what == "marker":
        (copied.root / "grokscope-store.json").write_text('{"format": 1e400}')
    elif what == "weights":
        files.write_arrays(run.path / name, {"embedding": np.float32(1)})
    elif what in CURVES:
        CURVES[what](pl.read_parquet(run.path / name)).write_parquet(run.path / name)
    total = files.checksum(run.path / name)
    seal_again(run.path / "outcome.json", lambda data: data["files"].update({name: total}))
    if what in OUTCOMES:
        seal_again(run.path / "outcome.json", OUTCOMES[what])
    for words in (
        ["runs", "--sql", "select run, max(epoch) from curves group by run"],
        ["runs", "--where", "seed >= 0"],
        ["show", run.id],
        ["figure", "attention", run.id, "--out", str(tmp_path / "a.json")],
        ["report", run.id, PARTIAL.id, "--out", str(tmp_path / "a.html")],
        ["certify", run.id],
    ):
        code = cli.run([*words, *root])
        shown = "".join(capsys.readouterr())
        assert code in (0, 3) if words[0] != "runs" else code == 0, shown
        assert words[0] != "runs" or PARTIAL.id[:8] in shown
        assert not STEERING & set(shown)


def test_the_lab_on_a_hostile_store(copied):
    """Weights that are not the model's are answered with a sentence."""
    testing = pytest.importorskip("starlette.testclient")
    from grokscope.lab.server import Lab, make_app

    app = testing.TestClient(make_app(Lab(copied, copied.root / "none")))
    for place in ("20", "final"):
        told = app.get(f"/api/snapshot/{FINISHED.id}/{place}")
        assert told.status_code == 404
        assert "do not fit its spec" in told.text


@pytest.mark.parametrize("what", ["pipe", "device", "bomb", "lists", "huge"])
def test_hostile_files_are_bounded(copied, what):
    path = copied.find(FINISHED).path / "curve.parquet"
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "huge":
        with open(path, "wb") as file:
            file.truncate(2**43)
    else:
        many = pl.repeat(0.0, 120_000_000, eager=True, dtype=pl.Float32)
        frame = pl.DataFrame({"epoch": [0], "a": [many]} if what == "lists" else {"epoch": many})
        frame.write_parquet(path)
        assert path.stat().st_size < 10**6
        with pytest.raises(ValueError, match="too many for a curve"):
            check_size(path.read_bytes())
    with pytest.raises(gs.StoreError, match="cannot be read"):
        _ = copied.find(FINISHED).curve
    assert [d.kind for d in copied.verify() if FINISHED.id in str(d.path)] == ["damaged"]


def test_sizes_of_parquet_files_are_those_that_polars_reads():
    from grokscope.store.parquet import measure_size

    draw = np.random.default_rng(0)
    for rows in (0, 1, 700):
        frame = pl.DataFrame(
            {"a": draw.normal(size=rows), "b": [[1.0, 2.0]] * rows, "c": ["x"] * rows}
        )
        frame.write_parquet(buffer := io.BytesIO(), compression="zstd")
        values, size = measure_size(buffer.getvalue())
        assert values >= 4 * rows
        assert size >= 8 * rows


def test_folders_that_are_no_stores(tmp_path, copied, monkeypatch, capsys):
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    assert cli.run(["verify", "--set-aside", "--store", str(home)]) == 3
    assert "is no store" in capsys.readouterr().err
    assert content_of(home) == {"letter.txt": b"dear"}
    (copied.root / "letter.txt").write_text("dear")
    (copied.root / "grokscope-store.json").unlink()  # as in version 0.1.0
    assert [d.moved for d in copied.verify(set_aside=True) if d.kind == "foreign"] == [None]
    assert (copied.root / "letter.txt").exists()
    (copied.root / "grokscope-store.json").write_text('{"format": 99}')
    for use in (copied.runs, copied.verify, lambda: copied.begin(SPEC.replace(seed=9))):
        with pytest.raises(gs.StoreError, match="of a newer grokscope"):
            use()
    monkeypatch.setenv("GROKSCOPE_STORE", "")
    assert cli.run(["runs"]) == 3
    assert "GROKSCOPE_STORE is empty" in capsys.readouterr().err


def test_what_is_being_written_is_left_alone(copied):
    run = copied.find(PARTIAL)
    (run.path / "spec.json").write_text("{")
    leftover = run.path / ".curve.parquet.0123abcd"
    leftover.write_text("half")
    mine = run.path / ".notes.0123abcd"
    mine.write_text("not of the store")
    with gs.Store(copied.root).claim(run.id):
        (defect,) = copied.verify(set_aside=True)
        assert defect.kind == "partial"
        assert f"process {os.getpid()}" in defect.sentence
        assert leftover.exists()
    kinds = [(d.kind, bool(d.moved)) for d in copied.verify(set_aside=True)]
    assert kinds == [("leftover", False), ("damaged", True)]
    assert not run.path.exists()
    (aside,) = (copied.root / "set-aside").iterdir()
    assert (aside / mine.name).exists()
    assert not (aside / leftover.name).exists()


GOLDEN = Path(__file__).parent.parent / "golden" / "store" / "ed1fef75bb4599d0"


@pytest.fixture
def hostile(tmp_path):
    """The store of somebody who wants code to be executed: a finished run whose rule is a file of
    theirs, with every checksum in order. The run, and the file that shows that it was executed."""
    spy = tmp_path / "spy.py"
    code = "import pathlib\npathlib.Path(__file__ + '.ran').touch()\n"
    spy.write_text(code + "def larger(operands, modulus):\n    return operands.max(axis=1)\n")
    data = json.loads((GOLDEN / "spec.json").read_text())
    data["task"] |= {"kind": "custom", "rule": f"{spy}:larger"}
    store = gs.Store(tmp_path / "hostile")
    path = store.root / read_spec(data).id
    shutil.copytree(GOLDEN, path)
    (path / "spec.json").write_text(json.dumps(data))
    outcome = json.loads((path / "outcome.json").read_text())
    outcome["files"]["spec.json"] = files.checksum(path / "spec.json")
    (path / "outcome.json").write_text(json.dumps(outcome))
    assert store.verify() == []
    return store.get(path.name), tmp_path / "spy.py.ran"


def test_a_store_executes_nothing(hostile, tiny, capsys):
    run, ran = hostile
    store = gs.Store(run.path.parent)
    root = ["--store", str(store.root)]
    teacher = {"prior.kind": "teacher", "prior.teacher": run.id}
    assert cli.run(["certify", run.id, *root]) == 2
    assert "If you trust the store, add --trust" in capsys.readouterr().err
    for use in (
        lambda: gs.certify(run),
        lambda: gs.train(tiny.replace(**teacher), store, processes=1),
        lambda: gs.train(run.spec.replace(seed=3), store, processes=1),
        lambda: gs.held_out_accuracy(run, length=7),
    ):
        with pytest.raises(gs.SpecError, match="would execute that file"):
            use()
    for command in ("runs", "verify"):
        assert cli.run([command, *root]) == 0
    assert cli.run(["show", run.id, *root]) == 0
    assert not ran.exists()


def test_a_trusted_store_may_be_forked(hostile, capsys):
    run, ran = hostile
    fork = ["fork", run.id, "--at", "0", "--quiet", "--store", str(run.path.parent)]
    cli.run(fork)
    assert "--trust" in capsys.readouterr().err
    assert not ran.exists()
    cli.run([*fork, "--trust"])
    assert "--trust" not in capsys.readouterr().err
    assert ran.exists()


def test_a_trusted_store_may(hostile):
    run, ran = hostile
    assert cli.run(["certify", run.id, "--trust", "--store", str(run.path.parent)]) == 0
    assert ran.exists()


def test_what_the_user_names_is_theirs(hostile, tmp_path):
    """The same file, named in this process, may be loaded for the store's run too."""
    run, ran = hostile
    with pytest.raises(gs.SpecError, match="would execute"):
        gs.build_task(run.spec.task)
    gs.build_task(gs.TaskSpec(kind="custom", modulus=11, rule=f"{tmp_path}/spy.py:larger"))
    assert ran.exists()
    gs.build_task(run.spec.task)


def test_a_fingerprint_is_checked_before_the_file_is_executed(tmp_path):
    file = tmp_path / "mine.py"
    text = "def size(params, data):\n    return params['embedding'].sum()\n"
    file.write_text(text)
    pinned = parts.pin(f"{file}:size", "the measure")
    trap = "import pathlib\npathlib.Path(__file__).unlink()\n"
    file.write_text(trap + text.replace("sum", "max"))
    with pytest.raises(gs.SpecError, match="has changed since"):
        parts.load(pinned, "the measure")
    assert file.exists()


def test_outputs_replace_nothing_but_files(copied, tmp_path):
    real, link = tmp_path / "real.svg", tmp_path / "link.svg"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    pipe = tmp_path / "pipe.svg"
    os.mkfifo(pipe)
    files.write_file(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    for path, what in ((pipe, "a pipe"), (tmp_path, "a directory")):
        with pytest.raises(gs.StoreError, match=what):
            files.write_file(path, b"new")
    device = tmp_path / "null.svg"
    device.symlink_to("/dev/null")
    with pytest.raises(gs.StoreError, match="a device"):
        files.write_file(device, b"new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_terminal_escapes_are_shown_not_obeyed(copied, capsys):
    (copied.root / f"a{ESCAPE}").write_text("")
    spec = copied.find(FINISHED).path / "spec.json"
    data = json.loads(spec.read_text())
    spec.write_text(json.dumps({**data, ESCAPE: 1}))
    observed = gs.Store(copied.root / "observed")
    named = {"name": ESCAPE, "kind": "observed", "settings": {ESCAPE: ESCAPE}}
    run = observed.begin(read_spec(named))
    curve = {"epoch": np.array([0], np.int32), f"m{ESCAPE}": np.array([1.0], np.float32)}
    observed.save_progress(run, curve, None, {"segments": []})
    for root in (copied.root, observed.root):
        for command in (
            ["runs"],
            ["runs", "--json"],
            ["runs", "--sql", "select * from runs"],
            ["verify"],
            ["show", FINISHED.id if root == copied.root else run.id],
        ):
            cli.run([*command, "--store", str(root)])
            shown = "".join(capsys.readouterr())
            assert shown
            assert not STEERING & set(shown), command


@pytest.mark.parametrize("name", ["read_csv", "READ_PARQUET", '"read_csv"', "read_json"])
def test_queries_see_only_our_tables(copied, tmp_path, name, capsys):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    query = f"select * from {name}('{secret}')"
    root = ["--store", str(copied.root)]
    assert cli.run(["runs", "--sql", query, *root]) == 2
    assert cli.run(["runs", "--where", f"1 = (select a from {name}('{secret}'))", *root]) == 2
    assert "tables runs and curves" in capsys.readouterr().err


def test_leftovers_are_found_when_they_are_old(copied):
    """Those that need no claim may be written just now."""
    run = copied.find(FINISHED)
    (run.path / "probes").mkdir()
    (copied.root / ".index").mkdir(exist_ok=True)
    arrived = copied.root / ".locks" / "arrived-01234567" / FINISHED.id
    arrived.mkdir(parents=True)
    young = [
        run.path / ".notes.json.01234567",
        run.path / "probes" / ".norm-0123456789abcdef.parquet.01234567",
        copied.root / ".grokscope-store.json.01234567",
        copied.root / ".index" / ".runs.01234567",
        copied.root / ".locks" / f".{FINISHED.id}.2.01234567",
        arrived / "spec.json",
    ]
    for path in young:
        path.touch()
    assert {d.kind for d in copied.verify()} == {"partial"}
    assert all(path.exists() for path in young)
    for path in [*young, arrived, arrived.parent]:
        os.utime(path, (1, 1))
    assert sum(d.kind == "leftover" for d in copied.verify()) == len(young)
    assert not any(path.exists() for path in [*young, arrived.parent])
    assert {d.kind for d in copied.verify()} == {"partial"}


def norm(run, epoch):
    return {"norm": 1.0}


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], None])
def test_a_damaged_probe_is_taken_again(copied, damage):
    run = copied.find(FINISHED)
    whole = take(run, norm)
    (path,) = (run.path / "probes").iterdir()
    content = path.read_bytes()
    for number in range(20 if damage is None else 1):
        path.write_bytes(content)
        if damage is None:
            flip(path, random.Random(number))
        else:
            path.write_bytes(damage(content))
        assert not is_taken(run, norm)
        assert take(run, norm).equals(whole)
        assert path.read_bytes() == content


def test_probes_of_earlier_versions_count(copied):
    run = copied.find(FINISHED)
    take(run, norm)
    (path,) = (run.path / "probes").iterdir()
    pl.DataFrame({"epoch": [40], "norm": [7.0]}).write_parquet(path)
    assert take(run, norm)["norm"].to_list() == [7.0]


def test_files_larger_than_the_memory_are_refused(copied):
    run = copied.find(FINISHED)
    total = files.checksum(run.path / "weights.safetensors")
    assert total == run.outcome["files"]["weights.safetensors"]
    os.truncate(run.path / "weights.safetensors", 2**42)  # it has no blocks
    with pytest.raises(gs.StoreError, match="bytes are too many"):
        run.weights()


@pytest.mark.parametrize("name", [".index", ".locks", "probes", "snapshots", "set-aside"])
def test_links_lead_nowhere(copied, tmp_path, name, monkeypatch):
    """A directory of somebody else's store that leads to one of ours is not written to."""
    monkeypatch.setattr("grokscope.store.index.KEEP_FROM", 1)
    monkeypatch.setattr("grokscope.store.index.RECENT", -1.0)
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "runs").write_text("dear")
    (ours / ".00000000.safetensors.01234567").write_text("dear")
    run = copied.find(FINISHED)
    place = (run.path if name in ("probes", "snapshots") else copied.root) / name
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(ours)
    assert len(copied.table()) == 2
    for work in (
        lambda: take(run, norm),
        lambda: copied.verify(set_aside=True),
        lambda: train_plainly(copied, SPEC.replace(seed=5)),
        lambda: copied.save_snapshot(run, 0, {"weight": np.zeros(1)}),
    ):
        with contextlib.suppress(gs.StoreError):
            work()
    assert {p.name: p.read_text() for p in ours.iterdir()} == {
        "runs": "dear",
        ".00000000.safetensors.01234567": "dear",
    }


def test_settings_of_mixed_types_are_listed(tmp_path):
    from grokscope.spec import ObservedSpec

    store = gs.Store(tmp_path / "runs")
    for value in (1, "text", None):
        store.begin(ObservedSpec("mine", settings={"depth": value}))
    assert sorted(map(str, store.table()["settings_depth"].to_list())) == ["1", "None", "text"]


def test_the_loop_of_these_tests(tmp_path):
    assert_sound(gs.Store(tmp_path / "runs"))
