"""A run as the report sees it: read once, whether it has ended or is still under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from grokscope.errors import StoreError
from grokscope.measures.outcomes import (
    EventTime,
    Phase,
    find_events,
    find_phases,
)
from grokscope.spec import ObservedSpec, Spec
from grokscope.store import CURVE, Run, Status


@dataclass(frozen=True)
class Reading:
    """What is known of a run now. A run without rows has no events and no phases."""

    run_id: str
    spec: Spec
    status: Status
    curve: pl.DataFrame
    memorised: EventTime | None
    grokked: EventTime | None
    phases: tuple[Phase, ...]
    final: dict[str, float]  # the last row; NaN where it was not finite
    failed_at: int | None
    stopped_early: bool
    segments: tuple[dict[str, Any], ...]  # provenance, a stretch of training each

    @property
    def epochs(self) -> int:
        """Last epoch on the curve."""
        return int(self.curve["epoch"][-1]) if len(self.curve) else 0

    @property
    def structure_threshold(self) -> float:
        """tau: as given, or half of the oracle's share on each informative position."""
        if isinstance(self.spec, ObservedSpec):
            return self.spec.training.structure_threshold  # 0 where no oracle was named
        return self.spec.training.structure_threshold or 0.5 / self.spec.task.operands

    @property
    def unit(self) -> str:
        """What time is counted in. The lab trains on all examples at once: there an epoch is a
        step; in a loop of the user's it is a step that is counted."""
        return "step" if isinstance(self.spec, ObservedSpec) else "epoch"


def read_run(run: Run) -> Reading:
    """Everything the figures and the page need. The outcome of a run that is still under way is
    found from its rows so far, by the same rules."""
    ended = run.ended
    curve = run.curve if (run.path / CURVE).exists() else pl.DataFrame({"epoch": []})
    memorised: EventTime | None = None
    grokked: EventTime | None = None
    if ended:
        outcome = run.outcome
        memorised, grokked = (EventTime(**outcome[name]) for name in ("memorised", "grokked"))
        phases = tuple(Phase(**phase) for phase in outcome["phases"])
        final = {n: np.nan if v is None else float(v) for n, v in outcome["final"].items()}
        failed_at, stopped = outcome["failed_at"], outcome["ended_by"] == "grokked"
    else:
        outcome, failed_at, stopped = {"status": "partial"}, None, False
        phases, final = (), {}
        if len(curve):
            wanted = ("epoch", "train_accuracy", "test_accuracy", "divergence")
            columns = {name: curve[name].to_numpy() for name in wanted if name in curve.columns}
            events = find_events(columns, run.about)
            memorised, grokked = events["memorised"], events["grokked"]
            phases = tuple(find_phases(columns, run.about.training))
            final = {
                name: float(value)
                for name, value in curve.row(-1, named=True).items()
                if isinstance(value, int | float) and name != "epoch"
            }
    return Reading(
        run_id=run.id,
        spec=run.about,
        status=outcome["status"],
        curve=curve,
        memorised=memorised,
        grokked=grokked,
        phases=phases,
        final=final,
        failed_at=failed_at,
        stopped_early=stopped,
        segments=_segments(run),
    )


def _segments(run: Run) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(run.provenance.get("segments", ()))
    except StoreError:  # provenance is a courtesy: its loss must not cost the figures
        return ()
