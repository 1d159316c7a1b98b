"""Epistemic uncertainty and delayed generalisation in context (arXiv 2604.12434) as studies."""

from __future__ import annotations

from grokscope.papers.epistemic_icl import comparison, theory_page
from grokscope.papers.epistemic_icl.quantities import summarise
from grokscope.papers.epistemic_icl.settings import PROSE

PAPER = PROSE.paper(
    studies=PROSE.studies("trajectories", "diversity", "sweeps", "decay", "alarm"),
    summarise=summarise,
    annexes=(theory_page.ANNEX, comparison.ANNEX),
    brief=True,
)
