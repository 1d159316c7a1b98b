"""A trained network on inputs it was not trained for."""

from __future__ import annotations

import numpy as np
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
    short, long = (
        gs.build_task(run.spec.replace(**{"task.length": length}).task, run.spec.seed)
        for length in (4, 9)
    )
    trained = {tuple(row) for row in short.operands[short.train]}
    asked = {tuple(row) for row in long.operands[long.test]}
    assert asked
    assert not asked & trained
    right = [_answer(run, tokens) for tokens in long.tokens[long.test]] == long.labels[long.test]
    assert gs.held_out_accuracy(run, length=9) == pytest.approx(right.mean())


def _answer(run, tokens):
    """One layer, one head, no positions, read at the last: straight from the weights."""
    w = {name: array.astype(np.float64) for name, array in run.weights().items()}
    x = w["embedding"][tokens]
    scores = x @ w["block0.key"] @ (x[-1] @ w["block0.query"]) / np.sqrt(x.shape[1])
    weights = np.exp(scores - scores.max())
    y = x[-1] + weights / weights.sum() @ x @ w["block0.value"] @ w["block0.output"]
    hidden = np.maximum(y @ w["block0.hidden"] + w["block0.hidden_bias"], 0)
    z = y + hidden @ w["block0.readout"] + w["block0.readout_bias"]
    return int((z @ w["unembedding"]).argmax())


def test_what_cannot_be_asked(run, tiny, store):
    for name, value in (("modulus", 7), ("seed", 5), ("train_fraction", 0.3), ("lenght", 9)):
        with pytest.raises(gs.SpecError, match=f"{name} cannot be changed here"):
            gs.held_out_accuracy(run, **{name: value})
    with pytest.raises(gs.SpecError, match="need at least"):
        gs.held_out_accuracy(run, length=2)
    with pytest.raises(gs.SpecError, match="other tokens or answers"):
        gs.held_out_accuracy(run, alphabet=3, distractors="own")
    learned = gs.train(tiny, store, processes=1)[0]
    with pytest.raises(gs.SpecError, match="has learned 5 positions"):
        gs.held_out_accuracy(learned, length=7)
