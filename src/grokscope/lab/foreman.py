"""A process that carries out one order of the lab: `python -m grokscope.lab.foreman ORDER.json`.

It trains what is left with the executor that suits it. When a run is to stop, it begins again
without that run: its workers end with it, and everything else resumes from its last resume point.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from pathlib import Path

from grokscope.engine.planning import train
from grokscope.errors import GrokscopeError
from grokscope.lab.orders import lock_of, stopped_runs
from grokscope.spec import read_spec
from grokscope.store import Store
from grokscope.store.files import read_json, write_file

LOOK_SECONDS = 0.2


def main(path: Path) -> int:
    order = read_json(path)
    store = Store(order["store"])
    stopped = stopped_runs(path)
    specs = [read_spec(data) for data in order["specs"]]
    specs = [spec for spec in specs if spec.id not in stopped]
    with store.claim(lock_of(path)) as mine:
        if not mine:  # another one carries it out
            return 0
        threading.Thread(target=_watch, args=(path, stopped), daemon=True).start()
        return _work(path, specs, store)


def _work(path: Path, specs: list, store: Store) -> int:
    try:
        train(specs, store, trust=True)  # the server has checked what they and their teachers name
    except GrokscopeError as error:
        write_file(path.with_suffix(".error"), str(error).encode())
    except Exception:
        traceback.print_exc()
        words = f"An order failed; {path.with_suffix('.log')} says why."
        write_file(path.with_suffix(".error"), words.encode())
        return 1
    finally:
        path.unlink(missing_ok=True)
        path.with_suffix(".stop").unlink(missing_ok=True)
    path.with_suffix(".log").unlink(missing_ok=True)
    return 0


def _watch(path: Path, stopped: set[str]) -> None:
    while True:
        time.sleep(LOOK_SECONDS)
        if stopped_runs(path) != stopped and path.exists():
            # Workers and the lease go with this process image; the resume points are on disk.
            os.execv(sys.executable, [sys.executable, "-m", "grokscope.lab.foreman", str(path)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
