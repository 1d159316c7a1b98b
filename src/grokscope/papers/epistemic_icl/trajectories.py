"""Figures 1 and 7: accuracy and uncertainty over training."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from grokscope.claims.evidence import Evidence
from grokscope.claims.studies import Comparison
from grokscope.draw.words import count_reached
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.quantities import trace
from grokscope.papers.epistemic_icl.settings import FEWER, QUESTIONS, Asked, Question, study
from grokscope.store import Run

LEFT = "part of the wait that is left at the EU peak (-1 without a peak)"
GROWTH = "ratio of EU, end over chance"
WITHOUT = "do not generalise, or have no EU at chance"


def trace_with_accuracy(run: Run) -> pl.DataFrame:
    return trace(run).select(
        "epoch", *figures.ACCURACIES, "parameter_norm", *figures.EU, *figures.AU
    )


def _list_peaks(evidence: Evidence) -> Comparison:
    """EU before and after, and how many peaks there are, cell by cell and arm by arm."""
    rows = tuple(
        (
            f"{regime}, {arm.name}, {question.words}",
            count_reached(arm.rows, question.event.column),
            f"{np.isfinite(arm.times(f'{question.cell}_eu_peak')).sum()}",
            f"{arm.median(f'{question.cell}_eu_early'):.2g}",
            f"{arm.median(f'{question.cell}_final_eu_corrected'):.2g}",
        )
        for question in QUESTIONS
        for regime, sample in evidence.samples.items()
        for arm in sample.arms.values()
        if arm.finished.any()
    )
    medians = ("median EU in the first quarter, nats", "at the end")
    return Comparison(("setting, arm, cell", "generalise", "EU peaks", *medians), rows)


def ask(question: Question) -> Asked:
    """When EU peaks, and whether it is low beforehand. Of unseen pairs the paper says so; of seen
    ones we ask."""
    for arm, few in FEWER.items():
        level = partial(question.level, arm)
        yield "peak first", arm, level("eu_lead", LEFT, low=0.01)
        yield "peak before the half", arm, level("eu_lead_half", LEFT, low=0.01)
        ratio = level("delay", "ratio of steps", low=2.0, logarithmic=True)
        yield "the wait exists", arm, ratio
        peaks = partial(question.level, few, "peak_in_vain", "number of peaks")
        yield "no peak without generalisation", few, peaks(high=0.5, absent="do generalise")
        growth = level("eu_growth", GROWTH, low=1.0, logarithmic=True, absent=WITHOUT)
        yield "EU is lower before", arm, growth


STUDY = study(
    "trajectories",
    ask,
    draw=figures.draw_trajectories,
    table=_list_peaks,
    curve_arms=(*FEWER, *FEWER.values()),
    trace=trace_with_accuracy,
)
