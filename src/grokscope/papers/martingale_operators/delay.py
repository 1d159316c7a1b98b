"""Our own question: does an operator of mean and covariance generalise late?"""

from __future__ import annotations

from typing import Any

from grokscope.claims.evidence import Event
from grokscope.claims.judgements import Level, Share
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


def summarise(run: Run) -> dict[str, float | None]:
    """By what factor generalisation comes after fitting; how far the error on unseen conditions
    comes back up from its smallest value; the gap at the end."""
    outcome, error = run.outcome, run.curve["test_error"].to_numpy()
    fitted, generalised = outcome["fitted"]["epoch"], outcome["generalised"]["epoch"]
    seen = fitted is not None and generalised is not None
    return {
        "delay": max(generalised, 1) / max(fitted, 1) if seen else None,
        "rebound": float(error[-1] / error.min()),
        "gap": float(error[-1] / run.curve["train_error"][-1]),
    }


STUDY = PROSE.study(
    "delay",
    {
        "64 conditions suffice": Share("64 conditions, decay 1", "most", event=GENERALISED),
        "16 conditions do not": Share("16 conditions, decay 1", "few", event=GENERALISED),
        "generalisation is delayed": Level(
            "64 conditions, decay 1",
            "delay",
            "generalisation over fitting step",
            low=2.0,
            logarithmic=True,
            absent="do not both fit and generalise",
        ),
        "it overfits instead": Level(
            "64 conditions, decay 0",
            "rebound",
            "final over smallest error",
            low=1.1,
            logarithmic=True,
        ),
        "decay prevents it": Level(
            "64 conditions, decay 1",
            "rebound",
            "final over smallest error",
            high=1.1,
            logarithmic=True,
        ),
    },
    settings=named({"few conditions": FEW}, smoke=("few conditions",)),
    arms=vary(ARMS),
    draw=figures.draw_delay,
    curves=("train_error", "test_error", "test_loss"),
    curve_arms=tuple(ARMS),
    summarise=summarise,
    seeds=SEEDS,
)
