"""Figures 1 and 7: accuracy and uncertainty over training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.studies import Comparison
from grokscope.draw.evidence import curve_of
from grokscope.draw.words import count_reached
from grokscope.papers.epistemic_icl import figures, settings
from grokscope.papers.epistemic_icl.quantities import Hump, chance_of, trace, usual_level
from grokscope.papers.epistemic_icl.settings import FEWER, PROSE, QUESTIONS, TASKS, Asked, Question
from grokscope.store import Run

LEFT = "part of the wait that is left at the EU peak (-1 without a peak)"
GROWTH = "ratio of EU, end over chance"
WITHOUT = "do not generalise, or have no EU at chance"


def trace_with_accuracy(run: Run) -> pl.DataFrame:
    return trace(run).select(
        "epoch", *figures.ACCURACIES, "parameter_norm", *figures.EU, *figures.AU
    )


def _list_peaks(evidence: Evidence) -> Comparison:
    """What becomes of accuracy and EU, cell by cell and arm by arm."""
    rows = []
    for question, regime, arm in _arms(evidence):
        humps = _humps(evidence, arm, question.cell)
        rows.append(
            (
                f"{regime}, {arm.name}, {question.words}",
                count_reached(arm.rows, question.event.column),
                _spread(arm.values(f"{question.cell}_final_accuracy"), ".2f"),
                f"{np.isfinite(arm.times(f'{question.cell}_eu_peak')).sum()}",
                _spread([hump.left for hump, _ in humps], ".2f"),
                _spread([hump.top / usual for hump, usual in humps if usual > 0], ".1f"),
                f"{arm.median(f'{question.cell}_eu_early'):.2g}",
                f"{arm.median(f'{question.cell}_final_eu_corrected'):.2g}",
            )
        )
    return Comparison(settings.headings("trajectories"), tuple(rows))


def _arms(evidence: Evidence) -> Iterator[tuple[Question, str, ArmRuns]]:
    """Those of which some run has finished, for each question and setting."""
    for question, (regime, sample) in product(QUESTIONS, evidence.samples.items()):
        for arm in sample.arms.values():
            if arm.finished.any():
                yield question, regime, arm


def _humps(evidence: Evidence, arm: ArmRuns, cell: str) -> list[tuple[Hump, float]]:
    """Of smoothed EU in each run whose curve was kept, with its median while accuracy is at
    chance."""
    column, found = f"{cell}_posterior_eu_corrected", []
    chance = chance_of(arm.spec.task)
    for row in filter(None, arm.rows):
        if len(curve := curve_of(evidence, row["run"], column)):
            names = ("epoch", column, f"{cell}_accuracy")
            epochs, eu, accuracy = (curve[name].to_numpy() for name in names)
            found.append((Hump.find(epochs, eu), usual_level(epochs, eu, accuracy < chance)))
    return found


def _spread(values: Sequence[float] | np.ndarray, form: str) -> str:
    """Median and range."""
    known = np.array(values, float)[np.isfinite(values)]
    if not len(known):
        return "–"
    middle, low, high = (f"{each:{form}}" for each in (np.median(known), known.min(), known.max()))
    return f"{middle} ({low} to {high})"


def _read(evidence: Evidence) -> str:
    """Where EU falls without being a peak, whether anything is memorised first, and how much IVON's
    EU owes to its schedule."""
    words, sentences = PROSE.reading("trajectories"), []
    every = list(_arms(evidence))
    if not every:
        return ""
    humps = [
        (arm.spec.optimiser.kind, hump, usual)
        for question, _, arm in every
        for hump, usual in _humps(evidence, arm, question.cell)
    ]
    for kind, name in (("adamw", "Laplace"), ("ivon", "IVON")):
        # In the first row EU is largest where only the initial weights' uncertainty dies away.
        own = [(hump, usual) for each, hump, usual in humps if each == kind and hump.epoch > 0]
        if own:
            halved = [hump.top / usual for hump, usual in own if hump.left <= 0.5 and usual > 0]
            numbers = {"METHOD": name, "ALL": len(own), "HALVED": len(halved)}
            numbers |= {"LOWEST": min(hump.left for hump, _ in own), "HIGH": max(halved, default=0)}
            sentences.append(words["halved" if halved else "kept"].format(**numbers))
    arms = [arm for question, _, arm in every if question is TASKS]
    many = [arm for arm in arms if arm.name in FEWER]
    first = [bool(x) for a in many for x in a.times("memorised") < a.times(TASKS.event)]
    if first:
        sentences.append(words["memorised"].format(FIRST=sum(first), ALL=len(first)))
    ivon = [arm for arm in arms if arm.spec.optimiser.kind == "ivon"]
    left = np.array([value for arm in ivon for value in arm.values("hessian_left")])
    if np.isfinite(left).any():
        kept = np.nanmedian(left)
        rule = np.nanmedian([arm.median("hessian_forgotten") for arm in ivon])
        numbers = {"LEFT": _spread(left, ".3g"), "RULE": rule, "TIMES": 1 / kept, "ALONE": 1 / rule}
        sentences.append(words["schedule"].format(**numbers))
    return " ".join(sentences)


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


STUDY = settings.study(
    "trajectories",
    ask,
    draw=figures.draw_trajectories,
    table=_list_peaks,
    read=_read,
    curve_arms=(*FEWER, *FEWER.values()),
    trace=trace_with_accuracy,
)
