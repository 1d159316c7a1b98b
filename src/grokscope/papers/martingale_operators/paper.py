"""Martingale neural operators (arXiv 2605.15806): a study of the idea."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from grokscope.claims.evidence import ArmRuns, Tables
from grokscope.claims.studies import Answer, Comparison, ScaleName, Study
from grokscope.papers.martingale_operators import distances, heads, losses
from grokscope.papers.martingale_operators.evaluation import DEFINITIONS, summarise
from grokscope.papers.martingale_operators.settings import PROSE

Runs = Mapping[str, Mapping[str, ArmRuns]]
"""By regime, the arms of a study that have been run."""
Rows = Iterator[tuple[str, ...]]  # of a table, the headings first


def read_factors(runs: Runs) -> Rows:
    """How many times closer to the truth than the Dirac, by definition."""
    chosen = (distances.FAVOURABLE, "w2", "sliced", "bures")
    yield ("", *(DEFINITIONS[column] for column in chosen))
    laws = {
        "": "operator with the paper's loss",
        "global_": "B1, one deviation",
        "constant_": "B2, one covariance",
        "floor_": "fresh sample of the truth",
    }
    for regime in distances.CLAIMED:
        if arm := runs[regime].get("diagonal"):
            for prefix, law in laws.items():
                factors = [arm.median(f"dirac_{c}", prefix + c) for c in chosen]
                yield (f"{regime}: {law}", *(f"{factor:.3g}" for factor in factors))


def read_constant(runs: Runs) -> Rows:
    """Distances of rivals over the operator's."""
    rivals = {
        "constant": ("one covariance", ("diagonal", "joint")),
        "ranked": ("one of the same rank", ("joint",)),
        "coarse": ("coarse solver", ("diagonal", "joint")),
    }
    losses = {"diagonal": "the paper's loss", "joint": "joint likelihood"}
    pairs = [(rival, arm) for rival, (_, arms) in rivals.items() for arm in arms]
    yield ("", *(f"{rivals[rival][0]}, against {losses[arm]}" for rival, arm in pairs))
    for regime, arms in runs.items():
        if losses.keys() <= arms.keys():
            ratios = [arms[arm].median(f"{rival}_bures", "bures") for rival, arm in pairs]
            yield (regime, *(f"{ratio:.2g}" for ratio in ratios))


def read_correlation(runs: Runs) -> Rows:
    names = list(dict.fromkeys(name for arms in runs.values() for name in arms))
    yield ("", *names)
    for regime, arms in runs.items():
        if arms:
            yield (regime, *(f"{arms[n].median('correlation_error'):.2g}" for n in names))


def read_gaussian(runs: Runs) -> Rows:
    """At each time, the excess over a fresh sample."""
    yield ("", "excess kurtosis of the truth", "Gaussian head", "flow")
    arms = runs["double well"]
    for name, arm in arms.items():
        if not name.startswith(heads.FLOW):
            flow = arms.get(heads.FLOW + name)
            excess = [each.median("excess_w2") if each else math.nan for each in (arm, flow)]
            numbers = ("–" if math.isnan(each) else f"{each:.2g}" for each in excess)
            yield (name, f"{arm.median('kurtosis'):.1f}", *numbers)


QUESTIONS: Mapping[str, tuple[Study, Callable[[Runs], Rows]]] = {
    "factors": (distances.STUDY, read_factors),
    "constant": (distances.STUDY, read_constant),
    "correlation": (losses.STUDY, read_correlation),
    "gaussian": (heads.WELLS, read_gaussian),
}


def answer(tables: Mapping[ScaleName, Tables]) -> Iterator[Answer]:
    """The central questions with what the laptop tables say, where they say anything."""
    for name, (study, read) in QUESTIONS.items() if "laptop" in tables else ():
        runs = {
            regime: {arm.name: arm for arm in sample.arms.values() if arm.missing < len(arm.rows)}
            for regime, sample in tables["laptop"].evidence(study, "laptop").samples.items()
        }
        headings, *rows = read(runs)
        if rows:
            yield Answer(**PROSE.answers[name], table=Comparison(headings, tuple(rows)))


STUDIES = ("distances", "losses", "rank", "heads", "grids", "small_noise", "costs", "delay")
PAPER = PROSE.paper(
    studies=(*PROSE.studies(*STUDIES), distances.SIZES),
    summarise=summarise,
    answer=answer,
)
