"""A plan held against a store: what is left to train, how long it will take, and the tables that
come of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grokscope.claims.evidence import Tables, collect, read_tables, write_frames, write_tables
from grokscope.claims.studies import SCALES, Annex, Paper, Planned, ScaleName, Study, plan
from grokscope.engine.planning import choose_processes, estimate_seconds, expected_seconds, train
from grokscope.errors import GrokscopeError, TrainingError
from grokscope.spec import RunSpec
from grokscope.store import Run, Store

if TYPE_CHECKING:
    from grokscope.engine.events import Sink

STARTING = 1.0  # seconds to make a run's data and to write it down, whatever its size


@dataclass(frozen=True)
class Work:
    """The runs that are asked for, and those that the store already has."""

    scale: ScaleName
    planned: Sequence[Planned]
    specs: Sequence[RunSpec]  # each once
    done: Sequence[Run]

    @property
    def left(self) -> list[RunSpec]:
        have = {run.id for run in self.done}
        return [spec for spec in self.specs if spec.id not in have]

    def seconds_left(self) -> float:
        """A rough estimate of the time that remains, with all processes at work."""
        left = self.left
        if not left:
            return 0.0
        total = sum(expected_seconds(spec) for spec in left)
        return (self.slowness * total + STARTING * len(left)) / choose_processes(left)

    @property
    def slowness(self) -> float:
        """How much longer an epoch takes on this machine than estimated, judging by the runs it has
        trained; 1 while there are none."""
        ratios = [
            run.seconds
            / (estimate_seconds(run.spec) * run.outcome["epochs"] / run.spec.training.epochs)
            for run in self.done
        ]
        return statistics.median(ratios) if ratios else 1.0


def survey(studies: Sequence[Study], scale: ScaleName, seeds: int | None, store: Store) -> Work:
    planned = plan(studies, scale, seeds)
    specs = {item.spec.id: item.spec for item in planned}
    runs = [store.find(spec) for spec in specs.values()]
    return Work(scale, planned, list(specs.values()), [run for run in runs if run.ended])


def read_all(paper: Paper, results: Path) -> dict[ScaleName, Tables]:
    """The tables of every scale that has some."""
    tables = {scale: read_tables(results / paper.name / scale) for scale in SCALES}
    return {scale: found for scale, found in tables.items() if len(found.runs)}


def carry_out(
    paper: Paper,
    work: Work,
    store: Store,
    results: Path,
    base: Tables,
    sinks: Sink,
) -> tuple[Tables, GrokscopeError | None]:
    """Train what is left and write the tables. Returns those of the paper at this scale, laid over
    `base`, and what could not be trained, such as the pupil of a teacher that failed."""
    refused: GrokscopeError | None = None
    try:
        train(work.specs, store, sinks=sinks)
    except GrokscopeError as error:
        refused = error
    runs = {spec.id: store.find(spec) for spec in work.specs}
    shown = [item for item in work.planned if not isinstance(item.study, Annex)]
    if shown:
        base = collect(paper, shown, runs, base)
        write_tables(base, results / paper.name / work.scale)
    for annex in paper.annexes:
        own = [(item, runs[item.spec.id]) for item in work.planned if item.study is annex]
        missing = [run.id for _, run in own if run.status != "finished"]
        if missing and refused is None:
            refused = TrainingError(
                f"{annex.name} needs all of its runs, not {', '.join(missing)}."
            )
        if own and not missing:
            about = _origin([run for _, run in own])
            write_frames(annex.tabulate(own, store), about, results / annex.name)
    return base, refused


def _origin(runs: Sequence[Run]) -> Mapping[str, Any]:
    """How many runs, how long they took, and with which code."""
    segments = [segment for run in runs for segment in run.provenance["segments"]]
    return {
        "runs": len(runs),
        "minutes": round(sum(segment["seconds"] for segment in segments) / 60, 1),
        "commits": sorted({segment["commit"] or "unknown" for segment in segments}),
        "versions": segments[-1]["versions"],
    }
