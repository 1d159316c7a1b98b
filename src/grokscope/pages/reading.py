"""From the store to readings and arms: each file of a run is read once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from grokscope.draw.reading import Arm, Reading, events_of, phases_of
from grokscope.errors import StoreError
from grokscope.measures.outcomes import conclude
from grokscope.pages import labels
from grokscope.store import CURVE, Run


def group_runs(runs: Iterable[Run]) -> list[Arm]:
    """Arms in the order in which they first occur, their runs in the given order.

    Runs whose specs differ only in `seed` and `task.seed` share an arm; a run that is given twice
    counts once. The label says what sets the arm apart from the others; a single arm is named
    after its task.
    """
    groups: dict[str, dict[str, Run]] = {}
    for run in runs:
        groups.setdefault(labels.without_seeds(run.about).id, {}).setdefault(run.id, run)
    members = [list(group.values()) for group in groups.values()]
    names = labels.label_specs([labels.without_seeds(group[0].about) for group in members])
    return [read_arm(label, group) for label, group in zip(names, members, strict=True)]


def read_arm(label: str, runs: Iterable[Run]) -> Arm:
    return Arm(label, tuple(map(read_run, runs)))


def read_run(run: Run) -> Reading:
    """Everything that figures and pages need. Events and phases of a run under way are found from
    its rows so far, by the same rules."""
    spec = run.about
    curve = run.curve if (run.path / CURVE).exists() else pl.DataFrame({"epoch": []})
    outcome: dict[str, Any] = {}
    if run.ended:
        outcome = run.outcome
    elif len(curve):
        scalars = {
            column.name: column.to_numpy() for column in curve if not column.dtype.is_nested()
        }
        outcome = {**conclude(spec, scalars), "status": "partial", "ended_by": None}
    events = events_of(outcome)
    width = len(curve["attention"][0]) if len(curve) and "attention" in curve.columns else 0
    try:
        segments = tuple(run.provenance.get("segments", ()))
    except StoreError:  # the figures can do without
        segments = ()
    return Reading(
        run_id=run.id,
        spec=spec,
        subject=labels.describe_subject(spec),
        status=outcome.get("status", "partial"),
        curve=curve,
        events=events,
        phases=phases_of(outcome),
        final={
            name: np.nan if value is None else float(value)
            for name, value in outcome.get("final", {}).items()
        },
        failed_at=outcome.get("failed_at"),
        stopped_early=outcome.get("ended_by") in events,
        segments=segments,
        thresholds={
            "weakest_min": spec.structure_threshold,
            **{e.measure: e.threshold for e in events.values()},
        },
        positions=labels.name_positions(spec, width),
        averaged=labels.describe_mean(spec),
        watched=not spec.problem,
    )
