"""Several worker processes on this machine, the cores divided among them.

Workers are plain subprocesses that talk JSON lines, so scripts need no `__main__` guard. Only parts
that live in the script itself cannot reach them. A worker that dies (out of memory, killed) is
reported and replaced; a run that takes two of them down is left out. A worker may be kept for
further orders: a new one needs seconds until it can train.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from grokscope.engine.events import DONE, TIRED, Event, Sink
from grokscope.engine.orders import Order, carry_out, read_specs, refusal
from grokscope.errors import GrokscopeError, TrainingError, named_error
from grokscope.store import Store
from grokscope.store.provenance import count_cores, count_threads, share_cores

STOP_SECONDS = 1.0  # until a worker that was told to stop is killed
MOST_DEATHS = 2  # of workers by the same run, or one after the other before they have a run


@dataclass
class Worker:
    process: subprocess.Popen[str]
    index: int
    lines: Lines  # what it says; None at its end
    orders: int = 0  # that it was given
    error: GrokscopeError | None = None  # what keeps it from its whole order
    told: bool = False  # has it said anything?


Lines = queue.SimpleQueue[tuple[Worker, str | None]]


class LocalProcesses:
    def __init__(self, count: int, threads: int | None = None, orders: int = 1) -> None:
        self.count = count
        self.threads = threads or max(1, count_cores() // count)
        self.orders = orders  # of a worker, one after the other
        self._kept: list[Worker] = []

    def with_threads(self, threads: int) -> LocalProcesses:
        """As many processes of that many threads as there are cores for."""
        return LocalProcesses(max(1, count_cores() // threads), threads, self.orders)

    def execute(self, order: Order, sink: Sink) -> None:
        lines: Lines = queue.SimpleQueue()
        specs = {spec.id: spec for spec in read_specs(order)}
        count = min(self.count, len(specs)) or 1
        workers = [self._start(order, index, lines) for index in range(count)]
        deaths: Counter[str] = Counter()
        refused: set[str] = set()
        store = Store(order.store)

        def listen(event: Event) -> None:
            if event.kind == "refused":
                refused.add(event.run)
            sink(event)

        try:
            while workers:
                worker, line = lines.get()
                if line is not None and line.strip() == DONE:
                    workers.remove(worker)
                    if worker.orders < self.orders:
                        self._kept.append(worker)
                    else:
                        _stop(worker.process)
                    continue
                if worker not in workers:
                    continue  # it was done, and has left
                if line is not None:
                    worker.told = True
                    _pass_on(worker, line, listen)
                    continue
                workers.remove(worker)
                code = worker.process.wait()
                _stop(worker.process)
                if code == 0 or order.reads:
                    continue  # probes that were not taken are noticed by whoever asked for them
                if worker.error is not None:
                    raise worker.error
                left = [n for n in specs if n not in refused and not store.find(specs[n]).ended]
                culprits = [n for n in left if _held(store, n, worker)] or [""]
                for name in culprits if code != TIRED else ():
                    deaths[name] += bool(name) or not worker.told
                    obituary = _obituary(code, name)
                    sink(Event("warned", name, message=obituary))
                    if deaths[name] < MOST_DEATHS:
                        continue
                    if not name:
                        raise TrainingError(obituary)
                    listen(refusal(specs[name], TrainingError(f"{obituary} It was tried twice.")))
                rest = [specs[name].to_dict() for name in left if name not in refused]
                if rest:
                    workers.append(self._start(replace(order, specs=rest), worker.index, lines))
        finally:
            _stop(*(worker.process for worker in workers))

    def close(self) -> None:
        """End the workers that were kept."""
        _stop(*(worker.process for worker in self._kept))
        self._kept.clear()

    def _start(self, order: Order, index: int, lines: Lines) -> Worker:
        worker = self._kept.pop() if self._kept else self._start_process(index, lines)
        worker.index, worker.lines, worker.told = index, lines, False
        if worker.orders:  # our cores may not be those of its last order
            _pin(worker.process.pid, index, self.threads)
        worker.orders += 1
        threading.Thread(target=_give, args=(worker, order), daemon=True).start()
        return worker

    def _start_process(self, index: int, lines: Lines) -> Worker:
        ours = {
            "NPROC": str(self.threads),
            "GROKSCOPE_WORKER": str(index),
            "GROKSCOPE_MASTER": os.environ.get("GROKSCOPE_MASTER", str(os.getpid())),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "grokscope.engine.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ours},
        )
        worker = Worker(process, index, lines)
        threading.Thread(target=_forward, args=(worker,), daemon=True).start()
        return worker


class InProcess:
    """Everything in this process."""

    @property
    def threads(self) -> int:
        return count_threads()

    def with_threads(self, threads: int) -> LocalProcesses:
        return LocalProcesses(1).with_threads(threads)

    def execute(self, order: Order, sink: Sink) -> None:
        carry_out(order, sink)


def _held(store: Store, name: str, worker: Worker) -> bool:
    holder = store.holder(name)
    return holder is not None and holder.ours and holder.worker == worker.process.pid


def _pass_on(worker: Worker, line: str, sink: Sink) -> None:
    try:
        event = Event.from_json(line)
    except (ValueError, TypeError):
        return  # the last words of one that was killed
    if event.kind == "warned" and event.error:
        worker.error = named_error(event.error, event.message)
    else:
        sink(event)


def _obituary(code: int, name: str) -> str:
    how = f"ended with exit code {code}"
    if code == 128 + signal.SIGTERM:
        how = "was ended by SIGTERM"
    elif code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
        how += " (out of memory?)" if code == -signal.SIGKILL else ""
    return f"A worker process {how}{f' while it held run {name}' if name else ''}."


def _stop(*processes: subprocess.Popen[str]) -> None:
    """Their input closes, and they stop by themselves, as they do when their master is killed. It
    is safe to kill one that is too busy to notice."""
    for process in processes:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _pin(process: int, index: int, threads: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # it has left, or the system cannot do it
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), share_cores(index, threads))


def _give(worker: Worker, order: Order) -> None:
    """A worker that is starting takes a while to read a long order."""
    assert worker.process.stdin is not None
    with contextlib.suppress(OSError, ValueError):  # it is gone
        worker.process.stdin.write(order.to_json() + "\n")
        worker.process.stdin.flush()
    if worker.process.poll() is not None:  # perhaps while nobody listened
        worker.lines.put((worker, None))


def _forward(worker: Worker) -> None:
    """Pass on what a worker says; None at the end."""
    assert worker.process.stdout is not None
    with worker.process.stdout as stdout:
        for line in stdout:
            worker.lines.put((worker, line))
    worker.lines.put((worker, None))
