"""Processes that stay and take turns, so that thread pools of different libraries never meet and
what is compared is still measured side by side.

A child reads one JSON object a line and answers with one. It works only while it is asked to; a
team is a set of children that work at the same time, each on its share of the members.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grokscope.store.provenance import count_cores

PAUSE = 0.02  # seconds: threads of the last one stop spinning


class Child:
    """One process on some of the cores, with as many threads."""

    def __init__(self, module: str, cores: Sequence[int], extra: Mapping[str, str]) -> None:
        threads = str(len(cores))
        environment = {
            **os.environ,
            "NPROC": threads,  # XLA obeys this, PyTorch the next
            "OMP_NUM_THREADS": threads,
            "BENCH_CORES": json.dumps(cores),
            **extra,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )

    def send(self, do: str, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"A benchmark process ended with code {self.process.wait()}.")
        return json.loads(line)

    def ask(self, do: str, **order: Any) -> Any:
        self.send(do, **order)
        return self.receive()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Team:
    """Children that work together; members are dealt out in turn, so that some children may have
    nothing to do."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = children
        self.busy: dict[str, Sequence[Child]] = {}  # by kind: those with members

    def prepare(self, kind: str, problems: Sequence[Any]) -> float:
        """Seconds until every child has data, a compiled program and one call behind it."""
        self.busy[kind] = self.children[: len(problems)]
        count = len(self.busy[kind])
        for index, child in enumerate(self.busy[kind]):
            child.send("prepare", kind=kind, problems=problems[index::count])
        return max(child.receive() for child in self.busy[kind])

    def turn(self, kind: str, epochs: int) -> float:
        """Seconds for `epochs` epochs of every member."""
        began = time.perf_counter()
        for child in self.busy[kind]:
            child.send("turn", kind=kind, epochs=epochs)
        for child in self.busy[kind]:
            child.receive()
        return time.perf_counter() - began


@contextlib.contextmanager
def one_process(module: str, **extra: str) -> Iterator[Team]:
    """A process that may use every core; `extra` goes to its environment."""
    with _closing([Child(module, _cores(), extra)]) as team:
        yield team


@contextlib.contextmanager
def process_per_core(module: str, **extra: str) -> Iterator[Team]:
    """A process a core, one thread each, as the lab divides the machine among its workers."""
    with _closing([Child(module, [core], extra) for core in _cores()]) as team:
        yield team


@contextlib.contextmanager
def _closing(children: Sequence[Child]) -> Iterator[Team]:
    try:
        yield Team(children)
    finally:
        for child in children:
            child.close()


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(count_cores()))


def take_turns(work: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each piece of work in each round."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, piece in work.items():
            time.sleep(PAUSE)
            times[name].append(piece())
    return times


def clocked(
    piece: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> Callable[[], float]:
    """The same work, giving its seconds."""

    def timed() -> float:
        began = clock()
        piece()
        return clock() - began

    return timed


def median_ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """How many times longer the first took, round by round; the median over rounds."""
    return statistics.median(a / b for a, b in zip(first, second, strict=True))


def make_operands(product: Sequence[int]) -> list[np.ndarray]:  # -> (n, a), (n, b), (a, b)
    """What a product of `comparison.list_products` and its gradients multiply. The weight matrix is
    orthonormal: products of products neither vanish nor explode."""
    rng = np.random.default_rng(0)
    n, a, b = product
    inputs, gradients = (rng.standard_normal((n, size), np.float32) for size in (a, b))
    weights = np.linalg.qr(rng.standard_normal((max(a, b), min(a, b)), np.float32))[0]
    return [inputs, gradients, weights if a >= b else weights.T]


def serve(kinds: Mapping[str, Callable[[list[Any]], Any]]) -> None:
    """What a child does: orders from standard input until it closes.

    `prepare` builds a contender of a kind, `turn` lets it advance, `losses` gives the training loss
    before each of the first epochs, from the start. What else an order names is a method.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, json.loads(os.environ["BENCH_CORES"]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    ready: dict[str, Any] = {}
    for line in sys.stdin:
        order = json.loads(line)
        do, kind = order.pop("do"), order.pop("kind")
        if do == "prepare":
            began = time.perf_counter()
            ready[kind] = kinds[kind](order["problems"])
            ready[kind].warm_up()
            answer: Any = time.perf_counter() - began
        elif do == "turn":
            answer = ready[kind].advance(order["epochs"])
        else:
            answer = getattr(ready[kind], do)(**order)
        print(json.dumps(answer), file=answers, flush=True)
