"""A share of somebody else's machine: how an order is carried out on a node of a cluster.

Runs are trained by a worker process of their own, as at home: it has its threads pinned to cores
that no other of ours uses, a compile cache on the node's own disk, and it ends with its order, or
after a few that belong together, so that what JAX keeps in memory does not grow from task to task.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grokscope.engine.events import Sink
from grokscope.engine.executors.processes import LocalProcesses
from grokscope.engine.orders import Order
from grokscope.store.leases import Leases

ORDERS = 10  # of one worker process; each compiled program that it meets adds to its memory
_kept: dict[tuple[str, int, int], LocalProcesses] = {}


def carry_out_here(
    order: Order, processes: int, threads: int, sink: Sink, series: str = ""
) -> None:
    """All that nobody else does of an order, by worker processes of this node. Orders of the same
    series that come to the same process share its workers."""
    folder = _own_folder()
    os.environ.setdefault("GROKSCOPE_CACHE", str(folder / "cache"))
    key = (series, processes, threads)
    if key not in _kept:
        while _kept:
            _kept.popitem()[1].close()
        _kept[key] = LocalProcesses(processes, threads, ORDERS if series else 1)
    with _own_cores(folder / "cores", processes * threads):
        _kept[key].execute(order, sink)


def _own_folder() -> Path:
    """A directory of this node that all our orders share and nobody else can write to: compiled
    programs in it are executed. Anybody may have made one of its name before us."""
    folder = Path(tempfile.gettempdir()) / f"grokscope-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not found.st_mode & 0o022 else Path(tempfile.mkdtemp())


@contextlib.contextmanager
def _own_cores(folder: Path, count: int) -> Iterator[None]:
    """Within, this thread and what it starts keep to `count` cores that no other order has. A node
    may give us all of its cores and expect that we use some; which, we agree upon by leases."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    given = hashlib.sha256(repr(cores).encode()).hexdigest()[:8]
    leases = Leases(folder)
    first = range(0, len(cores) - count + 1, count)
    taken = next((n for n in first if leases.take(f"{given}-{n}")), None)
    if taken is not None:
        os.sched_setaffinity(0, cores[taken : taken + count])
    try:
        yield
    finally:
        if taken is not None:
            os.sched_setaffinity(0, before)
            leases.give_back(f"{given}-{taken}")
