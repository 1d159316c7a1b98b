"""What papers read off whole runs: several runs at once, and kept in each run until it or the code
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
from grokscope.errors import GrokscopeError, StoreError
from grokscope.store.files import make_directory, read_bytes, read_table, write_table
from grokscope.store.provenance import count_cores
from grokscope.store.run import OUTCOME, PROBES

if TYPE_CHECKING:
    from grokscope.engine.executors import Executor
    from grokscope.store import Run

Summary = dict[str, Any]
Summarise = Callable[["Run"], Mapping[str, Any]]


def summarise_all(
    asked: Mapping[str, Sequence[Summarise]],
    runs: Iterable[Run],
    executor: Executor | None = None,
) -> list[Summary]:
    """The numbers of every run, in order; `asked` has the functions to call by the run's name. With
    an executor, what is missing is read by its workers; what they could not do is done here.

    Threads, not processes: the time goes into XLA and NumPy, which let other threads run. Runs that
    have much in common come one after the other, so that what they share is made once.
    """
    from grokscope.engine.compilation import prepare

    given = list(runs)
    if executor is not None:
        _hand_out(asked, given, executor)
    prepare()
    alike = sorted(
        given, key=lambda run: json.dumps(run.about.changed(), sort_keys=True, default=str)
    )
    pool = ThreadPoolExecutor(count_cores(), "summaries")
    try:
        by_name = dict(pool.map(lambda run: (run.id, summarise(asked[run.id], run)), alike))
    finally:
        pool.shutdown(cancel_futures=True)
    return [by_name[run.id] for run in given]


def _hand_out(
    asked: Mapping[str, Sequence[Summarise]], runs: Sequence[Run], executor: Executor
) -> None:
    """An order for all runs of which the same functions are asked."""
    from grokscope.engine.orders import make_order
    from grokscope.store import Store

    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        functions = asked[run.id]
        names = tuple(f"{f.__module__}:{f.__qualname__}" for f in functions if _is_plain(f))
        possible = run.status == "finished" and len(names) == len(functions)
        if possible and not is_kept(functions, run):
            groups.setdefault(names, []).append(run)
    for names, some in groups.items():
        order = make_order([run.about for run in some], Store(some[0].path.parent), summary=names)
        with contextlib.suppress(GrokscopeError):  # whatever it is, it is met here again
            executor.execute(order, lambda event: None)


def _is_plain(function: Summarise) -> bool:
    """Can another process import it? Does it say the same tomorrow? A closure need not."""
    plain = inspect.isfunction(function) and not function.__closure__
    return plain and function.__module__ != "__main__" and "<" not in function.__qualname__


def is_kept(functions: Sequence[Summarise], run: Run) -> bool:
    return _place(functions, run).exists()


def summarise(functions: Sequence[Summarise], run: Run) -> Summary:
    """What the functions say of a run, later ones over earlier ones."""
    if run.status != "finished" or not functions:
        return {}
    path = _place(functions, run)
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


def _place(functions: Sequence[Summarise], run: Run) -> Path:
    """Another one if the run was trained again, or any code that may have a say in it changed; the
    same on all machines of a cluster."""
    code_of = [getattr(f, "__code__", None) for f in functions]
    names = [f"{Path(code.co_filename).name}:{code.co_firstlineno}" for code in code_of if code]
    files = {code.co_filename for code in code_of if code and Path(code.co_filename).exists()}
    code = [_hash_package(), *(_hash_file(file) for file in sorted(files))]
    text = "\n".join([*names, *code]).encode()
    digest = hashlib.sha256(text + read_bytes(run.path / OUTCOME)).hexdigest()[:16]
    return run.path / PROBES / f"summary-{digest}.parquet"


@cache
def _hash_package() -> str:
    root = Path(inspect.getfile(grokscope)).parent
    files = sorted(path for suffix in ("py", "toml") for path in root.rglob(f"*.{suffix}"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@cache
def _hash_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
