"""Figures 2 and 3: how many tasks and how many pairs are seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Level, Trend
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.judgements import OverTheMap
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    FEWER,
    IVON,
    KINDS,
    LESS,
    METHODS,
    QUESTIONS,
    SEEDS,
    SOME,
    by_ivon,
    main_arms,
    settings,
    with_tasks,
)
from grokscope.spec import InContextSpec


def map_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    """A cross: three numbers of tasks at the share of the main runs, and many tasks at a smaller
    share."""
    many = setting.baseline(seed)
    some = with_tasks(many, SOME[setting.scale])
    less = many.replace(**{"task.train_fraction": LESS[setting.scale]})
    return {
        **main_arms(setting, seed),
        f"{ADAMW}, some tasks": some,
        f"{IVON}, some tasks": by_ivon(some),
        f"{ADAMW}, fewer pairs": less,
        f"{IVON}, fewer pairs": by_ivon(less),
    }


def _along_tasks(kind: str, column: str, **bounds: Any) -> Trend:
    """How a final number goes with the number of seen tasks, by one method."""

    def tasks(arm: ArmRuns) -> float | None:
        chosen = arm.spec.optimiser.kind == kind and not arm.name.endswith("fewer pairs")
        return float(arm.spec.task.tasks) if chosen else None

    final = Event(column, "have a number", column.replace("_", " "))  # in the place of a time
    return Trend(tasks, "seen tasks", final, censored=False, **bounds)


STUDY = Study(
    name="diversity",
    source="Figures 2 and 3",
    title="How many tasks, how many pairs",
    paper_says="Unseen tasks are reached once enough tasks are seen, at every share of pairs; "
    "unseen tasks with unseen pairs need both. Final EU falls sharply between few and many tasks, "
    "while AU stays high.",
    how="Final accuracy, EU and AU by both methods over a cross: few, some and many seen tasks at "
    "one share of pairs, and many tasks at a smaller share.",
    settings=settings(),
    arms=map_arms,
    claims=(
        *(
            claim
            for arm, words in METHODS.items()
            for claim in (
                Claim(
                    f"high at many tasks ({arm})",
                    f"{words}: with many tasks, unseen tasks with seen pairs are right more than "
                    "half of the time.",
                    Level(arm, "ood_train_final_accuracy", "accuracy", low=0.5),
                ),
                Claim(
                    f"low at few tasks ({arm})",
                    f"{words}: with few tasks, unseen tasks with seen pairs are right less than "
                    "half of the time.",
                    Level(FEWER[arm], "ood_train_final_accuracy", "accuracy", high=0.5),
                ),
                Claim(
                    f"tasks help ({arm})",
                    f"{words}: the more tasks are seen, the better are unseen tasks with seen "
                    "pairs.",
                    _along_tasks(KINDS[arm], "ood_train_final_accuracy", low=0.2),
                ),
                Claim(
                    f"a large share is needed ({arm})",
                    f"{words}: with fewer pairs, unseen tasks with unseen pairs are right less "
                    "often.",
                    Level(
                        arm,
                        "ood_val_final_accuracy",
                        "accuracy",
                        low=0.1,
                        reference=f"{arm}, fewer pairs",
                    ),
                ),
                Claim(
                    f"EU falls with tasks ({arm})",
                    f"{words}: the more tasks are seen, the lower is final EU on unseen pairs.",
                    _along_tasks(KINDS[arm], "id_val_final_eu_corrected", high=-0.2),
                ),
                Claim(
                    f"AU does not fall with tasks ({arm})",
                    f"{words}: final AU on unseen pairs does not fall with the number of tasks.",
                    _along_tasks(KINDS[arm], "id_val_final_au", low=-0.2),
                ),
                Claim(
                    f"most is EU at few tasks ({arm})",
                    f"{words}: with few tasks, more than half of total uncertainty on unseen pairs "
                    "is epistemic.",
                    Level(FEWER[arm], "id_val_eu_share", "share of EU", low=0.5),
                ),
            )
        ),
        *(
            Claim(
                question.name("AdamW reaches further than IVON"),
                f"Laplace after AdamW is right about {question.words} in a wider region than IVON.",
                OverTheMap(
                    f"{question.cell}_final_accuracy", f"accuracy on {question.words}", low=0.02
                ),
            )
            for question in QUESTIONS
        ),
    ),
    draw=figures.draw_map,
    caption="Medians over seeds at the end of training; behind “of”, the accuracy of the optimal "
    "predictor that knows all tasks.",
    **SEEDS,
)
