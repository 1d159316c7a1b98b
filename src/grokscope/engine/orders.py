"""Orders: what an executor is asked to do, as plain data, and how a process carries one out.

Runs are idempotent by hash and claimed through the store, so any number of workers may walk the
same order: each takes what nobody holds, and waits if everything left is held. That is
all the coordination there is, within one machine or across several.

A run resumes with what it was begun with (threads, size of its batch, compiler options), since all
of these change last bits. Whatever goes wrong with one run is told as an event and ends that run
alone.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

from grokscope import interrupts
from grokscope.engine.events import Event, Sink
from grokscope.errors import GrokscopeError, LeaseLost, StoreError, TrainingError, first_line
from grokscope.parts import load, load_function, refer, trusting
from grokscope.spec import KINDS, Spec, read_spec
from grokscope.store import Run, Store
from grokscope.store.run import RESUME
from grokscope.store.store import is_ours

Execution = Literal["auto", "one-by-one", "vmap"]

# Measured with `make bench` (docs/log.md): on CPU a batch of runs is no faster than one after the
# other, and keeps a run's bits dependent on its neighbours. Accelerators are the reverse.
BY_BACKEND: dict[str, Execution] = {"cpu": "one-by-one", "gpu": "vmap", "tpu": "vmap"}
POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Order:
    """Train these specs, or take a probe of these runs, in this store."""

    store: str
    specs: list[dict[str, Any]]
    execution: Execution = "auto"
    probe: str = ""
    """`module:function` or `file.py:function` of a probe; empty: train."""
    readings: Sequence[tuple[str, Sequence[str]]] = ()
    """What is read off whole runs and kept in them: names, and `module:function`s of each."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Kinds of runs that the package does not know, and where their spec classes are."""
    trust: bool = False
    """May parts be loaded that only the store names?"""
    stay: bool = True
    """When others do all that is left: wait for them, to succeed one that dies; else go."""

    @property
    def reads(self) -> bool:
        """Nothing is trained: runs that have ended are read."""
        return bool(self.probe or self.readings)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Order:
        return Order(**json.loads(text))


def make_order(
    specs: Sequence[Spec],
    store: Store,
    execution: Execution = "auto",
    probe: str = "",
    trust: bool = False,
    readings: Sequence[tuple[str, Sequence[str]]] = (),
) -> Order:
    return Order(
        store=str(store.root),
        specs=[spec.to_dict() for spec in specs],
        execution=execution,
        probe=probe,
        readings=tuple(readings),
        kinds={spec.kind_name: refer(type(spec)) for spec in specs if not is_ours(spec)},
        trust=trust,
    )


def carry_out(order: Order, sink: Sink) -> None:
    """Do all of an order that nobody else does, then wait until the others have done theirs. Runs
    that cannot be trained are told as `refused`; what has ended, the store knows."""
    specs, store = read_specs(order), Store(order.store)
    with trusting(order.trust):
        if order.reads:
            _read_all(specs, store, order)
        else:
            with interrupts.noticed():
                _train_all(specs, store, sink, order.execution, order.stay)


def read_specs(order: Order) -> list[Spec]:
    for name, reference in order.kinds.items():
        if name not in KINDS:
            KINDS[name] = load(reference, "the kind of run")
    return [read_spec(data) for data in order.specs]


def resolve(execution: Execution) -> Execution:
    """What "auto" means on this machine. Sets JAX up, since it may be the first to use it."""
    import jax

    from grokscope.engine.compilation import prepare

    prepare()
    return BY_BACKEND.get(jax.default_backend(), "vmap") if execution == "auto" else execution


def _train_all(
    specs: Sequence[Spec], store: Store, sink: Sink, execution: Execution, stay: bool
) -> None:
    execution = resolve(execution)
    left = {spec.id: spec for spec in specs}
    told: set[str] = set()
    while left:
        before = len(left)
        # Runs that could share a batch; their exact shapes are compared when their data is there.
        groups: dict[str, list[Spec]] = defaultdict(list)
        for name, spec in left.items():
            groups[spec.family() if execution == "vmap" else name].append(spec)
        for group in groups.values():
            # An impossible run must not keep the others waiting.
            for name, error in _train_free(group, store, sink).items():
                sink(refusal(left.pop(name), error))
        left = {name: spec for name, spec in left.items() if not store.find(spec).ended}
        if left and len(left) == before:  # all that is left is held by others
            if not stay:
                return
            for name in left.keys() - told:
                holder = store.holder(name)
                if holder is not None and not holder.ours:  # nor another worker of our master's
                    words = f"Waiting for {holder}, which trains run {name}."
                    sink(Event("warned", name, message=words))
            told |= left.keys()
            time.sleep(POLL_SECONDS)


def _read_all(specs: Sequence[Spec], store: Store, order: Order) -> None:
    """Each run is read by whoever claims it, so that several workers share the work."""
    from grokscope.engine.compilation import prepare
    from grokscope.probes import is_taken, readings, take

    prepare()
    is_read: Callable[[Run], bool] = partial(is_taken, probe=order.probe)
    read: Callable[[Run], object] = partial(take, probe=order.probe)
    if not order.probe:
        what = "what is read off a run"
        wanted = [
            readings.Reading(name, tuple(load_function(each, what) for each in functions))
            for name, functions in order.readings
        ]
        is_read = lambda run: all(readings.is_kept(run, each) for each in wanted)  # noqa: E731
        read = lambda run: [readings.read(run, each) for each in wanted]  # noqa: E731
    left = [store.find(spec) for spec in specs]
    tried: set[str] = set()  # not everything can be kept
    while left := [run for run in left if run.id not in tried and not is_read(run)]:
        held = 0
        for run in left:
            with store.claim(f"probe-{run.id}") as mine:
                held += not mine
                if mine:
                    read(run)
                    tried.add(run.id)
        if held == len(left):
            if not order.stay:
                return
            time.sleep(POLL_SECONDS)


def refusal(spec: Spec, error: Exception) -> Event:
    """A run that cannot be trained, or that died, with a sentence about why."""
    if not isinstance(error, GrokscopeError):
        first, kind = first_line(error), type(error).__name__
        sentence = f"Run {spec.id} died of {kind}" + f": {first}" * (first != kind)
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in first:
            sentence = f"Run {spec.id} needs more memory than there is ({first[:200]})"
        error = TrainingError(sentence.rstrip(".") + ".")
    epochs = spec.training.epochs
    return Event("refused", spec.id, 0, epochs, message=str(error), error=type(error).__name__)


def begun_segment(spec: Spec, store: Store) -> dict[str, Any] | None:
    """How a half-done run was begun; None if there is nothing to resume. A fork that has not begun
    goes on as its parent was begun, since other terms would give other bits."""
    run = store.find(spec)
    if not (run.path / RESUME).exists():
        parent = getattr(getattr(spec, "fork", None), "parent", "")
        with contextlib.suppress(StoreError):
            return store.get(parent).provenance["segments"][0] if parent else None
        return None
    with contextlib.suppress(StoreError, IndexError):
        return run.provenance["segments"][0]
    with contextlib.suppress(StoreError, IndexError, TypeError):  # it will be set aside
        return store.load_progress(run)[2][0]  # type: ignore[index]
    return None


def _train_free(specs: Sequence[Spec], store: Store, sink: Sink) -> dict[str, Exception]:
    """Claim what is free among `specs` and train it, batched if it is more than one run. What
    cannot be trained (no such teacher, no room for a distractor, no memory, no disk) is returned
    with its reason."""
    import jax

    from grokscope.engine.program import make_member
    from grokscope.engine.training import Terms, begun_terms, train_group

    refused: dict[str, Exception] = {}
    with contextlib.ExitStack() as claims:
        batches: dict[Any, list[tuple[Spec, Any, Terms]]] = defaultdict(list)
        for spec in specs:
            try:
                if store.find(spec).ended or not claims.enter_context(store.claim(spec.id)):
                    continue
                if store.find(spec).ended:  # it may have ended while we took the lock
                    continue
                terms = begun_terms(spec, store)
                form, member = make_member(spec, store)
            except Exception as error:  # the user's parts, the disk, the memory: its own trouble
                refused[spec.id] = error
                continue
            sizes = tuple(array.shape for array in jax.tree.leaves(member))
            key: tuple[Any, ...] = (form, sizes, terms.options, terms.batch)
            # A batch that resumes has each run in its former place.
            taken = {other.place for *_, other in batches.get(key, ())}
            if terms.batch and terms.place in taken:
                key = (*key, spec.id)
            batches[key].append((spec, member, terms))
        for (form, *_), batch in batches.items():
            some, members, begun = zip(*batch, strict=True)
            try:
                train_group(some, form, members, begun, store, sink)
            except LeaseLost as error:  # it is in other hands; the rest of the batch resumes
                sink(Event("warned", some[0].id, message=str(error)))
            except Exception as error:
                refused |= {spec.id: error for spec in some if not store.find(spec).ended}
    return refused
