"""Our own question: does an operator of mean and covariance generalise late?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.evidence import Event, Evidence
from grokscope.claims.judgements import Level, Share
from grokscope.claims.studies import Comparison
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import PROSE, SEEDS, named, vary
from grokscope.store import Run

GENERALISED = Event("generalised", "generalise", "generalisation step")
FITTED = Event("fitted", "fit", "fitting step")
FEW: dict[str, Any] = {
    "equation.kind": "burgers",
    "equation.noise": 0.1,
    "equation.noises": 16,
    "optimiser.schedule": "constant",
    "optimiser.batch": 0,
    "training.epochs": 3000,
    "training.log_every": 30,
}
ARMS: dict[str, dict[str, Any]] = {
    f"{n} conditions, decay {d:g}": {"equation.conditions": n, "optimiser.weight_decay": d}
    for n in (64, 16)
    for d in (0.0, 1.0)
}


THRESHOLDS = {"delay_15": 0.15, "delay_10": 0.1, "delay_07": 0.07}


def summarise(run: Run) -> dict[str, float | None]:
    outcome = run.outcome
    fitted, generalised = outcome["fitted"]["epoch"], outcome["generalised"]["epoch"]
    return {"delay": _over(generalised, fitted), **read_delays(run.curve)}


def read_delays(curve: pl.DataFrame) -> dict[str, float | None]:
    """By what factor generalisation comes after fitting if both are read at a lower error; how far
    errors and the loss on unseen conditions come back up from their smallest values; the gap."""
    error, spread, loss = (curve[name] for name in ("test_error", "spread_error", "test_loss"))
    delays = {
        column: _over(*(_first(curve, f"{side}_error", at) for side in ("test", "train")))
        for column, at in THRESHOLDS.items()
    }
    return {
        **delays,
        "rebound": float(error[-1] / error.min()),
        "spread_rebound": float(spread[-1] / spread.min()),
        "loss_rebound": float(loss[-1] - loss.min()),
        "gap": float(error[-1] / curve["train_error"][-1]),
    }


def _first(curve: pl.DataFrame, column: str, at: float) -> int | None:
    """The first step at which an error is at or below a threshold."""
    return curve.filter(pl.col(column) <= at)["epoch"].min()  # type: ignore[return-value]


def _over(late: int | None, early: int | None) -> float | None:
    return None if late is None or early is None else max(late, 1) / max(early, 1)


def tabulate(evidence: Evidence) -> Comparison | None:
    """Delay against the threshold."""
    rows = []
    for sample in evidence.samples.values():
        for arm in sample.arms.values():
            cells = []
            for column in ("delay", *THRESHOLDS):
                known = arm.values(column)[np.isfinite(arm.values(column))]
                count = f"{len(known)} of {len(arm.rows)}"
                cells.append(f"{np.median(known):.2g} ({count})" if len(known) else f"– ({count})")
            rows.append((arm.name, *cells))
    if all(arm.missing for sample in evidence.samples.values() for arm in sample.arms.values()):
        return None
    levels = (f"at {at:g}" for at in (0.2, *THRESHOLDS.values()))
    return Comparison(
        ("generalisation over fitting step (runs that do both)", *levels), tuple(rows)
    )


DELAY, REBOUND = "generalisation over fitting step", "final over smallest error"
ABSENT = "do not both fit and generalise"


def delayed(arm: str, column: str = "delay_10") -> Level:
    return Level(arm, column, DELAY, low=2.0, logarithmic=True, absent=ABSENT)


STUDY = PROSE.study(
    "delay",
    {
        "64 conditions suffice": Share("64 conditions, decay 1", "most", event=GENERALISED),
        "16 conditions do not": Share("16 conditions, decay 1", "few", event=GENERALISED),
        "generalisation is delayed": delayed("64 conditions, decay 1", "delay"),
        **{f"delayed at 0.1: {arm}": delayed(arm) for arm in ARMS},
        "delayed at 0.07": delayed("64 conditions, decay 1", "delay_07"),
        "it overfits instead": Level(
            "64 conditions, decay 0", "rebound", REBOUND, low=1.1, logarithmic=True
        ),
        "decay prevents it": Level(
            "64 conditions, decay 1", "rebound", REBOUND, high=1.1, logarithmic=True
        ),
        "16 conditions overfit": Level(
            "16 conditions, decay 0", "rebound", REBOUND, low=1.1, logarithmic=True
        ),
        "decay prevents it with 16": Level(
            "16 conditions, decay 1", "rebound", REBOUND, high=1.1, logarithmic=True
        ),
        **{
            f"the deviation gets worse again: {arm}": Level(
                arm, "spread_rebound", f"{REBOUND} of the deviation", low=1.1, logarithmic=True
            )
            for arm in ARMS
        },
        **{
            f"the likelihood gets worse again: {arm}": Level(
                arm, "loss_rebound", "final less smallest loss of the law", low=0.05
            )
            for arm in ARMS
        },
    },
    settings=named({"few conditions": FEW}, smoke=("few conditions",)),
    arms=vary(ARMS),
    draw=figures.draw_delay,
    table=tabulate,
    curves=("train_error", "test_error", "test_loss"),
    curve_arms=tuple(ARMS),
    summarise=summarise,
    seeds=SEEDS,
)
