"""Files: written so that nobody ever sees half of one, read so that damage becomes a sentence.

Every change of a file goes through `DISK`, one operation at a time: tests put faults, crashes and
power losses under it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grokscope.errors import StoreError, first_line

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

FORMAT = 2
"""Of what is written. 1, version 0.1.0, had checksums in outcome.json only."""
MOST_JSON = 2**26  # bytes


class Disk:
    """The operations that change a disk, the only ones that this package uses on its stores."""

    def create(self, path: Path, data: bytes, mode: int | None) -> None:
        """A new file; never through a link or onto something that is there."""
        with open(path, "xb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)

    def sync(self, path: Path) -> None:
        """Wait until the disk has a file's content, or a directory's entries."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            # Some network file systems cannot do it for directories, and need not.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        """A second name, unless there is such a name."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make(self, path: Path) -> None:
        path.mkdir(exist_ok=True)


DISK = Disk()

FENCE: ContextVar[Callable[[], None]] = ContextVar("fence", default=lambda: None)
"""Called before a file gets its name; it raises if we may not write any more (see `leases`)."""


def make_directory(path: Path, root: Path | None = None) -> None:
    """The directory and its parents, which last. Below the `root` of a store links are refused: in
    somebody else's they could lead us to files of ours."""
    below = root is not None and root in path.parents
    if below and path.is_symlink():
        raise StoreError(f"{path} is a link, where a store has a directory. Remove it.")
    if path.parent != path and (below or not path.is_dir()):
        make_directory(path.parent, root)
    if not path.is_dir():
        DISK.make(path)
        with contextlib.suppress(PermissionError):  # of a parent that we may not list
            DISK.sync(path.parent)


def replace_file(
    path: Path,
    data: bytes,
    durable: bool = False,
    mode: int | None = None,
    after: Iterable[Path] = (),
) -> str:
    """Write to a temporary file, then rename: readers see the old file or the new one. Returns the
    checksum of what was meant to be written.

    `durable` has the content on the disk before it gets its name, and what it comes `after`: at a
    power loss there is the old file or the new one, never an empty one. The name itself lasts once
    its directory is synced."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        DISK.create(beside, data, mode)
        if durable:
            sync_all([beside, *after])
        FENCE.get()()
        try:
            DISK.rename(beside, path)
        except FileNotFoundError:
            # Over a network: done, but the answer got lost, and the second attempt found nothing.
            # Else whoever took over has removed what we had half-written.
            if not path.exists() or path.read_bytes() != data:
                FENCE.get()()
                raise
    except BaseException:
        with contextlib.suppress(OSError):
            DISK.remove(beside)
        raise
    return hashlib.sha256(data).hexdigest()


TEMPORARY = re.compile(
    r"\.(\d{8}\.safetensors|[a-z_-]+\.(json|safetensors)|\w+(-[0-9a-f]{16})?\.parquet)\.[0-9a-f]{8}"
)
"""Names that `replace_file` gives to files of a store until they are whole."""


def sync_all(paths: Iterable[Path]) -> None:
    """Wait for all of them at once: a journal then needs few commits, where one wait after the
    other takes three times as long (docs/log.md)."""
    first, *others = paths
    with ThreadPoolExecutor(len(others) or 1) as pool:  # which starts none without work
        waiting = pool.map(DISK.sync, others)
        DISK.sync(first)
        list(waiting)


def write_file(path: Path, data: bytes) -> Path:
    """Write a file that the user asked for, and the directories it needs; trouble becomes a
    sentence. A link stays and what it leads to is replaced, with its mode; what is not a file
    is left alone."""
    try:
        goal = Path(os.path.realpath(path))
        mode = goal.stat().st_mode if goal.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            raise StoreError(
                f"Cannot write {path}: it is {_what(mode)}, not a file. Choose another place."
            )
        make_directory(goal.parent)
        replace_file(goal, data, mode=None if mode is None else stat.S_IMODE(mode))
    except OSError as error:
        raise StoreError(
            f"Cannot write {path}: {error.strerror or error}. Choose another place."
        ) from error
    return path


def _what(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def damaged(path: Path, error: object) -> StoreError:
    return StoreError(
        f"{path} cannot be read ({first_line(error)}). `grokscope verify --set-aside` moves what "
        "is damaged out of the way; then train again."
    )


@contextlib.contextmanager
def sound(path: Path, *others: type[BaseException]) -> Iterator[None]:
    """Within, whatever a file may hold that it should not, or these errors, is a sentence."""
    found: tuple[type[BaseException], ...] = (
        *others,
        *(ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError),
    )
    try:
        yield
    except found as error:
        raise damaged(path, error) from error


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


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """All of a regular file. Devices, pipes and what does not fit into memory are refused."""
    with _opened(path, most) as file:
        return file.read()


def checksum(path: Path) -> str:
    """Of a regular file, piece by piece; refused as above, or a sparse one would take for ever."""
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _opened(path: Path, most: int | None = None) -> Iterator[io.BufferedReader]:
    try:
        # A pipe without a writer must not keep us waiting, hence non-blocking.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise damaged(path, f"it is {_what(found.st_mode)}, not a file")
            if found.st_size > (_room() if most is None else most):
                raise damaged(path, f"{found.st_size:,} bytes are too many")
            yield file
    except (OSError, MemoryError) as error:
        raise damaged(path, error) from error


@cache
def _room() -> int:
    """Half of the memory of this machine, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError):  # not a Unix
        return 2**32


# Seals: a file that holds its own checksum, so that no flipped bit goes unseen.

OPEN_SEAL = "0" * 64
SEAL = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


def seal(data: bytes) -> bytes:
    """Bytes with the checksum in place of the zeros under the name `sha256`: that of the bytes
    with the zeros."""
    return data.replace(OPEN_SEAL.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def seal_holds(data: bytes) -> bool | None:
    """Is it as it was sealed? None if there is no seal."""
    found = SEAL.search(data)
    if found is None:
        return None
    total = hashlib.sha256(memoryview(data)[: found.start(1)])
    total.update(OPEN_SEAL.encode())
    total.update(memoryview(data)[found.end(1) :])
    return total.hexdigest().encode() == found[1]


def write_json(
    path: Path,
    data: Mapping[str, Any],
    durable: bool = False,
    sealed: bool = False,
    after: Iterable[Path] = (),
) -> str:
    data = finite(data)
    if sealed:
        data = {**data, "format": FORMAT, "sha256": OPEN_SEAL}
    text = json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n"
    content = seal(text.encode()) if sealed else text.encode()
    return replace_file(path, content, durable, after=after)


def finite(value: Any) -> Any:
    """JSON has no NaN: it becomes null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def read_json(path: Path) -> dict[str, Any]:
    """An object. A seal is checked, and left out with the format."""
    content = read_bytes(path, MOST_JSON)
    with sound(path):
        data = json.loads(content, parse_constant=_refuse_constant)
        if not isinstance(data, dict):
            raise ValueError("not an object")
        return _unsealed(data, content)


def _unsealed(data: Mapping[str, Any], content: bytes) -> dict[str, Any]:
    """What was sealed, without its format and its seal, which must hold."""
    holds = seal_holds(content)
    if holds is False or (holds is None and "format" in data):
        raise ValueError("its checksum is wrong")
    return {name: value for name, value in data.items() if name not in ("format", "sha256")}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def write_arrays(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    durable: bool = False,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Arrays by name; with `about`, facts that go with them, sealed."""
    import numpy as np
    from safetensors.numpy import save

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if about is None:
        return replace_file(path, save(plain), durable)
    facts = {name: json.dumps(value) for name, value in about.items()}
    data = save(plain, {**facts, "format": str(FORMAT), "sha256": OPEN_SEAL})
    return replace_file(path, seal(data), durable)


def read_arrays(path: Path, content: bytes | None = None) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_bytes(path) if content is None else content
    with sound(path, SafetensorError):
        arrays = load(content)
    # safetensors gives them in another order each time, and random draws follow the order.
    return dict(sorted(arrays.items()))


def read_facts(path: Path, content: bytes) -> dict[str, Any] | None:
    """What `write_arrays` wrote about the arrays; None for a file of format 1."""
    with sound(path):
        size = int.from_bytes(content[:8], "little")
        facts = json.loads(content[8 : 8 + size]).get("__metadata__", {})
        kept = _unsealed(facts, content)
        return {name: json.loads(v) for name, v in kept.items()} if facts else None


def frame_of(curve: Mapping[str, np.ndarray]) -> pl.DataFrame:
    """Columns as a table; arrays of shape (rows, T) become list columns."""
    import polars as pl

    return pl.DataFrame(
        {n: v.tolist() if v.ndim > 1 else v for n, v in curve.items()},
        schema_overrides={n: pl.List(pl.Float32) for n, v in curve.items() if v.ndim > 1},
    )


def columns_of(curve: pl.DataFrame) -> dict[str, np.ndarray]:
    """The columns of a curve with rows as arrays: what `frame_of` was given."""
    import numpy as np

    return {
        name: np.stack(curve[name].to_list()).astype(np.float32)
        if curve[name].dtype.is_nested()
        else curve[name].to_numpy()
        for name in curve.columns
    }


def write_curve(path: Path, curve: Mapping[str, np.ndarray], durable: bool = False) -> str:
    return replace_file(path, _parquet(frame_of(curve)), durable)


def _parquet(table: pl.DataFrame) -> bytes:
    table.write_parquet(buffer := io.BytesIO(), compression="zstd", statistics=False)
    return buffer.getvalue()


def read_curve(path: Path, content: bytes | None = None) -> pl.DataFrame:
    """A curve, opened once: a run under way replaces the file while it is read."""
    import polars as pl

    from grokscope.store.parquet import check_size

    content = read_bytes(path) if content is None else content
    with sound(path, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        check_size(content)
        return pl.read_parquet(io.BytesIO(content))


# Tables behind a checksum: what is kept so that nobody has to find it again.

SUM_BYTES = hashlib.sha256().digest_size


def write_table(path: Path, table: pl.DataFrame, durable: bool = False) -> None:
    data = _parquet(table)
    replace_file(path, hashlib.sha256(data).digest() + data, durable)


def read_table(path: Path) -> pl.DataFrame:
    content = read_bytes(path)
    data = content[SUM_BYTES:]
    if hashlib.sha256(data).digest() != content[:SUM_BYTES]:
        raise damaged(path, "its checksum is wrong")
    return read_curve(path, data)
