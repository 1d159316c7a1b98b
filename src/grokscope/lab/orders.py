"""Work that the page asks for. An order is a file; a process of its own (`foreman`) carries it out
and outlives the server. Whether it is alive is told by its lease.

    .locks/orders/ID.json    the specs
    .locks/orders/ID.stop    names of runs that are to stop, one per line
    .locks/orders/ID.error   why it could not be carried out
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from grokscope.errors import GrokscopeError, SpecError, StoreError
from grokscope.spec import Spec
from grokscope.store import Run, Store
from grokscope.store.files import read_json, write_file

STARTING = 300.0  # seconds that a foreman of another server may take to get up; ours we can ask
KEPT = 600.0  # seconds for which the error of an order is shown


class Orders:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.folder = store.root.resolve() / ".locks" / "orders"
        self._foremen: dict[str, subprocess.Popen[bytes]] = {}  # by order, of this server

    def place(self, specs: Sequence[Spec]) -> str:
        """Hand over; returns the name of the order at once."""
        busy = self.under_way()
        left = [s for s in specs if s.id not in busy and not self.store.find(s).ended]
        if not left:
            raise SpecError("Nothing is left to train: every run is in the store or under way.")
        for spec in left:
            self.store.begin(spec)  # it can be seen before its foreman is up
        name = f"{int(time.time()):x}-{secrets.token_hex(3)}"
        data = {"store": str(self.store.root.resolve()), "specs": [s.to_dict() for s in left]}
        data["runs"] = [spec.id for spec in left]
        path = write_file(self.folder / f"{name}.json", json.dumps(data).encode())
        with open(self.folder / f"{name}.log", "wb") as log:  # it is the child's
            self._foremen[name] = subprocess.Popen(
                [sys.executable, "-m", "grokscope.lab.foreman", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the server's terminal is not for it
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        threading.Thread(target=self._foremen[name].wait, daemon=True).start()  # no zombie stays
        return name

    def under_way(self) -> dict[str, str]:
        """Runs that a living foreman is to train, and its order."""
        found = {}
        for path in sorted(self.folder.glob("*.json")):
            try:
                runs = read_json(path)["runs"]
            except (GrokscopeError, KeyError):
                continue
            stopped = stopped_runs(path)
            if not self._alive(path):
                for suffix in (".json", ".stop", ".log"):
                    path.with_suffix(suffix).unlink(missing_ok=True)
                continue
            for run in runs:
                if run not in stopped and not Run(self.store.root / run).ended:
                    found[run] = path.stem
        return found

    def stop(self, run: str) -> None:
        """It stops within a moment, and resumes to the same bits when it is ordered again."""
        order = self.under_way().get(run)
        if order is None:
            raise StoreError(
                f"Run {run} is not trained by this lab. Stop it where it was started; it resumes "
                "from its last resume point."
            )
        with open(self.folder / f"{order}.stop", "a") as file:
            file.write(run + "\n")

    def errors(self) -> list[str]:
        """Why recent orders could not be carried out."""
        now, found = time.time(), []
        for path in sorted(self.folder.glob("*.error")):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime < KEPT:
                    found.append(path.read_text())
        return found

    def _alive(self, path: Path) -> bool:
        foreman = self._foremen.get(path.stem)
        if foreman is not None and foreman.poll() is None:  # imports may take it minutes
            return True
        try:
            young = foreman is None and time.time() - path.stat().st_mtime < STARTING
        except FileNotFoundError:  # it has just been carried out
            return False
        return young or self.store.is_held(lock_of(path))


def lock_of(path: Path) -> str:
    return f"order-{path.stem}"


def stopped_runs(path: Path) -> set[str]:
    try:
        return set(path.with_suffix(".stop").read_text().split())
    except OSError:
        return set()
