"""Section 6: epistemic uncertainty as an alarm, beside signals that cost less."""

from __future__ import annotations

from collections.abc import Iterator

from grokscope.claims.judgements import Separation
from grokscope.claims.studies import Claim, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.judgements import AlarmLead
from grokscope.papers.epistemic_icl.quantities import SIGNALS
from grokscope.papers.epistemic_icl.settings import (
    KINDS,
    METHODS,
    QUESTIONS,
    SEEDS,
    Question,
    ask,
    main_arms,
    settings,
)


def ask_about(question: Question) -> Iterator[Claim]:
    cell, words, event, _ = question
    yield ask(
        question.name("EU is early"),
        f"EU's alarm leads generalisation to {words} by a tenth of the wait or more.",
        AlarmLead(question, "eu", least=0.1),
    )
    for rival in ("tu", "entropy", "parameter_norm", "train_loss"):
        yield ask(
            question.name(f"EU beats {SIGNALS[rival]}"),
            f"EU's alarm leads generalisation to {words} by more than that of the "
            f"{SIGNALS[rival]}.",
            AlarmLead(question, "eu", rival),
        )
    for arm, method in METHODS.items():
        yield ask(
            question.name("low EU tells", arm),
            f"{method}: low EU on {words} in the first quarter tells runs that will generalise "
            "from those that will not (falsifier ii: expected not to).",
            Separation(
                f"{cell}_certainty_early",
                "minus EU",
                0.75,
                lambda each, kind=KINDS[arm]: each.spec.optimiser.kind == kind,  # type: ignore[misc]
                event=event,
            ),
        )


STUDY = Study(
    name="alarm",
    source="Section 6",
    title="EU as an alarm",
    paper_says="EU is a label-free diagnostic of generalisation. (No threshold and no comparison.)",
    how="An alarm that needs no label: a signal has fallen below its maximum, or risen above its "
    "minimum so far, by some share (mean of the last five snapshots, the same for all signals). "
    "An alarm in a run that never generalises is false. Each signal gets the rule that is best on "
    "the other seeds among those that at most a fifth of such runs raise, and is judged by how "
    "much of the wait is left when it goes off. Disagreement between seeds, which "
    "is no number of one run, is in docs/epistemic-icl-posteriors.md.",
    settings=settings(),
    arms=main_arms,
    claims=tuple(claim for question in QUESTIONS for claim in ask_about(question)),
    draw=figures.draw_alarms,
    caption="Share of runs in which a signal falls below its maximum so far, or rises above its "
    "minimum, by so much.",
    **SEEDS,
)
