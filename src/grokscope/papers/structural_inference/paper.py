"""Grokking as Structural Inference (arXiv 2605.15787) as studies."""

from __future__ import annotations

from grokscope.papers.structural_inference import initialisation, theory_page
from grokscope.papers.structural_inference.quantities import summarise
from grokscope.papers.structural_inference.settings import PROSE

STUDIES = (
    *("four_phases", "norm_structure", "acceleration", "tickets", "regime_map"),
    *("explaining_away", "priors", "random_positions", "lengths", "width", "heads", "tasks"),
    *("frozen_attention", "optimisers", "streams"),
    *("norm_sweep", "decay_law", "threshold", "any_gradient"),
)
PAPER = PROSE.paper(
    studies=(*PROSE.studies(*STUDIES), *initialisation.STUDIES),
    summarise=summarise,
    annexes=(theory_page.ANNEX,),
)
