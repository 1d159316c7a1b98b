"""Runs of models that the lab did not train: their identity, and what the store makes of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import grokscope as gs
from grokscope.errors import SpecError
from grokscope.measures.outcomes import conclude
from grokscope.spec import ObservedSpec, OptimiserSpec, PriorSpec, WatchSpec, read_spec, to_dict

FULL = ObservedSpec(
    "mine",
    settings={"dropout": 0.1, "data": "small"},
    watch=WatchSpec(informative="0, 2"),
    prior=PriorSpec(kind="oracle", strength=0.5),
    optimiser=OptimiserSpec(warmup=0),
    seed=3,
)


def test_names_are_pinned():
    """They must never change: stores out there have these names."""
    assert ObservedSpec("mine").id == "9b4ae7a099b1dea0"
    assert FULL.id == "bd0f6f302d86f466"


def test_identity():
    """What differs has another name; a prior without strength is none."""
    assert ObservedSpec("mine", prior=PriorSpec(kind="oracle", strength=0.0)).id == (
        ObservedSpec("mine").id
    )
    others = [
        dataclasses.replace(FULL, **change)
        for change in (
            {"name": "yours"},
            {"seed": 4},
            {"settings": {"dropout": 0.2, "data": "small"}},
            {"watch": WatchSpec(informative="0, 3")},
            {"optimiser": None},
            {"prior": PriorSpec()},
        )
    ]
    assert len({spec.id for spec in (FULL, *others)}) == 7


def test_files_give_the_spec_back():
    assert read_spec(to_dict(FULL)) == FULL
    assert read_spec(to_dict(gs.RunSpec(seed=4))) == gs.RunSpec(seed=4)
    for data, sentence in (
        ({"kind": "observed", "name": "a", "sede": 1}, "Unknown field sede. Did you mean seed"),
        ({"kind": "observed"}, "has no name"),
        ({"kind": "observed", "name": "a", "prior": {"x": 1}}, r"Unknown field prior\.x"),
        ({"kind": "observed", "name": ""}, "give it some text"),
    ):
        with pytest.raises(SpecError, match=sentence):
            read_spec(data)


def test_lab_and_watched_runs_share_a_store(tiny, store):
    curve = {
        "epoch": np.array([0, 100, 200], np.int32),
        "train_accuracy": np.ones(3, np.float32),
    }
    run = store.begin(FULL)
    outcome = conclude(FULL, curve)
    assert outcome["memorised"]["epoch"] == 0
    assert outcome["grokked"]["observed_until"] is None
    store.finish(run, curve, None, outcome, {"segments": []})
    store.begin(tiny)
    assert {found.id for found in store.runs()} == {FULL.id, tiny.id}
    table = store.table()
    assert set(table["run"]) == {FULL.id, tiny.id}
    assert table.filter(table["run"] == FULL.id)["settings_dropout"].to_list() == [0.1]
    with pytest.raises(gs.StoreError, match="has no weights"):
        run.weights()
    student = tiny.replace(**{"prior.kind": "teacher", "prior.teacher": FULL.id})
    with pytest.raises((SpecError, gs.TrainingError), match="model of your own"):
        gs.train(student, store, processes=1)
