"""Numbers that the studies read off a run's whole curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from grokscope.measures.outcomes import find_event
from grokscope.spec import EventRule, RunSpec
from grokscope.store import Run

STRUCTURED = 0.99  # share of inputs that satisfy the structural condition
STARVED = 0.1  # of the largest gradient: attention is hardly taught any more


def summarise(run: Run) -> dict[str, float | None]:
    """Everything below, by name."""
    curve = {column.name: column.to_numpy() for column in run.curve if not column.dtype.is_nested()}
    outcome = run.outcome
    found = [phase["name"] for phase in outcome["phases"] if phase["start"] is not None]
    return {
        "starvation": starvation(curve, outcome),
        "waiting_fall": waiting_fall(curve, outcome),
        "waiting_rate": waiting_rate(curve, outcome, run.spec),
        "right_accuracy": right_accuracy(curve, run.spec),
        "norm_rate": norm_rate(curve, outcome, run.spec),
        "structured": structured(curve, run.spec),
        "starved": starved(curve, outcome),
        "four_phases": outcome["grokked"]["epoch"] if len(found) == 4 else None,
    }


def starvation(curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any]) -> float | None:
    """By what factor the task's gradient on the attention interaction has fallen: its largest
    value up to memorisation over its median on the plateau. None without a plateau, or if attention
    is frozen and has no gradient."""
    window = plateau_rows(curve, outcome)
    if window is None:
        return None
    gradient = curve["interaction_gradient"]
    before = curve["epoch"] <= outcome["memorised"]["epoch"]
    rest = float(np.median(gradient[window]))
    return float(gradient[before].max()) / rest if rest > 0 else None


def waiting_rows(
    curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any]
) -> np.ndarray | None:  # -> (rows,)
    """From memorisation to grokking, or to the end of the budget: what figure 5 looks at. None if
    the run did not memorise, or grokked at once."""
    memorised, grokked = outcome["memorised"]["epoch"], outcome["grokked"]["epoch"]
    end = curve["epoch"][-1] if grokked is None else grokked
    if memorised is None or end <= memorised:
        return None
    return (curve["epoch"] >= memorised) & (curve["epoch"] <= end)


def waiting_fall(curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any]) -> float | None:
    """The same as `starvation`, over the whole wait instead of the plateau."""
    window, gradient = waiting_rows(curve, outcome), curve["interaction_gradient"]
    if window is None:
        return None
    before = curve["epoch"] <= outcome["memorised"]["epoch"]
    rest = float(np.median(gradient[window]))
    return float(gradient[before].max()) / rest if rest > 0 else None


def waiting_rate(
    curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any], spec: RunSpec
) -> float | None:
    """The same as `norm_rate`, over the whole wait."""
    return _contraction(curve, waiting_rows(curve, outcome), spec)


def right_accuracy(curve: Mapping[str, np.ndarray], spec: RunSpec) -> float | None:
    """Test accuracy when attention has become right (`structured`): if the story holds, it was
    near chance until then. None if it never did."""
    epoch = structured(curve, spec)
    return None if epoch is None else float(curve["test_accuracy"][curve["epoch"] == epoch][0])


def norm_rate(
    curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any], spec: RunSpec
) -> float | None:
    """Rate at which the MLP's norm contracts on the plateau, in units of the decay's own rate
    -log(1 - lr * decay): 1 is the paper's geometric contraction, 0 a constant norm, below 0 a
    growing one. Least squares of log norm on epoch. None without a plateau or without decay."""
    return _contraction(curve, plateau_rows(curve, outcome), spec)


def _contraction(
    curve: Mapping[str, np.ndarray], window: np.ndarray | None, spec: RunSpec
) -> float | None:
    decay = spec.optimiser.lr * spec.optimiser.weight_decay
    if window is None or decay == 0:
        return None
    slope = np.polyfit(curve["epoch"][window], np.log(curve["mlp_norm"][window]), 1)[0]
    return float(slope / math.log1p(-decay))


def structured(curve: Mapping[str, np.ndarray], spec: RunSpec) -> int | None:
    """First epoch from which 99 % of the inputs satisfy the structural condition."""
    rule = EventRule("structured", "structure_share", STRUCTURED, spec.training.persistence)
    return find_event(curve, rule).epoch


def starved(curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any]) -> float | None:
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


def plateau_rows(
    curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any]
) -> np.ndarray | None:  # -> (rows,)
    """Rows of the plateau; one that has not ended ends with the curve."""
    plateau = next(phase for phase in outcome["phases"] if phase["name"] == "plateau")
    if plateau["start"] is None:
        return None
    end = curve["epoch"][-1] if plateau["end"] is None else plateau["end"]
    return (curve["epoch"] >= plateau["start"]) & (curve["epoch"] <= end)
