"""Functions of kept weights. A probe needs no new training, gives a run no new identity, and taxes
no other run; what it found is kept in the run.

    def margin(run, epoch):
        weights = run.weights(epoch)
        return {"margin": ...}          # numbers, or small arrays, by name

    take(run, margin)                   # a row per snapshot, and one for the final weights
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grokscope.errors import GrokscopeError, SpecError, StoreError
from grokscope.parts import fingerprint_of, load_function, refer
from grokscope.store import Run, Store, files
from grokscope.store.run import PROBES

if TYPE_CHECKING:
    import polars as pl

    from grokscope.engine.executors import Executor

Probe = Callable[[Run, int | None], Mapping[str, Any]]
"""(run, epoch) -> numbers or small arrays by name; epoch None means the final weights."""


def take(run: Run, probe: Probe | str) -> pl.DataFrame:
    """A row per kept epoch, the final weights last. Taken once: the result is kept in the run until
    the probe's file or this package changes."""
    function = load_function(probe, "the probe") if isinstance(probe, str) else probe
    path = _place(run, function)
    if (kept := _read(path)) is not None:
        return kept
    if run.status != "finished":
        raise StoreError(f"Run {run.id} is {run.status}; probes are taken of finished runs.")
    last = int(run.outcome["epochs"])
    rows = [{"epoch": epoch, **_ask(function, run, epoch)} for epoch in run.snapshots]
    rows = [row for row in rows if row["epoch"] != last]
    rows.append({"epoch": last, **_ask(function, run, None)})
    names = list(rows[0])
    if any(list(row) != names for row in rows):
        raise SpecError(f"The probe {function.__name__} must give the same names at every epoch.")
    with files.disk_sentences(run.path.parent):
        files.make_directory(path.parent, run.path.parent)
        table = files.frame_of({name: np.array([row[name] for row in rows]) for name in names})
        files.write_table(path, table, durable=True)
    return files.read_table(path)


def _read(path: Path) -> pl.DataFrame | None:
    """What was kept; None if it is absent or damaged. Earlier versions kept it without checksum."""
    if not path.exists():
        return None
    with contextlib.suppress(StoreError):
        return (
            files.read_curve(path)
            if files.read_bytes(path).startswith(b"PAR1")
            else files.read_table(path)
        )
    return None


def is_taken(run: Run, probe: Probe | str) -> bool:
    function = load_function(probe, "the probe") if isinstance(probe, str) else probe
    return _read(_place(run, function)) is not None


def take_all(
    runs: Sequence[Run], probe: Probe | str, store: Store, executor: Executor | None = None
) -> pl.DataFrame:
    """The probe of every run, with the run's name in front. With an executor, what is missing is
    taken by its workers."""
    import polars as pl

    if executor is not None:
        from grokscope.engine.orders import make_order

        specs = [run.about for run in runs]
        executor.execute(make_order(specs, store, probe=refer(probe)), lambda event: None)
    frames = [take(run, probe).select(pl.lit(run.id).alias("run"), pl.all()) for run in runs]
    return pl.concat(frames, how="diagonal_relaxed")


def _place(run: Run, function: Probe) -> Path:
    """Another one if any code changes that may have a say in it: a helper, too."""
    from grokscope.probes.readings import hash_code

    text = fingerprint_of(function) + hash_code(function)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return run.path / PROBES / f"{function.__name__}-{digest}.parquet"


def _ask(function: Probe, run: Run, epoch: int | None) -> dict[str, Any]:
    try:
        found = function(run, epoch)
    except GrokscopeError:
        raise
    except Exception as error:  # it is the user's code: anything may happen
        raise SpecError(
            f"The probe {function.__name__} failed on run {run.id}: {type(error).__name__}: "
            f"{error}."
        ) from error
    if not isinstance(found, Mapping) or not found:
        raise SpecError(
            f"The probe {function.__name__} gave {found!r}; it must give numbers by name."
        )
    return {str(name): np.asarray(value, np.float32) for name, value in found.items()}
