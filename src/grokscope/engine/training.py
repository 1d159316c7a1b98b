"""Training one group of runs from where it stands to its end.

A group is one run (one-by-one execution) or several runs of equal form whose arrays are stacked
(`vmap`). Both go through the same loop: call the compiled program for about a second, write a
resume point for each run, and so on.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
    State,
    forget_surplus,
    make_program,
)
from grokscope.errors import StoreError, TrainingError
from grokscope.measures.outcomes import conclude
from grokscope.spec import Spec
from grokscope.store import Run, Store
from grokscope.store.provenance import describe_machine, new_segment
from grokscope.store.run import RESUME

if TYPE_CHECKING:
    import polars as pl

WEIGHTS_OF_STATE = "params."  # before the names of the weights among those of a state
CHUNK_SECONDS = 1.0  # between two resume points, and two signs of life


@dataclasses.dataclass
class Progress:
    """One run of a group: its entry in the store and its curve so far."""

    spec: Spec
    run: Run
    blocks: list[dict[str, np.ndarray]]
    segments: list[dict[str, Any]]

    told: int = 0  # rows that events have carried

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

    def event(self, kind: EventKind, message: str = "") -> Event:
        rows = []
        before = 0
        for block in self.blocks:
            count = len(block["epoch"])
            for index in range(max(self.told - before, 0), count):
                rows.append({name: column[index].tolist() for name, column in block.items()})
            before += count
        self.told = before
        return Event(kind, self.run.id, self.epoch, self.spec.training.epochs, rows, message)


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
            f"Run {spec.id} was begun with {threads} thread(s) and this process has "
            f"{here['threads']}, which would change its last bits. Set NPROC={threads} to "
            "resume it."
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
    places = [begun.place for begun in terms] if terms[0].batch else list(range(len(specs)))
    batched = size > 1
    with jax.enable_x64(form.problem.double):
        group = [
            _open(spec, store, size, place, terms[0].options)
            for spec, place in zip(specs, places, strict=True)
        ]
        program = make_program(form, batched, terms[0].options)
        alone = make_program(form, options=terms[0].options)
        states = [
            _restore(progress, alone.init(member), form, terms[0].options, store, sink)
            for progress, member in zip(group, members, strict=True)
        ]
        state, member = states[0], members[0]
        if batched:
            filled = [places.index(i) if i in places else 0 for i in range(size)]
            state = _stack([states[i] for i in filled])
            member = _stack([members[i] for i in filled])
        _loop(program.advance, state, member, group, places, store, sink, size, form.optimiser.keep)
        forget_surplus(program)
        forget_surplus(alone)


def _open(spec: Spec, store: Store, size: int, place: int, options: Options) -> Progress:
    execution = f"vmap of {size}" if size > 1 else "one by one"
    segment = new_segment(0, execution) | {"compiler": dict(options), "place": place}
    return Progress(spec, store.begin(spec), [], [segment])


def _restore(
    progress: Progress, fresh: State, form: Form, options: Options, store: Store, sink: Sink
) -> State:
    """The state to resume from. A resume point that cannot be trusted is set aside, not lost."""
    run = progress.run
    try:
        saved = store.load_progress(run)
        state = None if saved is None else _unflatten(fresh, saved[0])
    except StoreError as error:
        moved = store.set_aside(run.path / RESUME)
        message = f"{error} It was moved to {moved}; the run starts again."
        sink(progress.event("warned", message))
        saved = state = None
        run.kept.clear()
    if saved is None or state is None:
        if is_fork(progress.spec):
            fresh = _branch(progress, fresh, form, options, store)
        sink(progress.event("started"))
        return fresh
    _, curve, segments = saved
    progress.blocks = [columns_of(curve)]
    progress.segments = [*segments, *progress.segments]
    progress.segments[-1]["from_epoch"] = progress.epoch
    if changed := _changes(progress.segments[0], progress.segments[-1]):
        message = f"Run {run.id} was begun with another {changed}; its last bits may differ."
        sink(progress.event("warned", message))
    sink(progress.event("resumed"))
    return state


def columns_of(curve: pl.DataFrame) -> dict[str, np.ndarray]:
    """The rows of a curve as arrays."""
    return {
        name: np.stack(curve[name].to_list()).astype(np.float32)
        if curve[name].dtype.is_nested()
        else curve[name].to_numpy()
        for name in curve.columns
    }


def _branch(progress: Progress, fresh: State, form: Form, options: Options, store: Store) -> State:
    """A fork begins with its parent's rows and state, and keeps the snapshots that it would have
    kept on the way."""
    state, progress.blocks, passed = branch(progress.spec, fresh, options, store)
    for epoch, there in passed.items():
        store.save_snapshot(progress.run, epoch, _weights(there, form.optimiser.keep))
    progress.segments[-1]["from_epoch"] = progress.epoch
    return state


def _changes(begun: dict[str, Any], now: dict[str, Any]) -> str:
    """What is other than when a run was begun and may change last bits, though it must not stop us
    from resuming. It stays on record in the segments."""
    names = [name for name in ("machine", "backend") if begun.get(name) != now.get(name)]
    versions = {**begun["versions"], **now["versions"]}
    names += [n for n in ("jax", "jaxlib") if begun["versions"].get(n) != versions.get(n)]
    return " and ".join(names)


def _loop(
    advance: Any,
    state: Any,
    member: Any,
    group: list[Progress],
    places: list[int],
    store: Store,
    sink: Sink,
    size: int,
    keep: Any,
) -> None:
    rows = 1  # the first call measures how long a row takes
    done = [False] * len(group)
    batched = size > 1
    while not all(done):
        going = [progress for progress, over in zip(group, done, strict=True) if not over]
        asked = min([rows, *(_rows_to_snapshot(progress) for progress in going)])
        began = time.perf_counter()
        state, block, written = advance(state, member, jnp.int32(asked))
        block, written = jax.device_get((block, written))
        seconds = time.perf_counter() - began
        states = _unstack(jax.device_get(state), size) if batched else [jax.device_get(state)]
        for index, (progress, place) in enumerate(zip(group, places, strict=True)):
            if done[index]:
                continue
            here = {name: column[place] if batched else column for name, column in block.items()}
            count = int(written[place] if batched else written)
            if count:  # a fork of a run's last row may have none
                progress.blocks.append({name: column[:count] for name, column in here.items()})
            progress.segments[-1]["seconds"] += seconds / len(going)
            done[index] = _save(progress, states[place if batched else 0], store, sink, keep)
        interrupts.check()
        most = int(np.max(written))
        if most:
            # The first call may have compiled; growing at most fourfold forgets that quickly.
            rows = int(np.clip(asked * CHUNK_SECONDS / seconds, 1, min(BLOCK, 4 * asked)))


def _save(progress: Progress, state: Any, store: Store, sink: Sink, keep: Any) -> bool:
    """Write what there is; True if the run is over."""
    run, curve = progress.run, progress.curve
    weights = _weights(state, keep)
    provenance = {"segments": progress.segments}
    if _rows_to_snapshot(progress, after=False) == 0:
        store.save_snapshot(run, progress.epoch, weights)
    if not state.finished:
        store.save_progress(run, curve, _flatten(state), provenance)
        sink(progress.event("advanced"))
        return False
    outcome = conclude(progress.spec, curve, int(state.failed))
    failed = outcome["status"] == "failed"
    rest = {n: a for n, a in _flatten(state).items() if not n.startswith(WEIGHTS_OF_STATE)}
    store.finish(run, curve, weights, outcome, provenance, None if failed else rest)
    sink(progress.event("failed" if failed else "finished"))
    return True


def _weights(state: Any, keep: Any) -> dict[str, np.ndarray]:
    """What is kept of a state: the weights, and what the optimiser knows of them."""
    return _flatten(state.params) | _flatten(keep(state.optimiser))


def _rows_to_snapshot(progress: Progress, after: bool = True) -> int:
    """Rows until the next snapshot is due; with `after`, the one due now does not count."""
    row = sum(len(block["epoch"]) for block in progress.blocks) - 1  # index of the last row
    rows = progress.spec.training.snapshot_rows()
    return next((r - row for r in rows if r >= row + after), BLOCK)


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


def _unstack(tree: Any, count: int) -> list[Any]:
    return [jax.tree.map(lambda leaf, i=i: leaf[i], tree) for i in range(count)]
