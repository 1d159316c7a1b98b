"""The planner on a hundred workers that do not exist: makespan and idle time, by discrete events.

    python -m benchmarks.clusters [runs] [workers]
    python -m benchmarks.clusters papers [workers]

Runs are drawn from those that the committed tables tell of, with the seconds that each took on one
core, and planned as real ones are: by what is estimated of a run beforehand, not by what it took.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from grokscope.claims.looks import LOOKS
from grokscope.claims.studies import plan
from grokscope.engine.executors.node import ORDERS
from grokscope.engine.executors.ray import make_batches
from grokscope.engine.planning import estimate_seconds, expected_seconds, in_order
from grokscope.errors import GrokscopeError
from grokscope.papers import PAPERS, find_paper
from grokscope.spec import KINDS, Spec

RESULTS = Path(__file__).parent.parent / "results"
START = 3.0  # seconds until a process has imported JAX (1.4 of processor time) and looked around
STOPPED = 5.0  # times as long per epoch as is usual for its form: its process had been stopped
COMPILE = 6.0  # of a program that the node does not have yet
CLAIM = 0.02  # to claim a run, and to make its data
DRAWS = 10
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
    """Without runs whose process must have been stopped for a while: the clock went on."""
    found: list[Recorded] = []
    pace: list[float] = []
    for path in sorted(RESULTS.glob("*/*/runs.parquet")):
        table = pl.read_parquet(path)
        if not {"spec", "seconds"} <= set(table.columns):
            continue
        for text, seconds, epochs in table.select("spec", "seconds", "epochs").iter_rows():
            changed = json.loads(text)
            try:
                spec = KINDS[changed.pop("kind", "routing")]().replace(**changed)
                found.append(Recorded(spec, seconds, spec.family(), estimate_seconds(spec)))
            except (GrokscopeError, TypeError, KeyError):
                continue  # of an older version
            pace.append(seconds / max(epochs, 1))
    usual = (
        pl.DataFrame({"form": [run.form for run in found], "pace": pace})
        .select(pl.col("pace") <= STOPPED * pl.col("pace").median().over("form"))
        .to_series()
    )
    return [run for run, kept in zip(found, usual, strict=True) if kept and run.seconds > 0]


def simulate(batches: Sequence[Sequence[Recorded]], workers: int, each: float = math.inf) -> Result:
    """Workers take the next batch as soon as they are free, and a new process after `each` of
    them."""
    free = [(0.0, worker) for worker in range(workers)]
    heapq.heapify(free)
    known: set[tuple[int, str]] = set()  # programs that a node has
    taken: Counter[int] = Counter()
    busy = end = 0.0
    for batch in batches:
        now, worker = heapq.heappop(free)
        if taken[worker] % each == 0:
            now += START
        taken[worker] += 1
        for run in batch:
            program = (worker // PER_NODE, run.form)
            now += CLAIM + (0.0 if program in known else COMPILE) + run.seconds
            known.add(program)
            busy += run.seconds
        end = max(end, now)
        heapq.heappush(free, (now, worker))
    longest = max(run.seconds for batch in batches for run in batch)
    return Result(end, max(busy / workers, longest), busy, workers)


def plan_all(runs: Sequence[Recorded], workers: int) -> dict[str, Result]:
    """What each plan makes of these runs, which are in no order."""
    order = sorted(runs, key=lambda run: (-run.estimated, run.form))
    return {
        "SLURM: one by one, the longest first": simulate([[r] for r in order], workers),
        "SLURM: one by one, in no order": simulate([[r] for r in runs], workers),
        "Ray: batches of equal form, five minutes": simulate(batch(runs, workers), workers, ORDERS),
    }


def batch(runs: Sequence[Recorded], workers: int) -> list[list[Recorded]]:
    """As the executor does it. A run that was drawn twice counts twice."""
    by_id: dict[str, list[Recorded]] = {}
    for run in runs:
        by_id.setdefault(run.spec.id, []).append(run)
    planned = make_batches([run.spec for run in runs], 300.0, workers)
    return [[by_id[spec.id].pop() for spec in some] for some in planned]


def main(count: int = 10_000, workers: int = 100) -> None:
    known = read_runs()
    print(f"{count:,} runs drawn from {len(known):,}, {DRAWS} times, {workers} workers")
    found: dict[str, list[Result]] = {}
    for seed in range(DRAWS):
        draw = random.Random(seed)
        runs = [draw.choice(known) for _ in range(count)]
        for name, result in plan_all(runs, workers).items():
            found.setdefault(name, []).append(result)
    first = next(iter(found.values()))[0]
    print(f"{first.busy / 3600:,.0f} core hours in the first draw")
    for name, results in found.items():
        idle = sorted(result.idle for result in results)
        print(
            f"{name:<42} {statistics.fmean(r.makespan / 3600 for r in results):5.2f} h, "
            f"{statistics.fmean(r.makespan / r.bound for r in results):.3f} times the bound, "
            f"idle {statistics.fmean(idle):.1%} ({idle[0]:.1%} to {idle[-1]:.1%})"
        )


def price_papers(workers: int = 100) -> None:
    """What every paper costs at paper scale, by the planner's estimates, as a table for
    docs/clusters.md: the first look at its claims, and the last, if no claim is decided before."""
    print(
        f"| paper | seeds | runs | core hours | longest run, min | hours with {workers} workers |"
    )
    print("|---|---|---|---|---|---|")
    for name in PAPERS:
        paper = find_paper(name)
        for label, seeds in (("as planned first", None), (f"{LOOKS[-1]} of each", LOOKS[-1])):
            specs = {item.spec.id: item.spec for item in plan(paper.select(()), "paper", seeds)}
            if not specs:
                continue  # it has no paper scale
            seconds = {name: expected_seconds(spec) for name, spec in specs.items()}
            makespan = 0.0
            for wave in in_order(list(specs.values())):
                runs = [
                    Recorded(spec, seconds[spec.id], spec.family(), estimate_seconds(spec))
                    for spec in wave
                ]
                order = sorted(runs, key=lambda run: (-run.estimated, run.form))
                makespan += simulate([[run] for run in order], workers).makespan
            print(
                f"| {name} | {label} | {len(specs):,} | {sum(seconds.values()) / 3600:,.1f} "
                f"| {max(seconds.values()) / 60:.1f} | {makespan / 3600:.2f} |"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["papers"]:
        price_papers(*map(int, sys.argv[2:]))
    else:
        main(*map(int, sys.argv[1:]))
