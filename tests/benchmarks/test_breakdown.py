"""Where time goes: every core-second is counted once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from benchmarks.breakdown import account, break_down
from benchmarks.worker import Clock

from benchmarks import breakdown
from grokscope import papers
from grokscope.engine import planning
from grokscope.store.provenance import count_cores


def test_inner_time_counts_once():
    clock = Clock()
    inner = clock.around("inner", lambda: time.sleep(0.02))

    def outer():
        inner()
        time.sleep(0.01)

    began = time.perf_counter()
    clock.call("outer", outer)
    whole = time.perf_counter() - began
    assert clock.seconds["inner"] >= 0.02
    assert clock.seconds["outer"] >= 0.01
    assert sum(clock.seconds.values()) == pytest.approx(whole, abs=2e-3)


def test_account():
    """Two workers on two cores for 20 s; one ends 4 s early, one waits 1 s; the page takes 2 s."""
    busy = {"compile": 3.0, "train and measure": 10.0, "data": 1.0, "write": 0.5}
    notes = [
        {"born": 0.0, "ready": 1.0, "ended": 18.0, "seconds": {**busy, "wait": 1.0}},
        {"born": 0.0, "ready": 1.0, "ended": 14.0, "seconds": {**busy, "train and measure": 8.0}},
    ]
    found = account(notes, cores=2, began=0.0, trained=18.0, ended=20.0, share=0.1)
    assert found["start processes"] == 2.0
    assert found["train"] == pytest.approx(16.2)
    assert found["measure"] == pytest.approx(1.8)
    assert found["other Python"] == pytest.approx(17 + 13 - 18 - 9 - 1)
    assert found["idle"] == pytest.approx(4 + 1 + 2)


def test_account_of_one_wave_after_another():
    """One worker for the first 5 s, another for the next 5, on two cores: half is idle."""
    busy = {"train and measure": 4.0}
    notes = [
        {"born": born, "ready": born + 1.0, "ended": born + 5.0, "seconds": busy}
        for born in (0.0, 5.0)
    ]
    found = account(notes, cores=2, began=0.0, trained=10.0, ended=10.0, share=0.0)
    assert found["start processes"] == 2.0
    assert found["other Python"] == 0.0
    assert found["idle"] == 10.0


@pytest.mark.skipif(count_cores() < 2, reason="one core has no worker processes")
def test_a_reproduction(monkeypatch, capfd):
    """Two runs, two workers, every study, as many seeds as it asks for. Programs that other tests
    have compiled are loaded, which counts as compiling, too."""
    monkeypatch.setattr(breakdown, "PAPER", "tiny")
    monkeypatch.setitem(papers.PAPERS, "tiny", "tiny_paper")
    monkeypatch.setattr(planning, "WORTH_A_PROCESS", 0.0)
    found = break_down([], "smoke", programs=Path(os.environ["GROKSCOPE_CACHE"]))
    assert found["command"] == "grokscope reproduce tiny --scale smoke"
    assert found["command"] in capfd.readouterr().out
    assert found["runs"] == 2
    seconds = found["seconds"]
    assert min(seconds.values()) >= 0
    assert min(seconds[name] for name in ("compile", "train", "measure", "write")) > 0
    assert seconds["start processes"] + seconds["compile"] < found["cores"] * found["wall"]
