"""A plan held against a store and against tables: what is left to train, how long it will take, and
the tables that come of it."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grokscope import interrupts
from grokscope.claims.evidence import (
    Tables,
    collect,
    read_about,
    read_tables,
    write_frames,
    write_tables,
)
from grokscope.claims.looks import next_look
from grokscope.claims.studies import (
    SCALES,
    Annex,
    Claim,
    Paper,
    Planned,
    ScaleName,
    Study,
    plan,
    plan_setting,
)
from grokscope.engine.planning import choose_processes, estimate_seconds, expected_seconds, train
from grokscope.errors import GrokscopeError, TrainingError
from grokscope.spec import Spec
from grokscope.store import Run, Store

if TYPE_CHECKING:
    from grokscope.engine.events import Sink
    from grokscope.engine.executors import Executor

STARTING = 1.0  # seconds to make a run's data and to write it down, whatever its size


@dataclass(frozen=True)
class Work:
    """The runs that are asked for, and who has them already."""

    scale: ScaleName
    planned: Sequence[Planned]
    specs: Sequence[Spec]  # each once
    done: Sequence[Run]  # in the store
    tabled: frozenset[str]
    """Names of runs that the tables say all about that is asked, so that nobody has to train them;
    the store may have some of them, too."""
    open: Sequence[tuple[Study, str, Claim]] = ()
    """The claims whose next look this is, with their regimes; none where it is the first."""
    computed: Sequence[Annex] = ()
    """Annexes that need no runs."""

    @cached_property
    def left(self) -> list[Spec]:
        """What neither has, and whatever those runs need: a teacher's weights are in no table."""
        have = {run.id for run in self.done}
        by_id = {spec.id: spec for spec in self.specs}
        wanted = [name for name in by_id if name not in have | self.tabled]
        for name in wanted:  # grows on the way
            wanted += [n for n in by_id[name].needs() if n in by_id and n not in {*have, *wanted}]
        return [spec for spec in self.specs if spec.id in set(wanted)]

    @cached_property
    def trained(self) -> list[Spec]:
        """What the store has, or will have once nothing is left."""
        names = {run.id for run in self.done} | {spec.id for spec in self.left}
        return [spec for spec in self.specs if spec.id in names]

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


def survey(
    studies: Sequence[Study],
    scale: ScaleName,
    seeds: int | None,
    store: Store,
    tables: Tables | None = None,
    results: Path | None = None,
) -> Work:
    """What the studies ask for, held against the store, the tables of this scale, and those of
    annexes in `results`. Without tables only the store counts."""
    work = _hold_against(plan(studies, scale, seeds), scale, store, tables, results)
    return replace(work, computed=[s for s in studies if isinstance(s, Annex) and not s.runs])


def survey_next(
    studies: Sequence[Study], scale: ScaleName, store: Store, tables: Tables, retrain: bool = False
) -> Work | None:
    """The next look at every claim that the tables leave open: more seeds of the arms that it
    needs. None if no claim is open, or its last look has been taken."""
    planned: dict[tuple[str, str, str, int], Planned] = {}
    still_open: list[tuple[Study, str, Claim]] = []
    for study in studies:
        if isinstance(study, Annex) or study.name not in tables.about.get("seeds", {}):
            continue
        evidence = tables.evidence(study, scale)
        for claim in study.claims:
            for regime, finding in evidence.findings(claim).items():
                seeds = next_look(finding.seeds, study.most_seeds[scale])
                if finding.ruling != "inconclusive" or seeds is None:
                    continue
                still_open.append((study, regime, claim))
                sample = evidence.samples[regime]
                needed = claim.test.needs(sample)
                for item in plan_setting(study, sample.setting, seeds):
                    if item.arm in needed:
                        planned[study.name, regime, item.arm, item.seed] = item
    if not still_open:
        return None
    every = _with_needs(list(planned.values()), scale)
    work = _hold_against(every, scale, store, None if retrain else tables)
    return replace(work, open=still_open)


def _with_needs(planned: Sequence[Planned], scale: ScaleName) -> list[Planned]:
    """The same with the runs that these need, such as teachers, for which no claim asks."""
    every = {item.spec.id: item for item in planned}
    needed = {name for item in planned for name in item.spec.needs()} - every.keys()
    if not needed:
        return list(planned)
    seeds = {item.seed for item in planned}
    # Runs of a pair of teacher and pupil belong to one study, and mostly to one seed.
    known = {
        item.spec.id: item
        for study in {item.study: None for item in planned}
        for item in plan([study], scale, max(seeds) + 1)
    }
    added: list[Planned] = []
    while needed & known.keys():
        found = [known[name] for name in sorted(needed & known.keys())]
        added += found
        every |= {item.spec.id: item for item in found}
        needed = {name for item in found for name in item.spec.needs()} - every.keys()
    return [*added, *planned]


def _hold_against(
    planned: Sequence[Planned],
    scale: ScaleName,
    store: Store,
    tables: Tables | None,
    results: Path | None = None,
) -> Work:
    specs = {item.spec.id: item.spec for item in planned}
    runs = [store.find(spec) for spec in specs.values()]
    done = [run for run in runs if run.ended]
    lacking: set[str] = set()
    for study, group in groupby(planned, lambda item: item.study):
        items = list(group)
        if not isinstance(study, Annex):
            lacking |= {item.spec.id for item in items if not (tables and _told(item, tables))}
        elif not results or read_about(results / study.name).get("plan") != _digest(items):
            lacking |= {item.spec.id for item in items}
    return Work(scale, planned, list(specs.values()), done, frozenset(specs.keys() - lacking))


def _told(item: Planned, tables: Tables) -> bool:
    """Do the tables have everything that the study would read off this run?"""
    drawn = item.arm in item.study.curve_arms
    if item.spec.id not in tables.by_id:
        return False
    if item.study.name not in tables.about["seeds"]:  # newer than the row: it may ask for more
        return not (drawn or item.study.summarise)
    return not drawn or item.spec.id in tables.traced


def _digest(planned: Sequence[Planned]) -> str:
    """Equal for the same runs in the same roles."""
    names = sorted(f"{item.setting.regime} {item.arm} {item.spec.id}" for item in planned)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


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
    executor: Executor | None = None,
) -> tuple[Tables, GrokscopeError | None]:
    """Train what is left and write the tables, also if interrupted. Returns those of the paper at
    this scale, laid over `base`, and what could not be trained, such as the pupil of a teacher that
    failed."""
    runs = {spec.id: store.find(spec) for spec in work.specs}
    refused: GrokscopeError | None = None
    try:
        train(work.trained, store, executor=executor, sinks=sinks)
    except GrokscopeError as error:
        refused = error
    finally:
        shown = [item for item in work.planned if not isinstance(item.study, Annex)]
        if shown:
            with interrupts.closing():
                base = collect(paper, shown, runs, base, bool(work.open), executor)
                write_tables(base, results / paper.name / work.scale)
    for annex in work.computed:
        write_frames(annex.tabulate((), store), {}, results / annex.name)
    for annex in paper.annexes:
        own = [(item, runs[item.spec.id]) for item in work.planned if item.study is annex]
        if own and all(run.id in work.tabled for _, run in own):
            continue  # its tables are of these very runs
        missing = [run.id for _, run in own if run.status != "finished"]
        if missing and refused is None:
            refused = TrainingError(
                f"{annex.name} needs all of its runs, not {', '.join(missing)}."
            )
        if own and not missing:
            about = {**_origin([run for _, run in own]), "plan": _digest([i for i, _ in own])}
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
