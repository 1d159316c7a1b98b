"""What a person sees while many runs train."""

from __future__ import annotations

import grokscope as gs
from grokscope import terminal
from grokscope.engine.events import Event
from grokscope.terminal import Watch, clock


def test_clock():
    assert [clock(s) for s in (45, 89.6, 720, 6000, 9000)] == [
        "45 s",
        "90 s",
        "12 min",
        "1 h 40 min",
        "2 h 30 min",
    ]


def test_many_runs_are_told_together(tiny, monkeypatch, capsys):
    """Runs that the store had do not count as progress: a tenth of the others took 100 seconds, so
    the rest will take 900."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    specs = gs.sweep(tiny, {"seed": range(20)})
    with Watch(specs) as watch:
        for spec in specs[:10]:
            watch(Event("skipped", spec.id, 100, 100))
        now[0] = 100.0
        for spec in specs[10:15]:
            watch(Event("finished", spec.id, 60, 100))  # stopped early
    shown = capsys.readouterr().err
    assert "11 of 20 runs have ended, about 15 min to go" in shown
    assert (
        len([line for line in shown.splitlines() if "have ended" in line]) == 1
    )  # not a line each
    assert "10 runs were already in the store." in shown
