"""Figures 2 and 3: how many tasks and how many pairs are seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level, Trend
from grokscope.claims.studies import Setting, Test
from grokscope.papers.epistemic_icl import figures, settings
from grokscope.papers.epistemic_icl.judgements import OverArms
from grokscope.spec import InContextSpec

SEEN, UNSEEN = "ood_train_final_accuracy", "ood_val_final_accuracy"  # pairs, of unseen tasks
NEW = "id_val_final"  # pairs, of seen tasks
FEWER_PAIRS = ", fewer pairs"


def map_arms(setting: Setting, seed: int) -> dict[str, InContextSpec]:
    """A cross: three numbers of tasks at the share of the main runs, and many tasks at a smaller
    share."""
    many = setting.baseline(seed)
    less = many.replace(**{"task.train_fraction": settings.LESS[setting.scale]})
    return {
        **settings.main_arms(setting, seed),
        **settings.by_both(settings.with_tasks(many, settings.SOME[setting.scale]), ", some tasks"),
        **settings.by_both(less, FEWER_PAIRS),
    }


def _along_tasks(arm: str, column: str, **bounds: Any) -> Trend:
    """How a final number goes with the number of seen tasks, by one method."""

    def tasks(each: ArmRuns) -> float | None:
        ours = each.spec.optimiser.kind == settings.KINDS[arm]
        chosen = ours and not each.name.endswith(FEWER_PAIRS)
        return float(each.spec.task.tasks) if chosen else None

    final = Event(column, "have a number", column.replace("_", " "))  # in the place of a time
    return Trend(tasks, "seen tasks", final, censored=False, **bounds)


def ask() -> Iterator[tuple[str, Test]]:
    for arm, few in settings.FEWER.items():
        yield f"high at many tasks ({arm})", Level(arm, SEEN, "accuracy", low=0.5)
        yield f"low at few tasks ({arm})", Level(few, SEEN, "accuracy", high=0.5)
        yield f"tasks help ({arm})", _along_tasks(arm, SEEN, low=0.2)
        lead = Level(arm, UNSEEN, "accuracy", low=0.1, reference=arm + FEWER_PAIRS)
        yield f"a large share is needed ({arm})", lead
        yield f"EU falls with tasks ({arm})", _along_tasks(arm, f"{NEW}_eu_corrected", high=-0.2)
        yield f"AU does not fall with tasks ({arm})", _along_tasks(arm, f"{NEW}_au", low=-0.2)
        share = Level(few, "id_val_eu_share", "share of EU", low=0.5)
        yield f"most is EU at few tasks ({arm})", share
    for question in settings.QUESTIONS:
        effect = f"accuracy on {question.words}"
        further = OverArms(f"{question.cell}_final_accuracy", effect, least=0.02)
        yield question.name("AdamW reaches further than IVON"), further


def _read(evidence: Evidence) -> str:
    """The share of EU with few tasks, with the N of every run and with the paper's rule for it."""
    for sample in evidence.samples.values():
        few = sample.arms[settings.FEW_ADAMW]
        share, own = (few.median(f"id_val_eu_share{which}") for which in ("", "_own"))
        if math.isfinite(own):
            words, size = settings.PROSE.reading("diversity")["own"], few.spec.task.sample_size
            return words.format(SHARE=share, OWN=own, SIZE=size)
    return ""


PARTS = {"arms": map_arms, "read": _read, "draw": figures.draw_map, **settings.COMMON}
STUDY = settings.PROSE.study("diversity", dict(ask()), **PARTS)
