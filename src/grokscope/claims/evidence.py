"""From the store to compact tables, and from the tables to what a claim looks at.

Verdicts and figures see nothing but these tables, so that anyone can remake the pages without
training, and a test can check that the committed pages are what the committed tables give.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from grokscope.claims.looks import ERROR, LOOKS, Look, looks_up_to
from grokscope.claims.studies import Paper, Planned, ScaleName, Setting, Study, plan, plan_setting
from grokscope.claims.verdicts import Finding, median
from grokscope.errors import StoreError
from grokscope.probes.readings import Reading, read_all
from grokscope.spec import Spec

if TYPE_CHECKING:
    from grokscope.claims.studies import Claim
    from grokscope.engine.executors import Executor
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
    specs: tuple[Spec, ...]
    rows: tuple[Mapping[str, Any] | None, ...]

    @property
    def spec(self) -> Any:
        """That of the first seed, of whichever kind the paper's runs are."""
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

    @property
    def finished(self) -> np.ndarray:  # (seeds,) bool
        sound = [row is not None and row["status"] == "finished" for row in self.rows]
        return np.array(sound, bool)

    def values(self, column: str) -> np.ndarray:  # (seeds,)
        """A column as numbers; NaN where a run has none."""
        found = [None if row is None else row.get(column) for row in self.rows]
        return np.array([np.nan if value is None else value for value in found], float)

    def median(self, column: str, over: str = "") -> float:
        """Of a column over the runs that have a number, or of its ratio to another."""
        values = self.values(column)
        return median(values / self.values(over) if over else values)

    def times(self, event: Event | str = GROKKING) -> np.ndarray:  # (seeds,)
        """Times of an event (or of its column); infinite where it was not seen in the budget."""
        times = self.values(event if isinstance(event, str) else event.column)
        return np.where(np.isnan(times), np.inf, times)


@dataclass(frozen=True)
class Sample:
    """All arms of a study in one setting."""

    setting: Setting
    arms: Mapping[str, ArmRuns]
    error: float = ERROR  # that each bound of an interval may make at this look

    def first(self, look: Look) -> Sample:
        """What is seen at a look: the first seeds of every arm."""
        arms = {
            name: ArmRuns(name, arm.specs[: look.seeds], arm.rows[: look.seeds])
            for name, arm in self.arms.items()
        }
        return Sample(self.setting, arms, look.error)

    def values(self, arm: str, column: str) -> np.ndarray:  # (seeds,)
        """A column of an arm; NaN where a run has no number, or has failed."""
        runs = self.arms[arm]
        return np.where(runs.finished, runs.values(column), np.nan)

    def times(self, arm: str, event: Event = GROKKING) -> np.ndarray:  # (seeds,)
        """Event times of an arm: infinite where it was not seen, NaN where a run has failed."""
        runs = self.arms[arm]
        return np.where(runs.finished, runs.times(event), np.nan)

    @property
    def budget(self) -> int:
        return self.setting.base.training.epochs

    def asks(self, claim: Claim) -> bool:
        """Does the plan have the arms that the claim is about?"""
        needed = claim.test.needs(self)
        return bool(needed) and all(name in self.arms for name in needed)

    def finding(self, claim: Claim) -> Finding:
        """The verdict of a claim at the first look that decides it, or at the last look whose runs
        are all there. It fails closed: a run missing at the first look gives "not run", a failed
        one is a number that is missing."""
        if not self.asks(claim):
            return Finding("not run", remark="not asked in this setting")
        names = claim.test.needs(self)
        found = Finding("not run", remark="no seeds")
        for look in looks_up_to(min(len(self.arms[name].rows) for name in names)):
            seen = self.first(look)
            arms = [seen.arms[name] for name in names]
            if missing := sum(arm.missing for arm in arms):
                remark = f"{missing} runs are missing"
                return found if found.seeds else Finding("not run", remark=remark)
            if not look.seeds:
                break
            column = getattr(claim.test, "column", "")
            rows = [row for arm in arms for row in arm.rows if row is not None]
            if column and not any(column in row for row in rows):
                # The tables are older than the measure: the runs have to be read again.
                return Finding("not run", remark=f"the tables do not have “{column}” yet")
            found = claim.test.judge(seen)
            failed = sum(arm.failed for arm in arms)
            remark = "; ".join([found.remark] * bool(found.remark) + [f"{failed} runs failed"])
            p = None if found.p is None else min(1.0, found.p + look.before)
            found = replace(found, p=p, seeds=look.seeds, remark=remark if failed else found.remark)
            if found.ruling != "inconclusive":
                break
        return found


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

    def finished(self, *names: str) -> list[tuple[str, Sample]]:
        """The regimes in which every run of the named arms (or of all) has finished."""
        return [
            (regime, sample)
            for regime, sample in self.samples.items()
            if all(n in sample.arms and sample.arms[n].sound for n in names or sample.arms)
        ]

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

    @cached_property
    def traced(self) -> frozenset[str]:
        """The runs whose curves were kept."""
        return frozenset(self.curves["run"] if len(self.curves) else ())

    def evidence(self, study: Study, scale: ScaleName) -> Evidence:
        """A study's arms with the rows that the tables have for them; made once."""
        if (study, scale) not in self._evidence:
            self._evidence[study, scale] = self._gather(study, scale)
        return self._evidence[study, scale]

    def _gather(self, study: Study, scale: ScaleName) -> Evidence:
        fixed = self.about.get("seeds", {}).get(study.name)
        looks = self.about.get("looks", {}).get(study.name, {})
        samples = {}
        for setting in study.settings(scale):
            specs: dict[str, list[Spec]] = {}
            for item in plan_setting(study, setting, looks.get(setting.regime, fixed)):
                specs.setdefault(item.arm, []).append(item.spec)
            first = len(study.seeds_at(scale, fixed))
            arms = {name: self._arm(name, tuple(each), first) for name, each in specs.items()}
            samples[setting.regime] = Sample(setting, arms)
        return Evidence(study, scale, samples, self.curves)

    def _arm(self, name: str, specs: tuple[Spec, ...], first: int) -> ArmRuns:
        """Up to the first seeds, or to the look to which its last run belongs: later looks need
        only the arms of claims that were open."""
        rows = tuple(self.by_id.get(spec.id) for spec in specs)
        last = max((n for n, row in enumerate(rows, start=1) if row is not None), default=0)
        n = min((look for look in LOOKS if look >= last), default=last) if last > first else first
        return ArmRuns(name, specs[:n], rows[:n])


def collect(
    paper: Paper,
    planned: Sequence[Planned],
    runs: Mapping[str, Run],
    base: Tables,
    later: bool = False,
    executor: Executor | None = None,
) -> Tables:
    """Tables of the planned runs that have ended, laid over those of `base`. Runs of a `later` look
    do not change how many seeds a study has at first."""
    asked_for = dict.fromkeys(item.spec.id for item in planned)
    ended = {name: runs[name] for name in asked_for if runs[name].ended}
    # A run is summarised for every study that uses it, whichever of them is asked for now.
    known = base.about.get("seeds", {})
    everything = [*planned]
    for scale in {item.setting.scale for item in planned}:
        for study in paper.studies:
            least = max(len(study.seeds_at(scale)), known.get(study.name, 0))
            most = max((_number(item) for item in planned), default=0) if later else 0
            everything += plan([study], scale, max(least, most))
    users: dict[str, dict[str, Study]] = {}
    for item in everything:
        users.setdefault(item.spec.id, {})[item.study.name] = item.study
    wanted = dict.fromkeys(i.spec.id for i in everything if i.arm in i.study.curve_arms)
    kept = [name for name in wanted if name in ended]
    readings = {name: [_summary(paper, users[name].values())] for name in ended}
    for name in kept:
        traces = {s.name: s.trace for s in users[name].values() if s.trace}
        readings[name] += [Reading(f"trace-{study}", (trace,)) for study, trace in traces.items()]
    found = read_all([(ended[name], each) for name, each in readings.items()], executor)
    tables = dict(zip(readings, found, strict=True))
    shared = _read_together(everything, ended)
    rows = [
        _row(run) | dict(next(tables[name][0].iter_rows(named=True), {})) | shared.get(name, {})
        for name, run in ended.items()
    ]
    # The same columns for every kept curve: studies may share a run.
    columns = sorted({column for study in paper.studies for column in study.curves})
    curves = [_thin(ended[name], columns) for name in kept]
    curves += [
        table.select(pl.lit(name).alias("run"), pl.all())
        for name in kept
        for table in tables[name][1:]
        if len(table)
    ]
    seeds = dict(known)  # fewer than before are not asked for: what was run counts
    looks: dict[str, dict[str, int]] = {n: dict(w) for n, w in base.about.get("looks", {}).items()}
    for item in planned:
        name, regime, number = item.study.name, item.setting.regime, _number(item)
        if later:
            reached = looks.setdefault(name, {})
            reached[regime] = max(reached.get(regime, 0), number)
        else:
            seeds[name] = max(seeds.get(name, 0), number)
    segments = [s for run in ended.values() for s in run.provenance["segments"]]
    versions = segments[-1]["versions"] if segments else base.about.get("versions", {})
    about = {**base.about, "seeds": seeds, "versions": versions}
    about |= {"looks": looks} if looks else {}
    made = pl.DataFrame(rows, infer_schema_length=None) if rows else base.runs
    return Tables(_lay_over(base.runs, made), _lay_over(base.curves, *curves), about)


def _summary(paper: Paper, studies: Iterable[Study]) -> Reading:
    functions = (paper.summarise, *(study.summarise for study in studies))
    return Reading("summary", tuple(function for function in functions if function))


def _read_together(planned: Sequence[Planned], runs: Mapping[str, Run]) -> dict[str, dict]:
    """By run, what the seeds of its group have together; nothing for a group of one, or one of
    which a run is missing or has failed."""
    groups: dict[tuple, list[str]] = {}
    for item in dict.fromkeys(item for item in planned if item.study.together):
        place = (_number(item) - 1) // len(item.study.seeds_at(item.setting.scale))
        key = (item.study, item.setting.scale, item.setting.regime, item.arm, place)
        groups.setdefault(key, []).append(item.spec.id)
    found: dict[str, dict] = {}
    for (study, scale, *_), names in groups.items():
        members = [runs[name] for name in names if name in runs and runs[name].status == "finished"]
        if len(members) == len(study.seeds_at(scale)) > 1:
            numbers = study.together(members)
            for name in names:
                found.setdefault(name, {}).update(numbers)
    return found


def _number(item: Planned) -> int:
    """How many seeds there are up to this one, in the study's order."""
    named = item.study.seeds_at(item.setting.scale)
    order = item.study.seeds_at(item.setting.scale, max(len(named), item.seed + len(named) + 1))
    return order.index(item.seed) + 1


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


def _row(run: Run) -> dict[str, Any]:
    outcome = run.outcome
    kind = {key: name for key, name in run.spec.to_dict().items() if key == "kind"}
    return {
        "run": run.id,
        "seed": run.spec.seed,
        "spec": json.dumps(kind | run.spec.changed(), sort_keys=True),
        "status": outcome["status"],
        "ended_by": outcome["ended_by"],
        "epochs": outcome["epochs"],
        **event_times(outcome),
        "seconds": round(run.seconds, 1),
        "commit": run.provenance["segments"][-1]["commit"] or "unknown",
        **outcome["final"],
    }


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
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"The tables in {folder} cannot be read: {error}.") from error
    return frames, read_about(folder) if paths else {}


def read_about(folder: Path) -> dict[str, Any]:
    """How the tables of a folder came about; empty if there are none."""
    try:
        return json.loads((folder / ABOUT).read_text()) if folder.exists() else {}
    except (OSError, ValueError) as error:
        raise StoreError(f"The tables in {folder} cannot be read: {error}.") from error


def write_frames(frames: Frames, about: Mapping[str, Any], folder: Path) -> None:
    from grokscope.store.files import write_file

    for name, frame in frames.items():
        if len(frame):
            frame.write_parquet(buffer := io.BytesIO(), compression="zstd")
            write_file(folder / f"{name}.parquet", buffer.getvalue())
    write_file(folder / ABOUT, f"{json.dumps(about, indent=1, sort_keys=True)}\n".encode())
