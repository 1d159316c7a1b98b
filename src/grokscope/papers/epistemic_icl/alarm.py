"""Section 6: epistemic uncertainty as an alarm, beside signals that cost less."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.judgements import Separation
from grokscope.claims.studies import Comparison
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.judgements import AlarmLead, alarms_of, heed, lead_of
from grokscope.papers.epistemic_icl.quantities import SIGNALS, disagree
from grokscope.papers.epistemic_icl.settings import KINDS, Asked, Question, study


def ask(question: Question) -> Asked:
    yield "EU is early", "", AlarmLead(question, "eu", least=0.1)
    yield "EU is early after the warm-up", "", AlarmLead(question, "eu", least=0.1, late=True)
    for rival, called in SIGNALS.items():
        if rival != "eu":
            yield f"EU beats {called}", "", AlarmLead(question, "eu", rival)
    column = f"{question.cell}_certainty_early"
    for arm, kind in KINDS.items():
        chosen = partial(_is_by, kind)
        tells = Separation(column, "minus EU", 0.75, chosen, event=question.event)
        yield "low EU tells", arm, tells


def _is_by(kind: str, arm: ArmRuns) -> bool:
    return arm.spec.optimiser.kind == kind


def _list_leads(evidence: Evidence) -> Comparison | None:
    """Every signal's lead and false alarms, each seed by the rule that the other seeds choose, and
    the median step of the alarm in every arm."""
    rows, steps = [], []
    for regime, sample in evidence.samples.items():
        steps = [f"step, {arm}" for arm in sample.arms]  # the same in every setting
        for question in figures.asked(sample):
            times = np.stack([sample.times(name, question.event) for name in sample.arms])
            never = np.isinf(times)
            for late, signal in product((False, True), SIGNALS):
                alarms = alarms_of(sample, question.cell, signal, late)
                if np.isnan(alarms).any() or never.all():
                    continue
                heard, leads = heed(alarms, times), lead_of(alarms, times)
                low, middle, high = np.nanquantile(leads, (0, 0.5, 1))
                name = question.name(SIGNALS[signal], "after the warm-up" * late)
                lead = f"{middle:.2f} ({low:.2f} to {high:.2f})"
                false = f"{(np.isfinite(heard) & never).sum()} of {never.sum()}"
                medians = (f"{s:,.0f}".replace("inf", "never") for s in np.median(heard, axis=1))
                rows.append((regime, name, lead, false, *medians))
    headings = ("setting", "signal", "lead, median (range) over seeds", "false alarms", *steps)
    return Comparison(headings, tuple(rows)) if rows else None


STUDY = study("alarm", ask, together=disagree, table=_list_leads, draw=figures.draw_alarms)
