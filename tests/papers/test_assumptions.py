"""Figure 11: what its studies read off a run, against numbers worked out by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope.engine.training import conclude
from grokscope.papers.structural_inference import frozen_attention, optimisers
from grokscope.papers.structural_inference.certificates.checks import update_bound
from grokscope.papers.structural_inference.paper import PAPER
from grokscope.papers.structural_inference.quantities import norm_rate, plateau_rows

EPOCHS = np.arange(0, 1001, 50)
SPEC = gs.RunSpec().replace(
    **{
        "optimiser.kind": "lion",
        "optimiser.lr": 1e-3,
        "training.epochs": 1000,
        "training.log_every": 50,
    }
)


def make_run(norms, memorised=200, grokked=None, spec=SPEC):
    """A made-up run: a curve, its outcome, and an MLP of 100 weights, so that Lion's B is 10."""

    def rises(epoch):
        return np.where((np.inf if epoch is None else epoch) <= EPOCHS, 1.0, 0.1)

    curve = {
        "epoch": EPOCHS,
        "train_accuracy": rises(memorised),
        "test_accuracy": rises(grokked),
        "divergence": np.full(len(EPOCHS), 0.5),
        "mlp_norm": np.asarray(norms, float),
    }
    weights = {
        "hidden": np.zeros((4, 12)),
        "hidden_bias": np.zeros(12),
        "readout": np.zeros((12, 3)),
        "readout_bias": np.zeros(4),
    }
    return SimpleNamespace(
        spec=spec,
        curve=pl.DataFrame(curve),
        scalars=pl.DataFrame(curve),
        outcome=conclude(spec, curve),
        weights=lambda: weights,
    )


def test_the_made_up_mlp_has_a_bound_of_ten():
    assert update_bound(SPEC, make_run(np.ones(21)).weights()) == pytest.approx(10)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        # |W'| <= kept |W| + (1 - kept) 10 with kept = 0.999^800; the rate is the logarithm of that
        # growth over the logarithm of kept.
        (1.0, math.log(0.999**800 + (1 - 0.999**800) * 10) / (800 * math.log(0.999))),
        (10.0, 0.0),  # the floor B / lambda
        (1e9, 1.0),  # updates do not matter: decay alone
    ],
)
def test_certified_rate(norm, expected):
    run = make_run(np.full(len(EPOCHS), norm))
    found = optimisers.summarise(run)
    assert found["certified_rate"] == pytest.approx(expected, abs=1e-6)


def test_a_run_that_decays_alone_keeps_to_the_bound():
    run = make_run(40 * 0.999**EPOCHS)
    found = optimisers.summarise(run)
    assert found["bound_kept"] == 1000
    curve = {name: run.curve[name].to_numpy() for name in ("epoch", "mlp_norm")}
    rows = plateau_rows(curve, run.outcome)
    assert norm_rate(curve, rows, run.spec) == pytest.approx(1, rel=1e-6)
    assert 0 < found["certified_rate"] < 1


def test_a_jump_beyond_the_bound_is_seen():
    norms = np.full(len(EPOCHS), 10.0)
    norms[-1] = 10.1
    assert optimisers.summarise(make_run(norms))["bound_kept"] is None


def test_without_a_plateau_nothing_is_certified():
    found = optimisers.summarise(make_run(np.full(len(EPOCHS), 5.0), memorised=None))
    assert found["certified_rate"] is None
    assert found["bound_kept"] == 1000


def test_delay_is_a_ratio_of_epochs():
    norms = np.ones(len(EPOCHS))
    assert frozen_attention.summarise(make_run(norms, 200, 500)) == {"delay": 2.5}
    assert frozen_attention.summarise(make_run(norms, 0, 100)) == {"delay": 2.0}
    assert frozen_attention.summarise(make_run(norms, 200)) == {"delay": None}
    assert frozen_attention.summarise(make_run(norms, None, 300)) == {"delay": None}


def test_one_thing_differs_from_the_reference():
    """… and both studies are found by the number of their figure."""
    setting = optimisers.STUDY.settings("laptop")[0]
    arms = optimisers.arms(setting, 3)
    reference = arms[optimisers.ADAMW].changed()
    for name, spec in arms.items():
        changed = {key for key, _ in spec.changed().items() ^ reference.items()}
        assert all(key.startswith("optimiser.") for key in changed - {"training.stop"}), name
        if name in (*optimisers.BATCHES, *optimisers.MOMENTA):
            assert len(changed - {"training.stop"}) == 1, name
    assert {s.name for s in PAPER.select(["11"])} == {"frozen-attention", "optimisers"}
