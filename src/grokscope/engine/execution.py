"""From a list of specs to finished runs: what is left to do, in which order, by whom.

Runs are idempotent by hash and claimed through the store, so any number of workers may walk the
same list: each takes what nobody holds, and whoever finds only held runs waits for them. That is
all the coordination there is, within one machine or, later, across several.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from grokscope.engine.events import Event, Listener, ignore
from grokscope.errors import GrokscopeError, TrainingError
from grokscope.spec import RunSpec, from_dict, to_dict
from grokscope.store import Run, Store
from grokscope.tasks import pin_rule
from grokscope.tasks.rules import lives_in_main

Execution = Literal["auto", "one-by-one", "vmap"]

# Measured with `make bench` (docs/log.md): on CPU a batch of runs is no faster than one after the
# other, and keeps a run's bits dependent on its neighbours. Accelerators are the reverse.
BY_BACKEND: dict[str, Execution] = {"cpu": "one-by-one", "gpu": "vmap", "tpu": "vmap"}

WORTH_A_PROCESS = 10.0  # seconds of training that pay for starting a second process
POLL_SECONDS = 0.3
RATE = 130e9  # operations a second on one core
# Runs that stop soon after they grok do so in the first half of their budget, most of them.
STOPS_EARLY = 0.6


class Executor(Protocol):
    """Who does the work. Ray or a cluster implements this one method."""

    def execute(self, specs: Sequence[RunSpec], store: Store, listen: Listener) -> None:
        """Return when every spec has ended in the store, or raise."""


class InProcess:
    """Everything in this process."""

    def __init__(self, execution: Execution = "auto") -> None:
        self.execution = execution

    def execute(self, specs: Sequence[RunSpec], store: Store, listen: Listener) -> None:
        work_through(specs, store, listen, self.execution)


class LocalProcesses:
    """Several worker processes on this machine, the cores divided among them.

    Workers are plain subprocesses that talk JSON lines, so scripts need no `__main__` guard. Only
    a rule that lives in the script itself cannot reach them.
    """

    def __init__(self, count: int, execution: Execution = "auto") -> None:
        self.count = count
        self.execution = execution

    def execute(self, specs: Sequence[RunSpec], store: Store, listen: Listener) -> None:
        from grokscope.provenance import count_cores

        order = json.dumps(
            {
                "specs": [to_dict(spec) for spec in specs],
                "store": str(store.root),
                "execution": self.execution,
            }
        )
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
                threading.Thread(target=_forward, args=(worker, order, lines), daemon=True).start()
            speaking = len(workers)
            while speaking:
                line = lines.get()
                if line is None:
                    speaking -= 1
                else:
                    listen(Event.from_json(line))
        finally:
            for worker in workers:
                assert worker.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    worker.stdin.close()  # a worker whose master has gone stops by itself
            codes = [worker.wait() for worker in workers]
        if any(codes):
            # What a lost worker held is free again: do it here, or meet its error here.
            work_through(specs, store, listen, self.execution)


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


def train(
    specs: RunSpec | Iterable[RunSpec],
    store: Store | str | Path | None = None,
    *,
    processes: int | None = None,
    execution: Execution = "auto",
    executor: Executor | None = None,
    listen: Listener = ignore,
) -> list[Run]:
    """Train what the store does not have yet, and return every run, in the order of the specs.

    Interrupt it at any moment: calling it again goes on from the last resume point with the same
    bits. `processes` defaults to one per core where that pays, and to one for batches (`vmap`). A
    run whose numbers overflow is marked as failed and does not disturb the others.
    """
    specs = [specs] if isinstance(specs, RunSpec) else list(specs)
    specs = [pin_spec(spec) for spec in specs]
    store = store if isinstance(store, Store) else Store(store)
    left = []
    for spec in {spec.id: spec for spec in specs}.values():
        if store.find(spec).ended:
            listen(Event("skipped", spec.id, spec.training.epochs, spec.training.epochs))
        else:
            left.append(spec)
    if left:
        if executor is None:
            count = choose_processes(left) if processes is None else processes
            if processes is None and count > 1 and resolve(execution) == "vmap":
                count = 1  # whoever comes first claims the whole batch; others would only wait
            if any(lives_in_main(spec.task.rule) for spec in left):
                count = 1  # a worker would have to run the whole script to get at the rule
            executor = LocalProcesses(count, execution) if count > 1 else InProcess(execution)
        refused: list[GrokscopeError] = []
        for wave in in_order(left):
            # The longest first, so that no core waits long for another's last run.
            wave = sorted(wave, key=expected_seconds, reverse=True)
            try:
                executor.execute(wave, store, listen)
            except GrokscopeError as error:  # what does not depend on it goes on
                refused.append(error)
        if refused:
            raise refused[0]
    return [store.find(spec) for spec in specs]


def choose_processes(specs: Sequence[RunSpec]) -> int:
    """One process a core if there are enough runs and they are long enough, else one."""
    from grokscope.provenance import count_cores

    seconds = sorted(map(estimate_seconds, specs), reverse=True)
    if sum(seconds[1:]) < WORTH_A_PROCESS:
        return 1
    return min(count_cores(), len(specs))


def resolve(execution: Execution) -> Execution:
    """What "auto" means on this machine. Sets JAX up, since it may be the first to use it."""
    import jax

    from grokscope.engine.compilation import prepare

    prepare()
    return BY_BACKEND.get(jax.default_backend(), "vmap") if execution == "auto" else execution


def estimate_seconds(spec: RunSpec) -> float:
    """Rough training time on one core: the matrix products of forward and backward pass at `RATE`
    operations a second, a quarter more for the rest (in the minimal model 2 ns for each number of
    the values that its heads mix), a fixed cost per epoch, and two passes over all that is trained
    on for each row of the curve."""
    from grokscope.validation import operand_values

    task, model, training = spec.task, spec.model, spec.training
    drawn = {"parity": task.bits, "parity_stream": task.blocks * task.bits}
    examples = task.examples or operand_values(task) ** drawn.get(task.kind, task.operands)
    inner = model.width + operand_values(task)
    length = task.length or 2 * task.operands + 1
    if task.kind in ("parity", "parity_stream"):
        length = task.bits + 1
    if model.kind == "transformer":
        # Small products and elementwise work at every position run at a fifth of the rate.
        if task.kind == "parity_stream":
            length *= task.blocks
        block = model.width * (4 * model.width + 2 * model.hidden) + 2 * length * model.width
        each = 1.25 * 12 * 5 * length * model.layers * block / RATE
    else:
        each = 12 * model.hidden * inner / RATE + 2e-9 * length * model.heads * model.width
    trained = examples * task.train_fraction
    seen = (spec.optimiser.batch or trained) + 2 * trained / training.log_every
    return training.epochs * (seen * each + 3e-4)  # `each`: seconds an example


def expected_seconds(spec: RunSpec) -> float:
    """The same with what is known of early ends."""
    seconds = estimate_seconds(spec)
    return seconds * STOPS_EARLY if spec.training.stop == "grokked" else seconds


def in_order(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Waves: teachers and sources of masks come before the runs that need them."""
    by_id = {spec.id: spec for spec in specs}
    waves: list[list[RunSpec]] = []
    placed: set[str] = set()
    left = list(specs)
    while left:
        ready = [s for s in left if not {n for n in _needs(s) if n in by_id} - placed]
        if not ready:
            raise TrainingError("These runs wait for each other: " + ", ".join(s.id for s in left))
        waves.append(ready)
        placed |= {spec.id for spec in ready}
        left = [spec for spec in left if spec.id not in placed]
    return waves


def _needs(spec: RunSpec) -> list[str]:
    return [name for name in (spec.prior.teacher, spec.interventions.mask.source) if name]


def work_through(
    specs: Sequence[RunSpec], store: Store, listen: Listener, execution: Execution = "auto"
) -> None:
    """Train every spec that nobody else does, then wait until the others have done theirs."""
    execution = resolve(execution)
    left = {spec.id: spec for spec in specs}
    refused: list[GrokscopeError] = []
    while left:
        before = len(left)
        groups = _group(left.values()) if execution == "vmap" else [[s] for s in left.values()]
        for group in groups:
            # An impossible run must not keep the others waiting.
            for name, error in _train_free(group, store, listen).items():
                refused.append(error)
                del left[name]
        left = {name: spec for name, spec in left.items() if not store.find(spec).ended}
        if left and len(left) == before:  # all that is left is held by others
            time.sleep(POLL_SECONDS)
    if refused:
        raise refused[0]


def _train_free(
    specs: Sequence[RunSpec], store: Store, listen: Listener
) -> dict[str, GrokscopeError]:
    """Claim what is free among `specs` and train it, batched if it is more than one run. What
    cannot be trained (no such teacher, no room for a distractor) is returned with its reason."""
    from grokscope.engine.members import make_member
    from grokscope.engine.training import train_group

    refused: dict[str, GrokscopeError] = {}
    with contextlib.ExitStack() as claims:
        mine = [
            spec
            for spec in specs
            if not store.find(spec).ended
            and claims.enter_context(store.claim(spec.id))
            and not store.find(spec).ended  # it may have ended while we took the lock
        ]
        batches = defaultdict(list)
        for spec in mine:
            try:
                form, member = make_member(spec, store)
            except GrokscopeError as error:
                refused[spec.id] = error
                continue
            sizes = (member.train.tokens.shape, member.test.tokens.shape, member.cycle.shape)
            batches[form, sizes].append((spec, member))
        for (form, _), batch in batches.items():
            some, members = zip(*batch, strict=True)
            train_group(some, form, members, store, listen)
    return refused


def _group(specs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Runs that could share a batch; their exact shapes are compared when their data is there."""
    groups = defaultdict(list)
    for spec in specs:
        task = spec.task
        key = (
            task.kind,
            task.modulus,
            task.operands,
            task.length,
            task.train_fraction,
            dataclasses.replace(spec.model, init_scale=1.0),
            spec.optimiser.kind,
            spec.optimiser.batch,
        )
        groups[key].append(spec)
    return list(groups.values())


def pin_spec(spec: RunSpec) -> RunSpec:
    """A custom rule is known by what it computes."""
    if spec.task.kind != "custom":
        return spec
    return dataclasses.replace(spec, task=pin_rule(spec.task))


def run_worker(order: str, listen: Listener) -> int:
    """What a worker process does with its order; the exit code."""
    data = json.loads(order)
    specs = [from_dict(item) for item in data["specs"]]
    try:
        work_through(specs, Store(data["store"]), listen, data["execution"])
    except GrokscopeError:
        return 1  # the master meets the same error and tells it
    return 0
