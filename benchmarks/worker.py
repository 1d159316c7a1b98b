"""A worker process of the lab with a clock in its hand: `python -m benchmarks.worker`.

It is `grokscope.engine.worker` with timers around what it calls; the work is the same. When it ends
it writes where its time went into the folder $BENCH_CLOCK.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER, BORN = "BENCH_CLOCK", "BENCH_BORN"  # of the environment: where to write, when started


class Clock:
    """Seconds by name. What runs inside something else counts for the inner one alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inner = [0.0]

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            return self.call(name, function, *arguments, **options)

        return timed

    def call(self, name: str, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        self.inner.append(0.0)
        began = time.perf_counter()
        try:
            return function(*given, **options)
        finally:
            seconds = time.perf_counter() - began
            self.seconds[name] += seconds - self.inner.pop()
            self.inner[-1] += seconds


def install(clock: Clock) -> None:
    """Timers around data, compiling, advancing, writing and waiting; a note when all is done."""
    import jax

    from grokscope.engine import orders, program, training
    from grokscope.engine.program import Program, make_program
    from grokscope.store import Store

    compiled: set[Any] = set()

    def timed_call(form: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """The first call with arrays of these shapes compiles, and advances by one row at most."""

        def call(*given: Any) -> Any:
            shapes = tuple(leaf.shape for leaf in jax.tree.leaves(given))
            key = (form, id(function), shapes)
            name = "train and measure" if key in compiled else "compile"
            compiled.add(key)
            return clock.call(name, lambda: jax.block_until_ready(function(*given)))

        return call

    def timed_program(form: Any, *how: Any, **options: Any) -> Program:
        made = make_program(form, *how, **options)
        return Program(timed_call(form, made.init), timed_call(form, made.advance))

    # What the engine looks up in its own modules is replaced there.
    replaced: list[tuple[Any, str, Any]] = [
        (program, "make_member", clock.around("data", program.make_member)),
        (training, "make_program", timed_program),
        (orders, "time", SimpleNamespace(sleep=clock.around("wait", time.sleep))),
        (orders, "carry_out", _noting(clock, orders.carry_out)),
    ]
    for name in ("begin", "save_progress", "save_snapshot", "finish", "load_progress"):
        replaced.append((Store, name, clock.around("write", getattr(Store, name))))
    for owner, name, value in replaced:
        setattr(owner, name, value)


def _noting(clock: Clock, carry_out: Callable[..., None]) -> Callable[..., None]:
    def noted(*given: Any) -> None:
        ready = time.time()
        carry_out(*given)
        note = {
            "born": float(os.environ[BORN]),
            "ready": ready,
            "ended": time.time(),
            "seconds": clock.seconds,
        }
        Path(os.environ[FOLDER], f"{os.getpid()}.json").write_text(json.dumps(note))

    return noted


if __name__ == "__main__":
    from grokscope.engine import worker

    install(Clock())
    sys.exit(worker.main())
