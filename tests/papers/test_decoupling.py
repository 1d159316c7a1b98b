"""The decision and its statistics, on hand-made populations."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope.papers.structural_inference import decoupling


def make_table(norms, weakest, tau, generalised):
    return pl.DataFrame(
        {"mlp_norm": norms, "weakest_min": weakest, "tau": tau, "generalised": generalised}
    )


def test_a_run_does_not_vouch_for_itself():
    """The only generalising run with a large norm is outside the shell of the others."""
    table = decoupling.add_conditions(
        make_table([10.0, 12.0, 30.0, 11.0], [0.5] * 4, [0.1] * 4, [True, True, True, False])
    )
    assert table["norm_condition"].to_list() == [False, True, False, True]
    assert table["predicted"].to_list() == [False, True, False, True]


def test_no_margin_means_no_prediction():
    table = decoupling.add_conditions(
        make_table([10.0] * 3, [0.5, 0.05, 0.5], [0.1, 0.1, np.nan], [True, True, True])
    )
    assert table["structural_condition"].to_list() == [True, False, False]


def test_confusion_and_interval():
    predicted = np.array([True, True, False, False, False])
    actual = np.array([True, False, True, False, False])
    assert decoupling.confusion(predicted, actual) == (1, 1, 1, 2)
    assert decoupling.balanced_accuracy(predicted, actual) == pytest.approx((1 / 2 + 2 / 3) / 2)
    low, high = decoupling.share_interval(8, 10)  # Wilson, tabulated
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-3)
    assert np.isnan(decoupling.share_interval(0, 0)[0])


def test_best_threshold():
    values = np.array([0.1, 0.2, 0.3, 0.7, 0.8])
    actual = np.array([False, False, False, True, True])
    assert decoupling.best_threshold(values, actual) == (pytest.approx(0.5), 1.0)


def test_cross_validation_is_honest():
    """Noise scores one half held out, though the best cut in hindsight looks better."""
    rng = np.random.default_rng(0)
    actual = rng.random(96) < 0.5
    draws = [rng.random(96) for _ in range(12)]
    in_hindsight = np.mean([decoupling.best_threshold(noise, actual)[1] for noise in draws])
    alone = np.arange(96)
    held_out = np.mean(
        [decoupling.cross_validate(n[None], actual, alone, repeats=3)[0] for n in draws]
    )
    assert 0.44 < held_out < 0.53
    assert in_hindsight > held_out + 0.02
    signal = actual + 0.1 * rng.random(96)
    assert decoupling.cross_validate(signal[None], actual, alone, repeats=3)[0] == 1.0
    chosen = np.array([*draws, signal])  # the choice finds the signal among the noise
    assert decoupling.cross_validate(chosen, actual, alone, repeats=2)[0] == 1.0


def test_twins_do_not_judge_each_other():
    """Values that only identify the configuration are worthless for a new configuration."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(48), 2)
    actual = np.repeat(rng.random(48) < 0.5, 2)
    names = np.repeat(rng.permutation(48).astype(float), 2)
    held_out, _ = decoupling.cross_validate(names[None], actual, groups, repeats=10)
    assert held_out < 0.6


def test_one_fate_only_gets_a_sentence():
    with pytest.raises(gs.SpecError, match="some runs generalised and some did not"):
        decoupling.best_threshold(np.arange(4.0), np.ones(4, dtype=bool))
