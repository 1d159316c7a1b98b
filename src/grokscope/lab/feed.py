"""What has changed in a store since the last look.

The one place of the lab that knows how changes are noticed. Runs that have ended are left alone
until their directory is another one, so a look costs a few system calls per run under way, however
many runs there are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from grokscope.store import CURVE, Store
from grokscope.store.run import OUTCOME

Stamp = tuple[int, int, int]  # time and size of the curve, time of the outcome (0: none)


@dataclass(frozen=True)
class Changes:
    changed: frozenset[str] = frozenset()  # names of runs that are new or have new rows
    gone: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


class Feed:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._root_time = -1
        self._places: dict[str, int] = {}  # by run: the inode of its directory
        self._open: dict[str, Stamp] = {}  # runs that have not ended

    def look(self) -> Changes:
        """Everything that has changed since the last call; the first one finds every run."""
        changed, gone = self._look_at_root()
        for name, before in list(self._open.items()):
            now = self._stamp(name)
            if now != before:
                changed.add(name)
                self._open[name] = now
            if now[2]:
                del self._open[name]
        return Changes(frozenset(changed), frozenset(gone))

    def changed_at(self, name: str) -> float:
        """When a run's curve or outcome was last written, in seconds since 1970; 0 if never."""
        curve, _, outcome = self._stamp(name)
        return max(curve, outcome) / 1e9

    def _look_at_root(self) -> tuple[set[str], set[str]]:
        """Runs whose directory is new, and those that have lost theirs."""
        try:
            time = self.store.root.stat().st_mtime_ns
        except OSError:
            time = 0
        if time == self._root_time:
            return set(), set()
        self._root_time = time
        places = {}
        for name in self.store.ids():
            try:
                places[name] = os.stat(self.store.root / name).st_ino
            except OSError:
                continue
        new = {name for name, place in places.items() if self._places.get(name) != place}
        gone = set(self._places) - set(places)
        for name in gone:
            self._open.pop(name, None)
        self._places = places
        for name in new:
            self._open[name] = self._stamp(name)
        return new, gone

    def _stamp(self, name: str) -> Stamp:
        folder = self.store.root / name
        return (*_written(folder / CURVE), _written(folder / OUTCOME)[0])


def _written(path: os.PathLike[str]) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
