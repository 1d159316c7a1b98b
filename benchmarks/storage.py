"""The store with ten runs and with ten thousand: list, filter, load, verify.

One run is trained; the others have its curve and weights, under specs of their own.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import grokscope as gs
from benchmarks.teams import clocked, take_turns
from grokscope.store import Run, Store
from grokscope.store.files import checksum, write_json
from grokscope.store.run import CURVE, OUTCOME, PROVENANCE, SPEC, WEIGHTS

# A network that is small on disk: what is timed is the number of runs, not of bytes.
SMALL = gs.find_recipe("smoke").replace(
    **{"model.width": 16, "model.hidden": 32, "training.epochs": 5000}
)
LOADED = 20  # runs that are read whole, a repetition
WRITTEN = 9  # runs that are finished on the clock


def measure_store(counts: Sequence[int], repetitions: int = 3) -> dict[str, Any]:
    points = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        (first,) = gs.train(SMALL, store, processes=1)
        size = sum(path.stat().st_size for path in first.path.rglob("*"))
        rows = len(first.curve)
        began = time.perf_counter()
        finish_again(store, first, range(1, WRITTEN + 1))
        writing = (time.perf_counter() - began) / WRITTEN
        print(f"store: finishing a run takes {1e3 * writing:.1f} ms", flush=True)
        for count in counts:
            copy_run(first, range(len(store.ids()), count))
            points.append(_measure_at(store, count, repetitions))
    return {"bytes_a_run": size, "rows": rows, "write": writing, "points": points}


def finish_again(store: Store, like: Run, seeds: range) -> None:
    """Runs that end with the curve and the weights of another, safe on disk."""
    curve = {
        column.name: np.stack(column.to_list()) if column.dtype.is_nested() else column.to_numpy()
        for column in like.curve.get_columns()
    }
    weights, outcome, provenance = like.weights(), like.outcome, like.provenance
    for seed in seeds:
        run = store.begin(like.spec.replace(seed=seed))
        store.finish(run, curve, weights, outcome, provenance)


def copy_run(like: Run, seeds: range) -> None:
    """The same entries as `finish_again` makes, without waiting for the disk each time."""
    store, outcome = Store(like.path.parent), like.outcome
    for seed in seeds:
        run = store.begin(like.spec.replace(seed=seed))
        for name in (CURVE, WEIGHTS, PROVENANCE):
            shutil.copyfile(like.path / name, run.path / name)
        sums = {**outcome["files"], SPEC: checksum(run.path / SPEC)}
        write_json(run.path / OUTCOME, {**outcome, "files": sums})


def _measure_at(store: Store, count: int, repetitions: int) -> dict[str, Any]:
    some = store.ids()[:: max(1, count // LOADED)][:LOADED]

    def load() -> None:
        for name in some:
            run = store.get(name[:12])
            if not (run.spec and len(run.curve) and run.weights()):
                raise RuntimeError(f"Run {name} is empty.")

    def verify() -> None:
        if problems := store.verify():
            raise RuntimeError(f"The store is not sound: {problems[0]}")

    work: dict[str, Callable[[], object]] = {
        "list": store.table,
        "filter": lambda: store.sql("select run from runs where seed < 5 and grokked is null"),
        "load one": load,
        "verify": verify,
    }
    rounds = repetitions if count < 10_000 else 1
    times = take_turns({name: clocked(piece) for name, piece in work.items()}, rounds)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    seconds["load one"] /= len(some)
    line = "  ".join(f"{name} {value:.4f} s" for name, value in seconds.items())
    print(f"store of {count:>6} runs: {line}", flush=True)
    return {"runs": count, **seconds}
