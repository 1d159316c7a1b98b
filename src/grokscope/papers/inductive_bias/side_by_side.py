"""Our runs beside the authors', at paper scale: `authors.toml` holds their numbers."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import resources
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.studies import Comparison
from grokscope.claims.verdicts import median_time
from grokscope.draw.words import is_sound
from grokscope.papers.inductive_bias.quantities import LOW_LOSS

Theirs = Mapping[str, float]


@cache
def authors() -> dict[str, dict[str, dict[str, float]]]:
    """Their numbers by study and arm."""
    folder = resources.files("grokscope.papers.inductive_bias")
    return tomllib.loads((folder / "authors.toml").read_text(encoding="utf-8"))


def step(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:,.0f}"


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


def compare_times(
    evidence: Evidence,
    study: str,
    more: Mapping[str, Callable[[ArmRuns, Theirs], str]] | None = None,
) -> Comparison | None:
    """A row per arm that both have: steps of test loss 0.01, and what else is given."""
    rows = []
    for arm, theirs in _shared(evidence, study):
        ours = arm.times("low_loss")[[is_sound(row) for row in arm.rows]]
        middle, mean = median_time(ours), _time(theirs, "mean")
        last = step(_time(theirs, "slowest")) if "slowest" in theirs else "–"
        rows.append(
            (
                arm.name,
                str(len(ours)),
                *map(step, (middle, ours.min(), ours.max(), mean_crossing(evidence, arm), mean)),
                step(_time(theirs, "fastest")),
                last,
                theirs_in_ours(mean, ours),
                ours_in_theirs(middle, theirs),
                *(tell(arm, theirs) for tell in (more or {}).values()),
            )
        )
    return Comparison(("arm", "seeds", *TIMES, *(more or {})), tuple(rows)) if rows else None


def _shared(evidence: Evidence, study: str) -> list[tuple[ArmRuns, Theirs]]:
    """Arms with a finished run, at paper scale, and the authors' numbers of the same name."""
    if evidence.scale != "paper":
        return []
    sample: Any = next(iter(evidence.samples.values()))
    known = authors()[study]
    return [
        (arm, known[name])
        for name, arm in sample.arms.items()
        if name in known and any(row is not None and is_sound(row) for row in arm.rows)
    ]


def beside(column: str, name: str, form: str = ",.1f") -> Callable[[ArmRuns, Theirs], str]:
    """Our median of a column beside their number: "8.1 / 8.3"."""

    def tell(arm: ArmRuns, theirs: Theirs) -> str:
        values = arm.values(column)
        known = values[np.isfinite(values)]
        ours = format(float(np.median(known)), form) if len(known) else "–"
        return f"{ours} / {format(theirs[name], form) if name in theirs else '–'}"

    return tell


def beside_time(column: str, name: str) -> Callable[[ArmRuns, Theirs], str]:
    """The same of times: a run that never gets there counts."""

    def tell(arm: ArmRuns, theirs: Theirs) -> str:
        ours = arm.times(column)[[is_sound(row) for row in arm.rows]]
        return f"{step(median_time(ours))} / {step(_time(theirs, name)) if name in theirs else '–'}"

    return tell


# Ours are medians of one number per seed; theirs are read off the mean curve over seeds.
WHOSE = "ours per seed / theirs of the mean over seeds"
FIT = {f"fit, {WHOSE}": beside_time("fitted", "fit")}


compare_placements = partial(
    compare_times,
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
    compare_times,
    study="decay",
    more={
        f"parameter norm, {WHOSE}": beside("parameter_norm", "norm"),
        f"effective rank, {WHOSE}": beside("rank_end", "rank"),
    },
)


def compare_compression(evidence: Evidence) -> Comparison | None:
    """Effective rank at the end, and onsets by the authors' rule."""
    tells = {
        f"effective rank at the end, {WHOSE}": beside("rank_end", "rank"),
        f"its onset, {WHOSE}": beside_time("rank_onset_authors", "onset"),
        f"onset of the exponent, {WHOSE}": beside_time("exponent_onset_authors", "exponent_onset"),
    }
    rows = [
        (arm.name, *(tell(arm, theirs) for tell in tells.values()))
        for arm, theirs in _shared(evidence, "compression")
    ]
    return Comparison(("arm", *tells), tuple(rows)) if rows else None
