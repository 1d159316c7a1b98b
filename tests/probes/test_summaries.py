"""What is read off a run is read once, and again when the run or the code is another."""

from __future__ import annotations

import math
import os
import threading

import pytest

import grokscope as gs
import tiny_paper
from grokscope.probes import summaries
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


def ask(runs, *functions):
    return summaries.summarise_all({run.id: functions for run in runs}, runs)


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
    read = summaries.read_bytes
    with monkeypatch.context() as another:
        another.setattr(summaries, "read_bytes", lambda path: read(path) + b"trained again")
        ask(runs[:1], steps)
    assert len(CALLS) == 2
    monkeypatch.setattr(summaries, "_hash_package", lambda: "other")
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
    monkeypatch.setattr(summaries, "count_cores", lambda: 3)
    together = threading.Barrier(3, timeout=30)

    def meet(run):
        together.wait()
        return {"met": 1}

    assert ask(runs, meet) == [{"met": 1}] * 3


def test_workers_of_an_executor_read_what_is_missing(runs, tmp_path, monkeypatch):
    source = "import os\n\ndef who(run):\n    return {'pid': os.getpid()}\n"
    (tmp_path / "readers.py").write_text(source + "\ndef nothing(run):\n    return {}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    import readers

    executor = gs.LocalProcesses(1, 1)
    (here,) = ask(runs[:1], readers.who)
    found = summaries.summarise_all({run.id: [readers.who] for run in runs}, runs, executor)
    assert found[0] == here == {"pid": os.getpid()}  # it was kept
    assert found[1] == found[2] != here
    empty = summaries.summarise_all({run.id: [readers.nothing] for run in runs}, runs, executor)
    assert empty == [{}, {}, {}]
    inner = {run.id: [lambda run: {"pid": os.getpid()}] for run in runs}  # no worker can have it
    assert summaries.summarise_all(inner, runs, executor) == [here] * 3
