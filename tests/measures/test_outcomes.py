"""Event times and phases of hand-made curves."""

from __future__ import annotations

import numpy as np

from grokscope.measures.outcomes import find_event, find_phases
from grokscope.spec import EventRule, TrainingSpec

TRAINING = TrainingSpec()


def event(values, threshold=0.95, persistence=3):
    epochs = np.arange(len(values)) * 10
    rule = EventRule("grokked", "test_accuracy", threshold, persistence)
    return find_event({"epoch": epochs, "test_accuracy": np.array(values)}, rule)


def test_persistence():
    assert event([0, 1, 0, 1, 1, 1, 0]).epoch == 30  # a single touch does not count
    assert event([0, 1, 0, 1, 1, 1, 0], persistence=1).epoch == 10
    assert event([0.95, 0.95, 0.95]).epoch == 0  # reaching is enough


def test_censoring():
    late = event([0, 0, 0, 0, 1, 1])
    assert late.epoch is None  # two rows at the end are not three
    assert late.censored
    assert late.observed_until == 50
    never = event([0.1] * 4)
    assert never.censored
    assert (never.threshold, never.persistence) == (0.95, 3)
    assert event([0, np.nan, np.nan, np.nan]).censored


def curve(memorised=100, moving=600, rise=900, grokked=1200, end=1500, fall=0.5):
    """Train accuracy steps up, divergence falls from `moving`, test accuracy climbs from `rise`."""
    epochs = np.arange(0, end + 1, 25)
    span = max(grokked - rise, 1)
    return {
        "epoch": epochs,
        "train_accuracy": (epochs >= memorised) * 1.0,
        "test_accuracy": np.clip((epochs - rise) / span, 0, 1) * 0.94 + 0.02 * (epochs >= grokked),
        "divergence": 1 - fall * np.clip((epochs - moving) / (grokked - moving), 0, 1),
    }


def phases(**given):
    return {phase.name: phase for phase in find_phases(curve(**given), TRAINING)}


def test_four_phases():
    found = phases()
    assert all(phase.found for phase in found.values())
    assert (found["memorisation"].start, found["memorisation"].end) == (0, 100)
    assert found["plateau"].start == 100
    assert 600 <= found["plateau"].end <= 700  # a tenth of the fall
    assert found["resurgence"].start == found["plateau"].end
    assert found["resurgence"].end == found["grokking"].start
    assert 900 <= found["grokking"].start <= 950
    assert found["grokking"].end == 1200
    assert all(phase.rule for phase in found.values())


def test_no_boundary_is_invented():
    flat = phases(fall=0.0)
    assert not flat["resurgence"].found
    assert flat["plateau"].end == flat["grokking"].start
    never = phases(rise=10_000, grokked=20_000)
    assert not never["grokking"].found
    assert not never["resurgence"].found
    assert never["plateau"].start == 100
    assert never["plateau"].end is None  # still going on
    forgot = phases(memorised=10_000)
    assert not any(phase.found for phase in forgot.values())


def test_a_run_that_is_rising_when_its_budget_ends_is_not_on_its_plateau():
    seen = curve()
    cut = {name: values[seen["epoch"] <= 1100] for name, values in seen.items()}
    found = {phase.name: phase for phase in find_phases(cut, TRAINING)}
    assert 0.3 < cut["test_accuracy"][-1] < TRAINING.test_threshold
    assert 900 <= found["plateau"].end <= 950
    assert found["grokking"].start == found["plateau"].end
    assert found["grokking"].end is None  # under way


def test_generalising_at_once_has_no_plateau():
    found = phases(memorised=500, moving=0, rise=0, grokked=500)
    assert found["memorisation"].found
    assert not found["plateau"].found


def test_test_accuracy_may_be_measured_late():
    seen = curve()
    for since, start in ((500, 925), (1150, 1150), (1200, None)):  # from low, half-way, grokked
        unseen = seen["epoch"] < since
        late = {**seen, "test_accuracy": np.where(unseen, np.nan, seen["test_accuracy"])}
        grokking = find_phases(late, TRAINING)[-1]
        assert grokking.start == start
        assert grokking.end == (1200 if start else None)
