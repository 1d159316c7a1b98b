"""Forks: another future of a run from one of its rows on.

A fork needs the whole state of its parent at that row: weights and the optimiser's memory. It is
computed again, by training the parent up to there: runs are deterministic, so this gives the same
bits, it works for every row of every run that was ever trained, and nothing has to be kept for
forks that nobody asks for (with AdamW three times the weights per snapshot). It costs what the
parent's training up to there has cost. That the bits are the same is checked by the parent's rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grokscope.errors import SpecError, StoreError, TrainingError
from grokscope.spec import Spec
from grokscope.store import Run, Store

if TYPE_CHECKING:
    from grokscope.engine.program import Options, State

SHAPING = ("task", "model", "seed")  # what decides the data and the shapes of the weights


def fork_spec(run: Run, epoch: int, **changes: Any) -> Spec:
    """The spec of a fork of `run` at `epoch`, with fields replaced as in `Spec.replace`."""
    spec = run.spec
    if not hasattr(spec, "fork"):
        raise SpecError(f"Run {run.id} is of the kind {spec.kind_name}, which cannot be forked.")
    fork = {"parent": run.id, "epoch": epoch, "transplant": "none", "donor": ""}
    given = changes.pop("fork", {})
    child = spec.replace(fork={**fork, **given}).replace(**changes)
    check_fork(child, run)
    return child


def check_fork(child: Any, parent: Run) -> None:
    """Refuse what cannot go on from its parent."""
    spec: Any = parent.spec
    rows = parent.curve["epoch"].to_list()
    epoch = child.fork.epoch
    if epoch not in rows:
        near = min(rows, key=lambda row: abs(row - epoch))
        raise SpecError(f"Run {parent.id} has no row at epoch {epoch}; the nearest is at {near}.")
    if parent.status == "failed" and epoch >= (failed := parent.outcome["failed_at"]):
        raise SpecError(
            f"Run {parent.id} failed at epoch {failed}: its numbers are not finite there, and no "
            "fork can continue from them. Take an earlier row."
        )
    for name in SHAPING:
        if getattr(child, name) != getattr(spec, name):
            raise SpecError(
                f"A fork goes on with its parent's weights and data, so {name} must stay as it is."
            )
    if child.training.log_every != spec.training.log_every:
        raise SpecError("A fork begins with its parent's rows, so training.log_every must stay.")
    if child.optimiser.kind != spec.optimiser.kind:
        raise SpecError(
            f"A fork goes on with the memory of its parent's optimiser, {spec.optimiser.kind}; "
            f"{child.optimiser.kind} cannot use it."
        )


def is_fork(spec: Spec) -> bool:
    return bool(getattr(spec, "fork", None) and spec.fork.parent)  # type: ignore[attr-defined]


def branch(
    spec: Any, fresh: State, options: Options, store: Store
) -> tuple[State, list[dict[str, np.ndarray]], dict[int, Any]]:
    """What a fork begins with: the state, the rows up to it, and the states after the rows at which
    the fork keeps its weights, by epoch. `fresh` has the form that the state must have."""
    import jax
    import jax.numpy as jnp

    parent = store.get(spec.fork.parent)
    due = set(spec.training.snapshot_rows())
    state, blocks, passed = replay(parent, spec.fork.epoch, options, store, due)
    if spec.fork.transplant != "none":
        donor, _, _ = replay(store.get(spec.fork.donor), spec.fork.epoch, options, store, set())
        state = transplant(state, donor, spec.fork.transplant)
    forms = [str(jax.tree.map(lambda leaf: leaf.shape, tree)) for tree in (state, fresh)]
    if forms[0] != forms[1]:
        raise SpecError(
            f"Run {spec.id} cannot go on from {parent.id}: its weights or its optimiser have "
            "another form."
        )
    training = spec.training
    step = int(state.step)
    state = state._replace(
        next_row=jnp.int32(min(step + training.log_every, training.epochs)),
        finished=jnp.bool_(step >= training.epochs or bool(state.failed >= 0)),
    )
    return state, blocks, passed


def replay(
    run: Run, epoch: int, options: Options, store: Store, due: set[int]
) -> tuple[State, list[dict[str, np.ndarray]], dict[int, Any]]:
    """The state of a run after its row at `epoch`, its rows up to there, and its states after the
    rows in `due`, by epoch. Refused where this machine does not come to the same bits."""
    import jax
    import jax.numpy as jnp

    from grokscope.engine.program import BLOCK, make_member, make_program

    spec = run.spec
    form, member = make_member(spec, store)
    program = make_program(form, options=options)
    state = program.init(member)
    blocks: list[dict[str, np.ndarray]] = []
    passed: dict[int, Any] = {}
    if is_fork(spec):
        state, blocks, passed = branch(spec, state, options, store)
    row = sum(len(block["epoch"]) for block in blocks) - 1  # index of the last row
    while row < 0 or int(state.step) < epoch:
        if bool(state.finished):
            raise SpecError(f"Run {run.id} ended at epoch {int(state.step)}, before {epoch}.")
        left = -(-(epoch - int(state.step)) // spec.training.log_every) if row >= 0 else 1
        next_due = min((r - row for r in due if r > row), default=BLOCK)
        asked = max(1, min(left, next_due, BLOCK))
        state, block, written = program.advance(state, member, jnp.int32(asked))
        count = int(written)
        blocks.append({n: np.asarray(c)[:count] for n, c in jax.device_get(block).items()})
        row += count
        if row in due:
            passed[int(state.step)] = jax.device_get(state)
    check_rows(run, blocks, epoch)
    return state, blocks, passed


def check_rows(run: Run, blocks: list[dict[str, np.ndarray]], epoch: int) -> None:
    """The last row says enough: any other bit before it would have spread."""
    last = {name: column[-1] for name, column in blocks[-1].items()}
    if last["epoch"] != epoch:
        raise SpecError(f"Run {run.id} has no row at epoch {epoch}.")
    curve = run.curve
    known = curve.filter(curve["epoch"] == epoch)
    if not len(known):
        raise StoreError(f"Run {run.id} has no row at epoch {epoch} yet.")
    for name in ("train_loss", "test_loss", "parameter_norm"):
        if name in last and name in curve.columns and np.float32(known[name][0]) != last[name]:
            raise TrainingError(
                f"Run {run.id} does not come to the same bits here at epoch {epoch} ({name} is "
                f"{last[name]}, was {known[name][0]}), so it cannot be forked on this "
                "machine; train it here first, in another store."
            )


def transplant(state: State, donor: State, organ: str) -> State:
    """`state` with the donor's arrays of an organ, in the weights and in the optimiser's memory of
    them. Attention comes with the embeddings and positions that it reads, and the norms between."""
    import jax

    from grokscope.models.roles import ATTENTION, LOOK_UPS, MLP, READ_THROUGH, role

    roles = {"mlp": MLP, "attention": (*ATTENTION, *READ_THROUGH, *LOOK_UPS)}[organ]

    def choose(path: Any, ours: Any, theirs: Any) -> Any:
        names = [str(getattr(key, "key", "")) for key in path]
        return theirs if any(role(name) in roles for name in names) else ours

    mixed = [
        jax.tree_util.tree_map_with_path(choose, getattr(state, part), getattr(donor, part))
        for part in ("params", "optimiser")
    ]
    return state._replace(params=mixed[0], optimiser=mixed[1])
