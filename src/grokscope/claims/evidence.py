"""From the store to compact tables, and from the tables to what a claim looks at.

Verdicts and figures see nothing but these tables, so that anyone can make the pages again without
training, and a test can check that the committed pages are what the committed tables give.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grokscope.claims.studies import Paper, Planned, ScaleName, Setting, Study, plan
from grokscope.claims.verdicts import Finding
from grokscope.errors import StoreError
from grokscope.spec import RunSpec

if TYPE_CHECKING:
    import polars as pl

    from grokscope.claims.studies import Claim
    from grokscope.store import Run, Store

RUNS, CURVES, ABOUT = "runs.parquet", "curves.parquet", "about.json"
CURVE_ROWS = 120  # rows of a kept curve, evenly thinned; enough for a figure


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
    def complete(self) -> bool:
        return all(row is not None for row in self.rows)

    @property
    def sound(self) -> bool:
        """Has every run finished?"""
        return self.complete and not self.failed

    @property
    def failed(self) -> int:
        return sum(row is not None and row["status"] != "finished" for row in self.rows)

    def values(self, column: str) -> np.ndarray:  # (seeds,)
        """A column as numbers; NaN where a run has none."""
        found = [None if row is None else row.get(column) for row in self.rows]
        return np.array([np.nan if value is None else value for value in found], float)

    def times(self, column: str = "grokked") -> np.ndarray:  # (seeds,)
        """Event times; infinite where the event was not seen within the budget."""
        times = self.values(column)
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
        return any(
            row is not None
            for sample in self.samples.values()
            for arm in sample.arms.values()
            for row in arm.rows
        )

    def findings(self, claim: Claim) -> dict[str, Finding]:
        """The verdict of a claim in each regime whose plan has its arms. It fails closed: a missing
        run gives "not run", a failed one at best "inconclusive"."""
        chosen = claim.regimes or tuple(self.samples)
        asked = {
            regime: sample
            for regime, sample in self.samples.items()
            if regime in chosen and sample.asks(claim)
        }
        return {regime: judge(claim, sample) for regime, sample in asked.items()}


def judge(claim: Claim, sample: Sample) -> Finding:
    """The verdict of a claim in one setting; it fails closed."""
    if not sample.asks(claim):
        return Finding("not run", remark="not asked in this setting")
    arms = [sample.arms[name] for name in claim.test.needs(sample)]
    missing = sum(row is None for arm in arms for row in arm.rows)
    if missing or not all(arm.rows for arm in arms):
        return Finding("not run", remark=f"{missing} runs are missing")
    failed = sum(arm.failed for arm in arms)
    if failed:
        return Finding("inconclusive", remark=f"{failed} runs failed")
    return claim.test.judge(sample)


@dataclass(frozen=True)
class Tables:
    """What is kept of the runs of one scale."""

    runs: pl.DataFrame
    curves: pl.DataFrame
    about: dict[str, Any]

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        return {row["run"]: row for row in self.runs.iter_rows(named=True)}

    def evidence(self, study: Study, scale: ScaleName) -> Evidence:
        """A study's arms with the rows that the tables have for them."""
        seeds = self.about.get("seeds", {}).get(study.name, study.seeds[scale])
        samples: dict[str, Sample] = {}
        grouped: dict[str, tuple[Setting, dict[str, list[Planned]]]] = {}
        for item in plan([study], scale, seeds):
            setting, arms = grouped.setdefault(item.setting.regime, (item.setting, {}))
            arms.setdefault(item.arm, []).append(item)
        for regime, (setting, arms) in grouped.items():
            samples[regime] = Sample(
                setting,
                {
                    name: ArmRuns(
                        name,
                        tuple(item.spec for item in items),
                        tuple(self.by_id.get(item.spec.id) for item in items),
                    )
                    for name, items in arms.items()
                },
            )
        return Evidence(study, scale, samples, self.curves)


def collect(paper: Paper, planned: Sequence[Planned], store: Store, base: Tables) -> Tables:
    """Tables of the planned runs that have ended, laid over those of `base`."""
    import polars as pl

    specs = {item.spec.id: item.spec for item in planned}
    found = {name: store.find(spec) for name, spec in specs.items()}
    ended = {name: run for name, run in found.items() if run.ended}
    # A run is summarised for every study that uses it, whichever of them is asked for now.
    scales = {item.setting.scale for item in planned}
    known = base.about.get("seeds", {})
    everything = [
        *planned,
        *(
            item
            for scale in scales
            for study in paper.studies
            for item in plan([study], scale, max(study.seeds[scale], known.get(study.name, 0)))
        ),
    ]
    asked: dict[str, dict[str, Study]] = {}
    for item in everything:
        asked.setdefault(item.spec.id, {})[item.study.name] = item.study
    rows = [_row(paper, list(asked[name].values()), run) for name, run in ended.items()]
    # The same columns for every kept curve: studies may share a run.
    columns = sorted({column for study in paper.studies for column in study.curves})
    wanted = dict.fromkeys(i.spec.id for i in everything if i.arm in i.study.curve_arms)
    curves = [_thin(ended[name], columns) for name in wanted if name in ended]
    curves += [
        study.trace(ended[name]).select(pl.lit(name).alias("run"), pl.all())
        for name in wanted
        if name in ended
        for study in asked[name].values()
        if study.trace
    ]
    segments = [s for run in ended.values() for s in run.provenance["segments"]]
    about = {
        **base.about,
        "seeds": _most_seeds(base.about.get("seeds", {}), planned),
        "versions": segments[-1]["versions"] if segments else base.about.get("versions", {}),
    }
    runs = pl.DataFrame(rows, infer_schema_length=None) if rows else base.runs
    return Tables(_lay_over(base.runs, runs), _lay_over(base.curves, *curves), about)


def _most_seeds(known: Mapping[str, int], planned: Sequence[Planned]) -> dict[str, int]:
    """Seeds of each study. Fewer than before are not asked for: what was run counts."""
    seeds = dict(known)
    for item in planned:
        seeds[item.study.name] = max(seeds.get(item.study.name, 0), item.seed + 1)
    return seeds


def _lay_over(old: pl.DataFrame, *new: pl.DataFrame) -> pl.DataFrame:
    """Rows of `new`, and those of `old` about other runs, in a fixed order."""
    import polars as pl

    fresh = [frame for frame in new if len(frame)]
    if not fresh:
        return old
    renewed = pl.concat(fresh, how="diagonal_relaxed")
    if len(old):
        kept = old.filter(~pl.col("run").is_in(renewed["run"].implode()))
        renewed = pl.concat([kept, renewed], how="diagonal_relaxed")
    order = ["run", "epoch"] if "epoch" in renewed.columns else ["run"]
    return renewed.sort(order)


def _row(paper: Paper, studies: Sequence[Study], run: Run) -> dict[str, Any]:
    outcome = run.outcome
    row: dict[str, Any] = {
        "run": run.id,
        "seed": run.spec.seed,
        "spec": json.dumps(run.spec.changed(), sort_keys=True),
        "status": outcome["status"],
        "ended_by": outcome["ended_by"],
        "epochs": outcome["epochs"],
        "memorised": outcome["memorised"]["epoch"],
        "grokked": outcome["grokked"]["epoch"],
        "seconds": round(run.seconds, 1),
        "commit": run.provenance["segments"][-1]["commit"] or "unknown",
        **outcome["final"],
    }
    if outcome["status"] == "finished":
        row |= paper.summarise(run)
        for study in studies:
            row |= study.summarise(run) if study.summarise else {}
    return row


def _thin(run: Run, columns: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    curve = run.curve
    index = np.unique(np.linspace(0, len(curve) - 1, CURVE_ROWS).round().astype(int))
    return curve[index].select(pl.lit(run.id).alias("run"), "epoch", *columns)


def read_tables(folder: Path) -> Tables:
    """The tables of a scale; empty ones where there are none."""
    import polars as pl

    if not (folder / RUNS).exists():
        return Tables(pl.DataFrame(), pl.DataFrame(), {})
    try:
        return Tables(
            pl.read_parquet(folder / RUNS),
            pl.read_parquet(folder / CURVES) if (folder / CURVES).exists() else pl.DataFrame(),
            json.loads((folder / ABOUT).read_text()),
        )
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"The tables in {folder} cannot be read: {error}.") from error


def write_tables(tables: Tables, folder: Path) -> None:
    import io

    from grokscope.pages.files import write_file

    for name, frame in ((RUNS, tables.runs), (CURVES, tables.curves)):
        if len(frame):
            frame.write_parquet(buffer := io.BytesIO(), compression="zstd")
            write_file(folder / name, buffer.getvalue())
    text = json.dumps(tables.about, indent=1, sort_keys=True) + "\n"
    write_file(folder / ABOUT, text.encode())
