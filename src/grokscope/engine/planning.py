"""From a list of specs to finished runs: what is left to do, in which order, by whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from grokscope.engine.events import Event, Sink, fan_out
from grokscope.engine.executors import Executor, InProcess, LocalProcesses
from grokscope.engine.orders import Execution, make_order, resolve
from grokscope.errors import GrokscopeError, TrainingError
from grokscope.parts import lives_in_main, refer
from grokscope.problems import find_kind
from grokscope.spec import Spec
from grokscope.store import Run, Store
from grokscope.store.provenance import count_cores

WORTH_A_PROCESS = 10.0  # seconds of training that pay for starting a second process
# Runs that stop soon after they grok do so in the first half of their budget, most of them.
STOPS_EARLY = 0.6


def train(
    specs: Spec | Iterable[Spec],
    store: Store | str | Path | None = None,
    *,
    processes: int | None = None,
    execution: Execution = "auto",
    executor: Executor | None = None,
    sinks: Sink | Iterable[Sink] = (),
) -> list[Run]:
    """Train what the store does not have yet, and return every run, in the order of the specs.

    Interrupt it at any moment: calling it again resumes from the last resume point with the same
    bits. `processes` defaults to one per core where that pays, and to one for batches (`vmap`). A
    run whose numbers overflow is marked as failed and does not disturb the others. `sinks` are
    called with every `Event`.
    """
    specs = [specs] if isinstance(specs, Spec) else list(specs)
    specs = [pin_spec(spec) for spec in specs]
    store = store if isinstance(store, Store) else Store(store)
    sink = fan_out(sinks)
    left = []
    for spec in {spec.id: spec for spec in specs}.values():
        if store.find(spec).ended:
            sink(Event("skipped", spec.id, spec.training.epochs, spec.training.epochs))
        else:
            left.append(spec)
    if left:
        executor = executor or choose_executor(left, processes, execution)
        refused: list[GrokscopeError] = []
        for wave in in_order(left):
            # The longest first, so that no core waits long for another's last run.
            wave = sorted(wave, key=expected_seconds, reverse=True)
            try:
                executor.execute(make_order(wave, store, execution), sink)
            except GrokscopeError as error:  # what does not depend on it is trained all the same
                refused.append(error)
        if refused:
            raise refused[0]
    return [store.find(spec) for spec in specs]


def pin_spec(spec: Spec) -> Spec:
    """The spec with the fingerprints of the user's own parts."""
    return find_kind(spec).pin(spec)


def choose_executor(
    specs: Sequence[Spec], processes: int | None, execution: Execution
) -> InProcess | LocalProcesses:
    """Worker processes where they pay, unless what they would need lives in this script."""
    count = choose_processes(specs) if processes is None else processes
    if processes is None and count > 1 and resolve(execution) == "vmap":
        count = 1  # the first process claims the whole batch; others would only wait
    named = [reference for spec in specs for reference in find_kind(spec).references(spec)]
    if any(map(lives_in_main, [*named, *{refer(type(spec)) for spec in specs}])):
        count = 1  # a worker would have to run the whole script to get at the part
    return LocalProcesses(count) if count > 1 else InProcess()


def choose_processes(specs: Sequence[Spec]) -> int:
    """One process per core if there are enough runs and they are long enough, else one."""
    seconds = sorted(map(estimate_seconds, specs), reverse=True)
    if sum(seconds[1:]) < WORTH_A_PROCESS:
        return 1
    return min(count_cores(), len(specs))


def estimate_seconds(spec: Spec) -> float:
    """Rough training time on one core."""
    return find_kind(spec).estimate(spec)


def expected_seconds(spec: Spec) -> float:
    """The same with what is known of early ends."""
    seconds = estimate_seconds(spec)
    return seconds if spec.training.stop == "never" else seconds * STOPS_EARLY


def in_order(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Waves: teachers and sources of masks come before the runs that need them."""
    by_id = {spec.id: spec for spec in specs}
    waves: list[list[Spec]] = []
    placed: set[str] = set()
    left = list(specs)
    while left:
        ready = [s for s in left if not {n for n in s.needs() if n in by_id} - placed]
        if not ready:
            raise TrainingError("These runs wait for each other: " + ", ".join(s.id for s in left))
        waves.append(ready)
        placed |= {spec.id for spec in ready}
        left = [spec for spec in left if spec.id not in placed]
    return waves
