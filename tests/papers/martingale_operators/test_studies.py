"""What the studies read off curves and covariances, and the tests that only this paper has."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Setting
from grokscope.papers.martingale_operators import delay, evaluation, figures, small_noise
from grokscope.papers.martingale_operators.judgements import Fixed, Growth, Ratio, Slope
from grokscope.spec.equations import EquationSpec, FieldSpec
from grokscope.tasks import fields


def sample(**arms):  # columns of each arm, a value per seed
    """Arms in one setting, by their columns."""
    made = {}
    for name, columns in arms.items():
        seeds = range(len(next(iter(columns.values()))))
        rows = [{"status": "finished", **{c: v[s] for c, v in columns.items()}} for s in seeds]
        made[name] = ArmRuns(name, tuple(FieldSpec(seed=s) for s in seeds), tuple(rows))
    return Sample(Setting("laptop", "heat", FieldSpec()), made)


def test_stability_of_a_curve():
    spread = [0.5, 30.0, *[8.0] * 14, 4.0, 3.0, 3.0, 2.5, 2.0]
    curve = pl.DataFrame({"train_loss": [4e4, *[-1.0] * 20], "spread_error": spread})
    found = small_noise.summarise(SimpleNamespace(curve=curve))
    assert found == {"start_loss": 4e4, "largest_spread": 30.0, "unfinished": 2.0}
    settled = curve.with_columns(spread_error=pl.lit(0.1))
    assert small_noise.summarise(SimpleNamespace(curve=settled))["unfinished"] == 1


def test_delays_of_a_curve():
    curve = pl.DataFrame(
        {
            "epoch": [0, 30, 60, 90, 120],
            "train_error": [1.0, 0.14, 0.09, 0.06, 0.05],
            "test_error": [1.0, 0.3, 0.12, 0.08, 0.1],
            "spread_error": [0.5, 0.2, 0.1, 0.12, 0.15],
            "test_loss": [9.0, 1.0, -1.0, -0.9, -0.5],
        }
    )
    outcome = {"fitted": {"epoch": 30}, "generalised": {"epoch": 60}}
    found = delay.summarise(SimpleNamespace(curve=curve, outcome=outcome))
    assert found["delay"] == 2
    assert [found[c] for c in delay.THRESHOLDS] == [2.0, 1.5, None]
    assert found["rebound"] == pytest.approx(1.25)
    assert found["spread_rebound"] == pytest.approx(1.5)
    assert found["loss_rebound"] == pytest.approx(0.5)
    assert found["gap"] == pytest.approx(2)


@pytest.mark.parametrize("rank", [1, 3, 4, 16])
def test_the_truncated_truth_has_the_best_variances(rank):
    """The best factor of a rank, by eigenvectors, has what `kept_by_rank` says at each frequency
    and nothing between; a wave that starts elsewhere has both wrong."""
    equation = EquationSpec(points=16)
    _, covariance = fields.known_law(equation, np.zeros((1, 21)))
    values, vectors = np.linalg.eigh(covariance)
    cut = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
    power, between = evaluation.by_frequency(cut)
    np.testing.assert_allclose(power, evaluation.kept_by_rank(equation, rank), atol=1e-12)
    assert between == pytest.approx(0, abs=1e-9)
    assert power.sum() == pytest.approx(np.trace(cut) / 16)
    bent = cut * np.outer(np.linspace(1, 2, 16), np.linspace(1, 2, 16))
    assert evaluation.by_frequency(bent)[1] > 0.05


def test_numbers_without_chance():
    seen = sample(a={"kurtosis": [-1.9, -1.9], "w2": [3.0, 4.0], "floor_w2": [1.0, 1.0]})
    found = Fixed("a", "kurtosis", "kurtosis", high=-1.0).judge(seen)
    assert (found.ruling, found.p, found.estimate) == ("supported", None, None)
    assert "-1.9 in 2 runs" in found.remark
    assert Fixed("a", "kurtosis", "", low=0.0).judge(seen).ruling == "smaller than claimed"
    assert Fixed("a", "w2", "", high=2.0, over="floor_w2").judge(seen).ruling == (
        "larger than claimed"
    )
    assert Fixed("a", "w2", "", low=3.5).judge(seen).ruling == "inconclusive"
    assert Fixed("a", "w2", "", low=3.2, high=3.8).judge(seen).ruling == "inconclusive"
    assert Fixed("a", "absent", "", low=0.0).judge(seen).ruling == "untestable"
    assert not Fixed("a", "w2", "", regimes=("φ⁴",)).needs(seen)


def test_the_floor_stands_beside_distances():
    columns = {"dirac_w2": [1.0] * 5, "w2": [0.1] * 5, "floor_w2": [0.05] * 5, "law_ms": [3.0] * 5}
    seen = sample(a=columns)
    assert "sampling floor 0.05" in Ratio("a", "dirac_w2", "", over="w2").judge(seen).remark
    assert "floor" not in Ratio("a", "law_ms", "").judge(seen).remark
    assert "sampling" not in Ratio("a", "w2", "", over="floor_w2").judge(seen).remark
    assert seen.arms["a"].median("dirac_w2", "w2") == pytest.approx(10)


def test_a_ratio_of_numbers_that_no_run_has_is_untestable():
    found = Ratio("a", "w2", "", over="floor_w2").judge(sample(a={"w2": [math.nan] * 5}))
    assert found.ruling == "untestable"


def test_the_slope_is_the_exponent():
    doses = {"one": 1.0, "two": 2.0, "four": 4.0}
    seen = sample(
        **{n: {"w2": [3 * d**0.7] * 5, "gaussian_w2": [d] * 5} for n, d in doses.items()},
        other={"w2": [99.0] * 5, "gaussian_w2": [1.0] * 5},
    )
    test = Slope(lambda arm: doses.get(arm.name), "dose", "w2", "gaussian_w2", high=0.1)
    found = test.judge(seen)
    assert found.estimate.value == pytest.approx(-0.3)
    assert found.ruling == "supported"


def test_growth_has_the_unit_of_the_training_grid():
    """An error that stays, while the truth's deviation doubles, does not shrink."""
    columns = {"mean_error_1x": 0.2, "mean_error_4x": 0.1, "deviation_1x": 1.0, "deviation_4x": 2.0}
    seen = sample(diagonal={c: [v] * 5 for c, v in columns.items()})
    found = Growth("mean_error", "growth").judge(seen)
    assert found.estimate.value == pytest.approx(0)
    assert found.ruling == "supported"
    assert math.isinf(Growth("mean_error", "growth").interest[0])


def test_a_law_keeps_its_colour_where_another_is_missing():
    """The joint arm has no runs: what comes after it must not take its colour."""
    laws = {f"{prefix}w2": [0.1] * 5 for prefix in ("", "global_", "constant_", "floor_")}
    seen = sample(diagonal={"dirac_w2": [1.0] * 5, **laws}, joint={"dirac_w2": [math.nan] * 5})
    (panel,) = figures._factors(seen)
    scale = panel.chart.to_dict()["layer"][-1]["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert colours == {name: figures.LAWS[name][2] for name in colours}
    assert "operator, joint" not in colours
    assert "B1, one deviation" in colours


def test_the_table_of_delays_shows_what_there_is():
    """A run that every arm still lacks does not hide the others."""
    seen = sample(few={"delay": [2.0, 3.0, 4.0]})
    arm = replace(seen.arms["few"], rows=(*seen.arms["few"].rows[:2], None))
    part = replace(seen, arms={"few": arm})
    table = delay.tabulate(Evidence(delay.STUDY, "laptop", {"few": part}, pl.DataFrame()))
    assert table.rows == (("few", "2.5 (2 of 3)", *["– (0 of 3)"] * 3),)
    none = replace(seen, arms={"few": replace(arm, rows=(None,) * 3)})
    assert delay.tabulate(Evidence(delay.STUDY, "laptop", {"few": none}, pl.DataFrame())) is None
