"""The index: the table of runs as it last was, so that a listing reads only what has changed.

It is a cache and never the truth: one file, derived from the directories, which may be deleted at
any moment. An entry of it counts as long as the files that it was read from (`SOURCES`) are the
same (times, size, inode); asking the file system takes some microseconds per run, reading and
checking them half a millisecond.

It is Parquet behind a checksum, replaced as a whole: several writers need no lock, which network
file systems do not give reliably (SQLite's need one, and its WAL needs shared memory). Whoever
comes last wins, and what was lost is read again. Columns load as fast as they can be drawn.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grokscope.errors import GrokscopeError, StoreError
from grokscope.store.annotations import NOTES
from grokscope.store.files import make_directory, read_table, write_table
from grokscope.store.run import OUTCOME, PROVENANCE, SPEC

if TYPE_CHECKING:
    import polars as pl

INDEX = ".index"
SOURCES = (OUTCOME, SPEC, PROVENANCE, NOTES)  # all that a row tells of
STAMP, WRITTEN, MADE = ".stamp", ".written", ".made"  # no field of a spec has such a name
ARM = ".arm"  # the same for runs that differ in their seeds alone
KEEP_FROM = 32  # rows that take longer to read again than the index takes to write
RECENT = 2.0  # seconds in which a file may change twice without another time

Read = Callable[[str], tuple[Mapping[str, Any], bool]]
"""By name: the row of a run, and whether it may be kept. Raises what keeps it out."""


class Index:
    def __init__(self, root: Path, read: Read) -> None:
        self.root, self.read = root, read
        self.path = root / INDEX / "runs"
        self.left_out: dict[str, str] = {}
        """Entries that could not be read at the last look, and why."""
        self._frame: pl.DataFrame | None = None

    @property
    def frame(self) -> pl.DataFrame:
        """The table of the last look, or what was kept."""
        if self._frame is None:
            self._frame = self._load()
        return self._frame

    def recall(self, names: Iterable[str]) -> pl.DataFrame:
        """What is known of these entries and has not changed; nothing is read."""
        return self.frame.join(_stamp_all(self.root, names), on=["run", STAMP], how="semi")

    def look(self, names: Iterable[str]) -> pl.DataFrame:
        """The table of these entries, by name; only those that have changed are read."""
        import polars as pl

        before = self.frame
        now = _stamp_all(self.root, names)
        kept = before.join(now, on=["run", STAMP], how="semi")
        rows: list[dict[str, Any]] = []
        lasting = 0
        self.left_out = {}
        since = (time.time() - RECENT) * 1e9
        for name, stamp, written, changed in now.join(kept, on="run", how="anti").iter_rows():
            try:
                row, keep = self.read(name)
            except GrokscopeError as error:
                self.left_out[name] = str(error)
                continue
            keep = keep and changed < since
            lasting += keep
            rows.append({**row, STAMP: stamp if keep else 0, WRITTEN: written})
        if rows or len(kept) < len(before):
            kept = _join(kept, rows).sort("run") if rows else kept
            if lasting >= KEEP_FROM or 2 * len(kept) < len(before):
                self._save(kept.filter(pl.col(STAMP) != 0))
        self._frame = kept
        return kept

    def _load(self) -> pl.DataFrame:
        """What was kept; nothing if it is damaged, or of other code than this."""
        import polars as pl

        with contextlib.suppress(StoreError, pl.exceptions.PolarsError):
            frame = read_table(self.path)
            if (frame[MADE] == _code()).all() and frame[STAMP].dtype == pl.Int64:
                return frame.drop(MADE)
        kinds = {"run": pl.String, STAMP: pl.Int64, WRITTEN: pl.Int64, ARM: pl.String}
        return pl.DataFrame(schema=kinds)

    def _save(self, frame: pl.DataFrame) -> None:
        """Keep it if we may. A store that can only be read is read in full each time."""
        import polars as pl

        with contextlib.suppress(OSError, StoreError):
            make_directory(self.path.parent, self.root)
            write_table(self.path, frame.with_columns(pl.lit(_code()).alias(MADE)))


def without_bookkeeping(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that were asked for; none where there are no runs."""
    return frame.drop(STAMP, WRITTEN, ARM) if len(frame) else frame.clear().select()


def make_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    # Settings of watched runs may be a number here and a text there, hence not strict.
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def _join(kept: pl.DataFrame, rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    if not len(kept):
        return make_frame(rows)
    try:
        return pl.concat([kept, make_frame(rows)], how="diagonal_relaxed")
    except pl.exceptions.PolarsError:  # a list here, a text there
        return make_frame([*kept.to_dicts(), *rows])


def _stamp_all(root: Path, names: Iterable[str]) -> pl.DataFrame:
    import polars as pl

    rows = []
    for name in names:
        paths = [f"{root}/{name}/{source}" for source in SOURCES]
        if not os.access(paths[-1], os.F_OK):  # few runs have notes, and an exception takes longer
            paths.pop()
        looks = tuple(map(_look, paths))
        rows.append((name, hash(looks), looks[0][0], max(look[1] for look in looks)))
    kinds = {"run": pl.String, STAMP: pl.Int64, WRITTEN: pl.Int64, ".changed": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def _look(path: str) -> tuple[int, int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0, 0
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


@cache
def _code() -> str:
    """A hash of the code that makes rows: another version may read the same files otherwise."""
    import grokscope.spec

    total = hashlib.sha256()
    folders = [Path(__file__).parent, Path(grokscope.spec.__file__).parent]
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()
