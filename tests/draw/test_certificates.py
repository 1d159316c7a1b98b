"""The figures of certificates."""

from __future__ import annotations

import polars as pl
import pytest

from grokscope.draw.certificates import LARGEST, MOST_POINTS, certificate_chart, decoupling_chart
from grokscope.errors import SpecError
from grokscope.pages.files import save_chart


def make_checks(count=200, arm=None):
    frame = pl.DataFrame(
        {
            "name": ["explaining away"] * count,
            "epoch": list(range(count)),
            "measured": [1.0] * count,
            "bound": [2.0] * count,
            "ratio": [0.5] * (count - 1) + [1e40],
            "holds": [True] * (count - 1) + [False],
        }
    )
    return frame if arm is None else frame.with_columns(pl.lit(arm).alias("arm"))


def drawn(chart):
    (rows,) = chart.to_dict()["datasets"].values()
    return rows


@pytest.mark.parametrize("arm", [None, "one arm"])
def test_thinning_keeps_the_failure(arm, tmp_path):
    chart = certificate_chart(make_checks(arm=arm))
    rows = drawn(chart)
    assert len(rows) <= MOST_POINTS + 1
    (failure,) = [row for row in rows if not row["holds"]]
    assert failure["ratio"] == LARGEST  # far off is drawn at the edge
    assert save_chart(chart, tmp_path / "checks.svg").read_text().startswith("<svg")


def test_nothing_to_draw_gets_a_sentence():
    empty = make_checks().with_columns(pl.lit(float("nan")).alias("ratio"))
    with pytest.raises(SpecError, match="nothing to draw"):
        certificate_chart(empty)


def test_runs_without_a_margin_are_not_drawn(tmp_path):
    population = pl.DataFrame(
        {
            "tau": [0.01, 0.02, float("nan")],
            "weakest_min": [0.4, 0.0, 0.1],
            "generalised": [True, False, False],
            "alphabet": [1, 4, 4],
            "prior": ["none"] * 3,
            "weight_decay": [1.0] * 3,
        }
    )
    chart = decoupling_chart(population)
    sets = chart.to_dict()["datasets"].values()
    points = next(rows for rows in sets if "fate" in rows[0])
    assert [row["fate"] for row in points] == ["generalised", "did not"]
    assert min(row["weakest_min"] for row in points) > 0  # a log scale has no zero
    assert save_chart(chart, tmp_path / "runs.svg").exists()
