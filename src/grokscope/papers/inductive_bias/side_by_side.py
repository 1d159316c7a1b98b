"""Our runs beside the authors', at paper scale: `authors.toml` holds their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.prose import read_toml
from grokscope.claims.studies import Comparison
from grokscope.claims.verdicts import median_time, state_time
from grokscope.draw.words import is_sound
from grokscope.papers.inductive_bias.quantities import LOW_LOSS

Theirs = Mapping[str, float]
Tell = Callable[[ArmRuns, Theirs], str]


@cache
def authors() -> dict[str, dict[str, dict[str, float]]]:
    """Their numbers by study and arm."""
    return read_toml(__package__, "authors.toml")


def theirs_in_ours(theirs: float, ours: np.ndarray) -> str:  # (seeds,)
    """Does their number lie between our fastest and our slowest seed?"""
    if len(ours) < 2:
        return "one seed: no range"
    return "yes" if ours.min() <= theirs <= ours.max() else "no"


def ours_in_theirs(ours: float, theirs: Theirs) -> str:
    """Does our median lie between their fastest seed and the step by which all of theirs are there
    (where only the fastest and the mean are known: not before the fastest)?"""
    if "slowest" in theirs:
        return "yes" if _time(theirs, "fastest") <= ours <= _time(theirs, "slowest") else "no"
    return "not before their fastest" if ours >= _time(theirs, "fastest") else "no: before all"


def _time(theirs: Theirs, name: str) -> float:
    return theirs[name] or math.inf  # 0 is never


def mean_crossing(evidence: Evidence, arm: ArmRuns) -> float:
    """Their rule: the first (kept) row at which the mean test loss over seeds is at most 0.01."""
    runs = [row["run"] for row in arm.rows if row is not None and is_sound(row)]
    curves = evidence.curves
    if not len(curves) or "test_loss" not in curves.columns:
        return math.nan
    kept = curves.filter(pl.col("run").is_in(runs) & pl.col("test_loss").is_not_null())
    means = kept.group_by("epoch").agg(pl.col("test_loss").mean(), pl.len()).sort("epoch")
    low = means.filter((pl.col("test_loss") <= LOW_LOSS) & (pl.col("len") == len(runs)))
    return float(low["epoch"][0]) if len(low) else math.inf


TIMES = (
    "seeds",
    "our median",
    "our fastest",
    "our slowest",
    "our mean curve",
    "their mean curve",
    "their fastest",
    "their last",
    "theirs in our range",
    "our median in theirs",
)


def compare(
    evidence: Evidence, study: str, more: Mapping[str, Tell] | None = None, times: bool = True
) -> Comparison | None:
    """A row per arm that both have: steps of test loss 0.01, and what else is given."""
    tells = more or {}
    rows = [
        (
            arm.name,
            *(list_times(evidence, arm, theirs) if times else ()),
            *(tell(arm, theirs) for tell in tells.values()),
        )
        for arm, theirs in _shared(evidence, study)
    ]
    headings = ("arm", *(TIMES if times else ()), *tells)
    return Comparison(headings, tuple(rows)) if rows else None


def list_times(evidence: Evidence, arm: ArmRuns, theirs: Theirs) -> tuple[str, ...]:
    """What `TIMES` announces."""
    ours = arm.times("low_loss")[arm.finished]
    middle, mean = median_time(ours), _time(theirs, "mean")
    seen = (middle, ours.min(), ours.max(), mean_crossing(evidence, arm))
    return (
        str(len(ours)),
        *map(state_time, (*seen, mean, _time(theirs, "fastest"))),
        state_time(_time(theirs, "slowest")) if "slowest" in theirs else "–",
        theirs_in_ours(mean, ours),
        ours_in_theirs(middle, theirs),
    )


def _shared(evidence: Evidence, study: str) -> list[tuple[ArmRuns, Theirs]]:
    """Arms with a finished run, at paper scale, and the authors' numbers of the same name."""
    if evidence.scale != "paper":
        return []
    sample: Any = next(iter(evidence.samples.values()))
    known = authors()[study]
    return [
        (arm, known[name])
        for name, arm in sample.arms.items()
        if name in known and arm.finished.any()
    ]


def beside(column: str, name: str, form: str = ",.1f") -> Tell:
    """Our median of a column beside their number: "8.1 / 8.3"."""

    def tell(arm: ArmRuns, theirs: Theirs) -> str:
        middle = arm.median(column)
        ours = format(middle, form) if math.isfinite(middle) else "–"
        return f"{ours} / {format(theirs[name], form) if name in theirs else '–'}"

    return tell


def beside_time(column: str, name: str) -> Tell:
    """The same of times: a run that never gets there counts."""

    def tell(arm: ArmRuns, theirs: Theirs) -> str:
        ours = state_time(median_time(arm.times(column)[arm.finished]))
        return f"{ours} / {state_time(_time(theirs, name)) if name in theirs else '–'}"

    return tell


# Ours are medians of one number per seed; theirs are read off the mean curve over seeds.
WHOSE = "ours per seed / theirs of the mean over seeds"
FIT = {f"fit, {WHOSE}": beside_time("fitted", "fit")}


compare_placements = partial(
    compare,
    study="placement",
    more={
        **FIT,
        f"test accuracy 0.995, {WHOSE}": beside_time("generalised", "accurate"),
        f"C_Fourier 1, {WHOSE}": beside_time("fourier", "periodic"),
        f"peak test loss, {WHOSE}": beside("peak_test_loss", "peak"),
        f"relapses, {WHOSE}": beside("relapse", "relapse", ".0%"),
    },
)
compare_decays = partial(
    compare,
    study="decay",
    more={
        f"parameter norm, {WHOSE}": beside("parameter_norm", "norm"),
        f"effective rank, {WHOSE}": beside("rank_end", "rank"),
    },
)


compare_compression = partial(  # effective rank at the end, and onsets by the authors' rule
    compare,
    study="compression",
    times=False,
    more={
        f"effective rank at the end, {WHOSE}": beside("rank_end", "rank"),
        f"its onset, {WHOSE}": beside_time("rank_onset_authors", "onset"),
        f"onset of the exponent, {WHOSE}": beside_time("exponent_onset_authors", "exponent_onset"),
    },
)
