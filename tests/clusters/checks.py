"""What must hold after a cluster was disturbed."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence

import grokscope as gs


def make_specs(count: int = 4, epochs: int = 4_000) -> list[gs.RunSpec]:
    """Runs of a second or two on an idle machine."""
    spec = gs.find_recipe("smoke").replace(**{"training.epochs": epochs, "training.stop": "never"})
    return gs.sweep(spec, {"seed": range(count)})


def assert_same_as_alone(runs: Sequence[gs.Run], told: Sequence[gs.Event], store: gs.Store) -> None:
    """Each run has finished exactly once, to the bits that it has when it is trained alone."""
    ended = Counter(event.run for event in told if event.kind == "finished")
    resumed = sum(event.kind == "resumed" for event in told)
    print(f"finished: {sorted(ended.values())}, resumed {resumed} times")
    assert set(ended.values()) <= {1}  # a job's last words may be lost with its node
    assert store.verify() == []
    assert all(run.status == "finished" for run in runs)
    with tempfile.TemporaryDirectory() as folder:
        alone = gs.train([run.spec for run in runs], folder, executor=gs.LocalProcesses(2, 1))
        for one, other in zip(runs, alone, strict=True):
            assert one.curve.equals(other.curve), one.id
            for name, array in one.weights().items():
                assert array.tobytes() == other.weights()[name].tobytes(), (one.id, name)
    parts = [len(run.provenance["segments"]) for run in runs]
    print(f"the same bits as alone; trained in {parts} parts")
