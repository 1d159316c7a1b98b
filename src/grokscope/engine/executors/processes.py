"""Several worker processes on this machine, the cores divided among them.

Workers are plain subprocesses that talk JSON lines, so scripts need no `__main__` guard. Only parts
that live in the script itself cannot reach them.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading

from grokscope.engine.events import Event, Sink
from grokscope.engine.orders import Order, carry_out


class LocalProcesses:
    def __init__(self, count: int) -> None:
        self.count = count

    def execute(self, order: Order, sink: Sink) -> None:
        from grokscope.store.provenance import count_cores

        text = order.to_json()
        threads = str(max(1, count_cores() // self.count))
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        workers = []
        try:
            for index in range(self.count):
                worker = subprocess.Popen(
                    [sys.executable, "-m", "grokscope.engine.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "NPROC": threads, "GROKSCOPE_WORKER": str(index)},
                )
                workers.append(worker)
                threading.Thread(target=_forward, args=(worker, text, lines), daemon=True).start()
            speaking = len(workers)
            while speaking:
                line = lines.get()
                if line is None:
                    speaking -= 1
                else:
                    sink(Event.from_json(line))
        finally:
            for worker in workers:
                assert worker.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    worker.stdin.close()  # a worker whose master has gone stops by itself
            codes = [worker.wait() for worker in workers]
        if any(codes):
            # What a lost worker held is free again: do it here, or meet its error here.
            carry_out(order, sink)


def _forward(
    worker: subprocess.Popen[str], order: str, lines: queue.SimpleQueue[str | None]
) -> None:
    """Give a worker its order and pass on what it says; None at the end."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(order + "\n")
        worker.stdin.flush()
        for line in worker.stdout:
            lines.put(line)
    except (BrokenPipeError, ValueError):
        pass  # it is gone; its exit code tells
    finally:
        worker.stdout.close()
        lines.put(None)
