"""Files: written so that nobody ever sees half of one, read so that damage becomes a sentence."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grokscope.errors import StoreError

if TYPE_CHECKING:
    import polars as pl


def replace_file(path: Path, data: bytes, durable: bool = False) -> None:
    """Write to a temporary file, then rename: readers see the old file or the new one.

    `durable` waits until the disk has it, for files that others are told to trust."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_file(path: Path, data: bytes) -> Path:
    """Write a file and the directories it needs; trouble becomes a sentence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise StoreError(
            f"Cannot write {path}: {error.strerror or error}. Choose another place."
        ) from error
    return path


def damaged(path: Path, error: object) -> StoreError:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return StoreError(
        f"{path} cannot be read ({first}). `grokscope verify --set-aside` moves what is damaged "
        "out of the way; then train again."
    )


@contextlib.contextmanager
def disk_sentences(root: Path) -> Iterator[None]:
    """Disk trouble as a sentence. What was finished before stays as it was."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            what = "The disk is full"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            what = "The store is not writable"
        else:
            what = error.strerror or str(error)
        where = error.filename or root
        raise StoreError(
            f"{what}: {where}. Nothing finished is lost; make room or choose another --store, and "
            "train again to resume."
        ) from error


def write_json(path: Path, data: Mapping[str, Any], durable: bool = False) -> None:
    text = json.dumps(_finite(data), indent=1, sort_keys=True, allow_nan=False)
    replace_file(path, (text + "\n").encode(), durable)


def _finite(value: Any) -> Any:
    """JSON has no NaN: it becomes null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    if not isinstance(data, dict):
        raise damaged(path, "not an object")
    return data


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], durable: bool = False) -> None:
    from safetensors.numpy import save

    data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    replace_file(path, data, durable)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(path.read_bytes())
    except (OSError, SafetensorError, ValueError) as error:
        raise damaged(path, error) from error
    # safetensors gives them in another order each time, and random draws follow the order.
    return dict(sorted(arrays.items()))


def write_curve(path: Path, curve: Mapping[str, np.ndarray], durable: bool = False) -> None:
    import polars as pl

    buffer = io.BytesIO()
    # Arrays of shape (rows, T) become list columns.
    frame = pl.DataFrame(
        {n: v.tolist() if v.ndim > 1 else v for n, v in curve.items()},
        schema_overrides={n: pl.List(pl.Float32) for n, v in curve.items() if v.ndim > 1},
    )
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    replace_file(path, buffer.getvalue(), durable)


def read_curve(path: Path) -> pl.DataFrame:
    """A curve, opened once: a run under way replaces the file while it is read."""
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(path.read_bytes()))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise damaged(path, error) from error


def checksum(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise damaged(path, error) from error
