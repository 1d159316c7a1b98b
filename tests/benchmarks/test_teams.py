"""Processes that take turns: who gets which member, and what becomes of one that dies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.teams import one_process, process_per_core, take_turns

from grokscope.store.provenance import count_cores

CHILD = "counting_child"


@pytest.fixture
def path():
    given = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)]
    return os.pathsep.join(filter(None, given))


def test_members_are_dealt_out(path):
    cores = count_cores()
    names = [str(number) for number in range(2 * cores + 1)]
    with process_per_core(CHILD, PYTHONPATH=path) as team:
        assert team.prepare("counting", names) > 0
        assert team.turn("counting", 5) > 0
        team.turn("counting", 2)
        reports = [child.ask("report", kind="counting") for child in team.children]
        team.prepare("counting", ["alone"])
        team.turn("counting", 1)
        assert team.children[0].ask("report", kind="counting")["problems"] == ["alone"]
    assert sorted(name for report in reports for name in report["problems"]) == sorted(names)
    assert sorted(len(report["problems"]) for report in reports) == [2] * (cores - 1) + [3]
    assert {(report["epochs"], report["threads"]) for report in reports} == {(7, "1")}


def test_a_dead_child_is_an_error(path):
    with one_process(CHILD, PYTHONPATH=path) as team:
        team.prepare("counting", ["a"])
        (child,) = team.children
        assert child.ask("report", kind="counting")["threads"] == str(count_cores())
        with pytest.raises(RuntimeError, match="ended with code 3"):
            child.ask("die", kind="counting")


def test_turns_are_interleaved():
    calls: list[str] = []
    work = {name: lambda name=name: calls.append(name) or float(len(calls)) for name in "ab"}
    assert take_turns(work, 2) == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert calls == ["a", "b", "a", "b"]
