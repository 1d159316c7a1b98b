"""Figure 5: does the bound on attention's gradient hold along training, and does it explain why
the gradient starves?

Fixed before the runs, but not before anything was known: certificates of eleven other runs
(docs/theory.md) had a worst ratio of 15 %, at the median checkpoint 2 %. Weights are kept every 50
epochs: forty snapshots would leave one between the start and memorisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Everywhere, Level
from grokscope.claims.looks import ERROR
from grokscope.claims.studies import Setting
from grokscope.claims.verdicts import PerSeed
from grokscope.papers.structural_inference import figures, settings
from grokscope.papers.structural_inference.certificates import checks
from grokscope.spec import RunSpec
from grokscope.store import Run, Store

BASELINE, PRIOR = "no prior", "oracle prior"
SNAPSHOTS = 100
FAR = 0.1
FALLING = ("gradient", "bound", "sharp_bound")
VISIBLE = 2.0  # a smaller fall of the gradient needs no explanation
RATIO = "ratio of any gradient to its bound"
NO_FALL = "have not memorised, or their gradient hardly falls"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    watched = setting.baseline(seed).replace(**{"training.snapshots": SNAPSHOTS})
    return {BASELINE: watched, PRIOR: watched.replace(**settings.ORACLE)}


@cache  # both tables are made from it
def inspect(path: Path) -> Mapping[str, np.ndarray]:  # (snapshots + 1,) each
    """Gradient on attention and its bound at every snapshot and at the end of a finished run, over
    all logits of all training examples."""
    run = Run(path)
    rows = []
    for epoch, seen in checks.inspect_run(run, Store(path.parent), [*run.snapshots, None]):
        worst = checks.upper_check("", 9, epoch, seen["gradient_at_worst"], seen["bound_at_worst"])
        means = {f"{name}_mean": seen[f"{name}_mean"] for name in FALLING}
        ratios = {"ratio_worst": worst.ratio, "ratio_median": seen["gradient_ratio_median"]}
        rows.append({"epoch": epoch, **means, **ratios})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def trace(run: Run) -> pl.DataFrame:
    return pl.DataFrame(dict(inspect(run.path)))


def summarise(run: Run) -> dict[str, float | None]:
    memorised, grokked = (run.outcome[name]["epoch"] for name in ("memorised", "grokked"))
    return summarise_ratios(inspect(run.path), memorised, grokked)


def summarise_ratios(
    seen: Mapping[str, np.ndarray], memorised: int | None, grokked: int | None
) -> dict[str, float | None]:
    """The worst ratios, and by how much gradient and bounds fall: the largest mean up to
    memorisation over the median from then until grokking (or the end). A bound explains the share
    log(its fall) / log(the gradient's fall)."""
    worst = seen["ratio_worst"]
    result: dict[str, float | None] = {"bound_ratio": float(worst.max())}
    if memorised is None:
        return result
    epoch = seen["epoch"]
    result["bound_ratio_memorised"] = float(worst[epoch >= memorised].max())
    end = epoch[-1] if grokked is None or grokked <= memorised else grokked
    before, after = epoch <= memorised, (epoch > memorised) & (epoch <= end)
    if not after.any():
        return result
    falls = {
        name: float(seen[f"{name}_mean"][before].max() / np.median(seen[f"{name}_mean"][after]))
        for name in FALLING
    }
    result |= {f"{name}_fall": fall for name, fall in falls.items()}
    if falls["gradient"] >= VISIBLE:
        for name in ("bound", "sharp_bound"):
            result[f"{name}_explains"] = math.log(falls[name]) / math.log(falls["gradient"])
    return result


def read(evidence: Evidence) -> str:
    """How far gradient, bound and sharp bound fall, in runs without a prior."""
    parts = []
    for regime, sample in evidence.finished(BASELINE):
        falls = [sample.arms[BASELINE].values(f"{name}_fall") for name in FALLING]
        if np.isfinite(falls).all():
            means = [PerSeed.known(fall).estimate(ERROR) for fall in falls]
            parts.append(f"{regime} {means[0]}, {means[1]} and {means[2]}")
    says = settings.PROSE.reading("explaining-away")["says"]
    return says.format(found="; ".join(parts)) if parts else ""


def far_below(arm: str) -> Level:
    effect, absent = "largest ratio after memorisation", "have not memorised"
    return Level(arm, "bound_ratio_memorised", effect, high=FAR, absent=absent)


def explains(column: str) -> Level:
    return Level(BASELINE, column, "share of the fall", low=0.5, absent=NO_FALL)


STUDY = settings.study(
    "explaining-away",
    tests={
        "always below the bound": Everywhere("bound_ratio", RATIO, 1 + checks.ROUNDING),
        "far below after memorisation": far_below(BASELINE),
        "far below with a prior": far_below(PRIOR),
        "the bound explains starvation": explains("bound_explains"),
        "the sharp bound explains starvation": explains("sharp_bound_explains"),
    },
    settings=settings.only(),
    arms=arms,
    draw=figures.draw_bounds,
    read=read,
    summarise=summarise,
    trace=trace,
    curve_arms=(BASELINE, PRIOR),
)
