"""Figures 4 and 5: how many examples the context has, and how many of its labels are wrong. The
former also shows whether networks infer the task or look up multiples of the question."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.studies import Comparison
from grokscope.papers.epistemic_icl import figures, lookup, quantities, settings
from grokscope.papers.epistemic_icl.settings import KINDS, QUESTIONS, Asked, Question, study

MOST = "number of examples with the largest EU"
AU, EU, ACCURACY = (f"noise_slope_{name}" for name in ("au", "eu_corrected", "accuracy"))
OF_EU = "slope of EU, nats"
ABSENT = "accuracy where no multiple of the question is in context, above chance"


def ask_of_context(question: Question) -> Asked:
    for arm in KINDS:
        level = partial(question.level, arm)
        yield "EU peaks at two or three", arm, level("context_peak", MOST, low=1.5, high=3.5)
        yield "accuracy rises", arm, level("context_gain", "gain in accuracy", low=0.05)
        yield "AU falls", arm, level("context_fall_au", "fall of AU, nats", low=0.05)
        yield "it solves what can be looked up", arm, level("absent_gain", ABSENT, high=0.1)


def ask_of_noise(question: Question) -> Asked:
    for arm in KINDS:
        level = partial(question.level, arm)
        yield "AU rises with noise", arm, level(AU, "slope of AU, nats", low=0.0)
        yield "EU rises with noise", arm, level(EU, OF_EU, low=0.0)
        yield "accuracy falls with noise", arm, level(ACCURACY, "slope of accuracy", high=-0.1)
    more = question.level(settings.ADAMW, EU, OF_EU, low=0.0, reference=settings.IVON)
    yield "EU rises more for Laplace", "", more


class Beside(NamedTuple):
    """An arm in one cell beside the optimum and the rule that looks up multiples, for each number
    of examples: medians over seeds."""

    regime: str
    arm: ArmRuns
    question: Question
    accuracy: np.ndarray  # (k,)
    eu: np.ndarray  # (k,)
    rule: np.ndarray  # (k,)
    best: np.ndarray  # (k,)


def _put_beside(evidence: Evidence) -> Iterator[Beside]:
    for regime, sample in evidence.samples.items():
        for question in QUESTIONS:
            cell = question.cell
            for name, arm in sample.arms.items():
                if name in KINDS and arm.finished.any():
                    places = range(arm.spec.task.triples)
                    accuracy, eu = (
                        np.array([arm.median(f"{cell}_context_{k}_{what}") for k in places])
                        for what in ("accuracy", "eu_corrected")
                    )
                    every = quantities.optimum(arm.spec.task, cell).filter(sweep="context")
                    rule, best = (
                        every.filter(pl.col("prior") == prior)["accuracy"].to_numpy()
                        for prior in ("look-up", "all tasks")
                    )
                    yield Beside(regime, arm, question, accuracy, eu, rule, best)


def _list_lookups(evidence: Evidence) -> Comparison | None:
    """Accuracy over all questions with at least three examples, and of those with and without a
    multiple in context."""
    rows = []
    for each in _put_beside(evidence):
        columns = (f"{each.question.cell}_{where}_accuracy" for where in ("there", "absent"))
        sorted_out = map(each.arm.median, columns)
        means = (part[lookup.FROM :].mean() for part in (each.accuracy, each.rule, each.best))
        rows.append(
            (
                f"{each.regime}, {each.arm.name}, {each.question.words}",
                *(f"{v:.2f}" if np.isfinite(v) else "not measured" for v in sorted_out),
                *(f"{mean:.2f}" for mean in means),
                f"{1 / each.arm.spec.task.modulus:.2f}",
            )
        )
    return Comparison(settings.headings("context"), tuple(rows)) if rows else None


def _read_context(evidence: Evidence) -> str:
    """How often the median network is above the rule, and how EU goes on beyond three examples."""
    words, every = settings.PROSE.reading("context"), list(_put_beside(evidence))
    if not every:
        return ""
    above = sum(int((each.accuracy > each.rule)[1:].sum()) for each in every)
    counted = sum(len(each.rule) - 1 for each in every)
    growth = [
        f"{each.eu[-1] / each.eu[lookup.FROM]:.2f} ({each.regime}, {each.arm.name})"
        for each in every
        if each.question.note and len(each.eu) > lookup.FROM
    ]
    rule = words["rule"].format(ABOVE=above, ALL=counted)
    return " ".join([rule, *([words["growth"].format(RATIOS=", ".join(growth))] if growth else [])])


PARTS = {"table": _list_lookups, "read": _read_context, "draw": figures.draw_context}
STUDIES = (
    study("context", ask_of_context, **PARTS),
    study("noise", ask_of_noise, draw=figures.draw_noise),
)
