"""Figure 5's numbers against hand-worked ones and against another way to compute them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grokscope as gs
from grokscope.papers.structural_inference import explaining_away
from grokscope.papers.structural_inference.certificates import certify


def seen(**columns):
    plain = {
        "epoch": [0, 50, 100, 150, 200, 250],
        "gradient_mean": [1.0, 8.0, 4.0, 0.5, 0.5, 0.1],
        "bound_mean": [10.0, 80.0, 90.0, 45.0, 45.0, 1.0],
        "sharp_bound_mean": [10.0, 80.0, 40.0, 5.0, 5.0, 1.0],
        "ratio_worst": [0.1, 0.3, 0.2, 0.05, 0.15, 0.02],
    }
    return {name: np.array(values, float) for name, values in {**plain, **columns}.items()}


def test_falls_and_ratios_by_hand():
    found = explaining_away.summarise_ratios(seen(), memorised=100, grokked=200)
    assert found["bound_ratio"] == 0.3
    assert found["bound_ratio_memorised"] == 0.2
    assert (found["gradient_fall"], found["bound_fall"], found["sharp_bound_fall"]) == (16, 2, 16)
    assert found["bound_explains"] == pytest.approx(math.log(2) / math.log(16))
    assert found["sharp_bound_explains"] == pytest.approx(1)


def test_what_is_not_there_has_no_number():
    assert explaining_away.summarise_ratios(seen(), None, None) == {"bound_ratio": 0.3}
    at_the_end = explaining_away.summarise_ratios(seen(), 250, None)
    assert set(at_the_end) == {"bound_ratio", "bound_ratio_memorised"}
    flat = seen(gradient_mean=[1.0] * 6)
    assert "bound_explains" not in explaining_away.summarise_ratios(flat, 100, None)


def test_a_single_ratio_above_one_is_kept():
    broken = seen(ratio_worst=[0.1, 0.1, 1.5, 0.1, 0.1, 0.1])
    assert explaining_away.summarise_ratios(broken, 50, None)["bound_ratio_memorised"] == 1.5


def test_the_trace_agrees_with_the_certificates(store, tiny):
    spec = tiny.replace(**{"task.alphabet": 4, "optimiser.lr": 1e-2, "training.snapshots": 4})
    (run,) = gs.train(spec, store, processes=1)
    trace = explaining_away.trace(run)
    rows = certify(run, store).filter(name="explaining away")
    assert trace["epoch"].to_list() == rows["epoch"].to_list()
    np.testing.assert_allclose(trace["ratio_worst"], rows["ratio"])
    assert (trace["ratio_median"] < trace["ratio_worst"]).all()
    assert (trace["sharp_bound_mean"] < trace["bound_mean"]).all()
    assert explaining_away.summarise(run)["bound_ratio"] == trace["ratio_worst"].max()
