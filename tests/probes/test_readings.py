"""What is read off a run is read once, and again when the run or the code is another."""

from __future__ import annotations

import math
import os
import threading

import polars as pl
import pytest

import grokscope as gs
import tiny_paper
from grokscope.probes import readings
from grokscope.probes.readings import Reading
from grokscope.store import files

CALLS: list[str] = []


def steps(run):
    CALLS.append(run.id)
    return {"steps": 7, "share": math.nan, "absent": None, "loss": run.final["train_loss"]}


def more(run):
    return {"steps": 8}


def broken(run):
    raise ZeroDivisionError


@pytest.fixture
def runs(tmp_path):
    CALLS.clear()
    specs = [tiny_paper.BASE.replace(seed=seed) for seed in range(3)]
    return gs.train(specs, tmp_path, progress=False, processes=1)


def ask(runs, *functions, executor=None):
    asked = [(run, [Reading("summary", functions)]) for run in runs]
    found = readings.read_all(asked, executor)
    return [next(table.iter_rows(named=True), {}) for (table,) in found]


def test_they_come_in_order_and_are_kept(runs):
    first = ask(runs, steps, more)
    assert [row["loss"] for row in first] == [run.final["train_loss"] for run in runs]
    assert all(row["steps"] == 8 for row in first)
    assert sorted(CALLS) == sorted(run.id for run in runs)
    again = ask(runs, steps, more)
    assert len(CALLS) == 3
    assert repr(again) == repr(first)  # NaN stays NaN, None stays None, whole numbers whole


def test_another_run_or_other_code_is_read_again(runs, monkeypatch):
    ask(runs[:1], steps)
    read = readings.read_bytes
    with monkeypatch.context() as another:
        another.setattr(readings, "read_bytes", lambda path: read(path) + b"trained again")
        ask(runs[:1], steps)
    assert len(CALLS) == 2
    monkeypatch.setattr(readings, "_hash_package", lambda: "other")
    ask(runs[:1], steps)
    assert len(CALLS) == 3
    assert len(list((runs[0].path / "probes").glob("summary-*"))) == 1  # what is old is gone


def test_what_is_damaged_is_read_again(runs):
    ask(runs[:1], steps)
    (kept,) = (runs[0].path / "probes").glob("summary-*")
    kept.write_bytes(b"PAR1 of nothing")
    assert ask(runs[:1], steps)[0]["steps"] == 7
    assert len(CALLS) == 2


def test_a_store_that_cannot_be_written_is_read_all_the_same(runs, monkeypatch):
    def refuse(self, path, data, mode):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files.Disk, "create", refuse)
    assert ask(runs[:1], steps)[0]["steps"] == 7


def test_closures_are_never_kept(runs):
    for number in (1, 2):
        assert ask(runs[:1], lambda run, n=number: {"n": n + 0 * len(runs)}) == [{"n": number}]


def test_errors_are_heard(runs):
    with pytest.raises(ZeroDivisionError):
        ask(runs, broken)


def test_several_at_once(runs, monkeypatch):
    monkeypatch.setattr(readings, "count_cores", lambda: 3)
    together = threading.Barrier(3, timeout=30)

    def meet(run):
        together.wait()
        return {"met": 1}

    assert ask(runs, meet) == [{"met": 1}] * 3


def rows(run):
    CALLS.append(run.id)
    return pl.DataFrame({"epoch": [0, 10], "kind": ["a", "b"]}).cast({"epoch": pl.Int32})


def test_rows_are_kept_beside_the_numbers(runs):
    asked = [(runs[0], [Reading("summary", (steps,)), Reading("trace", (rows,))])]
    first = readings.read_all(asked)[0]
    assert first[0]["steps"].to_list() == [7]
    assert first[1].equals(rows(runs[0]))
    CALLS.clear()
    again = readings.read_all(asked)[0]
    assert not CALLS
    assert again[1].equals(first[1])
    assert again[1].schema == first[1].schema


def test_workers_of_an_executor_read_what_is_missing(runs, tmp_path, monkeypatch):
    source = """
import os
import polars as pl

def who(run):
    return {"pid": os.getpid()}

def whose(run):
    return pl.DataFrame({"pid": [os.getpid()] * 2})

def nothing(run):
    return {}
"""
    (tmp_path / "readers.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    import readers

    executor = gs.LocalProcesses(1, 1)
    (here,) = ask(runs[:1], readers.who)
    found = ask(runs, readers.who, executor=executor)
    assert found[0] == here == {"pid": os.getpid()}  # it was kept
    assert found[1] == found[2] != here
    both = [Reading("summary", (readers.who,)), Reading("trace", (readers.whose,))]
    (number, table), _ = readers_of = readings.read_all([(r, both) for r in runs[:2]], executor)
    assert number["pid"].to_list() == [here["pid"]]
    assert here["pid"] not in table["pid"].to_list()
    assert all(len(trace) == 2 for _, trace in readers_of)
    assert ask(runs, readers.nothing, executor=executor) == [{}, {}, {}]
    assert ask(runs, lambda run: {"pid": os.getpid()}, executor=executor) == [here] * 3
