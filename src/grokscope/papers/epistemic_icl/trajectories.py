"""Figures 1 and 7: accuracy and uncertainty over training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Comparison, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.quantities import trace
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    FEW_ADAMW,
    FEW_IVON,
    FEWER,
    IVON,
    MAIN,
    METHODS,
    NOT_GENERALISED,
    QUESTIONS,
    Question,
    ask,
)
from grokscope.store import Run


def trace_with_accuracy(run: Run) -> pl.DataFrame:
    return trace(run).select(
        "epoch", *figures.ACCURACIES, "parameter_norm", *figures.EU, *figures.AU
    )


def _list_peaks(evidence: Evidence) -> Comparison:
    """EU before and after, and how many peaks there are, cell by cell and arm by arm."""
    rows = tuple(
        (
            f"{arm.name}, {question.words}",
            f"{np.isfinite(arm.times(question.event)).sum()} of {arm.finished.sum()}",
            f"{np.isfinite(arm.times(f'{question.cell}_eu_peak')).sum()}",
            f"{np.nanmedian(arm.values(f'{question.cell}_eu_early')):.2g}",
            f"{np.nanmedian(arm.values(f'{question.cell}_final_eu_corrected')):.2g}",
        )
        for question in QUESTIONS
        for sample in evidence.samples.values()
        for arm in sample.arms.values()
        if arm.finished.any()
    )
    medians = ("median EU in the first quarter, nats", "at the end")
    return Comparison(("arm, cell", "generalise", "EU peaks", *medians), rows)


def ask_about(question: Question) -> Iterator[Claim]:
    """When EU peaks, and whether it is low beforehand, in one cell. Of unseen pairs the paper says
    so; of seen ones it is asked here."""
    cell, words, *_ = question
    states = ask if question.note else Claim
    left = "part of the wait that is left at the EU peak (-1 without a peak)"
    for arm, method in METHODS.items():
        for when, column, meaning in (
            ("first", "eu_lead", "counts as generalisation"),
            ("before the half", "eu_lead_half", "has half of its final value"),
        ):
            yield states(
                question.name(f"peak {when}", arm),
                f"{method}: in runs that generalise, EU on {words} peaks before accuracy there "
                f"{meaning}.",
                Level(arm, f"{cell}_{column}", left, low=0.01, absent=NOT_GENERALISED),
            )
        yield ask(
            question.name("the wait exists", arm),
            f"{method}: in runs that generalise, {words} are right as often as generalisation asks "
            "at least twice as late as seen tasks with seen pairs (the paper shows no seen tasks).",
            Level(
                arm,
                f"{cell}_delay",
                "ratio of steps",
                low=2.0,
                logarithmic=True,
                absent=NOT_GENERALISED,
            ),
        )
        yield ask(
            question.name("no peak without generalisation", FEWER[arm]),
            f"{method}: runs with few tasks that never generalise to {words} have no EU peak there "
            "(falsifier i).",
            Level(
                FEWER[arm],
                f"{cell}_peak_in_vain",
                "number of peaks",
                high=0.5,
                absent="do generalise",
            ),
        )
        yield ask(
            question.name("EU is lower before", arm),
            f"{method}: in runs that generalise, EU on {words} while accuracy there is at chance "
            "is below EU at the end (so that a low level alone does not tell that a network "
            "generalises).",
            Level(
                arm,
                f"{cell}_eu_growth",
                "ratio of EU, end over chance",
                low=1.0,
                logarithmic=True,
                absent="do not generalise, or have no EU at chance",
            ),
        )


STUDY = Study(
    name="trajectories",
    source="Figures 1 and 7",
    title="Uncertainty over training",
    paper_says="Epistemic uncertainty on unseen tasks rises, peaks before accuracy crosses its "
    "threshold, and collapses when the network generalises.",
    how="AdamW with a last-layer Laplace, and IVON with its own posterior, at the same snapshots; "
    "with many seen tasks, and with so few that unseen ones cannot be reached. The four cells are "
    "shown, so that memorising and waiting can be seen (the paper shows one cell). A peak counts "
    "only if EU, smoothed over five snapshots, falls to half of it later, and if it is at least "
    "0.005 nats and three times the median while accuracy is at chance. Everything is "
    "asked of unseen pairs, as in the paper, and of seen ones, which a laptop reaches. “Before” is "
    "judged at one half of the runs, not at the four fifths of our plan: with five seeds no "
    "interval is that narrow.",
    claims=tuple(claim for question in QUESTIONS for claim in ask_about(question)),
    draw=figures.draw_trajectories,
    table=_list_peaks,
    caption="Accuracy in the four cells (the line across is the optimal predictor on new tasks and "
    "pairs), EU and AU on new tasks, and the weight norm. Medians and ranges over seeds.",
    curve_arms=(ADAMW, IVON, FEW_ADAMW, FEW_IVON),
    trace=trace_with_accuracy,
    **MAIN,
)
