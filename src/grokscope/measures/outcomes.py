"""What became of a run: when it memorised, when it grokked, and its four phases.

An event time always carries its threshold, its persistence and whether it was censored: a run that
did not grok within its budget has no grok time, only the epoch up to which it had not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from grokscope.measures.times import EventTime, Phase
from grokscope.spec import EventRule, Spec, TrainingSpec
from grokscope.spec.run import grokking_events


def find_event(curve: Mapping[str, np.ndarray], rule: EventRule) -> EventTime:
    """The first epoch that opens `persistence` rows in a row on the right side of the threshold.

    Near the end of the curve fewer rows are left; they do not count, so a last-minute crossing is
    censored rather than believed.
    """
    epochs, values = np.asarray(curve["epoch"]), column(curve, rule.measure)
    good = values >= rule.threshold if rule.rising else values <= rule.threshold
    opens = np.convolve(good, np.ones(rule.persistence), "valid") == rule.persistence
    epoch = int(epochs[opens.argmax()]) if opens.any() else None
    until = int(epochs[-1]) if np.isfinite(values).any() else None
    return EventTime(rule.measure, rule.threshold, rule.persistence, epoch, until, rule.rising)


def column(curve: Mapping[str, np.ndarray], name: str) -> Shaped[np.ndarray, " rows"]:
    """A measure of the curve, as not-a-number where it was not measured."""
    if name not in curve:
        return np.full(len(curve["epoch"]), np.nan)
    return np.asarray(curve[name])


def find_events(curve: Mapping[str, np.ndarray], spec: Spec) -> dict[str, EventTime]:
    """Every event that the run looks for, by name."""
    return {rule.name: find_event(curve, rule) for rule in spec.events()}


RISE = 0.1  # share of the way from the plateau's accuracy to the threshold that counts as rising
FALL = 0.1  # share of the divergence's total fall that counts as resurging
LEAST_FALL = 0.02  # nats; a divergence that falls by less has no resurgence to speak of


def find_phases(curve: Mapping[str, np.ndarray], training: TrainingSpec) -> list[Phase]:
    """The four phases of section 5.1, each by its rule, each found or not.

    1 memorisation: from 0 to the memorisation time.
    2 plateau: from there to the earlier of resurgence and rise; found if it has more than
      `persistence` rows. A run that has not grokked when its curve ends is on its plateau only as
      long as its test accuracy has not begun to rise.
    3 resurgence: D, smoothed over `persistence` rows, has made its first tenth of the fall from its
      plateau value (the largest after memorisation) to its value at grokking; found if that fall is
      at least 0.02 nats and begins before the rise.
    4 grokking: from the last row at which test accuracy has made at most a tenth of the way from
      its value at memorisation (or the first after it) to the threshold, to the grok time.
    """
    epochs = np.asarray(curve["epoch"])
    memorised, grokked = (find_event(curve, rule).epoch for rule in grokking_events(training))
    rules = {
        "memorisation": f"train accuracy >= {training.train_threshold} for "
        f"{training.persistence} rows",
        "plateau": f"memorised, and {training.persistence} rows before anything moves",
        "resurgence": f"divergence begins to fall after memorisation, by {LEAST_FALL} nats or more",
        "grokking": f"test accuracy rises to >= {training.test_threshold}",
    }

    def phase(name: str, start: int | None, end: int | None) -> Phase:
        if end is not None and start is not None and end <= start:
            start = None
        if start is None:
            end = None
        return Phase(name, start, end, rules[name])  # type: ignore[arg-type]

    if memorised is None:
        return [phase(name, None, None) for name in rules]
    after = epochs >= memorised
    rise = None
    last = int(epochs[-1]) if grokked is None else grokked
    accuracy = column(curve, "test_accuracy")
    measured = after & np.isfinite(accuracy)  # it need not have been measured at memorisation
    if last > memorised and measured.any():
        base = accuracy[measured][0]
        low = accuracy <= base + RISE * (training.test_threshold - base)
        before = epochs[measured & low & (epochs <= last)]
        rise = int(before[-1]) if len(before) else None
        if grokked is None and rise == epochs[measured][-1]:
            rise = None  # it has not begun
    resurgence = None
    if rise is not None and grokked is not None:
        divergence = _smooth(column(curve, "divergence"), training.persistence)
        window = after & (epochs <= grokked)
        # Without an oracle there is no divergence: its maximum is NaN, and nothing resurges.
        peak_at = int(epochs[window][np.argmax(divergence[window])])
        peak, low_point = divergence[window].max(), divergence[window][-1]
        if peak - low_point >= LEAST_FALL:
            moving = window & (epochs >= peak_at) & (divergence <= peak - FALL * (peak - low_point))
            first = int(epochs[moving][0])
            resurgence = first if first <= rise else None
    plateau_end = memorised if rise is None else rise if resurgence is None else resurgence
    if grokked is None and rise is None:
        plateau_end = int(epochs[-1])
    rows = np.count_nonzero(after & (epochs <= plateau_end))
    plateau_start = memorised if rows > training.persistence else None
    return [
        phase("memorisation", 0, memorised),
        phase("plateau", plateau_start, None if grokked is None and rise is None else plateau_end),
        phase("resurgence", resurgence, rise),
        phase("grokking", rise, grokked),
    ]


def conclude(spec: Spec, curve: Mapping[str, np.ndarray], failed: int = -1) -> dict[str, Any]:
    """The outcome of a curve: event times, phases, why it ended, and the last row."""
    training = spec.training
    epochs = int(curve["epoch"][-1])
    events = find_events(curve, spec)
    reason = "not finite" if failed >= 0 else training.stop
    if failed < 0 and epochs >= training.epochs:
        reason = "budget"
    return {
        "status": "failed" if failed >= 0 else "finished",
        "ended_by": reason,
        "failed_at": failed if failed >= 0 else None,
        "epochs": epochs,
        **{name: asdict(event) for name, event in events.items()},
        "phases": [asdict(phase) for phase in find_phases(curve, training)]
        if {"memorised", "grokked"} <= events.keys()
        else [],
        "final": {n: float(c[-1]) for n, c in curve.items() if c.ndim == 1 and n != "epoch"},
    }


def _smooth(values: Shaped[np.ndarray, " rows"], width: int) -> Float[np.ndarray, " rows"]:
    """Running median, the ends repeated."""
    padded = np.pad(values, (width // 2, width - 1 - width // 2), mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=-1)
