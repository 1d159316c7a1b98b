"""A training loop without JAX that uses the store as the engine does, and what must hold of a store
whatever happened to it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import grokscope as gs
from grokscope.store.run import RESUME

SEGMENT = {
    "from_epoch": 0,
    "execution": "one by one",
    "seconds": 1.0,
    "threads": 1,
    "versions": {"jax": "0"},
    "backend": "none",
}
SPEC = gs.RunSpec().replace(
    **{
        "task.modulus": 5,
        "training.epochs": 40,
        "training.log_every": 10,
        "training.snapshots": 2,
    }
)


def train_plainly(store: gs.Store, spec: gs.RunSpec = SPEC) -> gs.Run:
    """Every epoch adds 1 to a weight; a resume point at every row."""
    with store.claim(spec.id) as mine:
        assert mine
        run = store.find(spec)
        if run.ended:
            return run
        run = store.begin(spec)
        try:
            saved = store.load_progress(run)
        except gs.StoreError:
            store.set_aside(run.path / RESUME)
            run.kept.clear()
            saved = None
        epochs, weight, segments = [0], np.zeros(3, np.float32), []
        if saved is not None:
            epochs, weight, segments = saved[1]["epoch"].to_list(), saved[0]["weight"], saved[2]
        segments = [*segments, SEGMENT]
        while True:
            curve = {
                "epoch": np.array(epochs, np.int32),
                "train_loss": 1 / (1 + np.array(epochs, np.float32)),
                "attention": np.ones((len(epochs), 2), np.float32),
            }
            if epochs[-1] in (0, 20):
                store.save_snapshot(run, epochs[-1], {"weight": weight})
            if epochs[-1] == spec.training.epochs:
                outcome = {"status": "finished", "epochs": 40, "ended_by": "budget", "final": {}}
                made = {"segments": segments}
                store.finish(run, curve, {"weight": weight}, outcome, made)
                return run
            state = {"weight": weight, "step": np.int32(epochs[-1])}
            store.save_progress(run, curve, state, {"segments": segments})
            weight = weight + 10
            epochs.append(epochs[-1] + 10)


def assert_sound(store: gs.Store) -> None:
    """Whatever happened before: training again gives the whole run, and nothing is called bad."""
    run = train_plainly(store)
    assert run.curve["epoch"].to_list() == [0, 10, 20, 30, 40]
    assert run.weights()["weight"].tolist() == [40.0] * 3
    assert {e: run.weights(e)["weight"][0] for e in run.snapshots} == {0: 0.0, 20: 20.0}
    for path in hidden_files(store.root):
        os.utime(path, (1, 1))  # a while later nobody writes it any more
    assert [d for d in store.verify() if d.kind != "leftover"] == []
    assert store.verify() == []  # and the leftovers are gone
    assert not hidden_files(store.root)


def hidden_files(root: Path) -> list[Path]:
    return [p for p in root.rglob(".*") if p.is_file() and ".locks" not in p.parts]


def content_of(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
