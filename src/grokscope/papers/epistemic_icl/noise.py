"""Figure 5: wrong labels in context."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    IVON,
    MAIN,
    METHODS,
    NOT_GENERALISED,
    QUESTIONS,
    Question,
)


def ask_about(question: Question) -> Iterator[Claim]:
    cell, words, *_ = question
    for arm, method in METHODS.items():
        for name, goes, column, unit, low, high in (
            ("AU", "rises", "au", ", nats", 0.0, math.inf),
            ("EU", "rises", "eu_corrected", ", nats", 0.0, math.inf),
            ("accuracy", "falls", "accuracy", "", -math.inf, -0.1),
        ):
            slope, effect = f"{cell}_noise_slope_{column}", f"slope of {name}{unit}"
            yield Claim(
                question.name(f"{name} {goes} with noise", arm),
                f"{method}, {words}: {name} {goes} with the share of wrong labels.",
                Level(arm, slope, effect, low, high, absent=NOT_GENERALISED),
            )
    yield Claim(
        question.name("EU rises more for Laplace"),
        f"On {words}, EU rises more with wrong labels for Laplace after AdamW than for IVON.",
        Level(
            ADAMW,
            f"{cell}_noise_slope_eu_corrected",
            "slope of EU, nats",
            low=0.0,
            reference=IVON,
            absent=NOT_GENERALISED,
        ),
    )


STUDY = Study(
    name="noise",
    source="Figure 5",
    title="Wrong labels in context",
    paper_says="With more wrong labels accuracy falls, AU rises about in proportion, and EU rises "
    "too, more so for Laplace than for IVON.",
    how="Each label of the context is replaced by a uniform token with some probability; the "
    "question stays clean. The optimal predictor knows that probability. It is not even close to "
    "linear, so “in proportion” is judged as a rise. Both posteriors count the same number of "
    "examples, so that their EU can be compared. Claims are about runs that generalise.",
    claims=tuple(claim for question in QUESTIONS for claim in ask_about(question)),
    draw=figures.draw_noise,
    caption="Medians over seeds; dashed, the optimal predictor.",
    **MAIN,
)
