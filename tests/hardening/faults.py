"""Disks that fail: under everything that the store writes, one operation at a time.

`FaultyDisk` fails or dies at the n-th operation. `RecordingDisk` notes all of them, and
`after_loss` gives what a disk holds if the power goes after the first n: content only if it was
synced, names only if their directory was, or all names at once (`eager`, as journals often do).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from grokscope.store import files
from grokscope.store.files import Disk

FAULTS = ("ENOSPC", "EIO", "partial", "crash", "torn")


class Crash(BaseException):
    """The process is gone: nothing that would happen after it happens."""


class FaultyDisk(Disk):
    """Fails at operation `at` (from 0). ENOSPC and EIO: it is refused; partial: a write stops half
    way and is refused; crash: we die before it; torn: we die in the middle of a write."""

    def __init__(self, at: int, fault: str) -> None:
        self.at, self.fault, self.count, self.dead = at, fault, 0, False

    def _due(self) -> bool:
        if self.dead:
            raise Crash
        self.count += 1
        return self.count - 1 == self.at

    def _fail(self, path: Path) -> None:
        if self.fault in ("crash", "torn"):
            self.dead = True
            raise Crash
        code = errno.EIO if self.fault == "EIO" else errno.ENOSPC
        raise OSError(code, os.strerror(code), str(path))

    def create(self, path: Path, data: bytes, mode: int | None) -> None:
        if self._due():
            if self.fault in ("partial", "torn"):
                super().create(path, data[: len(data) // 2], mode)
            self._fail(path)
        super().create(path, data, mode)

    def sync(self, path: Path) -> None:
        if self._due():
            self._fail(path)  # and nothing is really waited for: that would take minutes

    def rename(self, old: Path, new: Path) -> None:
        if self._due():
            self._fail(new)
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        if self._due():
            self._fail(new)
        super().link(old, new)

    def remove(self, path: Path) -> None:
        if self._due():
            self._fail(path)
        super().remove(path)

    def make(self, path: Path) -> None:
        if self._due():
            self._fail(path)
        super().make(path)


class Operation(NamedTuple):
    kind: str
    path: Path
    other: Any = None  # the data, or the new name


class RecordingDisk(Disk):
    def __init__(self) -> None:
        self.done: list[Operation] = []

    def create(self, path: Path, data: bytes, mode: int | None) -> None:
        super().create(path, data, mode)
        self.done.append(Operation("create", path, data))

    def sync(self, path: Path) -> None:
        self.done.append(Operation("sync", path))

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.done.append(Operation("rename", old, new))

    def link(self, old: Path, new: Path) -> None:
        super().link(old, new)
        self.done.append(Operation("link", old, new))

    def remove(self, path: Path) -> None:
        super().remove(path)
        self.done.append(Operation("remove", path))

    def make(self, path: Path) -> None:
        super().make(path)
        self.done.append(Operation("make", path))


@contextmanager
def under(disk: Disk) -> Iterator[Any]:
    """Everything is written through this disk."""
    before, files.DISK = files.DISK, disk
    try:
        yield disk
    finally:
        files.DISK = before


class _Inode:
    def __init__(self, data: bytes | None) -> None:
        self.data, self.synced = data, False  # data None: a directory


def after_loss(done: list[Operation], root: Path, eager: bool) -> dict[Path, bytes | None]:
    """What is on the disk, by path below `root` (None: a directory), when the power goes."""
    now: dict[Path, _Inode] = {}
    durable: dict[Path, _Inode] = {}
    for kind, path, other in done:
        if kind in ("create", "make"):
            now[path] = _Inode(other)
        elif kind == "rename":
            moved = {p: i for p, i in now.items() if p == path or path in p.parents}
            for old, inode in moved.items():
                del now[old]
                now[other / old.relative_to(path)] = inode
        elif kind == "link":
            now[other] = now[path]
        elif kind == "remove":
            now.pop(path, None)
        elif path in now and now[path].data is not None:
            now[path].synced = True
        else:
            durable = {p: i for p, i in durable.items() if p.parent != path}
            durable |= {p: i for p, i in now.items() if p.parent == path}
    names = now if eager else durable
    found: dict[Path, bytes | None] = {}
    for path, inode in sorted(names.items()):
        if root in path.parents and (path.parent == root or path.parent in found):
            found[path] = inode.data if inode.data is None or inode.synced else b""
    return found


def lay_out(content: dict[Path, bytes | None], root: Path, goal: Path) -> None:
    """Write it to another place."""
    goal.mkdir(parents=True)
    for path, data in content.items():
        place = goal / path.relative_to(root)
        if data is None:
            place.mkdir()
        else:
            place.write_bytes(data)
