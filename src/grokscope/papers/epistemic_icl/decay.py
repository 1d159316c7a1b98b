"""Beyond the paper: is it the method, or the decay that comes with it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level, Share
from grokscope.claims.studies import Claim, Comparison, Setting, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    IVON,
    QUESTIONS,
    SEEDS,
    Question,
    ask,
    by_ivon,
    settings,
)
from grokscope.spec import InContextSpec

SHRUNK = "IVON, AdamW's decay"
KEPT = "AdamW, no decay"


def decay_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    """The paper's methods differ a millionfold in decay: here each is tried with the other's. Per
    step AdamW's weights shrink by lr decay, IVON's by lr_ivon (h0 + delta) delta / (h + delta),
    which is lr_ivon delta while h stays near h0 = 1."""
    plain = setting.baseline(seed)
    ivon = by_ivon(plain)
    delta = plain.optimiser.lr * plain.optimiser.weight_decay / ivon.optimiser.lr
    return {
        ADAMW: plain,
        KEPT: plain.replace(**{"optimiser.weight_decay": 0.0}),
        IVON: ivon,
        SHRUNK: by_ivon(plain, **{"optimiser.weight_decay": delta}),
    }


def _list_decays(evidence: Evidence) -> Comparison:
    return Comparison(
        (
            "arm",
            "decay",
            "generalise, both new",
            "generalise, new tasks",
            "accuracy, both new",
            "accuracy, new tasks",
        ),
        tuple(
            (
                arm.name,
                f"{arm.spec.optimiser.weight_decay:g}",
                *(
                    f"{np.isfinite(arm.times(question.event)).sum()} of {arm.finished.sum()}"
                    for question in QUESTIONS
                ),
                *(f"{figures.median(arm, f'{cell}_final_accuracy'):.2f}" for cell, *_ in QUESTIONS),
            )
            if arm.finished.any()
            else (arm.name, f"{arm.spec.optimiser.weight_decay:g}", *["not run"] * 4)
            for sample in evidence.samples.values()
            for arm in sample.arms.values()
        ),
    )


def ask_about(question: Question) -> Iterator[Claim]:
    cell, words, event, _ = question
    yield ask(
        question.name("AdamW needs no decay"),
        f"AdamW without decay generalises to {words}, too.",
        Share(KEPT, "most", event=event),
    )
    for how, arm, reference in (
        ("at equal decay", ADAMW, SHRUNK),
        ("where neither decays", KEPT, IVON),
    ):
        yield ask(
            question.name(f"AdamW is ahead {how}"),
            f"AdamW is right about {words} more often than IVON {how}.",
            Level(arm, f"{cell}_final_accuracy", "accuracy", low=0.02, reference=reference),
        )


STUDY = Study(
    name="decay",
    source="Beyond the paper",
    title="Is it the method or the decay?",
    paper_says="Laplace after AdamW generalises over a wider region than IVON. (AdamW has decay 1, "
    "IVON 1e-6.)",
    how="AdamW without decay, and IVON with a decay that shrinks its weights as fast as AdamW's. "
    "That is one value, by our conversion; others were not tried.",
    settings=settings(),
    arms=decay_arms,
    claims=tuple(claim for question in QUESTIONS for claim in ask_about(question)),
    table=_list_decays,
    **SEEDS,
)
