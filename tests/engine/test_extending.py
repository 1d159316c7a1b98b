"""More epochs for a run that has ended."""

from __future__ import annotations

import pytest

import grokscope as gs
from grokscope.engine import extend_spec, go_on
from grokscope.store.run import MEMORY

SHORT = {"training": {"epochs": 40, "log_every": 10}}


@pytest.fixture(scope="module")
def short(tiny, tmp_path_factory):
    """A run of 40 epochs, and one of 70 that was trained from the start."""
    place = tmp_path_factory.mktemp("extending")
    spec = tiny.replace(**SHORT)
    (run,) = gs.train(spec, place / "short")
    (long,) = gs.train(spec.replace(training={"epochs": 70}), place / "long")
    return run, long


def test_it_is_the_run_that_was_trained_so_long_from_the_start(short):
    run, long = short
    epochs = []
    extended = gs.extend(run, 30)
    assert extended.id == long.id
    assert extended.path.parent == run.path.parent
    assert extended.curve.equals(long.curve)
    drop = {"files"}
    assert {n: v for n, v in extended.outcome.items() if n not in drop} == {
        n: v for n, v in long.outcome.items() if n not in drop
    }
    for ours, theirs in ((extended.weights(), long.weights()), (extended.memory(), long.memory())):
        assert ours.keys() == theirs.keys()
        assert all((ours[name] == theirs[name]).all() for name in ours)
    segments = extended.provenance["segments"]
    assert [segment["from_epoch"] for segment in segments] == [0, 40]
    gs.train(long.spec, run.path.parent, sinks=epochs.append)
    assert [event.kind for event in epochs] == ["skipped"]


def test_a_run_without_its_state_is_trained_from_the_start(tiny, store):
    """As one of version 0.1 is; so is one whose last row the longer run does not have."""
    (run,) = gs.train(tiny.replace(training={"epochs": 25, "log_every": 10}), store)
    spec = extend_spec(run, 5)
    assert "last row, at epoch 25" in go_on(run, spec, store)
    (run.path / MEMORY).unlink()
    with pytest.warns(UserWarning, match="final state was not kept"):
        extended = gs.extend(run, 5)
    assert extended.curve["epoch"].to_list() == [0, 10, 20, 30]


def test_what_cannot_be_extended_says_so(tiny, store):
    cosine = tiny.replace(optimiser={"schedule": "cosine"}, **SHORT)
    stopped = tiny.replace(
        training={"stop": "grokked", "test_threshold": 0.01, "stop_after": 0, **SHORT["training"]}
    )
    run, early = gs.train([cosine, stopped], store)
    with pytest.raises(gs.SpecError, match="its learning rate depends on the length of training"):
        gs.extend(run, 10)
    with pytest.raises(gs.SpecError, match="ended by grokked"):
        gs.extend(early, 10)
    with pytest.raises(gs.SpecError, match="not by 0"):
        gs.extend(run, 0)
