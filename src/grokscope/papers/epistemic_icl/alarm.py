"""Section 6: epistemic uncertainty as an alarm, beside signals that cost less."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Separation
from grokscope.claims.studies import Claim, Comparison, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.judgements import AlarmLead, alarms_of, heed, lead_of
from grokscope.papers.epistemic_icl.quantities import SIGNALS, disagree
from grokscope.papers.epistemic_icl.settings import KINDS, MAIN, METHODS, QUESTIONS, Question, ask


def ask_about(question: Question) -> Iterator[Claim]:
    cell, words, event, _ = question
    yield ask(
        question.name("EU is early"),
        f"EU's alarm leads generalisation to {words} by a tenth of the wait or more.",
        AlarmLead(question, "eu", least=0.1),
    )
    yield ask(
        question.name("EU is early after the warm-up"),
        f"Read from the end of the warm-up on, EU's alarm still leads generalisation to {words} by "
        "a tenth of the wait or more.",
        AlarmLead(question, "eu", least=0.1, late=True),
    )
    for rival, called in SIGNALS.items():
        if rival != "eu":
            yield ask(
                question.name(f"EU beats {called}"),
                f"EU's alarm leads generalisation to {words} by more than that of the {called}.",
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


def _list_leads(evidence: Evidence) -> Comparison | None:
    """Every signal's lead and false alarms, each seed by the rule that the other seeds choose, and
    the median step of the alarm in every arm."""
    rows, steps = [], []
    for sample in evidence.samples.values():
        steps = [f"step, {arm}" for arm in sample.arms]
        for question in figures.asked(sample):
            times = np.stack([sample.times(name, question.event) for name in sample.arms])
            never = np.isinf(times)
            for late, signal in ((late, signal) for late in (False, True) for signal in SIGNALS):
                alarms = alarms_of(sample, question.cell, signal, late)
                if np.isnan(alarms).any() or never.all():
                    continue
                heard, leads = heed(alarms, times), lead_of(alarms, times)
                low, middle, high = np.nanquantile(leads, (0, 0.5, 1))
                name = question.name(SIGNALS[signal], "after the warm-up" * late)
                false = f"{(np.isfinite(heard) & never).sum()} of {never.sum()}"
                medians = (f"{step:,.0f}" for step in np.median(heard, axis=1))
                lead = f"{middle:.2f} ({low:.2f} to {high:.2f})"
                rows.append(
                    (name, lead, false, *(step.replace("inf", "never") for step in medians))
                )
    headings = ("signal", "lead, median (range) over seeds", "false alarms", *steps)
    return Comparison(headings, tuple(rows)) if rows else None


STUDY = Study(
    name="alarm",
    source="Section 6",
    title="EU as an alarm",
    paper_says="EU is a label-free diagnostic of generalisation. (No threshold and no comparison.)",
    how="An alarm that needs no label: a signal has fallen below its largest value so far, or "
    "risen above its smallest, by some share (means of the last five snapshots; the same rules for "
    "all signals). An alarm in a run that never generalises is false. For each seed a signal gets "
    "the rule with the longest lead on the other seeds, among the rules that raise a false alarm "
    "in at most a fifth of their runs that never generalise. The lead is the part of the wait that "
    "is left when the alarm goes off. Disagreement between seeds is the mutual information between "
    "answer and seed in the ensemble of an arm's first seeds. It is one curve for an arm, and "
    "every seed of the arm is warned by it: leads differ only in when each seed generalises, false "
    "alarms are those of one curve for each arm, and the rule is chosen on the very curves that it "
    "is judged on. So its lead is less certain than its range says; and it costs the training of "
    "all those seeds. Initial weights are unsure, and this uncertainty dies away before anything "
    "is learned: every lead is therefore also given for the rows from the end of the warm-up on.",
    claims=tuple(claim for question in QUESTIONS for claim in ask_about(question)),
    together=disagree,
    table=_list_leads,
    draw=figures.draw_alarms,
    caption="Share of runs in which a signal falls below its largest value so far, or rises above "
    "its smallest, by so much. The seeds of an arm share one disagreement: all raise its alarm, or "
    "none.",
    **MAIN,
)
