"""What a user calls in Python."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import grokscope as gs
from grokscope import terminal


@pytest.fixture
def screen(monkeypatch):
    """A terminal of 100 columns whose text can be read."""
    text = io.StringIO()
    live = {"force_terminal": True, "file": text, "width": 100, "color_system": None}
    monkeypatch.setattr(terminal, "PlainConsole", lambda **options: Console(**{**options, **live}))
    return text


def test_training_shows_its_progress_in_a_terminal(tiny, store, screen):
    runs = gs.train([tiny, tiny.replace(seed=1)], store)
    assert [run.status for run in runs] == ["finished"] * 2
    shown = screen.getvalue()
    assert "2 runs" in shown
    assert "seed 0" in shown
    assert "seed 1" in shown
    assert "compiling" in shown
    assert "2 ended" in shown


def smaller(operands, modulus):
    return operands.min(axis=1)


def test_a_task_of_ones_own_shows_its_progress(tiny, store, screen):
    """Its fingerprint, and with it its name, is only known once training begins."""
    gs.train(tiny.replace(task={"kind": "custom", "rule": smaller}, training={"epochs": 10}), store)
    assert "100 %" in screen.getvalue()


def test_training_is_silent_where_nobody_looks(tiny, store, capsys):
    gs.train(tiny, store)
    gs.train(tiny, store, progress=False)
    assert capsys.readouterr() == ("", "")
    gs.train(tiny, store, progress=True)
    assert "1 run was already in the store" in capsys.readouterr().err


def test_an_interrupt_says_what_is_kept(tiny, store, screen):
    def stop(event: gs.Event) -> None:
        if event.kind == "finished":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gs.train([tiny, tiny.replace(seed=1)], store, sinks=stop)
    assert "Kept: 1 of 2 runs ended. The same call resumes." in screen.getvalue()


def test_recipes_and_files_can_be_trained_by_name(tiny, store, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(gs.spec.to_toml(tiny) + "[sweep]\nseed = [0, 1]\n")
    assert [run.spec.seed for run in gs.train(path, store)] == [0, 1]
    with pytest.raises(gs.SpecError, match="no recipe 'labtop'"):
        gs.train("labtop", store)


def test_what_is_no_spec_and_no_run_gets_a_sentence():
    with pytest.raises(gs.SpecError, match="3 cannot be trained; give a spec"):
        gs.train(3)
    for ask in (lambda: gs.fork("3988", 500), lambda: gs.extend("3988", 5), lambda: gs.plot("39")):
        with pytest.raises(gs.SpecError, match=r"is no run; get one by its name: gs\.Store"):
            ask()


def test_a_run_tells_its_events_and_scalars(tiny, store):
    (run,) = gs.train(tiny, store)
    assert run.memorised == run.outcome["memorised"]["epoch"]
    assert run.grokked == run.when("grokked") == run.outcome["grokked"]["epoch"]
    assert run.final["test_accuracy"] == run.outcome["final"]["test_accuracy"]
    assert run.scalars.columns[0] == "epoch"
    assert "attention" in run.curve.columns
    assert "attention" not in run.scalars.columns
    assert run.scalars.write_csv().startswith("epoch,")
    with pytest.raises(gs.SpecError, match="no event 'groked'"):
        run.when("groked")


def test_a_run_draws_itself(tiny, store):
    (run,) = gs.train(tiny, store)
    assert run.plot().to_dict()["config"]
    with pytest.raises(gs.SpecError, match="no figure"):
        run.plot("acuracy")
