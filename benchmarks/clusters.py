"""The planner on a hundred workers that do not exist: makespan and idle time, by discrete events.

    python -m benchmarks.clusters [runs] [workers]

Runs are drawn from those that the committed tables tell of, with the seconds that each took on one
core, and planned as real ones are: by what is estimated of a run beforehand, not by what it took.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from grokscope.engine.executors.ray import make_batches
from grokscope.engine.planning import estimate_seconds
from grokscope.errors import GrokscopeError
from grokscope.spec import KINDS, Spec

RESULTS = Path(__file__).parent.parent / "results"
START = 3.0  # seconds until a process has imported JAX (1.4 of processor time) and looked around
COMPILE = 6.0  # of a program that the node does not have yet
CLAIM = 0.02  # to claim a run, and to make its data
PER_NODE = 10  # workers that share a compile cache


class Recorded(NamedTuple):
    spec: Spec
    seconds: float
    form: str
    estimated: float


class Result(NamedTuple):
    makespan: float
    bound: float
    busy: float
    workers: int

    @property
    def idle(self) -> float:
        """Share of what the workers cost, from the start of the first to the end of the last, in
        which none of them trained."""
        return 1 - self.busy / (self.workers * self.makespan)


def read_runs() -> list[Recorded]:
    found = []
    for path in sorted(RESULTS.glob("*/*/runs.parquet")):
        table = pl.read_parquet(path)
        if not {"spec", "seconds"} <= set(table.columns):
            continue
        for text, seconds in table.select("spec", "seconds").iter_rows():
            changed = json.loads(text)
            try:
                spec = KINDS[changed.pop("kind", "routing")]().replace(**changed)
                found.append(Recorded(spec, seconds, spec.family(), estimate_seconds(spec)))
            except (GrokscopeError, TypeError, KeyError):
                continue  # of an older version
    return [run for run in found if run.seconds > 0]


def simulate(batches: Sequence[Sequence[Recorded]], workers: int, starts: bool) -> Result:
    """Workers take the next batch as soon as they are free. `starts`: a process per batch, as with
    Ray; else one per worker, as with SLURM."""
    free = [(0.0, worker) for worker in range(workers)]
    heapq.heapify(free)
    known: set[tuple[int, str]] = set()  # programs that a node has
    begun: set[int] = set()
    busy = end = 0.0
    for batch in batches:
        now, worker = heapq.heappop(free)
        if starts or worker not in begun:
            now += START
            begun.add(worker)
        for run in batch:
            program = (worker // PER_NODE, run.form)
            now += CLAIM + (0.0 if program in known else COMPILE) + run.seconds
            known.add(program)
            busy += run.seconds
        end = max(end, now)
        heapq.heappush(free, (now, worker))
    longest = max(run.seconds for batch in batches for run in batch)
    return Result(end, max(busy / workers, longest), busy, workers)


def main(count: int = 10_000, workers: int = 100) -> None:
    known = read_runs()
    draw = random.Random(23)
    runs = [draw.choice(known) for _ in range(count)]
    order = sorted(runs, key=lambda run: (-run.estimated, run.form))
    by_id: dict[str, list[Recorded]] = {}
    for run in runs:
        by_id.setdefault(run.spec.id, []).append(run)
    batches = [
        [by_id[spec.id].pop() for spec in batch]
        for batch in make_batches([run.spec for run in runs], 300.0, workers)
    ]
    drawn = list(runs)
    draw.shuffle(drawn)
    plans = {
        "SLURM: one by one, the longest first": ([[run] for run in order], False),
        "SLURM: one by one, in no order": ([[run] for run in drawn], False),
        "Ray: batches of equal form, five minutes": (batches, True),
    }
    hours = sum(run.seconds for run in runs) / 3600
    longest = max(run.seconds for run in runs)
    print(
        f"{count:,} runs drawn from {len(known):,}, {hours:,.0f} core hours, {workers} workers, "
        f"the longest run {longest / 60:.0f} minutes"
    )
    for name, (plan, starts) in plans.items():
        result = simulate(plan, workers, starts)
        print(
            f"{name:<48} {result.makespan / 3600:6.2f} h, {result.makespan / result.bound:.3f} "
            f"times the bound, idle {result.idle:.1%}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
