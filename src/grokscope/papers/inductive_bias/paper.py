"""Explaining grokking through the lens of inductive bias (arXiv 2602.06702) as studies."""

from __future__ import annotations

from grokscope.papers.inductive_bias.quantities import summarise
from grokscope.papers.inductive_bias.settings import PROSE

STUDIES = ("placement", "shortcut", "entropy", "doses", "compression", "variations", "laziness")
PAPER = PROSE.paper(studies=PROSE.studies(*STUDIES), summarise=summarise, brief=True)
