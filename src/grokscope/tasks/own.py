"""Examples of the user's own, from a Parquet or CSV file.

    tokens        a list of whole numbers (Parquet), or columns t0, t1, ... (either format)
    label         a whole number from 0
    split         optional: "train" or "test"; without it `task.train_fraction` decides
    informative   optional: the positions that determine the label, a list or text such as "0 2"

n examples, T positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grokscope.errors import SpecError
from grokscope.spec.sections import TaskSpec
from grokscope.tasks.data import TaskData

if TYPE_CHECKING:
    import polars as pl


def data_task(
    path: str | Path,
    tokens: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    *,
    train: np.ndarray | None = None,
    informative: Sequence[Sequence[int]] | None = None,
    train_fraction: float = 0.5,
) -> TaskSpec:  # tokens (n, T), labels (n,), train (n,) bool
    """The TaskSpec of a data file. Given arrays, the file is written first.

    task = data_task("mine.parquet", tokens, labels, train=chosen, informative=[[0, 2]] * n)
    """
    import polars as pl

    if tokens is not None:
        columns: dict[str, object] = {"tokens": np.asarray(tokens).tolist(), "label": labels}
        if train is not None:
            columns["split"] = np.where(np.asarray(train, bool), "train", "test")
        if informative is not None:
            columns["informative"] = [list(map(int, some)) for some in informative]
        pl.DataFrame(columns).write_parquet(path)
    task = TaskSpec(kind="data", source=str(path), train_fraction=train_fraction)
    return pin_data(task)


def pin_data(task: TaskSpec) -> TaskSpec:
    """The task with the fingerprint of its file."""
    try:
        if Path(task.source).exists() and not Path(task.source).is_file():
            raise SpecError(f"The data file {task.source} is not a file.")
        content = Path(task.source).read_bytes()
    except OSError as error:
        raise SpecError(f"Cannot read the data file {task.source}: {error.strerror}.") from error
    fingerprint = hashlib.sha256(content).hexdigest()[:16]
    if task.fingerprint and task.fingerprint != fingerprint:
        raise SpecError(
            f"The data file {task.source} has changed since this run was named; clear "
            "task.fingerprint to make it a new run."
        )
    return replace(task, fingerprint=fingerprint)


def build_own(task: TaskSpec, seed: int) -> TaskData:
    """The examples of a data file."""
    frame = _read(pin_data(task).source)
    tokens = _tokens(frame, task.source)
    labels = _whole(frame, "label", task.source)
    for name, array in (("token", tokens), ("label", labels)):
        if array.min() < 0 or array.max() > 1_000_000:
            raise SpecError(
                f"{task.source} has a {name} of {array.min()} or {array.max()}; they count from 0 "
                "to at most 1,000,000."
            )
    train = _split(frame, task, seed)
    oracle = _oracle(frame, tokens, task.source)
    return TaskData(
        tokens=tokens.astype(np.int32),
        labels=labels.astype(np.int32),
        oracle=oracle if oracle is not None else np.zeros(tokens.shape, np.float32),
        operands=np.zeros((len(tokens), 0), np.int32),
        train=np.flatnonzero(train),
        test=np.flatnonzero(~train),
        mirrored=np.zeros(int((~train).sum()), bool),
        vocabulary=int(tokens.max()) + 1,
        classes=int(labels.max()) + 1,
        cycle=np.array([], np.int64),
        structured=oracle is not None,
    )


def _read(path: str) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_csv(path) if path.endswith(".csv") else pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SpecError(f"Cannot read the data file {path}: {error}.") from error


def _tokens(frame: pl.DataFrame, path: str) -> np.ndarray:  # (n, T)
    if "tokens" in frame.columns:
        rows = frame["tokens"].to_list()
        if not rows or len({len(row) for row in rows}) != 1:
            raise SpecError(f"The rows of `tokens` in {path} must all have the same length.")
        array = np.array(rows)
    else:
        names = [f"t{i}" for i in range(len(frame.columns)) if f"t{i}" in frame.columns]
        if not names or not len(frame):
            raise SpecError(f"{path} has no examples: it needs `tokens`, or t0, t1, ..., and rows.")
        array = np.stack([_whole(frame, name, path) for name in names], axis=1)
    if not np.issubdtype(array.dtype, np.integer):
        raise SpecError(f"The tokens in {path} must be whole numbers.")
    return array


def _whole(frame: pl.DataFrame, name: str, path: str) -> np.ndarray:  # (n,)
    if name not in frame.columns or not frame[name].dtype.is_integer() or frame[name].null_count():
        raise SpecError(f"{path} needs a column `{name}` of whole numbers without gaps.")
    return frame[name].to_numpy()


def _split(frame: pl.DataFrame, task: TaskSpec, seed: int) -> np.ndarray:  # (n,) bool
    if "split" in frame.columns:
        words = frame["split"].to_numpy()
        train = words == "train"
        if not np.isin(words, ["train", "test"]).all() or train.all() or not train.any():
            raise SpecError(
                f"The column `split` in {task.source} must say train or test, each at least once."
            )
        return train
    n = len(frame)
    wanted = int(n * task.train_fraction)
    if not 0 < wanted < n:
        raise SpecError(f"{n} examples with task.train_fraction {task.train_fraction}: too few.")
    order = np.random.default_rng([seed, 3]).permutation(n)
    return np.isin(np.arange(n), order[:wanted])


def _oracle(frame: pl.DataFrame, tokens: np.ndarray, path: str) -> np.ndarray | None:  # (n, T)
    """Even weight on the informative positions; None where the file does not name them."""
    if "informative" not in frame.columns:
        return None
    oracle = np.zeros(tokens.shape, np.float32)
    for row, named in zip(oracle, frame["informative"].to_list(), strict=True):
        words = named if isinstance(named, list) else str(named).split()
        positions = [int(word) for word in words if str(word).isdecimal()]
        if not positions or len(positions) < len(words) or max(positions) >= len(row):
            raise SpecError(
                f"`informative` in {path} names {named!r}; each example needs positions from 0 to "
                f"{len(row) - 1}."
            )
        row[positions] = 1 / len(positions)
    return oracle
