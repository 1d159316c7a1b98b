"""Numbers that the studies read off a run's whole curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from grokscope.measures.outcomes import LEAST_FALL, find_event
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
        "lead": lead(curve, outcome),
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


def lead(curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any]) -> float | None:
    """By how much the divergence is ahead of test accuracy, as a share of the grok epoch.
    Each is timed when it has made half of its way: D from its largest value after memorisation to
    its value at grokking, accuracy from its value at memorisation to its value at grokking. Where
    D falls by less than 0.02 nats until then, it counts as having fallen when 99 % of the inputs
    satisfy the structural condition; if it falls afterwards, the lead is negative. None if neither
    happens, or if the run did not grok after memorising."""
    memorised, grokked = outcome["memorised"]["epoch"], outcome["grokked"]["epoch"]
    if memorised is None or grokked is None or grokked <= memorised:
        return None
    window = (curve["epoch"] >= memorised) & (curve["epoch"] <= grokked)
    epochs, accuracy = curve["epoch"][window], curve["test_accuracy"][window]
    risen = epochs[accuracy >= (accuracy[0] + accuracy[-1]) / 2][0]
    right = epochs[curve["structure_share"][window] >= STRUCTURED]
    fallen = _half_fallen(curve, window)
    if fallen is None:
        fallen = right[0] if len(right) else _half_fallen(curve, curve["epoch"] >= memorised)
    return None if fallen is None else float((risen - fallen) / grokked)


def _half_fallen(curve: Mapping[str, np.ndarray], part: np.ndarray) -> int | None:
    """First epoch of a part of the curve at which D has made half of its fall to the part's end;
    None if it hardly falls."""
    epochs, divergence = curve["epoch"][part], curve["divergence"][part]
    peak = int(divergence.argmax())
    if divergence[peak] - divergence[-1] < LEAST_FALL:
        return None
    half = (divergence[peak] + divergence[-1]) / 2
    return int(epochs[peak:][divergence[peak:] <= half][0])


def norm_rate(
    curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any], spec: RunSpec
) -> float | None:
    """Rate at which the MLP's norm contracts on the plateau, in units of the decay's own rate
    -log(1 - lr * decay): 1 is the paper's geometric contraction, 0 a constant norm, below 0 a
    growing one. Least squares of log norm on epoch. None without a plateau or without decay."""
    window = plateau_rows(curve, outcome)
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
