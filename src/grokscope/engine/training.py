"""Training one group of runs from where it stands to its end.

A group is one run (one-by-one execution) or several runs of equal form whose arrays are stacked
(`vmap`). Both go through the same loop: call the compiled program for about a second, write a
resume point for each run, and so on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope import interrupts
from grokscope.engine.compilation import default_options
from grokscope.engine.events import Event, EventKind, Sink
from grokscope.engine.forking import branch, is_fork
from grokscope.engine.orders import begun_segment
from grokscope.engine.program import (
    BLOCK,
    Form,
    Member,
    Options,
    Program,
    State,
    forget_surplus,
    make_program,
)
from grokscope.errors import StoreError, TrainingError
from grokscope.measures.outcomes import conclude
from grokscope.spec import Spec
from grokscope.store import Store
from grokscope.store.files import columns_of
from grokscope.store.provenance import describe_machine, new_segment
from grokscope.store.run import RESUME

WEIGHTS_OF_STATE = "params."  # before the names of the weights among those of a state
CHUNK_SECONDS = 1.0  # between two resume points, and two signs of life


@dataclass
class Progress:
    """One run of a group: its entry in the store, and how far it has come."""

    spec: Spec
    form: Form
    options: Options  # of the compiler
    store: Store
    sink: Sink
    segments: list[dict[str, Any]]
    place: int = 0  # in the batch
    blocks: list[dict[str, np.ndarray]] = field(default_factory=list)
    told: int = 0  # rows that events have carried
    over: bool = False

    def __post_init__(self) -> None:
        self.run = self.store.begin(self.spec)

    @property
    def curve(self) -> dict[str, np.ndarray]:
        """All rows. A measure that is newer than the run is empty before it was first taken."""
        names = dict.fromkeys(name for block in self.blocks for name in block)
        return {
            name: np.concatenate([_column(block, name, self.blocks[-1]) for block in self.blocks])
            for name in names
        }

    @property
    def epoch(self) -> int:
        return int(self.blocks[-1]["epoch"][-1]) if self.blocks else 0

    def rows_to_snapshot(self, after: bool = True) -> int:
        """Rows until the next snapshot is due; with `after`, the one due now does not count."""
        row = sum(len(block["epoch"]) for block in self.blocks) - 1  # index of the last row
        rows = self.spec.training.snapshot_rows()
        return next((r - row for r in rows if r >= row + after), BLOCK)

    def tell(self, kind: EventKind, message: str = "") -> None:
        rows = []
        before = 0
        for block in self.blocks:
            count = len(block["epoch"])
            for index in range(max(self.told - before, 0), count):
                rows.append({name: column[index].tolist() for name, column in block.items()})
            before += count
        self.told = before
        epochs = self.spec.training.epochs
        self.sink(Event(kind, self.run.id, self.epoch, epochs, rows, message))

    def restore(self, fresh: State) -> State:
        """The state to begin with. A resume point that cannot be trusted is set aside, not lost."""
        try:
            if saved := self.store.load_progress(self.run):
                arrays, curve, segments = saved
                state = _unflatten(fresh, arrays)
        except StoreError as error:
            moved = self.store.set_aside(self.run.path / RESUME)
            self.tell("warned", f"{error} It was moved to {moved}; the run starts again.")
            self.run.kept.clear()
            saved = None
        if saved is None:
            state = self._branch(fresh) if is_fork(self.spec) else fresh
            self.tell("started")
            return state
        self.blocks = [columns_of(curve)]
        self.segments = [*segments, *self.segments]
        self.segments[-1]["from_epoch"] = self.epoch
        if changed := _changes(self.segments[0], self.segments[-1]):
            words = f"Run {self.run.id} was begun with another {changed}; its last bits may differ."
            self.tell("warned", words)
        self.tell("resumed")
        return state

    def _branch(self, fresh: State) -> State:
        """A fork begins with its parent's rows and state, and keeps the snapshots that it would
        have kept on the way."""
        state, self.blocks, passed = branch(self.spec, fresh, self.options, self.store)
        for epoch, there in passed.items():
            self.store.save_snapshot(self.run, epoch, self._weights(there))
        self.segments[-1]["from_epoch"] = self.epoch
        return state

    def save(self, state: Any) -> None:
        """Write what there is."""
        run, curve = self.run, self.curve
        weights, arrays = self._weights(state), _flatten(state)
        provenance = {"segments": self.segments}
        if self.rows_to_snapshot(after=False) == 0:
            self.store.save_snapshot(run, self.epoch, weights)
        self.over = bool(state.finished)
        if not self.over:
            self.store.save_progress(run, curve, arrays, provenance)
            self.tell("advanced")
            return
        outcome = conclude(self.spec, curve, int(state.failed))
        failed = outcome["status"] == "failed"
        rest = {n: a for n, a in arrays.items() if not n.startswith(WEIGHTS_OF_STATE)}
        self.store.finish(run, curve, weights, outcome, provenance, None if failed else rest)
        self.tell("failed" if failed else "finished")

    def _weights(self, state: Any) -> dict[str, np.ndarray]:
        """What is kept of a state: the weights, and what the optimiser knows of them."""
        return _flatten(state.params) | _flatten(self.form.optimiser.keep(state.optimiser))


def _column(block: dict[str, np.ndarray], name: str, like: dict[str, np.ndarray]) -> np.ndarray:
    if name in block:
        return block[name]
    shape = like[name].shape[1:] if name in like else ()
    return np.full((len(block["epoch"]), *shape), np.nan, np.float32)


class Terms(NamedTuple):
    """What a run is computed with, besides its spec. Other terms, other last bits, so a run keeps
    those that it was begun with."""

    options: Options  # of the compiler
    batch: int = 0  # runs that were stacked; 0 where it was not decided yet
    place: int = 0  # in the batch


def begun_terms(spec: Spec, store: Store) -> Terms:
    """Those of a half-done run, else today's. Refused if it was begun with more or fewer threads
    than this process has, since that cannot be changed any more."""
    begun = begun_segment(spec, store)
    if begun is None:
        return Terms(tuple(default_options().items()))
    here = describe_machine()
    threads = begun.get("threads") or here["threads"]
    if here["backend"] == begun.get("backend") == "cpu" and here["threads"] != threads:
        raise TrainingError(
            f"Run {spec.id} was started with {threads} thread{'s' * (threads != 1)} and this "
            f"process has {here['threads']}, which would change its last bits. Set NPROC={threads} "
            "to resume it."
        )
    found = re.fullmatch(r"vmap of (\d{1,6})", begun.get("execution") or "")
    batch = int(found[1]) if found else 1
    options = tuple((begun.get("compiler") or {}).items())
    return Terms(options, batch, min(begun.get("place") or 0, batch - 1))


def train_group(
    specs: Sequence[Spec],
    form: Form,
    members: Sequence[Member],
    terms: Sequence[Terms],
    store: Store,
    sink: Sink,
) -> None:
    """Train runs that this process has claimed. Several specs are trained as one batch; a batch
    that lost some of its runs is filled up with copies, so that the program stays the same."""
    size = terms[0].batch or len(specs)
    places = [each.place for each in terms] if terms[0].batch else list(range(len(specs)))
    options, batched = terms[0].options, size > 1
    execution = f"vmap of {size}" if batched else "one by one"
    with jax.enable_x64(form.problem.double):
        group = []
        for spec, place in zip(specs, places, strict=True):
            segment = new_segment(0, execution) | {"compiler": dict(options), "place": place}
            group.append(Progress(spec, form, options, store, sink, [segment], place))
        program = make_program(form, batched, options)
        alone = make_program(form, options=options)
        pairs = zip(group, members, strict=True)
        states = [progress.restore(alone.init(member)) for progress, member in pairs]
        state, member = states[0], members[0]
        if batched:
            filled = [places.index(i) if i in places else 0 for i in range(size)]
            state = _stack([states[i] for i in filled])
            member = _stack([members[i] for i in filled])
        _loop(program, state, member, group, batched)
        forget_surplus(program)
        forget_surplus(alone)


def _changes(begun: dict[str, Any], now: dict[str, Any]) -> str:
    """What is other than when a run was begun and may change last bits, though it must not stop us
    from resuming. It stays on record in the segments."""
    names = [name for name in ("machine", "backend") if begun.get(name) != now.get(name)]
    versions = {**begun["versions"], **now["versions"]}
    names += [n for n in ("jax", "jaxlib") if begun["versions"].get(n) != versions.get(n)]
    return " and ".join(names)


def _loop(
    program: Program, state: Any, member: Any, group: Sequence[Progress], batched: bool
) -> None:
    rows = 1  # the first call measures how long a row takes
    while going := [progress for progress in group if not progress.over]:
        asked = min([rows, *(progress.rows_to_snapshot() for progress in going)])
        began = time.perf_counter()
        state, block, written = program.advance(state, member, jnp.int32(asked))
        block, written = jax.device_get((block, written))
        seconds = time.perf_counter() - began
        states = jax.device_get(state)
        for progress in going:
            here, own, count = block, states, written
            if batched:
                here, own, count = jax.tree.map(
                    lambda array, i=progress.place: array[i], (block, states, written)
                )
            if count:  # a fork of a run's last row may have none
                progress.blocks.append({name: column[:count] for name, column in here.items()})
            progress.segments[-1]["seconds"] += seconds / len(going)
            progress.save(own)
        interrupts.check()
        if np.max(written):
            # The first call may have compiled; growing at most fourfold forgets that quickly.
            rows = int(np.clip(asked * CHUNK_SECONDS / seconds, 1, min(BLOCK, 4 * asked)))


def _flatten(state: Any) -> dict[str, np.ndarray]:
    """Arrays of a state under readable names."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def _unflatten(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        array = arrays.get(_name(path))
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise StoreError(f"The resume point has no fitting {_name(path)}.")
        restored.append(jnp.asarray(array))
    return jax.tree_util.tree_unflatten(structure, restored)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
