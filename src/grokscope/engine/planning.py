"""From a list of specs to finished runs: what is left to do, in which order, by whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grokscope.engine.events import Event, Sink, fan_out
from grokscope.engine.executors import Executor, InProcess, LocalProcesses
from grokscope.engine.orders import Execution, begun_segment, make_order, refusal, resolve
from grokscope.errors import GrokscopeError, TrainingError, named_error
from grokscope.parts import lives_in_main, refer, trusting
from grokscope.problems import find_kind
from grokscope.spec import Spec
from grokscope.store import Run, Store
from grokscope.store.provenance import count_cores

WORTH_A_PROCESS = 10.0  # seconds of training that pay for starting a second process
# Runs that stop soon after they grok do so in the first half of their budget, most of them.
STOPS_EARLY = 0.6
MOST_THREADS = 1024


def train(
    specs: Spec | Iterable[Spec],
    store: Store | str | Path | None = None,
    *,
    processes: int | None = None,
    execution: Execution = "auto",
    executor: Executor | None = None,
    sinks: Sink | Iterable[Sink] = (),
    trust: bool = False,
) -> list[Run]:
    """As `grokscope.train`, in silence. A run resumes with the threads, the batch and the compiler
    options that it was begun with, and so comes to the same bits."""
    specs = [specs] if isinstance(specs, Spec) else list(specs)
    with trusting(trust):
        specs = [pin_spec(spec) for spec in specs]
    store = store if isinstance(store, Store) else Store(store)
    tell = fan_out(sinks)
    refused: dict[str, Event] = {}

    def sink(event: Event) -> None:
        if event.kind == "refused":
            refused[event.run] = event
        tell(event)

    left: list[Spec] = []
    for spec in {spec.id: spec for spec in specs}.values():
        if not store.find(spec).ended:
            left.append(spec)
            continue
        try:
            _ = store.find(spec).outcome
            sink(Event("skipped", spec.id, spec.training.epochs, spec.training.epochs))
        except GrokscopeError as error:  # one bad entry does not keep the others from training
            sink(refusal(spec, error))
    trouble: list[GrokscopeError] = []
    if left:
        executor = executor or choose_executor(left, processes, execution)
        for wave in in_order(left):
            # The longest first, so that no core waits long for another's last run: by the whole
            # budget, since those that do not stop early are waited for. Equal forms together, so
            # that fewer machines compile each (docs/clusters.md).
            wave = sorted(wave, key=lambda spec: (-estimate_seconds(spec), spec.family()))
            for fitting, some in _by_threads(wave, store, executor):
                try:
                    fitting.execute(make_order(some, store, execution, trust=trust), sink)
                except GrokscopeError as error:  # the rest is trained all the same
                    trouble.append(error)
    _judge(specs, store, refused, trouble)
    return [store.find(spec) for spec in specs]


def _by_threads(
    specs: Sequence[Spec], store: Store, executor: Executor
) -> list[tuple[Executor, list[Spec]]]:
    """Who trains what. The number of threads is fixed when a process starts, so half-done runs that
    were begun with another number get worker processes of their own."""
    usual = getattr(executor, "threads", None)
    groups: dict[int | None, list[Spec]] = defaultdict(list)
    for spec in specs:
        begun = begun_segment(spec, store) if usual is not None else None
        wanted = begun.get("threads") if begun and begun.get("backend") == "cpu" else None
        possible = wanted and wanted <= MOST_THREADS  # else it is refused when its turn comes
        if not possible or any(map(lives_in_main, _own_references(spec))):
            wanted = usual
        groups[wanted].append(spec)
    with_threads = getattr(executor, "with_threads", None)
    return [
        (executor if with_threads is None or threads == usual else with_threads(threads), some)
        for threads, some in groups.items()
    ]


def _judge(
    specs: Sequence[Spec],
    store: Store,
    refused: Mapping[str, Event],
    trouble: Sequence[GrokscopeError],
) -> None:
    """Success is what the store has: every run has ended, or each that has not gets a sentence."""
    names = list(dict.fromkeys(spec.id for spec in specs))
    lost = [name for name in names if name in refused or not Run(store.root / name).ended]
    if not lost:
        return
    reasons: dict[str, list[str]] = defaultdict(list)
    rest = str(trouble[0]) if trouble else "It has not ended, and nobody said why."
    for name in lost:
        reasons[refused[name].message if name in refused else rest].append(name)
    kinds = [refused[name].error for name in lost if name in refused]
    kinds += [type(error).__name__ for error in trouble]
    lines = list(reasons)
    if len(lost) > 1:
        lines = [f"{', '.join(some)}: {reason}" for reason, some in reasons.items()]
        lines = [f"{len(lost)} of {len(names)} runs have not ended.", *lines]
    raise named_error((kinds or [""])[0], "\n".join(lines))


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
    if any(lives_in_main(name) for spec in specs for name in _own_references(spec)):
        count = 1  # a worker would have to run the whole script to get at the part
    return LocalProcesses(count) if count > 1 else InProcess()


def _own_references(spec: Spec) -> list[str]:
    """Where the parts of the user's own are that a worker process would have to load."""
    return [*find_kind(spec).references(spec), refer(type(spec))]


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
