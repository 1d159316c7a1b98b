"""Quantities of hand-made curves whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grokscope as gs
from grokscope.engine.training import conclude
from grokscope.papers.structural_inference import quantities

EPOCHS = np.arange(0, 2001, 50)
SPEC = gs.RunSpec().replace(**{"training.epochs": 2000, "training.log_every": 50})
RATE = SPEC.optimiser.lr * SPEC.optimiser.weight_decay


def make_curve(**changes):
    """Memorises at 200, D falls from 0.4 to 0 between 900 and 1000, accuracy rises at 1500."""
    curve = {
        "epoch": EPOCHS,
        "train_accuracy": np.where(EPOCHS >= 200, 1.0, 0.1),
        "test_accuracy": np.where(EPOCHS >= 1500, 1.0, 0.1),
        "divergence": np.interp(EPOCHS, [900, 1000], [0.4, 0.0]),
        "interaction_gradient": np.where(EPOCHS <= 200, 1.0, 0.02),
        "mlp_norm": 60 * (1 - RATE) ** EPOCHS,
        "structure_share": np.where(EPOCHS >= 1000, 1.0, 0.2),
        **changes,
    }
    return curve, conclude(SPEC, curve)


def fall_on(rows, curve, outcome):
    return quantities.starvation(curve, outcome, rows(curve, outcome))


def rate_on(rows, curve, outcome, spec=SPEC):
    return quantities.norm_rate(curve, rows(curve, outcome), spec)


def test_starvation_is_peak_over_plateau():
    assert fall_on(quantities.plateau_rows, *make_curve()) == pytest.approx(50)
    frozen = make_curve(interaction_gradient=np.zeros(len(EPOCHS)))
    assert fall_on(quantities.plateau_rows, *frozen) is None


def test_the_wait_goes_on_to_grokking_or_to_the_end():
    """Unlike the plateau, which ends as soon as something moves."""
    fading = np.where(EPOCHS <= 200, 1.0, np.where(EPOCHS <= 700, 0.5, 0.02))
    curve, outcome = make_curve(interaction_gradient=fading)
    assert fall_on(quantities.plateau_rows, curve, outcome) == pytest.approx(2)  # D falls at 900
    assert fall_on(quantities.waiting_rows, curve, outcome) == pytest.approx(50)  # until 1,500
    assert rate_on(quantities.waiting_rows, curve, outcome) == pytest.approx(1, rel=1e-6)
    rows = quantities.waiting_rows(curve, outcome)
    assert (EPOCHS[rows][0], EPOCHS[rows][-1]) == (200, 1500)
    never, outcome = make_curve(test_accuracy=np.full(len(EPOCHS), 0.1))
    assert EPOCHS[quantities.waiting_rows(never, outcome)][-1] == 2000
    dull = make_curve(train_accuracy=np.full(len(EPOCHS), 0.1))
    assert fall_on(quantities.waiting_rows, *dull) is None


def test_accuracy_when_attention_becomes_right():
    curve, _ = make_curve()
    assert quantities.right_accuracy(curve, SPEC) == pytest.approx(0.1)
    early, _ = make_curve(test_accuracy=np.where(EPOCHS >= 600, 0.7, 0.1))
    assert quantities.right_accuracy(early, SPEC) == pytest.approx(0.7)
    wrong, _ = make_curve(structure_share=np.full(len(EPOCHS), 0.2))
    assert quantities.right_accuracy(wrong, SPEC) is None


def test_norm_rate_is_in_units_of_the_decay():
    curve, outcome = make_curve()
    assert rate_on(quantities.plateau_rows, curve, outcome) == pytest.approx(1, rel=1e-6)
    still, outcome = make_curve(mlp_norm=np.full(len(EPOCHS), 60.0))
    assert rate_on(quantities.plateau_rows, still, outcome) == pytest.approx(0, abs=1e-9)
    growing, outcome = make_curve(mlp_norm=60 * math.exp(RATE) ** EPOCHS)
    assert rate_on(quantities.plateau_rows, growing, outcome) == pytest.approx(-1, rel=1e-2)
    free = SPEC.replace(**{"optimiser.weight_decay": 0.0})
    assert rate_on(quantities.plateau_rows, curve, outcome, free) is None


def test_starved_counts_epochs_that_are_wrong_and_untaught():
    curve, outcome = make_curve()
    # From the first hungry row after memorisation (250) until the structure is found (1000).
    assert quantities.starved(curve, outcome) == 750
    taught, outcome = make_curve(interaction_gradient=np.ones(len(EPOCHS)))
    assert quantities.starved(taught, outcome) == 0
    dull, outcome = make_curve(train_accuracy=np.full(len(EPOCHS), 0.1))
    assert quantities.starved(dull, outcome) is None


def test_structured_needs_to_last():
    curve, _ = make_curve()
    assert quantities.structured(curve, SPEC) == 1000
    blip = np.where(EPOCHS == 500, 1.0, 0.2)
    assert quantities.structured({**curve, "structure_share": blip}, SPEC) is None
