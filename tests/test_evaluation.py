"""A trained network on inputs it was not trained for."""

from __future__ import annotations

import pytest

import grokscope as gs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    spec = gs.RunSpec().replace(
        **{
            "task.modulus": 5,
            "task.length": 4,
            "task.positions": "random",
            "model.kind": "transformer",
            "model.positions": "none",
            "model.width": 8,
            "model.hidden": 16,
            "training.epochs": 30,
            "optimiser.lr": 0.01,
        }
    )
    return gs.train(spec, tmp_path_factory.mktemp("store"), processes=1)[0]


def test_nothing_changed_is_the_run_itself(run):
    assert gs.held_out_accuracy(run) == pytest.approx(run.outcome["final"]["test_accuracy"])


def test_longer_sequences_ask_the_same_operands(run):
    known = {tuple(row) for row in _operands(run, 4)}
    assert {tuple(row) for row in _operands(run, 9)} == known
    assert 0 <= gs.held_out_accuracy(run, length=9) <= 1


def _operands(run, length):
    import dataclasses

    data = gs.build_task(dataclasses.replace(run.spec.task, length=length), run.spec.seed)
    return data.operands[data.test].tolist()


def test_what_cannot_be_asked(run, tiny, store):
    with pytest.raises(gs.SpecError, match="other tokens or answers"):
        gs.held_out_accuracy(run, modulus=7)
    learned = gs.train(tiny, store, processes=1)[0]
    with pytest.raises(gs.SpecError, match="has learned 5 positions"):
        gs.held_out_accuracy(learned, length=7)
