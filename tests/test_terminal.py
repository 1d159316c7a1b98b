"""What a person sees while many runs train."""

from __future__ import annotations

import io
from datetime import datetime

import numpy as np

import grokscope as gs
from grokscope import terminal
from grokscope.draw.reading import Phase
from grokscope.engine.events import Event
from grokscope.spec import ObservedSpec
from grokscope.terminal import OutcomeTable, Watch, clock, plain_table, say, show_run, state_of


def test_clock():
    assert [clock(s) for s in (45, 89.6, 720, 6000, 9000)] == [
        "45 s",
        "90 s",
        "12 min",
        "1 h 40 min",
        "2 h 30 min",
    ]


def test_brackets_are_shown_as_they_are(store, capsys):
    """Lists in cells, and names that Rich would take for its markup or for an emoji."""
    names = ["gpt [small]", "[/x] [bold]", ":smile:"]
    say(plain_table("[a]", rows=[([float("nan")] * 2,), ([1.0, 2.0],)]), *names)
    run = store.begin(ObservedSpec("[/red] gpt [small]"))
    store.save_progress(run, {"epoch": np.array([0])}, None, {"segments": []})
    say(OutcomeTable([run]), *show_run(run))
    shown = capsys.readouterr().out
    for text in ("[a]", "[nan, nan]", "[1.0, 2.0]", *names):
        assert text in shown
    assert shown.count("[/red] gpt [small]") == 2
    assert shown.splitlines().count("times in steps") == 1  # its name is in a column alone
    assert f"{run.id}  interrupted at 0" in shown


def test_the_bars_show_brackets(tiny, monkeypatch):
    screen = io.StringIO()
    live = {"force_terminal": True, "file": screen, "width": 120, "color_system": None}
    console = terminal.PlainConsole
    monkeypatch.setattr(terminal, "PlainConsole", lambda **options: console(**{**options, **live}))
    with Watch([tiny], {tiny.id: "[/x] with [prior]"}) as watch:
        watch(Event("advanced", tiny.id, 50, 100, message="[/x] was moved"))
    assert "[/x] with [prior]" in screen.getvalue()
    assert "[/x] was moved" in screen.getvalue()


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


def test_the_latest_row_of_any_problem():
    """Accuracies where there are some, else losses, else whatever there is."""

    def state(**row):
        return state_of(Event("advanced", "run", 1, 2, [row] if row else []))

    assert state(train_accuracy=1.0, train_loss=0.1, test_accuracy=0.5) == "train 1.00  test 0.50"
    assert state(train_loss=0.5, test_loss=0.25) == "train loss 0.50  test loss 0.25"
    assert state(epoch=1, map=[1.0, 2.0], residual=3.0) == "residual 3.00"
    assert state() == ""


def test_a_sweep_is_a_line_per_run(tiny, store, monkeypatch, capsys):
    """At 100 columns, with the fields that differ or were swept, by the shortest clear name."""
    monkeypatch.setenv("COLUMNS", "100")
    over = {"prior.kind": ["none", "oracle"], "optimiser.lr": [1e-3], "seed": [0, 1]}
    runs = gs.train(gs.sweep(tiny.replace(training={"epochs": 20}), over), store)
    terminal.make_console(width=100).print(OutcomeTable(runs, fields=list(over)))
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["run", "lr", "prior.kind", "seed"]
    for run, line in zip(runs, lines, strict=False):
        spec = run.spec
        assert line.split()[:4] == [run.id[:8], "0.001", spec.prior.kind, str(spec.seed)]


def test_fields_that_do_not_fit_become_words(tiny, store, capsys):
    """Still a line per run: 85 columns hold no column for each of six fields."""
    names = ["model.width", "model.hidden", "task.alphabet", "prior.kind", "seed"]
    over = {"optimiser.lr": [1e-3, 2e-3], **{name: [tiny.effective()[name]] for name in names}}
    runs = gs.train(gs.sweep(tiny.replace(training={"epochs": 10}), over), store)
    terminal.make_console(width=85).print(OutcomeTable(runs, fields=list(over), dated=True))
    heading, first, second, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["run", "started", "what", "differs"]
    assert "lr=0.001" in first
    assert "lr=0.002" in second
    assert (first.split()[0], second.split()[0]) == (runs[0].id[:8], runs[1].id[:8])
    assert f"{datetime.fromisoformat(runs[0].started or ''):%d %b %H:%M}" in first


def test_a_narrow_listing_of_mixed_runs_tells_them_apart(tiny, store, capsys):
    """At 84 columns: seed and prior first, defaults of other fields and of watched runs left
    out, and less is said of the outcome."""
    over = {"prior.kind": ["none", "oracle"], "seed": [0, 1]}
    short = tiny.replace(training={"epochs": 10})
    trained = gs.train([*gs.sweep(short, over), short.replace(task={"modulus": 7})], store)
    watched = store.begin(ObservedSpec("my run"))
    store.save_progress(watched, {"epoch": np.array([0])}, None, {"segments": []})
    terminal.make_console(width=84).print(OutcomeTable([*trained, watched], dated=True))
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["run", "name", "what", "differs"]
    words = [line[18:50].split() for line in lines[:6]]
    start = [["seed=0", "prior=none"], ["seed=1", "prior=none"], ["seed=0", "prior=oracle"]]
    assert [found[:2] for found in words[:3]] == start
    assert "modulus=7" in words[4]
    assert "my run" in lines[5]
    assert words[5][:2] == ["seed=0", "kind=observed"]
    assert "measures" not in lines[5]


def test_grokking_without_a_plateau_is_explained():
    """A run may have grokked although its phase of grokking was not found."""
    event = {"measure": "test_accuracy", "threshold": 0.9, "persistence": 3, "observed_until": 500}
    said = []
    for memorised, grokked in ((200, 100), (None, 100), (50, 100), (50, None)):
        outcome = {
            "epochs": 500,
            "memorised": {**event, "epoch": memorised},
            "grokked": {**event, "epoch": grokked},
        }
        said.append(terminal._explain_phase(Phase("grokking", None, None, "rises"), outcome))
    assert said == [
        "not found: it had grokked when it memorised",
        "not found: it never memorised",
        "not found: no rise after memorisation",
        "not found",
    ]


def test_an_interrupted_run_is_not_under_way(tiny, store):
    run = store.begin(tiny)
    assert terminal._unfinished(run) == "interrupted at 0"
    with store.claim(run.id):
        assert terminal._unfinished(run) == "under way at 0"
