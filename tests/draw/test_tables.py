from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from grokscope.draw.tables import attention_cells, clean, gather, thin
from grokscope.pages.reading import read_run


def test_thinning_keeps_spikes_ends_and_original_rows():
    count = 10_000
    values = np.sin(np.arange(count) / 900)
    values[3333], values[7777] = 50.0, -50.0
    table = pl.DataFrame({"epoch": np.arange(count), "a": values, "b": -values})
    thinned = thin(table, ["a", "b"], 400)
    assert len(thinned) <= 400
    assert {0, 3333, 7777, count - 1} <= set(thinned["epoch"])
    assert thinned["epoch"].is_sorted()
    assert thinned["a"].to_list() == values[thinned["epoch"].to_numpy()].tolist()


def test_thinning_leaves_short_tables_alone():
    table = pl.DataFrame({"epoch": [0, 1], "a": [None, 2.0]})
    assert thin(table, ["a"], 400).equals(table)


def test_what_cannot_be_drawn_is_null():
    curve = pl.DataFrame({"epoch": [0, 1, 2, 3, 4], "a": [1.0, np.nan, np.inf, 0.0, -1.0]})
    assert clean(curve, {"a": "a"})["a"].to_list() == [1.0, None, None, 0.0, -1.0]
    assert clean(curve, {"a": "a"}, positive=True)["a"].to_list() == [1.0, None, None, None, None]
    assert clean(curve, {"b": "absent"})["b"].to_list() == [None] * 5


def test_several_seeds_give_median_and_range(make_run):
    readings = [read_run(make_run(seed=s, grok=g)) for s, g in enumerate((300, 500, 900))]
    lines = gather(readings, {"test": "test_accuracy"})
    row = lines.table.filter(pl.col("epoch") == 450).row(0, named=True)
    by_hand = [float(r.curve.filter(pl.col("epoch") == 450)["test_accuracy"][0]) for r in readings]
    assert lines.banded
    assert row["test_low"] == pytest.approx(min(by_hand), abs=1e-4)
    assert row["test"] == pytest.approx(np.median(by_hand), abs=1e-4)
    assert row["test_high"] == pytest.approx(max(by_hand), abs=1e-4)


def test_medians_end_where_the_first_seed_ends(make_run):
    long = make_run(seed=0, grok=None)
    short = make_run(seed=1, grok=400, status="partial", until=600)
    lines = gather([read_run(long), read_run(short)], {"test": "test_accuracy"})
    assert lines.table["epoch"].max() == 600
    (stray,) = lines.strays
    assert (stray["epoch"].min(), stray["epoch"].max()) == (600, 1000)


def test_failed_runs_are_strays_not_part_of_the_median(make_run):
    readings = [
        read_run(make_run(seed=0, grok=500)),
        read_run(make_run(seed=1, grok=None, status="failed", until=200)),
    ]
    lines = gather(readings, {"test": "test_accuracy"})
    assert not lines.banded
    assert lines.table["epoch"].max() == 1000
    assert lines.strays[0]["test"].to_list()[-1] is None


def test_attention_cells_tile_the_time_axis(make_run):
    reading = read_run(make_run())
    cells = attention_cells([reading], columns=7, most=1000)
    starts = sorted({cell["epoch"] for cell in cells})
    assert len(starts) == 7
    assert starts[0] == 0
    assert max(cell["until"] for cell in cells) == 1000
    for start, after in itertools.pairwise(starts):
        assert next(c["until"] for c in cells if c["epoch"] == start) >= after
    for start in starts:
        assert sum(c["attention"] for c in cells if c["epoch"] == start) == pytest.approx(
            1, abs=1e-3
        )


def test_attention_cells_are_bounded_and_averaged_over_sound_seeds(make_run):
    sound = [read_run(make_run(seed=s, grok=g)) for s, g in ((0, 300), (1, None))]
    failed = read_run(make_run(seed=2, status="failed", until=100, grok=None))
    cells = attention_cells([*sound, failed], columns=100, most=50)
    assert len(cells) <= 50
    last = max(cell["epoch"] for cell in cells)
    first_position = next(c for c in cells if c["epoch"] == last and c["position"] == 0)
    ends = [reading.curve["attention"][-1][0] for reading in sound]
    assert first_position["attention"] == pytest.approx(np.mean(ends), abs=1e-3)
