"""Numbers that the studies read off a run's whole curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from grokscope.measures.outcomes import find_event
from grokscope.spec import EventRule, RunSpec
from grokscope.store import Run

Curve = Mapping[str, np.ndarray]  # (rows,) each
Outcome = Mapping[str, Any]
STRUCTURED = 0.99  # share of inputs that satisfy the structural condition
STARVED = 0.1  # of the largest gradient: attention is hardly taught any more


def scalars(run: Run) -> dict[str, np.ndarray]:  # (rows,) each
    return {column.name: column.to_numpy() for column in run.scalars}


def summarise(run: Run) -> dict[str, float | None]:
    """Everything below, by name."""
    curve, outcome = scalars(run), run.outcome
    plateau, wait = plateau_rows(curve, outcome), waiting_rows(curve, outcome)
    found = [phase["name"] for phase in outcome["phases"] if phase["start"] is not None]
    return {
        "starvation": starvation(curve, outcome, plateau),
        "waiting_fall": starvation(curve, outcome, wait),
        "waiting_rate": norm_rate(curve, wait, run.spec),
        "right_accuracy": right_accuracy(curve, run.spec),
        "norm_rate": norm_rate(curve, plateau, run.spec),
        "structured": structured(curve, run.spec),
        "starved": starved(curve, outcome),
        "four_phases": outcome["grokked"]["epoch"] if len(found) == 4 else None,
    }


def find_plateau(outcome: Outcome) -> Mapping[str, Any]:
    return next(phase for phase in outcome["phases"] if phase["name"] == "plateau")


def plateau_rows(curve: Curve, outcome: Outcome) -> np.ndarray | None:  # -> (rows,)
    """Rows of the plateau; one that has not ended ends with the curve."""
    plateau = find_plateau(outcome)
    if plateau["start"] is None:
        return None
    end = curve["epoch"][-1] if plateau["end"] is None else plateau["end"]
    return (curve["epoch"] >= plateau["start"]) & (curve["epoch"] <= end)


def waiting_rows(curve: Curve, outcome: Outcome) -> np.ndarray | None:  # -> (rows,)
    """From memorisation to grokking, or to the end of the budget: what figure 5 looks at. None if
    the run did not memorise, or grokked at once."""
    memorised, grokked = outcome["memorised"]["epoch"], outcome["grokked"]["epoch"]
    end = curve["epoch"][-1] if grokked is None else grokked
    if memorised is None or end <= memorised:
        return None
    return (curve["epoch"] >= memorised) & (curve["epoch"] <= end)


def starvation(curve: Curve, outcome: Outcome, window: np.ndarray | None) -> float | None:
    """By what factor the task's gradient on the attention interaction has fallen: its largest
    value up to memorisation over its median in the window. None without a window, or if attention
    is frozen and has no gradient."""
    if window is None:
        return None
    gradient = curve["interaction_gradient"]
    before = curve["epoch"] <= outcome["memorised"]["epoch"]
    rest = float(np.median(gradient[window]))
    return float(gradient[before].max()) / rest if rest > 0 else None


def norm_rate(curve: Curve, window: np.ndarray | None, spec: RunSpec) -> float | None:
    """Rate at which the MLP's norm contracts in the window, in units of the decay's own rate
    -log(1 - lr * decay): 1 is the paper's geometric contraction, 0 a constant norm, below 0 a
    growing one. Least squares of log norm on epoch. None without a window or without decay."""
    decay = spec.optimiser.lr * spec.optimiser.weight_decay
    if window is None or decay == 0:
        return None
    slope = np.polyfit(curve["epoch"][window], np.log(curve["mlp_norm"][window]), 1)[0]
    return float(slope / math.log1p(-decay))


def structured(curve: Curve, spec: RunSpec) -> int | None:
    """First epoch from which 99 % of the inputs satisfy the structural condition."""
    rule = EventRule("structured", "structure_share", STRUCTURED, spec.training.persistence)
    return find_event(curve, rule).epoch


def right_accuracy(curve: Curve, spec: RunSpec) -> float | None:
    """Test accuracy when attention has become right (`structured`): if the story holds, it was
    near chance until then. None if it never did."""
    epoch = structured(curve, spec)
    return None if epoch is None else float(curve["test_accuracy"][curve["epoch"] == epoch][0])


def starved(curve: Curve, outcome: Outcome) -> float | None:
    """Epochs after memorisation at which attention is wrong (fewer than 99 % of the inputs satisfy
    the structural condition) and hardly taught (the task's gradient on it is below a tenth of its
    largest value so far). None if the run did not memorise, or if there is no such gradient."""
    memorised, gradient = outcome["memorised"]["epoch"], curve["interaction_gradient"]
    if memorised is None or not np.isfinite(gradient).any():
        return None
    hungry = gradient < STARVED * np.maximum.accumulate(gradient)
    wrong = curve["structure_share"] < STRUCTURED
    rows = hungry & wrong & (curve["epoch"] >= memorised)
    steps = np.diff(curve["epoch"], append=curve["epoch"][-1])
    return float(steps[rows].sum())
