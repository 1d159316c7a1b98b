"""Training one group of runs from where it stands to its end.

A group is one run (one-by-one execution) or several runs of equal form whose arrays are stacked
(`vmap`). Both go through the same loop: call the compiled program for about a second, write a
resume point for each run, and so on.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.engine.compilation import default_options
from grokscope.engine.events import Event, EventKind, Sink
from grokscope.engine.program import BLOCK, Form, Member, State, make_program
from grokscope.errors import StoreError
from grokscope.measures.outcomes import conclude
from grokscope.spec import Spec
from grokscope.store import Run, Store
from grokscope.store.provenance import new_segment

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


def train_group(
    specs: Sequence[Spec],
    form: Form,
    members: Sequence[Member],
    store: Store,
    sink: Sink,
) -> None:
    """Train runs that this process has claimed. Several specs are trained as one batch."""
    batched = len(specs) > 1
    execution = f"vmap of {len(specs)}" if batched else "one by one"
    with jax.enable_x64(form.problem.double):
        group = [_open(spec, store, execution) for spec in specs]
        options = tuple(group[0].segments[-1]["compiler"].items())
        program = make_program(form, batched, options)
        alone = make_program(form, options=options)
        states = [
            _restore(progress, alone.init(member), store, sink)
            for progress, member in zip(group, members, strict=True)
        ]
        state = _stack(states) if batched else states[0]
        member = _stack(list(members)) if batched else members[0]
        _loop(program.advance, state, member, group, store, sink, batched)


def _open(spec: Spec, store: Store, execution: str) -> Progress:
    run = store.begin(spec)
    segments = _segments(run)
    segment = new_segment(0, execution) | {"compiler": compiler_options(spec, store)}
    return Progress(spec, run, [], [*segments, segment])


def _segments(run: Run) -> list[dict[str, Any]]:
    try:
        return run.provenance["segments"]
    except (StoreError, KeyError):
        return []


def compiler_options(spec: Spec, store: Store) -> dict[str, str]:
    """Those that a half-done run was begun with (none before they were noted), else today's."""
    begun = _segments(store.find(spec))
    if begun:
        return begun[0].get("compiler", {})
    return default_options()


def _restore(progress: Progress, fresh: State, store: Store, sink: Sink) -> State:
    """The state to resume from. A resume point that cannot be read is set aside, not lost."""
    try:
        saved = store.load_progress(progress.run)
        state = None if saved is None else _unflatten(fresh, saved[0])
    except StoreError as error:
        moved = store.set_aside(progress.run.path / "resume.safetensors")
        message = f"{error} It was moved to {moved}; the run starts again."
        sink(progress.event("warned", message))
        saved = state = None
    if saved is None or state is None:
        progress.segments = progress.segments[-1:]
        sink(progress.event("started"))
        return fresh
    curve = saved[1]
    progress.blocks = [
        {
            name: np.stack(curve[name].to_list()).astype(np.float32)
            if curve[name].dtype.is_nested()
            else curve[name].to_numpy()
            for name in curve.columns
        }
    ]
    progress.segments[-1]["from_epoch"] = progress.epoch
    sink(progress.event("resumed"))
    return state


def _loop(
    advance: Any,
    state: Any,
    member: Any,
    group: list[Progress],
    store: Store,
    sink: Sink,
    batched: bool,
) -> None:
    rows = 1  # the first call measures how long a row takes
    done = [False] * len(group)
    while not all(done):
        going = [progress for progress, over in zip(group, done, strict=True) if not over]
        asked = min([rows, *(_rows_to_snapshot(progress) for progress in going)])
        began = time.perf_counter()
        state, block, written = advance(state, member, jnp.int32(asked))
        block, written = jax.device_get((block, written))
        seconds = time.perf_counter() - began
        states = _unstack(jax.device_get(state), len(group)) if batched else [jax.device_get(state)]
        for index, progress in enumerate(group):
            if done[index]:
                continue
            here = {name: column[index] if batched else column for name, column in block.items()}
            count = int(written[index] if batched else written)
            progress.blocks.append({name: column[:count] for name, column in here.items()})
            progress.segments[-1]["seconds"] += seconds / len(going)
            done[index] = _save(progress, states[index], store, sink)
        most = int(np.max(written))
        if most:
            # The first call may have compiled; growing at most fourfold forgets that quickly.
            rows = int(np.clip(asked * CHUNK_SECONDS / seconds, 1, min(BLOCK, 4 * asked)))


def _save(progress: Progress, state: Any, store: Store, sink: Sink) -> bool:
    """Write what there is; True if the run is over."""
    run, curve = progress.run, progress.curve
    provenance = {"segments": progress.segments}
    if _rows_to_snapshot(progress, after=False) == 0:
        store.save_snapshot(run, progress.epoch, _flatten(state.params))
    if not state.finished:
        store.save_progress(run, curve, _flatten(state), provenance)
        sink(progress.event("advanced"))
        return False
    outcome = conclude(progress.spec, curve, int(state.failed))
    store.finish(run, curve, _flatten(state.params), outcome, provenance)
    sink(progress.event("failed" if outcome["status"] == "failed" else "finished"))
    return True


def snapshot_rows(spec: Spec) -> list[int]:
    """Rows (0 is the initial one) after which the weights are kept."""
    training = spec.training
    total = -(-training.epochs // training.log_every)
    return sorted({i * total // training.snapshots for i in range(training.snapshots)})


def _rows_to_snapshot(progress: Progress, after: bool = True) -> int:
    """Rows until the next snapshot is due; with `after`, the one due now does not count."""
    row = sum(len(block["epoch"]) for block in progress.blocks) - 1  # index of the last row
    due = [r - row for r in snapshot_rows(progress.spec) if r >= row + after]
    return min(due, default=BLOCK)


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
