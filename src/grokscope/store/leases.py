"""Leases: who works on a run, on any file system, network ones included, whose locks do not hold.

A lease is a file, `.locks/NAME.GENERATION`, that says whose it is. It appears by a hard link, which
only one process can make, and the highest generation counts. Its holder touches it every `BEAT`
seconds. Whoever has seen it unchanged for `EXPIRY` seconds by a clock of his own takes the next
generation, removes the former, and then whatever its holder had half-written: clocks of two
machines are never compared. On the same machine a holder that is dead is succeeded at once.

A stale holder can do no harm (fencing). Files of a run are written under a temporary name and
renamed, and in between the holder checks its lease (`files.replace_file`). If the temporary file
was there before the successor cleared the directory, the rename finds nothing to rename; if it
came later, the lease was gone by then, and the check fails.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from grokscope.errors import LeaseLost
from grokscope.store import files

BEAT, EXPIRY = 10.0, 60.0  # seconds
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
GONE = (errno.ENOENT, errno.ESTALE)
IMAGE = secrets.token_hex(8)
"""Of this program in this process: after `execv` it is another one."""

_active: dict[str, Lease] = {}  # by token: what this process holds
_beating = threading.Lock()


@dataclass(frozen=True)
class Holder:
    """The process that works on a run; of worker processes, their master and themselves."""

    process: int
    host: str
    worker: int = field(compare=False)
    place: str = field(default="", compare=False)  # where numbers of processes mean the same
    started: str = field(default="", compare=False)
    image: str = field(default="", compare=False)
    token: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

    @property
    def ours(self) -> bool:
        return self == this_process()

    @property
    def dead(self) -> bool:
        """Is it known to be gone? Of other machines nothing is known."""
        if not self.place or self.place != _place():
            return False
        if self.worker == os.getpid() and self.started == _start_of(self.worker):
            return self.image != IMAGE or self.token not in _active
        return _start_of(self.worker) != self.started


def this_process(token: str = "") -> Holder:
    worker = os.getpid()
    master = int(os.environ.get("GROKSCOPE_MASTER", worker))
    started = _start_of(worker) or ""
    return Holder(master, socket.gethostname(), worker, _place(), started, IMAGE, token)


@dataclass(frozen=True)
class Lease:
    path: Path
    token: str
    follows: bool  # a holder that did not give it back

    def check(self) -> None:
        """Raise `LeaseLost` unless it is still ours."""
        if not self._is_ours():
            name = self.path.stem
            raise LeaseLost(
                f"Run {name} was taken over by another process, since this one gave no sign of "
                "life for too long. Nothing was overwritten."
            )

    def beat(self) -> None:
        with contextlib.suppress(OSError):  # at the next beat, then
            if self._is_ours():
                os.utime(self.path)

    def give_back(self) -> None:
        _active.pop(self.token, None)
        with contextlib.suppress(OSError):  # it expires
            if self._is_ours():
                files.DISK.remove(self.path)

    def _is_ours(self) -> bool:
        holder, _ = _read(self.path)
        return holder is not None and holder.token == self.token


class Leases:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mine: dict[str, Lease] = {}
        self._seen: dict[Path, tuple[object, float]] = {}  # what others' said, and since when

    def take(self, name: str) -> Lease | None:
        """A lease, or None if somebody has it."""
        files.make_directory(self.folder, self.folder.parent)
        found = self._current(name)
        if found is not None and not self._is_over(found[1]):
            return None
        token = secrets.token_hex(8)
        generation = 1 if found is None else found[0] + 1
        path = self.folder / f"{name}.{generation}"
        if not _make(path, token):
            return None
        lease = Lease(path, token, follows=found is not None)
        # We may have looked at an old listing, which network file systems keep for a while.
        if self._current(name) != (generation, path):
            lease.give_back()
            return None
        for former in range(found[0] if found else 0, 0, -1):
            before = self.folder / f"{name}.{former}"
            self._seen.pop(before, None)
            if before.exists():
                files.DISK.remove(before)
        _active[token] = self.mine[name] = lease
        _keep_beating()
        return lease

    def give_back(self, name: str) -> None:
        self.mine.pop(name).give_back()

    def fence(self, name: str) -> Callable[[], None]:
        """What must not fail before a file of this run gets its name."""
        lease = self.mine.get(name)
        return lease.check if lease else lambda: None

    def holder(self, name: str) -> Holder | None:
        """Who has a run, or had it when they died."""
        found = self._current(name)
        return None if found is None else _read(found[1])[0]

    def is_held(self, name: str) -> bool:
        found = self._current(name)
        return found is not None and not self._is_over(found[1])

    def _is_over(self, path: Path) -> bool:
        """Is the holder dead, or silent for as long as we have looked?"""
        holder, beat = _read(path)
        if beat is None or (holder is not None and holder.dead):
            return True
        said, since = self._seen.get(path, (None, 0.0))
        if said != (holder, beat):
            self._seen[path] = (holder, beat), time.monotonic()
            return False
        return time.monotonic() - since > EXPIRY

    def _current(self, name: str) -> tuple[int, Path] | None:
        """The highest generation."""
        found = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                stem, _, number = entry.name.rpartition(".")
                if stem == name and number.isdecimal() and len(number) < 10:
                    found.append((int(number), self.folder / entry.name))
        return max(found, default=None)


def give_all_back() -> None:
    """Before a process ends that has been told to: nobody has to wait then."""
    for lease in list(_active.values()):
        lease.give_back()


def _make(path: Path, token: str) -> bool:
    """Make a lease with its content at once; False if there is one. A link that was made though the
    answer got lost, and that is there at the second attempt, is ours."""
    data = json.dumps(asdict(this_process(token))).encode()
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    files.DISK.create(beside, data, None)
    try:
        files.DISK.link(beside, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with contextlib.suppress(FileExistsError):
            files.DISK.create(path, data, None)
    finally:
        with contextlib.suppress(OSError):
            files.DISK.remove(beside)
    holder, _ = _read(path)
    return holder is not None and holder.token == token


def _read(path: Path) -> tuple[Holder | None, int | None]:
    """Who holds a lease, None if it cannot be told, and its last beat; None if it is gone, or empty
    as after a power loss. It is opened: only then network file systems ask their server."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            beat = found.st_mtime_ns if found.st_size else None
            data = json.loads(file.read(10_000))
        texts = {name: str(data.get(name, "")) for name in ("place", "started", "image", "token")}
        holder = Holder(int(data["process"]), str(data["host"]), int(data["worker"]), **texts)
        return holder, beat
    except OSError as error:
        if error.errno in GONE:
            return None, None
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, beat


def _keep_beating() -> None:
    """One thread beats for all leases of this process, as long as it lives."""
    if _beating.acquire(blocking=False):
        threading.Thread(target=_beat_all, daemon=True, name="leases").start()


def _beat_all() -> None:
    while True:
        time.sleep(BEAT)
        for lease in list(_active.values()):
            lease.beat()


@cache
def _place() -> str:
    """Names this machine since it was started, and the processes that we can see on it."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(found)


def _start_of(process: int) -> str | None:
    """When a process was started, in the system's own terms; None if it is gone."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    try:  # where there is no /proc
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return ""
