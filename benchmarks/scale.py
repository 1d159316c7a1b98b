"""Large stores: how long `grokscope runs` takes, from the start of the process to its end.

    python -m benchmarks.scale 10000 100000

Entries have a spec, an outcome and a provenance of their own and share the large files by links:
listings read no more. The store is made in a temporary directory and removed.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import grokscope as gs
from benchmarks.storage import SMALL
from grokscope.store import Run, Store
from grokscope.store.files import write_json
from grokscope.store.run import CURVE, OUTCOME, PROVENANCE, SPEC, WEIGHTS

MOST_LINKS = 30_000  # to one file, half of what ext4 allows
QUESTIONS: dict[str, list[str]] = {
    "runs": [],
    "runs --where": ["--where", "seed < 5 and grokked is null"],
    "runs --sql": ["--sql", "select prior_kind, count(*) from runs group by prior_kind"],
    "runs --json": ["--json"],
}


def multiply(like: Run, seeds: range) -> None:
    """Entries that listings cannot tell from trained ones."""
    outcome, source = like.outcome, like.path
    for seed in seeds:
        spec = like.spec.replace(seed=seed)
        folder = like.path.parent / spec.id
        folder.mkdir()
        if seed % MOST_LINKS == 0:
            source = folder
        for name in (CURVE, WEIGHTS):
            (shutil.copyfile if source == folder else os.link)(
                (like.path if source == folder else source) / name, folder / name
            )
        shutil.copyfile(like.path / PROVENANCE, folder / PROVENANCE)
        write_json(folder / SPEC, spec.to_dict())
        write_json(folder / OUTCOME, outcome, sealed=True)


def ask(store: Store, question: Sequence[str]) -> tuple[float, float]:
    """Seconds on the clock, and of processors."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "grokscope.cli", "runs", "--store", str(store.root)]
    subprocess.run([*command, *question], check=True, stdout=subprocess.DEVNULL)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return time.perf_counter() - began, busy


def measure(counts: Sequence[int], rounds: int = 5) -> list[dict[str, float]]:
    points = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        (first,) = gs.train(SMALL, store, processes=1)
        reached = 1
        for count in counts:
            multiply(first, range(reached, count))
            reached = count
            time.sleep(3)  # what has just changed is not kept
            point: dict[str, float] = {"runs": count}
            point["index made, s"], point["index made, processor s"] = ask(store, [])
            for name, question in QUESTIONS.items():
                best = min(ask(store, question) for _ in range(rounds))
                point[f"{name}, s"], point[f"{name}, processor s"] = best
            multiply(first, range(reached, reached + 10))
            reached += 10
            point["ten are new, s"], point["ten are new, processor s"] = ask(store, [])
            seen = store.changes().until
            began = time.perf_counter()
            store.changes(seen)
            point["changes, s"] = time.perf_counter() - began
            print("\n".join(f"{name:>32} {value:,.3f}" for name, value in point.items()))
            points.append(point)
    return points


if __name__ == "__main__":
    measure([int(word) for word in sys.argv[1:]] or [10_000, 100_000])
