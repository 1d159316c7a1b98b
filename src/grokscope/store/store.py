"""Runs on disk: a directory per run, named by the hash of its spec.

    spec.json              what was asked
    curve.parquet          a row per logged epoch
    weights.safetensors    the final weights
    snapshots/EPOCH.safetensors
    provenance.json        versions, machine, time: never part of the identity
    outcome.json           what became of it; its presence means finished
    resume.safetensors     only while a run is under way

Every file appears by an atomic rename, nothing is pickled, and a run under way is held by an
operating-system lock that dies with its process. The store never deletes what it did not write.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from grokscope.errors import GrokscopeError, SpecError, StoreError, suggest
from grokscope.spec import Spec, flatten
from grokscope.store.files import (
    checksum,
    damaged,
    disk_sentences,
    read_arrays,
    write_arrays,
    write_curve,
    write_json,
)
from grokscope.store.run import (
    CURVE,
    OUTCOME,
    PROVENANCE,
    RESUME,
    SNAPSHOTS,
    SPEC,
    WEIGHTS,
    Run,
)

if TYPE_CHECKING:
    import polars as pl

LOCKS, ASIDE = ".locks", "set-aside"


def default_root() -> Path:
    """$GROKSCOPE_STORE, or `runs` in the current directory."""
    return Path(os.environ.get("GROKSCOPE_STORE", "runs"))


@dataclass(frozen=True)
class Defect:
    """Something in the store that is not a sound run."""

    path: Path
    kind: Literal["damaged", "partial", "foreign"]
    sentence: str


class Store:
    """A directory of runs, safe for several processes at once."""

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()

    def __repr__(self) -> str:
        return f"<Store {self.root}>"

    # Reading

    def ids(self) -> list[str]:
        """Names of all entries that look like runs."""
        if not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:  # tells directories without asking for each
            return sorted(entry.name for entry in entries if _is_id(entry.name) and entry.is_dir())

    def runs(self) -> list[Run]:
        """Every run that can be read; what cannot is `verify`'s matter."""
        return [run for run, _ in self._read_all()]

    def _read_all(self) -> list[tuple[Run, dict[str, Any]]]:
        """Every readable run with its outcome, which is empty while there is none. Each file is
        read once."""
        found = []
        for run in map(self._run, self.ids()):
            try:
                ended = run.ended
                outcome = run.outcome if ended else {}
                if run.about is not None and (not ended or "status" in outcome):
                    found.append((run, outcome))
            except GrokscopeError:
                continue
        return found

    def get(self, name: str) -> Run:
        """The run with this name, or the only one that starts with it."""
        if _is_id(name) and (self.root / name).is_dir():
            return self._run(name)
        found = [i for i in self.ids() if i.startswith(name)] if name else []
        if not found:
            known = self.ids()
            listing = f" `grokscope runs` lists all it has ({len(known)})."
            hint = suggest(name, known, listing) if known else " It is empty."
            raise StoreError(f"There is no run {name!r} in {self.root}.{hint}")
        if len(found) > 1:
            raise StoreError(f"{name!r} is ambiguous: {', '.join(found[:5])}. Give more digits.")
        return self._run(found[0])

    def find(self, spec: Spec) -> Run:
        """The entry of a spec, present or not."""
        return self._run(spec.id)

    def table(self) -> pl.DataFrame:
        """A row per run: status, event times, final measures, and every field of the spec under
        its name with underscores (`prior_strength`)."""
        import polars as pl

        return pl.DataFrame(
            [_table_row(run, outcome) for run, outcome in self._read_all()],
            infer_schema_length=None,
        )

    def sql(self, query: str) -> pl.DataFrame:
        """SQL over two tables: `runs` (see `table`) and `curves` (every row, with its `run`)."""
        import polars as pl

        read = self._read_all()
        rows = [_table_row(run, outcome) for run, outcome in read]
        frames = {"runs": pl.LazyFrame(rows, infer_schema_length=None)}
        # Most queries ask for no curve, and reading all takes longer than the rest. They are read
        # here, one by one: Polars scans a thousand files with a thread each, and warns of it.
        curves = [
            run.curve.select(pl.lit(run.id).alias("run"), pl.all())
            for run, _ in (read if re.search(r"\bcurves\b", query, re.IGNORECASE) else [])
            if (run.path / CURVE).exists()
        ]
        if curves:
            frames["curves"] = pl.concat(curves, how="diagonal_relaxed").lazy()
        try:
            return pl.SQLContext(frames).execute(query, eager=True)
        except pl.exceptions.PolarsError as error:
            raise SpecError(f"The query failed: {str(error).splitlines()[0]}") from error

    # Writing

    @contextlib.contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Hold a run for this process; False if another one has it."""
        import filelock

        with disk_sentences(self.root):
            (self.root / LOCKS).mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.root / LOCKS / f"{name}.lock")
            try:
                lock.acquire(blocking=False)
            except filelock.Timeout:
                mine = False
            else:
                mine = True
        try:
            yield mine
        finally:
            if mine:
                lock.release()

    def begin(self, spec: Spec) -> Run:
        """The entry of a run that is about to be trained."""
        run = self._run(spec.id)
        with disk_sentences(self.root):
            run.path.mkdir(parents=True, exist_ok=True)
            if (run.path / SPEC).exists() and not _is_spec_of(run):
                self.set_aside(run.path / SPEC)
            if not (run.path / SPEC).exists():
                write_json(run.path / SPEC, spec.to_dict())
        return run

    def save_progress(
        self,
        run: Run,
        curve: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray] | None,
        provenance: Mapping[str, Any],
    ) -> None:
        """A resume point. The curve comes first: if we die in between it has rows too many, which
        `load_progress` cuts off. A training loop of the user's own keeps its `state` itself."""
        with disk_sentences(self.root):
            write_curve(run.path / CURVE, curve)
            write_json(run.path / PROVENANCE, provenance)
            if state is not None:
                write_arrays(run.path / RESUME, state)

    def load_progress(self, run: Run) -> tuple[dict[str, np.ndarray], pl.DataFrame] | None:
        """State and curve up to it, or None if there is nothing to resume."""
        if not (run.path / RESUME).exists():
            return None
        state = read_arrays(run.path / RESUME)
        curve = run.curve
        if "step" not in state or "epoch" not in curve.columns:
            raise damaged(run.path / RESUME, "it is not a resume point")
        step = int(state["step"])
        curve = curve.filter(curve["epoch"] <= step)
        if curve.is_empty() or curve["epoch"][-1] != step:
            # A row is written at every resume point, so this one is newer than the curve: copied
            # while the run was under way, or the power went. Resuming would leave a hole.
            raise damaged(run.path / RESUME, f"the curve has no row at its epoch, {step}")
        return state, curve

    def save_snapshot(self, run: Run, epoch: int, weights: Mapping[str, np.ndarray]) -> None:
        with disk_sentences(self.root):
            (run.path / SNAPSHOTS).mkdir(exist_ok=True)
            write_arrays(run.path / SNAPSHOTS / f"{epoch:08d}.safetensors", weights)

    def finish(
        self,
        run: Run,
        curve: Mapping[str, np.ndarray],
        weights: Mapping[str, np.ndarray] | None,
        outcome: Mapping[str, Any],
        provenance: Mapping[str, Any],
    ) -> None:
        """Everything, the outcome last: a run that has one is whole. `weights` may be None
        for a model of the user's own."""
        with disk_sentences(self.root):
            write_curve(run.path / CURVE, curve, durable=True)
            if weights is not None:
                write_arrays(run.path / WEIGHTS, weights, durable=True)
            write_json(run.path / PROVENANCE, provenance)
            kept = sorted((run.path / SNAPSHOTS).glob("*.safetensors"))
            names = [SPEC, CURVE, *(f"{SNAPSHOTS}/{path.name}" for path in kept)]
            names += [] if weights is None else [WEIGHTS]
            sums = {name: checksum(run.path / name) for name in names}
            write_json(run.path / OUTCOME, {**outcome, "files": sums}, durable=True)
            (run.path / RESUME).unlink(missing_ok=True)

    def set_aside(self, path: Path) -> Path:
        """Move something out of the way, into `set-aside`, without losing it."""
        with disk_sentences(self.root):
            (self.root / ASIDE).mkdir(parents=True, exist_ok=True)
            goal = self.root / ASIDE / f"{path.name}-{secrets.token_hex(3)}"
            shutil.move(path, goal)
        return goal

    # Checking

    def verify(self) -> list[Defect]:
        """Every entry read and compared with its checksums."""
        if not self.root.is_dir():
            raise StoreError(f"There is no store at {self.root}.")
        defects = []
        for path in sorted(self.root.iterdir()):
            if path.name in (LOCKS, ASIDE):
                continue
            if not (path.is_dir() and _is_id(path.name)):
                defects.append(Defect(path, "foreign", "not a run; move it elsewhere"))
            elif defect := self._check(self._run(path.name)):
                defects.append(defect)
        return defects

    def _check(self, run: Run) -> Defect | None:
        if not (run.path / SPEC).exists():
            return Defect(run.path, "foreign", f"it has no {SPEC}; move it elsewhere")
        try:
            if run.about.id != run.id:
                return Defect(run.path, "foreign", f"its spec belongs to run {run.about.id}")
            if not run.ended:
                return Defect(run.path, "partial", self._progress(run))
            sums = run.outcome["files"]
            for name, expected in sums.items():
                if checksum(run.path / name) != expected:
                    return Defect(run.path / name, "damaged", "its checksum is wrong")
        except (GrokscopeError, OSError, KeyError, TypeError, ValueError) as error:
            return Defect(run.path, "damaged", str(error).rstrip("."))
        return None

    def _progress(self, run: Run) -> str:
        """How far a run came that has no outcome, and how it resumes."""
        if not run.about.problem:
            rows = run.curve["epoch"][-1] if (run.path / CURVE).exists() else 0
            return f"watched up to step {rows}; its training loop is under way or was interrupted"
        done = self.load_progress(run)
        rows = 0 if done is None else int(done[0]["step"])
        return (
            f"under way or interrupted at epoch {rows} of {run.spec.training.epochs}; training the "
            "same spec again resumes it"
        )

    def _run(self, name: str) -> Run:
        return Run(self.root / name)


def _table_row(run: Run, outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": run.id,
        "status": outcome.get("status", "partial"),
        "epochs": outcome.get("epochs"),
        **{rule.name: outcome.get(rule.name, {}).get("epoch") for rule in run.about.events()},
        **outcome.get("final", {}),
        **{name.replace(".", "_"): value for name, value in flatten(run.about.to_dict())},
    }


def _is_id(name: str) -> bool:
    return len(name) == 16 and all(c in "0123456789abcdef" for c in name)


def _is_spec_of(run: Run) -> bool:
    try:
        return run.about.id == run.id
    except GrokscopeError:
        return False
