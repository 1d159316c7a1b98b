"""Orders: what an executor is asked to do, as plain data, and how a process carries one out.

Runs are idempotent by hash and claimed through the store, so any number of workers may walk the
same order: each takes what nobody holds, and waits if everything left is held. That is
all the coordination there is, within one machine or across several.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from grokscope.engine.events import Sink
from grokscope.errors import GrokscopeError
from grokscope.parts import load, refer
from grokscope.spec import KINDS, Spec, read_spec
from grokscope.store import Store

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
    kinds: dict[str, str] = field(default_factory=dict)
    """Kinds of runs that the package does not know, and where their spec classes are."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Order:
        return Order(**json.loads(text))


def make_order(
    specs: Sequence[Spec], store: Store, execution: Execution = "auto", probe: str = ""
) -> Order:
    own = {
        spec.kind_name: refer(type(spec))
        for spec in specs
        if not type(spec).__module__.startswith("grokscope.spec")
    }
    return Order(str(store.root), [spec.to_dict() for spec in specs], execution, probe, own)


def carry_out(order: Order, sink: Sink) -> None:
    """Do all of an order that nobody else does, then wait until the others have done theirs."""
    for name, reference in order.kinds.items():
        if name not in KINDS:
            KINDS[name] = load(reference, "the kind of run")
    specs = [read_spec(data) for data in order.specs]
    store = Store(order.store)
    if order.probe:
        from grokscope.probes import take_all

        take_all([store.find(spec) for spec in specs], order.probe, store)
    else:
        _train_all(specs, store, sink, order.execution)


def resolve(execution: Execution) -> Execution:
    """What "auto" means on this machine. Sets JAX up, since it may be the first to use it."""
    import jax

    from grokscope.engine.compilation import prepare

    prepare()
    return BY_BACKEND.get(jax.default_backend(), "vmap") if execution == "auto" else execution


def _train_all(specs: Sequence[Spec], store: Store, sink: Sink, execution: Execution) -> None:
    execution = resolve(execution)
    left = {spec.id: spec for spec in specs}
    refused: list[GrokscopeError] = []
    while left:
        before = len(left)
        groups = _group(left.values()) if execution == "vmap" else [[s] for s in left.values()]
        for group in groups:
            # An impossible run must not keep the others waiting.
            for name, error in _train_free(group, store, sink).items():
                refused.append(error)
                del left[name]
        left = {name: spec for name, spec in left.items() if not store.find(spec).ended}
        if left and len(left) == before:  # all that is left is held by others
            time.sleep(POLL_SECONDS)
    if refused:
        raise refused[0]


def _group(specs: Iterable[Spec]) -> list[list[Spec]]:
    """Runs that could share a batch; their exact shapes are compared when their data is there."""
    groups = defaultdict(list)
    for spec in specs:
        groups[spec.family()].append(spec)
    return list(groups.values())


def _train_free(specs: Sequence[Spec], store: Store, sink: Sink) -> dict[str, GrokscopeError]:
    """Claim what is free among `specs` and train it, batched if it is more than one run. What
    cannot be trained (no such teacher, no room for a distractor) is returned with its reason."""
    import jax

    from grokscope.engine.program import make_member
    from grokscope.engine.training import compiler_options, train_group

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
            sizes = tuple(array.shape for array in jax.tree.leaves(member))
            options = tuple(compiler_options(spec, store).items())
            batches[form, sizes, options].append((spec, member))
        for (form, *_), batch in batches.items():
            some, members = zip(*batch, strict=True)
            train_group(some, form, members, store, sink)
    return refused
