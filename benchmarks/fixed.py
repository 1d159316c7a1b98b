"""Costs that do not depend on the number of epochs: importing, and certifying a finished run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

import grokscope as gs
from benchmarks.comparison import SCALES
from benchmarks.teams import clocked, take_turns
from grokscope.engine.compilation import prepare
from grokscope.papers.structural_inference.certificates import certify

MODULES = ("grokscope", "grokscope.engine", "jax")
WHOLE = 10_000  # epochs of a run at paper scale


def measure_fixed(rounds: int, snapshots: int) -> dict[str, Any]:
    return {"imports": measure_imports(rounds), "certificates": measure_certificates(snapshots)}


def measure_imports(rounds: int) -> dict[str, list[float]]:
    """Seconds of a new process that imports a module and nothing else."""
    commands = {name: [sys.executable, "-c", f"import {name}"] for name in MODULES}
    work = {
        name: clocked(partial(subprocess.run, command, check=True))
        for name, command in commands.items()
    }
    take_turns(work, 1)  # files come into memory
    times = take_turns(work, rounds)
    print("imports: " + "  ".join(f"{n} {min(t):.2f} s" for n, t in times.items()), flush=True)
    return times


def measure_certificates(snapshots: int) -> dict[str, float]:
    """Certifying every snapshot of a run at paper scale, beside training its 10,000 epochs."""
    prepare()
    spec = gs.find_recipe(SCALES["paper"])
    every = 5
    kept = {
        "training.epochs": every * snapshots,
        "training.log_every": every,
        "training.snapshots": snapshots,
    }
    with tempfile.TemporaryDirectory() as folder:
        store = gs.Store(folder)
        (run,) = gs.train(spec.replace(**kept), store, processes=1)
        certify(run, store)  # compile
        (plain,) = gs.train(spec.replace(**{"training.epochs": 600}), store, processes=1)
        epoch = plain.provenance["segments"][0]["seconds"] / 600
        began = time.perf_counter()
        certify(run, store)
        seconds = time.perf_counter() - began
    print(f"certificates: {seconds:.2f} s for {snapshots} snapshots", flush=True)
    return {"snapshots": snapshots, "seconds": seconds, "training": WHOLE * epoch}
