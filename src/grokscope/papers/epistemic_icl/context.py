"""Figure 4: how many examples the context has."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.settings import (
    MAIN,
    METHODS,
    NOT_GENERALISED,
    QUESTIONS,
    Question,
)


def ask_about(question: Question) -> Iterator[Claim]:
    cell, words, *_ = question
    for arm, method in METHODS.items():
        for name, says, column, effect, low, high in (
            ("EU peaks at two or three", "EU is largest with two or three examples",
             "context_peak", "number of examples with the largest EU", 1.5, 3.5),
            ("accuracy rises", "accuracy with all examples is above that with one",
             "context_gain", "gain in accuracy", 0.05, math.inf),
            ("AU falls", "AU with all examples is below that with one",
             "context_fall_au", "fall of AU, nats", 0.05, math.inf),
        ):  # fmt: skip
            yield Claim(
                question.name(name, arm),
                f"{method}, {words}: {says}.",
                Level(arm, f"{cell}_{column}", effect, low, high, absent=NOT_GENERALISED),
            )


STUDY = Study(
    name="context",
    source="Figure 4",
    title="How many examples in context",
    paper_says="With more examples in context accuracy rises, AU falls to a floor, and EU first "
    "rises for two or three examples and then falls.",
    how="The final weights answer every question of the measured sequences of new tasks: "
    "the question after k triples has k examples. The optimal predictor answers the same "
    "questions. What cannot be known in context counts as aleatoric for a network whose weights "
    "are certain: the optimum's total uncertainty stands beside the networks' AU. Claims are "
    "about runs that generalise.",
    claims=tuple(claim for question in QUESTIONS for claim in ask_about(question)),
    draw=figures.draw_context,
    caption="Medians over seeds; dashed, the optimal predictor with all tasks and with the seen "
    "tasks for its prior.",
    **MAIN,
)
