"""The figures of the structural-inference paper's studies, drawn from their evidence."""

from grokscope.papers.structural_inference.figures.heat_map import draw_map
from grokscope.papers.structural_inference.figures.phases import draw_phases
from grokscope.papers.structural_inference.figures.strengths import draw_acceleration
from grokscope.papers.structural_inference.figures.strips import (
    draw_outcomes,
    draw_rates,
    draw_tickets,
)

__all__ = [
    "draw_acceleration",
    "draw_map",
    "draw_outcomes",
    "draw_phases",
    "draw_rates",
    "draw_tickets",
]
