"""Grokking as Structural Inference (arXiv 2605.15787) as studies."""

from __future__ import annotations

from grokscope.papers.structural_inference import (
    acceleration,
    any_gradient,
    decay_law,
    explaining_away,
    four_phases,
    frozen_attention,
    heads,
    lengths,
    norm_structure,
    norm_sweep,
    optimisers,
    priors,
    random_positions,
    regime_map,
    streams,
    tasks,
    theory_page,
    threshold,
    tickets,
    width,
)
from grokscope.papers.structural_inference.quantities import summarise
from grokscope.papers.structural_inference.settings import PROSE

# In the order of the page.
MAIN = (four_phases, norm_structure, acceleration, tickets, regime_map)
APPENDIX = (explaining_away, priors, random_positions, lengths, width, heads, tasks)
ASSUMPTIONS = (frozen_attention, optimisers, streams)
AGAIN = (
    norm_sweep,
    decay_law,
    threshold,
    any_gradient,
)  # asked after a review of the first answers

PAPER = PROSE.paper(
    studies=tuple(module.STUDY for module in (*MAIN, *APPENDIX, *ASSUMPTIONS, *AGAIN)),
    summarise=summarise,
    annexes=(theory_page.ANNEX,),
)
