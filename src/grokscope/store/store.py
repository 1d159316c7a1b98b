"""Runs on disk: a directory per run, named by the hash of its spec.

    grokscope-store.json   the marker of a store, with the version of its format
    .index/runs            a cache of what the runs say (see `index`)
    ID/spec.json           what was asked
    ID/curve.parquet       a row per logged epoch
    ID/weights.safetensors the final weights
    ID/memory.safetensors  the rest of the final state, from which longer training goes on
    ID/snapshots/EPOCH.safetensors
    ID/provenance.json     versions, machine, time: never part of the identity
    ID/notes.json          a name, tags, a note: what people say of it
    ID/outcome.json        what became of it, with everyone's checksums; its presence means ended
    ID/resume.safetensors  only while a run is under way: state, curve and provenance, sealed

Every file appears by an atomic rename, nothing is pickled, and a run under way is held by a lease
(see `leases`). What outcome.json vouches for is on the disk before it. The store never deletes what
it did not write.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grokscope.errors import GrokscopeError, LeaseLost, SpecError, StoreError, first_line, suggest
from grokscope.notebook import html_table
from grokscope.spec import Spec
from grokscope.store import files
from grokscope.store.annotations import NOTES, peek_annotation
from grokscope.store.contents import FILE, check_provenance
from grokscope.store.feed import Changes, Moment, find_changes
from grokscope.store.index import ARM, INDEX, WRITTEN, Index, make_frame, without_bookkeeping
from grokscope.store.leases import EXPIRY, Holder, Leases
from grokscope.store.place import default_root
from grokscope.store.run import (
    CURVE,
    MEMORY,
    OUTCOME,
    PROBES,
    PROVENANCE,
    RESUME,
    SNAPSHOTS,
    SPEC,
    WEIGHTS,
    Run,
    is_id,
    snapshot_name,
)

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

LOCKS, ASIDE, TRASH, MARKER = ".locks", "set-aside", "trash", "grokscope-store.json"
UNCLAIMED = re.compile(rf"\.({re.escape(NOTES)}|{re.escape(MARKER)})\.")
STRAY = re.compile(r"\.runs\.[0-9a-f]{8}|\..+\.\d+\.[0-9a-f]{8}|arrived-[0-9a-f]{8}")
"""Temporary names in `.index` and `.locks`."""
ROWS = "curve/"  # before the names of a curve's columns in a resume point


@dataclass(frozen=True)
class Defect:
    """Something in the store that is not a sound run."""

    path: Path
    kind: Literal["damaged", "partial", "foreign", "leftover"]
    sentence: str
    moved: Path | None = None
    """Where `verify` put it."""


class Store:
    """A directory of runs, safe for several processes at once."""

    def __init__(self, root: str | Path | None = None) -> None:
        self.root = (Path(root) if root is not None else default_root()).expanduser().absolute()
        self.left_out: dict[Path, str] = {}
        """Entries that the last listing could not read, and why."""
        self._index = Index(self.root, self._read_row)
        self._leases = Leases(self.root / LOCKS)

    def __repr__(self) -> str:
        return f"<Store {self.root}>"

    def _repr_html_(self) -> str:
        """The newest runs, and the fields in which they differ."""
        table = self.table()
        if not len(table):
            return html_table(f"No runs in {self.root}", [])
        table = table.sort("started", descending=True, nulls_last=True)
        newest = table.head(20)
        specs = [self.get(name).about.effective() for name in newest["run"]]
        fields = [
            name.replace(".", "_")
            for name in dict.fromkeys(name for spec in specs for name in spec)
            if len({repr(spec[name]) for spec in specs if spec.get(name) is not None}) > 1
        ]
        first = ("run", "name", "tags", "status", "memorised", "grokked", "test_accuracy")
        names = [name for name in (*first, *fields) if name in newest.columns]
        title = f"{len(table)} runs in {self.root}"
        return html_table(title, newest.select(names).rows(), names)

    # Reading

    def ids(self) -> list[str]:
        """Names of all entries that look like runs."""
        if not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:  # tells directories without asking for each
            return sorted(entry.name for entry in entries if is_id(entry.name) and entry.is_dir())

    def runs(self) -> list[Run]:
        """Every run that can be read; what cannot is named in `left_out`."""
        return [self._run(name) for name in self._look()["run"]]

    def newest(self, names: Collection[str], count: int) -> list[Run]:
        """The `count` of these runs that ended last, or had not ended at the last listing; the
        newest last."""
        import polars as pl

        asked = pl.col("run").is_in(pl.Series(names, dtype=pl.String).implode())
        # Not all columns: they are many.
        seen = self._index.frame.select("run", WRITTEN).filter(asked)
        when = pl.when(pl.col(WRITTEN) == 0).then(2**62).otherwise(pl.col(WRITTEN))
        return [self._run(name) for name in seen.sort(when, "run")["run"].tail(count)]

    def changes(self, since: Moment | None = None) -> Changes:
        """Runs that are new or have new rows, and those that are gone, without reading what is old:
        `changes = store.changes(changes.until)`. The first call finds every run."""
        return find_changes(self.root, since or Moment())

    def _look(self) -> pl.DataFrame:
        """A row per readable run. What has not changed since the last look is not read again."""
        self._is_marked()
        found = self._index.look(self.ids())
        self.left_out = {self.root / n: why for n, why in self._index.left_out.items()}
        return found

    def _read_row(self, name: str) -> tuple[dict[str, Any], bool]:
        """The row of a run, checked, and whether other processes could read it as well."""
        run = self._run(name)
        return _table_row(run), is_ours(run.about)

    def get(self, name: str) -> Run:
        """The run with this name, the only one that starts with it, or the one that was given it
        as a name (by `Run.annotate` or an `Observer`)."""
        if is_id(name) and (self.root / name).is_dir():
            return self._run(name)
        known = self.ids()
        found = [i for i in known if i.startswith(name)] if name else []
        if name and not found:
            found = self.named(name)
        if not found:
            listing = f" `grokscope runs` lists {'all ' * (len(known) > 1)}{len(known)}."
            hint = suggest(name, known, listing) if known else " It is empty."
            raise StoreError(f"There is no run {name!r} in {self.root}.{hint}")
        if len(found) > 1:
            what = "Give more digits" if found[0].startswith(name) else "Several have this name"
            raise StoreError(f"{name!r} is ambiguous: {', '.join(found[:5])}. {what}.")
        return self._run(found[0])

    def named(self, name: str) -> list[str]:
        """The runs that were given this name, and models of the user's own that have it."""
        table = self._look()
        rows = table.select("run", "name").iter_rows() if len(table) else ()
        return [run for run, given in rows if given == name]

    def find(self, spec: Spec) -> Run:
        """The entry of a spec, present or not."""
        return self._run(spec.id)

    def table(self, names: Iterable[str] | None = None) -> pl.DataFrame:
        """A row per run: status, event times, final measures, and every field of the spec under
        its name with underscores (`prior_strength`), null where it has no effect. With `names`, of
        those that can be read, with the columns of the last listing."""
        import polars as pl

        if names is None:
            return without_bookkeeping(self._look())
        rows = []
        for name in names:
            with contextlib.suppress(GrokscopeError):
                rows.append(self._read_row(name)[0])
        frame, known = make_frame(rows), without_bookkeeping(self._index.frame).schema
        if not rows:
            return frame
        frame = frame.drop(ARM)
        absent = {n: kind for n, kind in known.items() if n not in frame.columns}
        return frame.with_columns(pl.lit(None, kind).alias(n) for n, kind in absent.items())

    def recall(self, names: Iterable[str]) -> pl.DataFrame:
        """Rows of those runs that the index has as they are now, with its own columns."""
        return self._index.recall(names)

    def sql(self, query: str, table: pl.DataFrame | None = None) -> pl.DataFrame:
        """SQL over two tables: `runs` (see `table`; or the one given) and `curves` (every row, with
        its `run`)."""
        import polars as pl

        if reader := re.search(r"\bread_\w+", query, re.IGNORECASE):
            raise SpecError(
                f"The query names {reader[0]}; it may ask the tables runs and curves, no files."
            )
        table = self.table() if table is None else table
        frames = {"runs": table.lazy()}
        # Most queries ask for no curve, and reading all takes longer than the rest.
        if len(table) and re.search(r"\bcurves\b", query, re.IGNORECASE):
            frames |= self._gather_curves(map(self._run, table["run"]))
        try:
            return pl.SQLContext(frames).execute(query, eager=True)
        except pl.exceptions.PolarsError as error:
            words = first_line(error)
            if isinstance(error, pl.exceptions.ColumnNotFoundError):  # it would list every column
                name = words.partition('"')[2].partition('"')[0]
                hint = suggest(name, table.columns, " `grokscope columns` explains all.")
                words = f"there is no column {name!r}.{hint}"
            raise SpecError(f"The query failed: {words}") from error

    def _gather_curves(self, runs: Iterable[Run]) -> dict[str, pl.LazyFrame]:
        """The table `curves`, if there is any row; those that cannot be read are left out. Each is
        read by itself: Polars scans a thousand files with a thread each, and warns of it."""
        import polars as pl

        curves: list[pl.DataFrame] = []
        for run in runs:
            try:
                if (run.path / CURVE).exists():
                    curves.append(run.curve.select(pl.lit(run.id).alias("run"), pl.all()))
            except GrokscopeError as error:
                self.left_out[run.path] = str(error)
        # What is a list in one run is a list in all of them: a measure of the user's own may be
        # a number here and a list there.
        nested = {n for curve in curves for n, kind in curve.schema.items() if kind.is_nested()}
        curves = [c.with_columns(pl.concat_list(n) for n in nested & {*c.columns}) for c in curves]
        return {"curves": pl.concat(curves, how="diagonal_relaxed").lazy()} if curves else {}

    # Writing

    @contextlib.contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Hold a run for this process; False if another one has it (see `holder`). What is written
        through this store meanwhile raises `LeaseLost` once somebody had to take over."""
        with files.disk_sentences(self.root):
            lease = self._leases.take(name)
        try:
            if lease is not None and lease.follows:
                with files.disk_sentences(self.root):
                    _remove(_leftovers(self.root / name))
            yield lease is not None
        finally:
            if lease is not None:
                self._leases.give_back(name)

    def holder(self, name: str) -> Holder | None:
        """Who has a run that could not be claimed, or had it when they died."""
        return self._leases.holder(name)

    def is_held(self, name: str) -> bool:
        """Does some process work on a run now? Where we may not look nobody can tell."""
        with contextlib.suppress(PermissionError):
            return self._leases.is_held(name)
        return False

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Within, nothing appears in a run that somebody else has taken over; disk trouble becomes
        a sentence."""
        token = files.FENCE.set(self._leases.fence(name))
        try:
            with files.disk_sentences(self.root):
                yield
        finally:
            files.FENCE.reset(token)

    def _mark(self) -> None:
        """Say that this is a store."""
        files.make_directory(self.root)
        if not self._is_marked():
            files.write_json(self.root / MARKER, {"format": files.FORMAT}, durable=True)

    def begin(self, spec: Spec) -> Run:
        """The entry of a run that is about to be trained."""
        run = self._run(spec.id)
        with self._writing(run.id):
            self._mark()
            files.make_directory(run.path, self.root)
            if (run.path / SPEC).exists() and not _is_spec_of(run):
                self.set_aside(run.path / SPEC)
            if not (run.path / SPEC).exists():
                files.write_json(run.path / SPEC, spec.to_dict())
        return self._run(spec.id)

    def save_progress(
        self,
        run: Run,
        curve: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray] | None,
        provenance: Mapping[str, Any],
    ) -> None:
        """A resume point: state, curve and provenance in one file, so that it is whole or not
        there, after a power loss too. Curve and provenance lie beside it for readers. A training
        loop of the user's own keeps its `state` itself, so there the curve has to last."""
        with self._writing(run.id):
            files.write_curve(run.path / CURVE, curve, durable=state is None)
            files.write_json(run.path / PROVENANCE, provenance, sealed=True)
            if state is None:
                return
            first = not (run.path / RESUME).exists()
            rows = {f"{ROWS}{name}": column for name, column in curve.items()}
            sums = {SPEC: files.checksum(run.path / SPEC), **run.kept}
            about = {"provenance": files.finite(provenance), "files": sums}
            files.write_arrays(run.path / RESUME, {**state, **rows}, durable=True, about=about)
            if first:  # later ones replace it in place
                files.sync_all([run.path / SPEC, run.path, self.root])

    def load_progress(
        self, run: Run
    ) -> tuple[dict[str, np.ndarray], pl.DataFrame, list[dict[str, Any]]] | None:
        """State, curve up to it and segments of training, or None if there is nothing to resume.
        What the resume point vouches for must be as it was."""
        path = run.path / RESUME
        if not path.exists():
            return None
        content = files.read_bytes(path)
        facts, state = files.read_facts(path, content), files.read_arrays(path, content)
        if "step" not in state or state["step"].shape != ():
            raise files.damaged(path, "it is not a resume point")
        step = int(state["step"])
        if facts is None:  # of format 1: the curve lies beside it, and may be newer
            curve, segments = run.curve, run.provenance["segments"]
            names = map(snapshot_name, run.snapshots)
            sums = {name: files.checksum(run.path / name) for name in names}
            for name in sums:  # nobody vouches for them: they must be whole, at least
                files.read_arrays(run.path / name)
        else:
            with files.sound(path):
                check_provenance(facts["provenance"])
                segments, sums = facts["provenance"]["segments"], dict(facts["files"])
            rows = {n.removeprefix(ROWS): a for n, a in state.items() if n.startswith(ROWS)}
            state = {n: a for n, a in state.items() if not n.startswith(ROWS)}
            curve = files.frame_of(rows)
            for name, expected in sums.items():
                if files.checksum(run.path / name) != expected:
                    raise files.damaged(run.path / name, "its checksum is wrong")
        curve = curve.filter(curve["epoch"] <= step) if "epoch" in curve.columns else curve.clear()
        if curve.is_empty() or curve["epoch"][-1] != step:
            # A row is written at every resume point, so this one is newer than the curve: copied
            # while the run was under way, or the power went. Resuming would leave a hole.
            raise files.damaged(path, f"the curve has no row at its epoch, {step}")
        if lacking := _lacks_snapshot(run, sums, step):
            raise files.damaged(path, f"it needs {lacking}, which was never written")
        run.kept = {name: total for name, total in sums.items() if name != SPEC}
        return state, curve, segments

    def save_snapshot(self, run: Run, epoch: int, weights: Mapping[str, np.ndarray]) -> None:
        with self._writing(run.id):
            files.make_directory(run.path / SNAPSHOTS, self.root)
            name = snapshot_name(epoch)
            total = files.write_arrays(run.path / name, weights, durable=True)
            files.DISK.sync(run.path / SNAPSHOTS)  # resume points will vouch for it
            run.kept[name] = total

    def finish(
        self,
        run: Run,
        curve: Mapping[str, np.ndarray],
        weights: Mapping[str, np.ndarray] | None,
        outcome: Mapping[str, Any],
        provenance: Mapping[str, Any],
        memory: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Everything, the outcome last: a run that has one is whole, and on the disk. The sums are
        of what was meant to be written. `weights` may be None for a model of the user's own."""
        with self._writing(run.id):
            sums = {SPEC: files.checksum(run.path / SPEC), **run.kept}
            sums[CURVE] = files.write_curve(run.path / CURVE, curve)
            if weights is not None:
                sums[WEIGHTS] = files.write_arrays(run.path / WEIGHTS, weights)
            if memory is not None:
                sums[MEMORY] = files.write_arrays(run.path / MEMORY, memory)
            sums[PROVENANCE] = files.write_json(run.path / PROVENANCE, provenance, sealed=True)
            folders = {(run.path / name).parent for name in sums}
            # Snapshots were synced when they were written, but by older versions not their names.
            kept = [*(run.path / name for name in sums if name not in run.kept), *folders]
            kept.append(self.root)
            ended = {**outcome, "files": sums}
            files.write_json(run.path / OUTCOME, ended, durable=True, sealed=True, after=kept)
            files.DISK.sync(run.path)
            files.DISK.remove(run.path / RESUME)

    def discard(self, run: Run) -> Path:
        """Move a run into `trash`; moving it back undoes that. Refused while it is trained."""
        with self.claim(run.id) as mine:
            if not mine:
                raise StoreError(f"Run {run.id} is being trained by {self.holder(run.id)}.")
            return self.set_aside(run.path, TRASH)

    def empty_trash(self) -> None:
        """Delete what was discarded, for good."""
        with files.disk_sentences(self.root):
            shutil.rmtree(self.root / TRASH, ignore_errors=not (self.root / TRASH).exists())

    def receive(self, name: str, content: Mapping[str, bytes]) -> bool:
        """A run that was trained elsewhere: its files by name. It appears as a whole, checked.
        False if somebody works on it here: it is left to them."""
        with self.claim(name) as mine, self._writing(name):
            if not mine or self._run(name).ended:
                return mine
            self._mark()
            staged = self._run(f"{LOCKS}/arrived-{secrets.token_hex(4)}/{name}")
            try:
                self._stage(staged, content)
                if (former := self._run(name).path).exists():
                    if (former / NOTES).exists():  # what people said of it stays
                        files.replace_file(
                            staged.path / NOTES, files.read_bytes(former / NOTES), durable=True
                        )
                    self.set_aside(former)
                files.FENCE.get()()
                files.DISK.rename(staged.path, self.root / name)
                files.DISK.sync(self.root)
            finally:
                shutil.rmtree(staged.path.parent, ignore_errors=True)
        return True

    def _stage(self, run: Run, content: Mapping[str, bytes]) -> None:
        """Write a run to a place of its own, and check it."""
        for part, data in content.items():
            if part != OUTCOME and not FILE.fullmatch(part):
                raise StoreError(f"Run {run.id} came with {part!r}, which is no file of a run.")
            files.make_directory((run.path / part).parent, self.root)
            files.replace_file(run.path / part, data)
        if (defect := self._check(run)) is not None:
            raise StoreError(f"Run {run.id} did not arrive whole: {defect.sentence}.")
        files.sync_all([run.path, *run.path.rglob("*")])

    def set_aside(self, path: Path, place: str = ASIDE) -> Path:
        """Move something out of the way without losing it. Nothing is moved of a run that somebody
        else has taken over meanwhile."""
        fence = self._leases.fence(path.relative_to(self.root).parts[0])
        with files.disk_sentences(self.root):
            files.make_directory(self.root / place, self.root)
            goal = self.root / place / f"{path.name}-{secrets.token_hex(3)}"
            fence()
            files.DISK.rename(path, goal)
            try:
                fence()
            except LeaseLost:  # we were paused in between, and it is our successor's
                if not path.exists():
                    files.DISK.rename(goal, path)
                raise
        return goal

    # Checking

    def verify(self, set_aside: bool = False) -> list[Defect]:
        """Every entry read and compared with its checksums. What dead writers left half-written is
        removed; with `set_aside`, what is damaged or foreign is moved away. What another process
        holds is left alone."""
        if not self.root.is_dir():
            raise StoreError(f"There is no store at {self.root}.")
        marked = self._is_marked()
        if not marked and not any((self.root / name / SPEC).exists() for name in self.ids()):
            raise StoreError(f"{self.root} is no store: it has no {MARKER} and no runs.")
        places = [place for name in (INDEX, LOCKS) if not (place := self.root / name).is_symlink()]
        strays = sorted(p for place in places for p in place.glob("*") if STRAY.fullmatch(p.name))
        defects: list[Defect] = []
        with contextlib.suppress(OSError):  # a store that we may only read
            defects += _remove([*_leftovers(self.root), *filter(_is_old, strays)])
        for path in sorted(self.root.iterdir()):
            known = path.name in (LOCKS, INDEX, ASIDE, TRASH, MARKER)
            if known or UNCLAIMED.match(path.name):
                continue
            if path.is_dir() and is_id(path.name):
                defects += self._check_entry(self._run(path.name), set_aside)
            else:
                # Without a marker this may be a folder that only looks like a store.
                moved = self.set_aside(path) if set_aside and marked else None
                defects.append(Defect(path, "foreign", "not a run; move it elsewhere", moved))
        return defects

    def _check_entry(self, run: Run, set_aside: bool) -> list[Defect]:
        """Look first; only where something is wrong does it matter whether somebody writes."""
        defect = self._check(run)
        bad = defect is not None and defect.kind != "partial"
        if not bad and not _leftovers(run.path):
            return [defect] if defect else []
        try:
            with self.claim(run.id) as mine:
                if not mine:
                    sentence = f"{self.holder(run.id) or 'another process'} is writing it"
                    return [Defect(run.path, "partial", sentence)] if bad or defect else []
                found = _remove(_leftovers(run.path))
                defect = self._check(self._run(run.id))
                if set_aside and defect is not None and defect.kind != "partial":
                    # A damaged file makes the whole run untrustworthy.
                    defect = replace(defect, moved=self.set_aside(run.path))
        except StoreError:  # a store that we may only read
            found = []
        return [*found, *([defect] if defect else [])]

    def _is_marked(self) -> bool:
        """Does a marker say that this is a store? One of a newer version is refused."""
        try:
            found = int(json.loads(files.read_bytes(self.root / MARKER, 10_000))["format"])
        except (StoreError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return False  # there is none, or it is damaged
        if found > files.FORMAT:
            of = f"{self.root} has format {found}, of a newer grokscope"
            raise StoreError(f"{of}; this one knows {files.FORMAT}.")
        return True

    def _check(self, run: Run) -> Defect | None:
        if not (run.path / SPEC).exists():
            return Defect(run.path, "foreign", f"it has no {SPEC}; move it elsewhere")
        try:
            _ = run.annotation
            if (found := run.read_about().id) != run.id:
                return Defect(run.path, "foreign", f"its spec belongs to run {found}")
            if not run.ended:
                return Defect(run.path, "partial", self._progress(run))
            outcome = run.outcome
            sums = outcome["files"]
            for name, expected in sums.items():
                if files.checksum(run.path / name) != expected:
                    return Defect(run.path / name, "damaged", "its checksum is wrong")
            lacking = _lacks_snapshot(run, sums, outcome["epochs"])
            if run.about.problem and WEIGHTS not in sums:
                lacking = WEIGHTS
            if lacking:
                return Defect(run.path / lacking, "damaged", "it was never written")
            if run.curve["epoch"][-1] != outcome["epochs"]:
                return Defect(run.path / CURVE, "damaged", "its last row is not the outcome's")
            _ = run.provenance
        except (GrokscopeError, OSError) as error:
            return Defect(run.path, "damaged", str(error).rstrip("."))
        return None

    def _progress(self, run: Run) -> str:
        """How far a run came that has no outcome, and how it resumes."""
        if not run.about.problem:
            where = f"watched up to step {run.last_epoch}"
            return f"{where}; its training loop is under way or was interrupted"
        epoch, remark = 0, ""
        if (done := self.load_progress(run)) is not None:
            state, curve, _ = done
            epoch, whole = int(state["step"]), False
            with contextlib.suppress(StoreError):
                whole = run.curve.head(len(curve)).equals(curve) and bool(run.provenance)
            # The resume point has its own, so nothing is lost.
            remark = "" if whole else f", and writes a damaged {CURVE} or {PROVENANCE} anew"
        return (
            f"under way or interrupted at epoch {epoch} of {run.spec.training.epochs}; training "
            f"the same spec again resumes it{remark}"
        )

    def _run(self, name: str) -> Run:
        return Run(self.root / name)


def _table_row(run: Run) -> dict[str, Any]:
    outcome = run.outcome if run.ended else {}
    said = peek_annotation(run.path)
    fields = {name.replace(".", "_"): value for name, value in run.about.effective().items()}
    shared = [(name, value) for name, value in fields.items() if name not in ("seed", "task_seed")]
    return {
        "run": run.id,
        "status": outcome.get("status", "partial"),
        "started": run.started,
        "epochs": outcome.get("epochs"),
        **{rule.name: outcome.get(rule.name, {}).get("epoch") for rule in run.about.events()},
        **outcome.get("final", {}),
        **fields,
        "name": said.name or fields.get("name"),  # a model of the user's own has one by itself
        "tags": " ".join(said.tags) or None,
        "note": said.note or None,
        ARM: hashlib.sha256(repr((run.about.kind_name, shared)).encode()).hexdigest()[:12],
    }


def is_ours(spec: Spec) -> bool:
    """Is it of a kind that every process knows, not one of the user's own?"""
    return type(spec).__module__.startswith("grokscope.spec")


def _leftovers(folder: Path) -> list[Path]:
    """Half-written files of ours. Those that need no claim may be written just now."""
    places = [folder, *(folder / name for name in (SNAPSHOTS, PROBES))]
    places = [place for place in places if place.is_dir() and not place.is_symlink()]
    found = [path for place in places for path in place.glob(".*")]
    return sorted(
        path
        for path in found
        if files.TEMPORARY.fullmatch(path.name)
        and path.is_file()
        and (not (path.parent.name == PROBES or UNCLAIMED.match(path.name)) or _is_old(path))
    )


def _remove(leftovers: Iterable[Path]) -> list[Defect]:
    found = []
    for path in leftovers:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            files.DISK.remove(path)
        found.append(Defect(path, "leftover", "half-written by a process that died; removed"))
    return found


def _is_old(path: Path) -> bool:
    """Has nothing in it changed for so long that whoever wrote it must be dead?"""
    with contextlib.suppress(OSError):
        times = [each.lstat().st_mtime for each in (path, *path.rglob("*"))]
        return time.time() - max(times) > EXPIRY
    return False


def _lacks_snapshot(run: Run, sums: Mapping[str, str], until: int) -> str:
    """The first snapshot that is due by an epoch and was not written; empty if there is none."""
    if not run.about.problem:
        return ""
    due = takewhile(lambda epoch: epoch <= until, run.about.training.snapshot_epochs())
    names = map(snapshot_name, due)
    return next((name for name in names if name not in sums), "")


def _is_spec_of(run: Run) -> bool:
    with contextlib.suppress(GrokscopeError):
        return bool(run.about)
    return False
