"""Where the time of `grokscope reproduce structural-inference` goes.

It, or a part of it, is run for real, in an empty store, by the lab's own worker processes with
timers around what they call (`benchmarks.worker`). Every core is accounted for from the first
second to the last.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from benchmarks.comparison import LAB
from benchmarks.teams import process_per_core
from benchmarks.worker import BORN, FOLDER
from grokscope.claims import reproduction
from grokscope.claims.evidence import Tables
from grokscope.claims.studies import ScaleName
from grokscope.engine.compilation import prepare
from grokscope.engine.events import Event
from grokscope.engine.planning import choose_processes
from grokscope.engine.program import make_member
from grokscope.errors import SpecError
from grokscope.pages.reproduction import write_pages
from grokscope.papers import find_paper
from grokscope.spec import Spec, to_dict
from grokscope.store import Store
from grokscope.store.provenance import count_cores

PAPER = "structural-inference"
MOST = 0.9  # of the time of training: programs that have so much are timed by themselves
PLAIN, TIMED = "grokscope.engine.worker", "benchmarks.worker"


def break_down(
    studies: Sequence[str],
    scale: ScaleName,
    seeds: int | None = None,
    programs: Path | None = None,
) -> dict[str, Any]:
    """Core-seconds by kind of work; together they are wall-clock time times cores. No studies:
    all of them; no number of seeds: as many as each study asks for. Compiled programs are kept in
    `programs`, by default in an empty place, so that workers reuse only each other's."""
    command = " ".join(["grokscope reproduce", PAPER, *studies, "--scale", scale])
    if seeds is not None:
        command += f" --seeds {seeds}"
    print(command, flush=True)
    prepare()  # this process keeps its programs elsewhere: the folder below does not last
    paper = find_paper(PAPER)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "clock").mkdir()
        store = Store(place / "runs")
        work = reproduction.survey(paper.select(studies), scale, seeds, store)
        if choose_processes(work.specs) < 2:
            raise SpecError("No worker process is needed: so few runs, or a single core.")
        cache = programs or place / "programs"
        changes = {FOLDER: str(place / "clock"), "GROKSCOPE_CACHE": str(cache)}
        began = time.time()
        with mock.patch.dict(os.environ, changes), mock.patch("subprocess.Popen", _timed_worker):
            results, empty = place / "results", Tables.empty()
            tables, _ = reproduction.carry_out(
                paper, work, store, results, empty, lambda event: None
            )
        notes = [json.loads(p.read_text()) for p in sorted((place / "clock").iterdir())]
        trained = max(note["ended"] for note in notes)
        write_pages(paper, {scale: tables}, results, place / "docs")
        ended = time.time()
        share = _measuring_share(work.specs, store)
    found = account(notes, count_cores(), began, trained, ended, share)
    for name, seconds in found.items():
        print(f"  {name:<20}{seconds:8.1f} s  {seconds / sum(found.values()):6.1%}", flush=True)
    return {
        "command": command,
        "runs": len(work.specs),
        "cores": count_cores(),
        "wall": ended - began,
        "seconds": found,
    }


_popen = subprocess.Popen


def _timed_worker(command: Any, *given: Any, **options: Any) -> Any:
    """The same process, but for the timers."""
    if isinstance(command, list) and PLAIN in command:
        command = [TIMED if word == PLAIN else word for word in command]
        options["env"] = {**options["env"], BORN: repr(time.time())}
    return _popen(command, *given, **options)


def account(
    notes: list[dict[str, Any]],
    cores: int,
    began: float,
    trained: float,
    ended: float,
    share: float,
) -> dict[str, float]:
    """The notes of workers as core-seconds of the whole; `share` of advancing is measuring."""
    names = ("compile", "train and measure", "data", "write", "wait")
    spent = {name: sum(note["seconds"].get(name, 0.0) for note in notes) for name in names}
    alive = sum(note["ended"] - note["ready"] for note in notes)
    advancing, waiting = spent.pop("train and measure"), spent.pop("wait")
    start = sum(note["ready"] - note["born"] for note in notes)
    page = ended - trained
    found = {
        "start processes": start,
        "compile": spent["compile"],
        "train": (1 - share) * advancing,
        "measure": share * advancing,
        "data": spent["data"],
        "write": spent["write"],
        "other Python": alive - sum(spent.values()) - advancing - waiting,
        "tables and page": page,
    }
    found["idle"] = cores * (ended - began) - sum(found.values())
    return found


def _measuring_share(specs: Sequence[Spec], store: Store) -> float:
    """The share of rows in the time of training. What a row and an epoch take is timed on one
    thread, as in a worker, for one run of each compiled program, the programs that took most time
    first and until they account for `MOST` of it; each counts by the time of its runs."""

    def took(group: Sequence[Spec]) -> float:
        return sum(store.find(spec).seconds for spec in group)

    programs: dict[Any, list[Spec]] = defaultdict(list)
    for spec in specs:
        form, member = make_member(spec, store)
        sizes = tuple(array.shape for array in jax.tree.leaves(member.data))
        programs[form, sizes, spec.training.log_every].append(spec)
    timed = measuring = 0.0
    with process_per_core(LAB) as team:
        (child, *_) = team.children
        for group in sorted(programs.values(), key=took, reverse=True):
            if timed >= MOST * took(specs):
                break
            problem = {"spec": to_dict(group[0]), "store": str(store.root)}
            child.ask("prepare", kind="lab", problems=[problem])
            parts = child.ask("parts", kind="lab")
            between = group[0].training.log_every * parts["epoch"]
            timed += took(group)
            measuring += took(group) * parts["row"] / (between + parts["row"])
    return measuring / timed


def _ignore(event: Event) -> None:
    pass
