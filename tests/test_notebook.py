"""How things look in notebooks."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

import grokscope as gs
from grokscope import notebook, terminal


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    spec = tiny.replace(training={"epochs": 20})
    return gs.train(gs.sweep(spec, {"seed": [0, 1]}), tmp_path_factory.mktemp("notebook") / "runs")


def test_specs_runs_and_stores_are_tables(runs):
    run = runs[1]
    run.annotate(name="<b>bold</b>")
    spec, entry, store = (
        thing._repr_html_() for thing in (run.spec, run, gs.Store(run.path.parent))
    )
    assert "task.modulus" in spec
    assert ">59<" in spec  # the default
    assert "grokked" in entry
    assert "&lt;b&gt;bold" in entry
    assert "2 runs in" in store
    assert ">seed<" in store
    assert ">task_modulus<" not in store  # equal in both
    assert "absent" in gs.Run(run.path.with_name("0" * 16))._repr_html_()


def test_bars_need_no_widgets(tiny, store, monkeypatch):
    """IPython's display is asked once, then its handle again and again; rich's own way would warn
    that ipywidgets are missing."""
    seen = []
    handle = SimpleNamespace(update=lambda shown: seen.append(shown.tasks[0].completed))
    display = SimpleNamespace(display=lambda shown, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    console = terminal.PlainConsole
    page = {"force_jupyter": True, "file": io.StringIO()}
    monkeypatch.setattr(terminal, "PlainConsole", lambda **options: console(**{**options, **page}))
    gs.train(tiny.replace(training={"epochs": 10}), store)
    assert seen[-1] == 10


def test_charts_are_drawn_offline_in_notebooks(monkeypatch):
    import altair as alt

    shell = SimpleNamespace(get_ipython=lambda: object())
    monkeypatch.setitem(sys.modules, "IPython", shell)
    before = alt.renderers.active
    try:
        alt.renderers.enable("default")
        notebook.draw_offline.__wrapped__()
        assert alt.renderers.active == "svg"
        alt.renderers.enable("png")
        notebook.draw_offline.__wrapped__()
        assert alt.renderers.active == "png"
    finally:
        alt.renderers.enable(before)
