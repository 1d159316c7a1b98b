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
from grokscope.draw.evidence import curve_of
from grokscope.draw.words import is_sound
from grokscope.papers.inductive_bias.quantities import LOW_LOSS

Theirs = Mapping[str, float]
Tell = Callable[[Evidence, ArmRuns, Theirs], str]
Tells = Mapping[str, Tell]


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
    return theirs.get(name, math.nan) or math.inf  # 0 is never


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


def compare(
    evidence: Evidence, study: str, more: Mapping[str, Tell] = {}, times: bool = True
) -> Comparison | None:
    """A row per arm that both have: steps of test loss 0.01, and what else is given."""
    rows = [
        {
            "arm": arm.name,
            **(list_times(evidence, arm, theirs) if times else {}),
            **{name: tell(evidence, arm, theirs) for name, tell in more.items()},
        }
        for arm, theirs in _shared(evidence, study)
    ]
    return Comparison((*rows[0],), tuple(tuple(row.values()) for row in rows)) if rows else None


def list_times(evidence: Evidence, arm: ArmRuns, theirs: Theirs) -> dict[str, str]:
    """By both rules: over seeds, and of the mean curve."""
    ours = arm.times("low_loss")[arm.finished]
    middle, mean = median_time(ours), _time(theirs, "mean")
    return {
        "seeds": str(len(ours)),
        "our median": state_time(middle),
        "our fastest": state_time(ours.min()),
        "our slowest": state_time(ours.max()),
        "our mean curve": state_time(mean_crossing(evidence, arm)),
        "their mean curve": state_time(mean),
        "their fastest": state_time(_time(theirs, "fastest")),
        "their last": state_time(_time(theirs, "slowest")) if "slowest" in theirs else "–",
        "theirs in our range": theirs_in_ours(mean, ours),
        "our median in theirs": ours_in_theirs(middle, theirs),
    }


def _shared(evidence: Evidence, study: str) -> list[tuple[ArmRuns, Theirs]]:
    """Arms with a finished run, at paper scale, and the authors' numbers of the same name."""
    if evidence.scale != "paper":
        return []
    sample: Any = next(iter(evidence.samples.values()))
    known = authors()[study]
    arms = (arm for arm in sample.arms.values() if arm.finished.any())
    return [(arm, known[arm.name]) for arm in arms if arm.name in known]


def _pair(ours: float, theirs: float, form: str = "") -> str:
    """ "8.1 / 8.3": times without a form; a dash is an unknown number."""
    told = (format(each, form) if form else state_time(each) for each in (ours, theirs))
    return " / ".join("–" if each.startswith("nan") else each for each in told)


def beside(column: str, name: str, form: str = ",.1f") -> Tell:
    """Our median of a column beside their number."""
    return lambda _, arm, theirs: _pair(arm.median(column), theirs.get(name, math.nan), form)


def beside_time(column: str, name: str) -> Tell:
    """The same of times: a run that never gets there counts."""

    def tell(_: Evidence, arm: ArmRuns, theirs: Theirs) -> str:
        return _pair(median_time(arm.times(column)[arm.finished]), _time(theirs, name))

    return tell


def series(what: str, column: str, name: str, steps: Sequence[int], form: str) -> Tells:
    """A tell for each of these steps: mean of a kept curve over seeds, at the row next to it,
    beside their number `<name>_<step>`."""

    def tell_at(step: int) -> Tell:
        def tell(evidence: Evidence, arm: ArmRuns, theirs: Theirs) -> str:
            near = [_nearest(evidence, row["run"], column, step) for row in arm.rows if row]
            known = [value for value in near if math.isfinite(value)] or [math.nan]
            return _pair(float(np.mean(known)), theirs.get(f"{name}_{step}", math.nan), form)

        return tell

    return {f"{what} at {step:,}": tell_at(step) for step in steps}


def _nearest(evidence: Evidence, run: str, column: str, step: int) -> float:
    """Kept curves are thinned: the row next to a step is half a percent of the budget away."""
    kept = curve_of(evidence, run, column)
    return float(kept.sort((pl.col("epoch") - step).abs())[column][0]) if len(kept) else math.nan


# Ours are medians of one number per seed; theirs are read off the mean curve over seeds.
WHOSE = "ours per seed / theirs of the mean over seeds"
MEANS = "means over seeds, ours / theirs"
FIT = {f"fit, {WHOSE}": beside_time("fitted", "fit")}
LOSS = {f"test loss at the end, {WHOSE}": beside("test_loss", "loss", ".3f")}
NORMS = f"parameter norm, {MEANS},", "parameter_norm", "norm"
LOSSES = f"SR-train, the authors' probe, {MEANS},", "sr_authors_loss", "loss"
RANKS = f"effective rank, {MEANS},", "rank_test", "rank"
SHORTCUT_STEPS = (200, 1000, 2000, 4000, 6000, 8000, 10_000)

PLACEMENTS: Tells = {
    **FIT,
    f"test accuracy 0.995, {WHOSE}": beside_time("generalised", "accurate"),
    f"C_Fourier 1, {WHOSE}": beside_time("fourier", "periodic"),
    f"peak test loss, {WHOSE}": beside("peak_test_loss", "peak"),
    **LOSS,
    f"relapses, {WHOSE}": beside("relapse", "relapse", ".0%"),
    **series(*NORMS, (1000, 5000, 8000, 10_000), ".1f"),
}
SCALES: Tells = {
    **series(*LOSSES, SHORTCUT_STEPS, ".2f"),
    **series("its accuracy", "sr_authors_accuracy", "right", SHORTCUT_STEPS, ".2f"),
}
DECAYS: Tells = {
    f"parameter norm, {WHOSE}": beside("parameter_norm", "norm"),
    **LOSS,
    f"effective rank, {WHOSE}": beside("rank_end", "rank"),
    f"exponent, {WHOSE}": beside("exponent_end", "exponent"),
}
COMPRESSION: Tells = {
    **series(*RANKS, (200, 1000, 3000, 5000, 8000), ".1f"),
    f"effective rank at the end, {WHOSE}": beside("rank_end", "rank"),
    f"its onset, {WHOSE}": beside_time("rank_onset_authors", "onset"),
    f"onset of the exponent, {WHOSE}": beside_time("exponent_onset_authors", "exponent_onset"),
}
compare_placements = partial(compare, study="placement", more=PLACEMENTS)
compare_scale = partial(compare, study="shortcut", more=SCALES, times=False)
compare_decays = partial(compare, study="decay", more=DECAYS)
compare_compression = partial(compare, study="compression", more=COMPRESSION, times=False)
