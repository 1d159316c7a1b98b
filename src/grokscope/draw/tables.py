"""From curves to the small tables that go into a chart.

A table has a column `epoch`, a column per measure and, for several runs, `measure_low` and
`measure_high`. What cannot be drawn (NaN, infinity; on a log scale also zero and below) is null.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from grokscope.draw.reading import Reading

ROWS = 400  # at most, per line
DIGITS = 5  # significant ones: finer than any pixel, and half the size of the file


@dataclass(frozen=True)
class Lines:
    """The lines of one arm: a table, and lone stretches of single runs."""

    table: pl.DataFrame
    strays: tuple[pl.DataFrame, ...]
    banded: bool  # does the table summarise several runs?


def gather(
    readings: Sequence[Reading],
    measures: Mapping[str, str],
    positive: bool = False,
    rows: int = ROWS,
) -> Lines:
    """The table of an arm; `measures` maps names in the table to columns of the curves.

    Median and range cover the epochs that every run reached: beyond them the median would jump to
    the remaining runs. Those stretches, and runs that failed, are strays.
    """
    drawn = [r for r in readings if len(r.curve)]
    sound = [r for r in drawn if r.status != "failed"] or drawn
    strays = [clean(r.curve, measures, positive) for r in drawn if r not in sound]
    tables = [clean(r.curve, measures, positive) for r in sound]
    if len(tables) <= 1:
        empty = pl.DataFrame(schema={"epoch": pl.Int64, **dict.fromkeys(measures, pl.Float64)})
        table = tables[0] if tables else empty
    else:
        end = min(r.epochs for r in sound)
        common = pl.concat(tables).filter(pl.col("epoch") <= end)
        table = band(common, list(measures))
        # The first stray row repeats the last common one, so that no gap opens between the two.
        strays += [t.filter(pl.col("epoch") >= end) for t in tables if t["epoch"][-1] > end]
    return Lines(
        table=thin(table, [name for name in table.columns if name != "epoch"], rows),
        strays=tuple(thin(stray, list(measures), rows // 4) for stray in strays),
        banded=len(tables) > 1,
    )


def clean(curve: pl.DataFrame, measures: Mapping[str, str], positive: bool = False) -> pl.DataFrame:
    """`epoch` and the measures; what cannot be drawn, or was not measured, is null."""
    columns = []
    for name, column in measures.items():
        if curve.schema.get(column, pl.List).is_nested():  # a list is no line
            columns.append(pl.lit(None, pl.Float64).alias(name))
            continue
        value = pl.col(column).cast(pl.Float64)
        good = value.is_finite() & (value > 0 if positive else True)
        columns.append(pl.when(good).then(value.round_sig_figs(DIGITS)).alias(name))
    return curve.select(pl.col("epoch").cast(pl.Int64), *columns)


def band(rows: pl.DataFrame, measures: Sequence[str]) -> pl.DataFrame:
    """Median, lowest and highest over runs, at each epoch."""
    values = pl.col(*measures)
    return (
        rows.group_by("epoch")
        .agg(values.median(), values.min().name.suffix("_low"), values.max().name.suffix("_high"))
        .with_columns(pl.all().exclude("epoch").round_sig_figs(DIGITS))
        .sort("epoch")
    )


def band_of_runs(curves: pl.DataFrame, runs: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    """The same from a table of many runs' curves, at the epochs that all of these runs have. Empty
    where a column is missing."""
    if not runs or not {"run", "epoch", *columns} <= {*curves.columns}:
        return pl.DataFrame()
    # Other runs' rows may have other columns.
    mine = curves.filter(pl.col("run").is_in(list(runs))).drop_nulls(list(columns))
    shared = mine.filter(pl.len().over("epoch") == mine["run"].n_unique())
    return band(shared, columns)


def thin(table: pl.DataFrame, columns: Sequence[str], rows: int = ROWS) -> pl.DataFrame:
    """At most `rows` of the rows. Half are evenly spaced; the others are those at which some column
    is lowest or highest within each of several equal stretches, so that no spike is lost."""
    count = len(table)
    if count <= rows:
        return table
    keep = {int(i) for i in np.linspace(0, count - 1, rows // 2)}
    stretches = max(1, (rows - rows // 2) // (2 * len(columns)))
    edges = np.linspace(0, count, stretches + 1).astype(int)
    for name in columns:
        values = table[name].to_numpy().astype(float)
        for start, end in itertools.pairwise(edges):
            part = values[start:end]
            if not np.isnan(part).all():
                keep |= {start + int(np.nanargmin(part)), start + int(np.nanargmax(part))}
    return table[sorted(keep)]


def attention_cells(readings: Sequence[Reading], columns: int, most: int) -> list[dict[str, Any]]:
    """Cells of the heat map, at most `most` of them in at most so many columns: mean attention at
    each position over stretches of epochs, averaged over the runs that did not fail, up to the
    epoch that all of them have reached."""
    drawn = [r for r in readings if len(r.curve) and "attention" in r.curve.columns]
    sound = [r for r in drawn if r.status != "failed"] or drawn
    if not sound or len({len(r.curve["attention"][0]) for r in sound}) > 1:
        return []
    rows = min(len(r.curve) for r in sound)
    epochs = sound[0].curve["epoch"].to_numpy()[:rows]
    blocks = [np.array(r.curve["attention"].to_list(), float)[:rows] for r in sound]
    weights = np.mean(blocks, axis=0)  # (rows, T)
    columns = max(1, min(columns, rows - 1, most // weights.shape[1]))
    edges = np.linspace(0, rows - 1, columns + 1).astype(int)
    cells = []
    for start, end in itertools.pairwise(edges):
        # Cells reach under their right neighbours: no hairlines show between them.
        until = int(epochs[min(2 * end - start, rows - 1)]) or 1
        stretch = {"epoch": int(epochs[start]), "until": until}
        for position, weight in enumerate(weights[start : end + (end == rows - 1)].mean(axis=0)):
            if np.isfinite(weight):
                cells.append({**stretch, "position": position, "attention": round(weight, 4)})
    return cells
