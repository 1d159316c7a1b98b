"""What has changed in a store since the last look.

Runs that have ended are left alone until their directory is another one, so a look costs a few
system calls per run under way, and a listing of names if runs were begun, however many there are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grokscope.store.index import RECENT
from grokscope.store.run import CURVE, OUTCOME, is_id

Stamp = tuple[int, int, int]  # time and size of the curve, time of the outcome (0: none)


@dataclass(frozen=True)
class Moment:
    """What was seen at a look; the next one tells what is other."""

    root_time: int = -1
    places: Mapping[str, int] = field(default_factory=dict)  # by run: the inode of its directory
    open: Mapping[str, Stamp] = field(default_factory=dict)  # runs that have not ended


@dataclass(frozen=True)
class Changes:
    changed: frozenset[str]  # names of runs that are new or have new rows
    gone: frozenset[str]
    until: Moment

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


def find_changes(root: Path, since: Moment) -> Changes:
    time_of_root, places = _look_at(root, since)
    new = {name for name, place in places.items() if since.places.get(name) != place}
    gone = since.places.keys() - places.keys()
    if not new and not gone:
        places = since.places
    changed, still_open = set(new), {}
    for name in (since.open.keys() - gone) | new:
        stamp = stamp_of(f"{root}/{name}")  # paths of their own would take half of the time
        if stamp != since.open.get(name):
            changed.add(name)
        if not stamp[2]:
            still_open[name] = stamp
    until = Moment(time_of_root, places, still_open)
    return Changes(frozenset(changed), frozenset(gone), until)


def changed_at(folder: Path | str) -> float:
    """When a run's curve or outcome was last written, in seconds since 1970; 0 if never."""
    curve, _, outcome = stamp_of(folder)
    return max(curve, outcome) / 1e9


def stamp_of(folder: Path | str) -> Stamp:
    return (*_written(f"{folder}/{CURVE}"), _written(f"{folder}/{OUTCOME}")[0])


def _look_at(root: Path, since: Moment) -> tuple[int, Mapping[str, int]]:
    """The time of the root, and its runs with their places. They are listed again only if it has
    changed; a time as recent as now may stand for two changes, so it is not remembered."""
    time_of_root = _written(root)[0]
    if time_of_root == since.root_time:
        return time_of_root, since.places
    try:
        with os.scandir(root) as entries:  # tells places without asking for each
            places = {e.name: e.inode() for e in entries if is_id(e.name) and e.is_dir()}
    except OSError:
        places = {}
    recent = time_of_root > (time.time() - RECENT) * 1e9
    return -1 if recent else time_of_root, places


def _written(path: Path | str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
