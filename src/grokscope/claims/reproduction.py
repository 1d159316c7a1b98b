"""`grokscope reproduce`: train what the store lacks, write tables, judge, write the pages."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grokscope.claims.evidence import Tables, collect, read_tables, write_tables
from grokscope.claims.studies import SCALES, Paper, Planned, ScaleName, Study, plan
from grokscope.engine.planning import (
    choose_processes,
    estimate_seconds,
    expected_seconds,
    train,
)
from grokscope.errors import GrokscopeError, SpecError, StoreError, suggest
from grokscope.pages import paper as page
from grokscope.spec import RunSpec
from grokscope.store import Run, Store
from grokscope.terminal import clock

if TYPE_CHECKING:
    from grokscope.engine.events import Sink

PAPERS = {"structural-inference": "grokscope.papers.structural_inference.paper"}
STARTING = 1.0  # seconds to make a run's data and to write it down, whatever its size


def find_paper(name: str) -> Paper:
    if name not in PAPERS:
        raise SpecError(f"There is no paper {name!r}.{suggest(name, PAPERS)}")
    return importlib.import_module(PAPERS[name]).PAPER


@dataclass(frozen=True)
class Work:
    """A plan held against a store."""

    planned: Sequence[Planned]
    specs: Sequence[RunSpec]  # each once
    done: Sequence[Run]

    @property
    def left(self) -> list[RunSpec]:
        have = {run.id for run in self.done}
        return [spec for spec in self.specs if spec.id not in have]

    @property
    def shared(self) -> int:
        """Runs that several arms or studies have in common, counted once each time."""
        return len(self.planned) - len(self.specs)

    @property
    def saved_seconds(self) -> float:
        """What training the runs of the store again would take."""
        return sum(run.seconds for run in self.done)

    def seconds_left(self) -> float:
        """A rough estimate of the time to go, all processes together."""
        left = self.left
        if not left:
            return 0.0
        total = sum(expected_seconds(spec) for spec in left)
        return (self.slowness * total + STARTING * len(left)) / choose_processes(left)

    @property
    def slowness(self) -> float:
        """How much longer an epoch takes on this machine than estimated, by the runs it has
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
    return Work(planned, list(specs.values()), [run for run in runs if run.ended])


def describe_work(work: Work, scale: ScaleName) -> str:
    """What is there, what is shared, what it will take; in a sentence or three."""
    text = f"{len(work.planned)} runs are asked for"
    if work.shared:
        text += f", {work.shared} of them by several arms: {len(work.specs)} in all"
    text += "."
    if work.done:
        saved = clock(work.saved_seconds)
        text += f" The store has {len(work.done)}, which saves {saved} of one core's time."
    if not work.left:
        return text + " Nothing is left to train."
    return (
        f"{text} {len(work.left)} are left to train at {scale} scale: about "
        f"{clock(work.seconds_left())}. Interrupt it at will; the same command goes on."
    )


def carry_out(
    paper: Paper,
    work: Work,
    scale: ScaleName,
    store: Store,
    results: Path,
    sinks: Sink | Iterable[Sink],
) -> None:
    """Train what is left and write the tables of this scale. What cannot be trained, such as the
    pupil of a teacher that failed, is complained of when the rest is safe."""
    refused = None
    try:
        train(work.specs, store, sinks=sinks)
    except GrokscopeError as error:
        refused = error
    folder = results / paper.name / scale
    write_tables(collect(paper, work.planned, store, read_tables(folder)), folder)
    if refused is not None:
        raise refused


def read_all(paper: Paper, results: Path) -> dict[ScaleName, Tables]:
    """The tables of every scale that has some."""
    tables = {scale: read_tables(results / paper.name / scale) for scale in SCALES}
    return {scale: found for scale, found in tables.items() if len(found.runs)}


def write_pages(paper: Paper, results: Path, docs: Path, readme: Path | None = None) -> list[Path]:
    """Pages and figures from whatever tables there are; on request a README's table, too."""
    tables = read_all(paper, results)
    if not tables:
        raise StoreError(f"There are no tables of {paper.name} in {results}.")
    pages = page.write(paper, tables, docs)
    return pages if readme is None else [*pages, page.renew(readme, paper, tables)]
