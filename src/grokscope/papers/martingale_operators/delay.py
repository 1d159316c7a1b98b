"""Our own question: does an operator of mean and covariance generalise late?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.evidence import Event, Evidence
from grokscope.claims.judgements import Level, Share
from grokscope.claims.studies import Comparison
from grokscope.claims.verdicts import median
from grokscope.papers.martingale_operators.figures import draw_delay
from grokscope.papers.martingale_operators.settings import study
from grokscope.store import Run

ARMS = {
    f"{n} conditions, decay {d:g}": {"equation.conditions": n, "optimiser.weight_decay": d}
    for n in (64, 16)
    for d in (0.0, 1.0)
}
THRESHOLDS = {"delay_15": 0.15, "delay_10": 0.1, "delay_07": 0.07}
GENERALISED = Event("generalised", "generalise")
DELAY, REBOUND = "generalisation over fitting step", "final over smallest error"
ABSENT = "do not both fit and generalise"
delayed = partial(Level, effect=DELAY, low=2.0, logarithmic=True, absent=ABSENT)
back_up = partial(Level, column="rebound", effect=REBOUND, logarithmic=True)

wider = partial(back_up, column="spread_rebound", effect=f"{REBOUND} of the deviation")
LOST = "final less smallest loss of the law"
unlikelier = partial(Level, column="loss_rebound", effect=LOST, low=0.05)


def summarise(run: Run) -> dict[str, float | None]:
    """By what factor generalisation comes after fitting, also with both read at a lower error; how
    far errors and the loss on unseen conditions come back up from their smallest values; the gap.
    """
    outcome, curve = run.outcome, run.curve
    error, spread, loss = (curve[name] for name in ("test_error", "spread_error", "test_loss"))

    def first(side: str, at: float) -> Any:
        return curve.filter(pl.col(f"{side}_error") <= at)["epoch"].min()

    return {
        "delay": _over(outcome["generalised"]["epoch"], outcome["fitted"]["epoch"]),
        **{c: _over(first("test", at), first("train", at)) for c, at in THRESHOLDS.items()},
        "rebound": float(error[-1] / error.min()),
        "spread_rebound": float(spread[-1] / spread.min()),
        "loss_rebound": float(loss[-1] - loss.min()),
        "gap": float(error[-1] / curve["train_error"][-1]),
    }


def _over(late: Any, early: Any) -> float | None:
    return None if late is None or early is None else max(late, 1) / max(early, 1)


def tabulate(evidence: Evidence) -> Comparison | None:
    """Delay against the threshold."""
    if not evidence.present:
        return None
    rows = []
    for arm in (arm for sample in evidence.samples.values() for arm in sample.arms.values()):
        cells = [arm.name]
        for values in map(arm.values, ("delay", *THRESHOLDS)):
            known = np.isfinite(values).sum()
            words = f"{median(values):.2g}" if known else "–"
            cells.append(f"{words} ({known} of {len(values)})")
        rows.append(tuple(cells))
    levels = (f"at {at:g}" for at in (0.2, *THRESHOLDS.values()))
    return Comparison((f"{DELAY} (runs that do both)", *levels), tuple(rows))


STUDY = study(
    "delay",
    ["few conditions"],
    ARMS,
    {
        "64 conditions suffice": Share("64 conditions, decay 1", "most", event=GENERALISED),
        "16 conditions do not": Share("16 conditions, decay 1", "few", event=GENERALISED),
        "generalisation is delayed": delayed("64 conditions, decay 1", "delay"),
        **{f"delayed at 0.1: {arm}": delayed(arm, "delay_10") for arm in ARMS},
        "delayed at 0.07": delayed("64 conditions, decay 1", "delay_07"),
        "it overfits instead": back_up("64 conditions, decay 0", low=1.1),
        "decay prevents it": back_up("64 conditions, decay 1", high=1.1),
        "16 conditions overfit": back_up("16 conditions, decay 0", low=1.1),
        "decay prevents it with 16": back_up("16 conditions, decay 1", high=1.1),
        **{f"the deviation gets worse again: {arm}": wider(arm, low=1.1) for arm in ARMS},
        **{f"the likelihood gets worse again: {arm}": unlikelier(arm) for arm in ARMS},
    },
    smoke="few conditions",
    draw=draw_delay,
    table=tabulate,
    curves=("train_error", "test_error", "test_loss"),
    curve_arms=tuple(ARMS),
    summarise=summarise,
)
