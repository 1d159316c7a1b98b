"""What papers read off whole runs: several runs at once, by the workers of an executor if there is
one, and kept in each run until it or the code changes."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from threadpoolctl import threadpool_limits

import grokscope
from grokscope.errors import GrokscopeError, StoreError
from grokscope.store.files import make_directory, read_bytes, read_table, write_table
from grokscope.store.provenance import count_cores
from grokscope.store.run import OUTCOME, PROBES

if TYPE_CHECKING:
    from grokscope.engine.executors import Executor
    from grokscope.store import Run

Read = Callable[["Run"], "Mapping[str, Any] | pl.DataFrame"]


class Reading(NamedTuple):
    """What is read off a run and kept together, under a name."""

    name: str
    functions: tuple[Read, ...]
    """One that gives rows, or several whose numbers make a row, later ones over earlier ones."""


Asked = Sequence[tuple["Run", Sequence[Reading]]]


def read_all(asked: Asked, executor: Executor | None = None) -> list[list[pl.DataFrame]]:
    """The readings that are asked of every run, in order. With an executor, what is missing is read
    by its workers; what they could not do is done here.

    Threads, not processes: the time goes into XLA and NumPy, which let other threads run. NumPy has
    none besides: where there are more threads than cores they wait for each other actively. Runs
    that have much in common come one after the other, so that what they share is made once.
    """
    from grokscope.engine.compilation import prepare

    if executor is not None:
        _hand_out(asked, executor)
    prepare()
    texts = [json.dumps(run.about.changed(), sort_keys=True, default=str) for run, _ in asked]
    alike = sorted(range(len(asked)), key=texts.__getitem__)
    pool = ThreadPoolExecutor(count_cores(), "readings")
    try:
        with threadpool_limits(1, "blas"):
            by_place = dict(
                pool.map(lambda i: (i, [read(asked[i][0], each) for each in asked[i][1]]), alike)
            )
    finally:
        pool.shutdown(cancel_futures=True)
    return [by_place[i] for i in range(len(asked))]


def _hand_out(asked: Asked, executor: Executor) -> None:
    """An order for all runs of which the same is asked."""
    from grokscope.engine.orders import make_order
    from grokscope.store import Store

    groups: dict[tuple[tuple[str, tuple[str, ...]], ...], list[Run]] = {}
    for run, readings in asked:
        if run.status != "finished":
            continue
        missing = [
            (each.name, tuple(f"{f.__module__}:{f.__qualname__}" for f in each.functions))
            for each in readings
            if all(map(_is_plain, each.functions)) and not is_kept(run, each)
        ]
        if missing:
            groups.setdefault(tuple(missing), []).append(run)
    for names, runs in groups.items():
        order = make_order([run.about for run in runs], Store(runs[0].path.parent), readings=names)
        with contextlib.suppress(GrokscopeError):  # whatever it is, it is met here again
            executor.execute(order, lambda event: None)


def _is_plain(function: Read) -> bool:
    """Can another process import it? Does it say the same tomorrow? A closure need not."""
    plain = inspect.isfunction(function) and not function.__closure__
    return plain and function.__module__ != "__main__" and "<" not in function.__qualname__


def is_kept(run: Run, reading: Reading) -> bool:
    return _place(run, reading).exists()


def read(run: Run, reading: Reading) -> pl.DataFrame:
    """Nothing of a run that has not finished."""
    if run.status != "finished" or not reading.functions:
        return pl.DataFrame()
    path = _place(run, reading)
    with contextlib.suppress(Exception):  # absent or damaged: it is only a cache
        return read_table(path)
    table = _ask(run, reading)
    # A closure may say something else tomorrow with the same code.
    if all(inspect.isfunction(f) and not f.__closure__ for f in reading.functions):
        with contextlib.suppress(OSError, StoreError):  # somebody else's store may be read-only
            make_directory(path.parent, run.path.parent)
            for old in path.parent.glob(f"{reading.name}-{'?' * DIGITS}.parquet"):
                old.unlink(missing_ok=True)
            write_table(path, table)
    return table


def _ask(run: Run, reading: Reading) -> pl.DataFrame:
    row: dict[str, Any] = {}
    for function in reading.functions:
        found = function(run)
        if isinstance(found, pl.DataFrame):
            return found
        row |= found
    return pl.DataFrame([row], strict=False) if row else pl.DataFrame()


DIGITS = 16


def _place(run: Run, reading: Reading) -> Path:
    """Another one if the run was trained again, or any code that may have a say in it changed; the
    same on all machines of a cluster."""
    text = hash_code(*reading.functions).encode() + read_bytes(run.path / OUTCOME)
    digest = hashlib.sha256(text).hexdigest()[:DIGITS]
    return run.path / PROBES / f"{reading.name}-{digest}.parquet"


def hash_code(*functions: Callable[..., Any]) -> str:
    """Of all code that may have a say in what they give: their files and the whole package."""
    code_of = [getattr(f, "__code__", None) for f in functions]
    names = [f"{Path(code.co_filename).name}:{code.co_firstlineno}" for code in code_of if code]
    files = {code.co_filename for code in code_of if code and Path(code.co_filename).exists()}
    code = [_hash_package(), *(_hash_file(f, os.stat(f).st_mtime_ns) for f in sorted(files))]
    return hashlib.sha256("\n".join([*names, *code]).encode()).hexdigest()


@cache
def _hash_package() -> str:
    root = Path(inspect.getfile(grokscope)).parent
    files = sorted(path for suffix in ("py", "toml") for path in root.rglob(f"*.{suffix}"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _hash_file(path: str, written: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
