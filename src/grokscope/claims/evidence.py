"""From the store to compact tables, and from the tables to what a claim looks at.

Verdicts and figures see nothing but these tables, so that anyone can remake the pages without
training, and a test can check that the committed pages are what the committed tables give.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from grokscope.claims.studies import Paper, Planned, ScaleName, Setting, Study, plan
from grokscope.claims.verdicts import Finding
from grokscope.errors import StoreError
from grokscope.spec import RunSpec

if TYPE_CHECKING:
    from grokscope.claims.studies import Claim
    from grokscope.store import Run

Frames = Mapping[str, pl.DataFrame]
ABOUT = "about.json"
CURVE_ROWS = 120  # rows of a kept curve, evenly thinned; enough for a figure


@dataclass(frozen=True)
class Event:
    """Something that happens to a run at some epoch: the column of the runs table with the epoch
    (empty where it was not seen within the budget), and how to speak of it."""

    column: str
    verb: str  # what runs do: "5 of 5 grok"
    name: str = ""  # what the time is called: "grok epoch"


GROKKING = Event("grokked", "grok", "grok epoch")


@dataclass(frozen=True)
class ArmRuns:
    """An arm in one setting: the spec of each seed, and its row of the runs table, None where the
    run is missing."""

    name: str
    specs: tuple[RunSpec, ...]
    rows: tuple[Mapping[str, Any] | None, ...]

    @property
    def spec(self) -> RunSpec:
        """That of the first seed."""
        return self.specs[0]

    @property
    def missing(self) -> int:
        return sum(row is None for row in self.rows)

    @property
    def failed(self) -> int:
        return sum(row is not None and row["status"] != "finished" for row in self.rows)

    @property
    def sound(self) -> bool:
        """Has every run finished?"""
        return not self.missing and not self.failed

    def values(self, column: str) -> np.ndarray:  # (seeds,)
        """A column as numbers; NaN where a run has none."""
        found = [None if row is None else row.get(column) for row in self.rows]
        return np.array([np.nan if value is None else value for value in found], float)

    def times(self, event: Event | str = GROKKING) -> np.ndarray:  # (seeds,)
        """Times of an event (or of its column); infinite where it was not seen in the budget."""
        times = self.values(event if isinstance(event, str) else event.column)
        return np.where(np.isnan(times), np.inf, times)


@dataclass(frozen=True)
class Sample:
    """All arms of a study in one setting."""

    setting: Setting
    arms: Mapping[str, ArmRuns]

    @property
    def budget(self) -> int:
        return self.setting.base.training.epochs

    def asks(self, claim: Claim) -> bool:
        """Does the plan have the arms that the claim is about?"""
        needed = claim.test.needs(self)
        return bool(needed) and all(name in self.arms for name in needed)

    def finding(self, claim: Claim) -> Finding:
        """The verdict of a claim. It fails closed: a missing run gives "not run", a failed one at
        best "inconclusive"."""
        if not self.asks(claim):
            return Finding("not run", remark="not asked in this setting")
        arms = [self.arms[name] for name in claim.test.needs(self)]
        missing = sum(arm.missing for arm in arms)
        if missing or not all(arm.rows for arm in arms):
            return Finding("not run", remark=f"{missing} runs are missing")
        if failed := sum(arm.failed for arm in arms):
            return Finding("inconclusive", remark=f"{failed} runs failed")
        return claim.test.judge(self)


@dataclass(frozen=True)
class Evidence:
    """A study at one scale."""

    study: Study
    scale: ScaleName
    samples: Mapping[str, Sample]  # by regime
    curves: pl.DataFrame  # of all runs whose curves were kept

    @property
    def present(self) -> bool:
        """Is there anything to draw?"""
        arms = [arm for sample in self.samples.values() for arm in sample.arms.values()]
        return any(arm.missing < len(arm.rows) for arm in arms)

    def findings(self, claim: Claim) -> Mapping[str, Finding]:
        """The verdict of a claim in each regime whose plan has its arms."""
        return self._verdicts[claim.name]

    @cached_property
    def _verdicts(self) -> Mapping[str, Mapping[str, Finding]]:
        """Judged once, by claim and regime, whoever asks."""
        return {
            claim.name: {
                regime: sample.finding(claim)
                for regime, sample in self.samples.items()
                if sample.asks(claim)
            }
            for claim in self.study.claims
        }


@dataclass(frozen=True)
class Tables:
    """What is kept of the runs of one scale."""

    runs: pl.DataFrame
    curves: pl.DataFrame
    about: dict[str, Any]
    _evidence: dict[tuple[Study, ScaleName], Evidence] = field(default_factory=dict, repr=False)

    @classmethod
    def empty(cls) -> Tables:
        return cls(pl.DataFrame(), pl.DataFrame(), {})

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        return {row["run"]: row for row in self.runs.iter_rows(named=True)}

    def evidence(self, study: Study, scale: ScaleName) -> Evidence:
        """A study's arms with the rows that the tables have for them; made once."""
        if (study, scale) not in self._evidence:
            self._evidence[study, scale] = self._gather(study, scale)
        return self._evidence[study, scale]

    def _gather(self, study: Study, scale: ScaleName) -> Evidence:
        seeds = self.about.get("seeds", {}).get(study.name, study.seeds[scale])
        samples = {}
        for setting, group in groupby(plan([study], scale, seeds), lambda item: item.setting):
            specs: dict[str, list[RunSpec]] = {}
            for item in group:
                specs.setdefault(item.arm, []).append(item.spec)
            arms = {name: self._arm(name, tuple(each)) for name, each in specs.items()}
            samples[setting.regime] = Sample(setting, arms)
        return Evidence(study, scale, samples, self.curves)

    def _arm(self, name: str, specs: tuple[RunSpec, ...]) -> ArmRuns:
        return ArmRuns(name, specs, tuple(self.by_id.get(spec.id) for spec in specs))


def collect(
    paper: Paper, planned: Sequence[Planned], runs: Mapping[str, Run], base: Tables
) -> Tables:
    """Tables of the planned runs that have ended, laid over those of `base`."""
    asked_for = dict.fromkeys(item.spec.id for item in planned)
    ended = {name: runs[name] for name in asked_for if runs[name].ended}
    # A run is summarised for every study that uses it, whichever of them is asked for now.
    known = base.about.get("seeds", {})
    everything = [*planned]
    for scale in {item.setting.scale for item in planned}:
        for study in paper.studies:
            everything += plan([study], scale, max(study.seeds[scale], known.get(study.name, 0)))
    asked: dict[str, dict[str, Study]] = {}
    for item in everything:
        asked.setdefault(item.spec.id, {})[item.study.name] = item.study
    rows = [_row(paper, list(asked[name].values()), run) for name, run in ended.items()]
    # The same columns for every kept curve: studies may share a run.
    columns = sorted({column for study in paper.studies for column in study.curves})
    wanted = dict.fromkeys(i.spec.id for i in everything if i.arm in i.study.curve_arms)
    kept = [name for name in wanted if name in ended]
    curves = [_thin(ended[name], columns) for name in kept]
    curves += [
        study.trace(ended[name]).select(pl.lit(name).alias("run"), pl.all())
        for name in kept
        for study in asked[name].values()
        if study.trace
    ]
    seeds = dict(known)  # fewer than before are not asked for: what was run counts
    for item in planned:
        seeds[item.study.name] = max(seeds.get(item.study.name, 0), item.seed + 1)
    segments = [s for run in ended.values() for s in run.provenance["segments"]]
    versions = segments[-1]["versions"] if segments else base.about.get("versions", {})
    about = {**base.about, "seeds": seeds, "versions": versions}
    made = pl.DataFrame(rows, infer_schema_length=None) if rows else base.runs
    return Tables(_lay_over(base.runs, made), _lay_over(base.curves, *curves), about)


def _lay_over(old: pl.DataFrame, *new: pl.DataFrame) -> pl.DataFrame:
    """Rows of `new`, and those of `old` about other runs, in a fixed order."""
    fresh = [frame for frame in new if len(frame)]
    if not fresh:
        return old
    renewed = pl.concat(fresh, how="diagonal_relaxed")
    if len(old):
        kept = old.filter(~pl.col("run").is_in(renewed["run"].implode()))
        renewed = pl.concat([kept, renewed], how="diagonal_relaxed")
    return renewed.sort(["run", "epoch"] if "epoch" in renewed.columns else ["run"])


def _row(paper: Paper, studies: Sequence[Study], run: Run) -> dict[str, Any]:
    outcome = run.outcome
    row: dict[str, Any] = {
        "run": run.id,
        "seed": run.spec.seed,
        "spec": json.dumps(run.spec.changed(), sort_keys=True),
        "status": outcome["status"],
        "ended_by": outcome["ended_by"],
        "epochs": outcome["epochs"],
        **event_times(outcome),
        "seconds": round(run.seconds, 1),
        "commit": run.provenance["segments"][-1]["commit"] or "unknown",
        **outcome["final"],
    }
    if outcome["status"] == "finished":
        row |= paper.summarise(run)
        for study in studies:
            row |= study.summarise(run) if study.summarise else {}
    return row


def event_times(outcome: Mapping[str, Any]) -> dict[str, int | None]:
    """The epoch of every event that the outcome tells of; None where it was not seen."""
    events = {n: e for n, e in outcome.items() if isinstance(e, Mapping) and "threshold" in e}
    return {name: event["epoch"] for name, event in events.items()}


def _thin(run: Run, columns: Sequence[str]) -> pl.DataFrame:
    curve = run.curve
    index = np.unique(np.linspace(0, len(curve) - 1, CURVE_ROWS).round().astype(int))
    measured = [column for column in columns if column in curve.columns]
    return curve[index].select(pl.lit(run.id).alias("run"), "epoch", *measured)


def read_tables(folder: Path) -> Tables:
    """The tables of a scale; empty ones where there are none."""
    frames, about = read_frames(folder)
    if "runs" not in frames:
        return Tables.empty()
    return Tables(frames["runs"], frames.get("curves", Tables.empty().curves), about)


def write_tables(tables: Tables, folder: Path) -> None:
    write_frames({"runs": tables.runs, "curves": tables.curves}, tables.about, folder)


def read_frames(folder: Path) -> tuple[Frames, dict[str, Any]]:
    """Every table of a folder by name, and how they came about."""
    paths = sorted(folder.glob("*.parquet"))
    try:
        frames = {path.stem: pl.read_parquet(path) for path in paths}
        return frames, json.loads((folder / ABOUT).read_text()) if paths else {}
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"The tables in {folder} cannot be read: {error}.") from error


def write_frames(frames: Frames, about: Mapping[str, Any], folder: Path) -> None:
    from grokscope.store.files import write_file

    for name, frame in frames.items():
        if len(frame):
            frame.write_parquet(buffer := io.BytesIO(), compression="zstd")
            write_file(folder / f"{name}.parquet", buffer.getvalue())
    write_file(folder / ABOUT, f"{json.dumps(about, indent=1, sort_keys=True)}\n".encode())
