"""More epochs for a run that has ended: it goes on from its final state, bit for bit.

The longer run is a run of its own, named as if it had been trained that long from the start. It is
given a resume point made of the shorter one's rows, weights and optimiser's memory; from there it
is trained like any run that was interrupted.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np

from grokscope.errors import SpecError, StoreError
from grokscope.spec import Spec
from grokscope.store import Run, Store
from grokscope.store.files import columns_of
from grokscope.store.run import RESUME


def extend_spec(run: Run, more: int) -> Spec:
    """The spec of a run that is trained for so many more epochs."""
    if more < 1:
        raise SpecError(f"A run can be extended by 1 epoch or more, not by {more}.")
    spec, outcome = run.spec, run.outcome
    if outcome["epochs"] < spec.training.epochs or outcome["status"] == "failed":
        raise SpecError(
            f"Run {run.id} ended at epoch {outcome['epochs']:,} of {spec.training.epochs:,} (ended "
            f"by {outcome['ended_by']}); with more epochs it would end there as well."
        )
    return spec.replace(training={"epochs": spec.training.epochs + more})


def go_on(run: Run, spec: Spec, store: Store) -> str:
    """Let the run of `spec` begin where `run` has ended. Returns why it cannot, as a sentence; it
    is then trained from the start, to the same bits. Empty if it can, or has begun already."""
    goal = store.find(spec)
    if goal.ended or (goal.path / RESUME).exists():
        return ""
    _check_same(run, spec, store)
    end, training = run.spec.training.epochs, spec.training
    due = list(takewhile(lambda epoch: epoch <= end, training.snapshot_epochs()))
    reason = ""
    if end % training.log_every:
        reason = f"its last row, at epoch {end:,}, is none of the longer run's"
    if not set(due) <= set(run.snapshots):
        reason = "the longer run keeps its weights at other epochs (training.snapshots)"
    try:
        state = _final_state(run, spec)
    except StoreError:
        reason = "its final state was not kept (by version 0.1)"
    if reason:
        return f"Run {run.id} cannot be continued: {reason}. It is trained from the start."
    with store.claim(spec.id) as mine:
        if mine:
            entry = store.begin(spec)
            for epoch in due:
                store.save_snapshot(entry, epoch, run.weights(epoch))
            store.save_progress(entry, columns_of(run.curve), state, run.provenance)
    return ""


def _final_state(run: Run, spec: Spec) -> dict[str, np.ndarray]:
    from grokscope.engine.training import WEIGHTS_OF_STATE

    training = spec.training
    state = run.memory() | {f"{WEIGHTS_OF_STATE}{n}": a for n, a in run.weights().items()}
    step, settled = int(state["step"]), int(state["settled"])
    after = min(step + training.log_every, training.epochs)
    stops = training.stop != "never" and 0 <= settled <= step - training.stop_after
    return state | {"next_row": np.asarray(after, np.int32), "finished": np.asarray(stops)}


def _check_same(run: Run, spec: Spec, store: Store) -> None:
    """Refuse a run whose every step depends on how long it trains."""
    import jax

    from grokscope.engine.program import make_member

    def parts(of: Spec) -> tuple[Any, list[Any]]:
        form, member = make_member(of, store)
        return form, jax.tree.leaves(member._replace(clock=member.clock._replace(epochs=0)))

    falls = getattr(run.spec.optimiser, "schedule", "constant") != "constant"
    what = "its learning rate" if falls else "how it trains"
    (form, arrays), (other, others) = parts(run.spec), parts(spec)
    if form != other or not all(map(np.array_equal, arrays, others)):
        raise SpecError(
            f"Run {run.id} cannot be continued: {what} depends on the length of training. Train "
            "the longer spec instead."
        )
