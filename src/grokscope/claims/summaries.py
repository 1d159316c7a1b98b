"""What papers read off their runs: several runs at once, and kept in each run until it or the code
changes."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import grokscope
from grokscope.errors import StoreError
from grokscope.store.files import make_directory, read_bytes, read_table, write_table
from grokscope.store.provenance import count_cores
from grokscope.store.run import OUTCOME, PROBES

if TYPE_CHECKING:
    from grokscope.store import Run

Summary = dict[str, Any]
Summarise = Callable[["Run"], Mapping[str, Any]]


def summarise_all(asked: Mapping[str, Sequence[Summarise]], runs: Iterable[Run]) -> list[Summary]:
    """The numbers of every run, in order; `asked` has the functions to call by the run's name.

    Threads, not processes: the time goes into XLA and NumPy, which let other threads run. Runs that
    have much in common come one after the other, so that what they share is made once.
    """
    from grokscope.engine.compilation import prepare

    prepare()
    given = list(runs)
    alike = sorted(
        given, key=lambda run: json.dumps(run.about.changed(), sort_keys=True, default=str)
    )
    pool = ThreadPoolExecutor(count_cores(), "summaries")
    try:
        by_name = dict(pool.map(lambda run: (run.id, summarise(asked[run.id], run)), alike))
    finally:
        pool.shutdown(cancel_futures=True)
    return [by_name[run.id] for run in given]


def summarise(functions: Sequence[Summarise], run: Run) -> Summary:
    """What the functions say of a run, later ones over earlier ones."""
    if run.status != "finished" or not functions:
        return {}
    path = run.path / PROBES / f"summary-{_digest(functions, run)}.parquet"
    with contextlib.suppress(Exception):  # absent or damaged: it is only a cache
        return read_table(path).row(0, named=True)
    found = {name: value for function in functions for name, value in function(run).items()}
    # A closure may say something else tomorrow with the same code.
    if found and all(inspect.isfunction(f) and not f.__closure__ for f in functions):
        with contextlib.suppress(OSError, StoreError):  # somebody else's store may be read-only
            make_directory(path.parent, run.path.parent)
            for old in path.parent.glob("summary-*.parquet"):
                old.unlink(missing_ok=True)
            write_table(path, pl.DataFrame([found], strict=False))
    return found


def _digest(functions: Sequence[Summarise], run: Run) -> str:
    """Another one if the run was trained again, or any code that may have a say in it changed."""
    code_of = [getattr(f, "__code__", None) for f in functions]
    names = [f"{code.co_filename}:{code.co_firstlineno}" for code in code_of if code]
    files = {code.co_filename for code in code_of if code and Path(code.co_filename).exists()}
    code = [_hash_package(), *(_hash_file(file) for file in sorted(files))]
    text = "\n".join([*names, *code]).encode()
    return hashlib.sha256(text + read_bytes(run.path / OUTCOME)).hexdigest()[:16]


@cache
def _hash_package() -> str:
    root = Path(inspect.getfile(grokscope)).parent
    files = sorted(path for suffix in ("py", "toml") for path in root.rglob(f"*.{suffix}"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _hash_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
