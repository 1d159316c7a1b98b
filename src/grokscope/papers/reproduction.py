"""`grokscope reproduce`: train what the store lacks, write tables, judge, write the pages."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grokscope.engine.execution import choose_processes, estimate_seconds, train
from grokscope.errors import SpecError, suggest
from grokscope.papers import page
from grokscope.papers.evidence import Tables, collect, read_tables, write_tables
from grokscope.papers.studies import SCALES, Paper, Planned, ScaleName, Study, plan
from grokscope.spec import RunSpec
from grokscope.store import Run, Store

if TYPE_CHECKING:
    from grokscope.engine.events import Listener

PAPERS = {"structural-inference": "grokscope.papers.structural_inference.paper"}
# Variants stop soon after they grok, most of them in the first half of their budget.
STOPS_EARLY = 0.6


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
        return sum(segment["seconds"] for run in self.done for segment in run.provenance["segments"])

    def seconds_left(self) -> float:
        """A rough estimate of the time to go, all processes together."""
        left = self.left
        if not left:
            return 0.0
        total = sum(expected_seconds(spec) for spec in left)
        return total / choose_processes(left)


def expected_seconds(spec: RunSpec) -> float:
    seconds = estimate_seconds(spec)
    return seconds * STOPS_EARLY if spec.training.stop == "grokked" else seconds


def survey(studies: Sequence[Study], scale: ScaleName, seeds: int | None, store: Store) -> Work:
    planned = plan(studies, scale, seeds)
    specs = {item.spec.id: item.spec for item in planned}
    runs = [store.find(spec) for spec in specs.values()]
    return Work(planned, list(specs.values()), [run for run in runs if run.ended])


def carry_out(
    paper: Paper, work: Work, scale: ScaleName, store: Store, results: Path, listen: Listener
) -> Tables:
    """Train what is left and write the tables of this scale."""
    train(work.specs, store, listen=listen)
    folder = results / paper.name / scale
    tables = collect(paper, work.planned, store, read_tables(folder))
    write_tables(tables, folder)
    return tables


def write_pages(paper: Paper, results: Path, docs: Path) -> list[Path]:
    """Pages and figures from whatever tables there are."""
    tables = {scale: read_tables(results / paper.name / scale) for scale in SCALES}
    present = {scale: found for scale, found in tables.items() if len(found.runs)}
    return page.write(paper, present, docs)


def clock(seconds: float) -> str:
    """"45 s", "12 min", "1 h 40 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


