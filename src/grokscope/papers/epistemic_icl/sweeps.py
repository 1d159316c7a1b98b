"""Figures 4 and 5: how many examples the context has, and how many of its labels are wrong."""

from __future__ import annotations

from functools import partial

from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.settings import ADAMW, IVON, KINDS, Asked, Question, study

MOST = "number of examples with the largest EU"
AU, EU, ACCURACY = (f"noise_slope_{name}" for name in ("au", "eu_corrected", "accuracy"))
OF_EU = "slope of EU, nats"


def ask_of_context(question: Question) -> Asked:
    for arm in KINDS:
        level = partial(question.level, arm)
        yield "EU peaks at two or three", arm, level("context_peak", MOST, low=1.5, high=3.5)
        yield "accuracy rises", arm, level("context_gain", "gain in accuracy", low=0.05)
        yield "AU falls", arm, level("context_fall_au", "fall of AU, nats", low=0.05)


def ask_of_noise(question: Question) -> Asked:
    for arm in KINDS:
        level = partial(question.level, arm)
        yield "AU rises with noise", arm, level(AU, "slope of AU, nats", low=0.0)
        yield "EU rises with noise", arm, level(EU, OF_EU, low=0.0)
        yield "accuracy falls with noise", arm, level(ACCURACY, "slope of accuracy", high=-0.1)
    more = question.level(ADAMW, EU, OF_EU, low=0.0, reference=IVON)
    yield "EU rises more for Laplace", "", more


STUDIES = (
    study("context", ask_of_context, draw=figures.draw_context),
    study("noise", ask_of_noise, draw=figures.draw_noise),
)
