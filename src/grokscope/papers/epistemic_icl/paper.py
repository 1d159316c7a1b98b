"""Epistemic uncertainty and delayed generalisation in context (arXiv 2604.12434) as studies."""

from __future__ import annotations

from grokscope.papers.epistemic_icl import (
    alarm,
    comparison,
    decay,
    diversity,
    sweeps,
    theory_page,
    trajectories,
)
from grokscope.papers.epistemic_icl.quantities import summarise
from grokscope.papers.epistemic_icl.settings import PROSE

PAPER = PROSE.paper(
    studies=(trajectories.STUDY, diversity.STUDY, *sweeps.STUDIES, decay.STUDY, alarm.STUDY),
    summarise=summarise,
    annexes=(theory_page.ANNEX, comparison.ANNEX),
    brief=True,
)
