"""Our runs beside the authors', at paper scale: `authors.toml` holds their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
Tells = dict[str, Tell]


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
MEANS = "means over seeds, ours / theirs"
FIT = {f"fit, {WHOSE}": beside_time("fitted", "fit")}


def series(evidence: Evidence, column: str, name: str, steps: Sequence[int], form: str) -> Tells:
    """A tell for each of these steps: mean of a kept curve over seeds, at the row next to it,
    beside their number `<name>_<step>`."""

    def tell_at(step: int) -> Tell:
        def tell(arm: ArmRuns, theirs: Theirs) -> str:
            near = [_nearest(evidence, row["run"], column, step) for row in arm.rows if row]
            known = [value for value in near if math.isfinite(value)]
            ours = format(np.mean(known), form) if known else "–"
            key = f"{name}_{step}"
            return f"{ours} / {format(theirs[key], form) if key in theirs else '–'}"

        return tell

    return {f"{step:,}": tell_at(step) for step in steps}


def _nearest(evidence: Evidence, run: str, column: str, step: int) -> float:
    """Kept curves are thinned: the row next to a step is half a percent of the budget away."""
    curves = evidence.curves
    if not len(curves) or column not in curves.columns:
        return math.nan
    kept = curves.filter((pl.col("run") == run) & pl.col(column).is_not_null())
    return float(kept.sort((pl.col("epoch") - step).abs())[column][0]) if len(kept) else math.nan


def _headed(what: str, tells: Tells) -> Tells:
    return {f"{what} at {step}": tell for step, tell in tells.items()}


def compare_placements(evidence: Evidence) -> Comparison | None:
    """Times and fits, relapses, and the parameter norm over training."""
    norms = series(evidence, "parameter_norm", "norm", (1000, 5000, 8000, 10_000), ".1f")
    more = {**PLACEMENTS, **_headed(f"parameter norm, {MEANS},", norms)}
    return compare(evidence, "placement", more)


def compare_scale(evidence: Evidence) -> Comparison | None:
    """SR-train by the authors' probe over training."""
    losses = series(evidence, "sr_authors_loss", "loss", SHORTCUT_STEPS, ".2f")
    right = series(evidence, "sr_authors_accuracy", "right", SHORTCUT_STEPS, ".2f")
    more = {
        **_headed(f"SR-train, the authors' probe, {MEANS},", losses),
        **_headed("its accuracy", right),
    }
    return compare(evidence, "shortcut", more, times=False)


def compare_compression(evidence: Evidence) -> Comparison | None:
    """Effective rank over training, and onsets by the authors' rule."""
    ranks = series(evidence, "rank_test", "rank", (200, 1000, 3000, 5000, 8000), ".1f")
    more = {**_headed(f"effective rank, {MEANS},", ranks), **COMPRESSION}
    return compare(evidence, "compression", more, times=False)


SHORTCUT_STEPS = (200, 1000, 2000, 4000, 6000, 8000, 10_000)
PLACEMENTS: Tells = {
    **FIT,
    f"test accuracy 0.995, {WHOSE}": beside_time("generalised", "accurate"),
    f"C_Fourier 1, {WHOSE}": beside_time("fourier", "periodic"),
    f"peak test loss, {WHOSE}": beside("peak_test_loss", "peak"),
    f"test loss at the end, {WHOSE}": beside("test_loss", "loss", ".3f"),
    f"relapses, {WHOSE}": beside("relapse", "relapse", ".0%"),
}
compare_decays = partial(
    compare,
    study="decay",
    more={
        f"parameter norm, {WHOSE}": beside("parameter_norm", "norm"),
        f"test loss at the end, {WHOSE}": beside("test_loss", "loss", ".3f"),
        f"effective rank, {WHOSE}": beside("rank_end", "rank"),
        f"exponent, {WHOSE}": beside("exponent_end", "exponent"),
    },
)
COMPRESSION: Tells = {
    f"effective rank at the end, {WHOSE}": beside("rank_end", "rank"),
    f"its onset, {WHOSE}": beside_time("rank_onset_authors", "onset"),
    f"onset of the exponent, {WHOSE}": beside_time("exponent_onset_authors", "exponent_onset"),
}
