"""The figures of the structural-inference paper's studies, drawn from their evidence."""

from grokscope.papers.structural_inference.figures.bounds import draw_bounds
from grokscope.papers.structural_inference.figures.geometry import draw_heads, draw_widths
from grokscope.papers.structural_inference.figures.heat_map import draw_map
from grokscope.papers.structural_inference.figures.lengths import draw_lengths
from grokscope.papers.structural_inference.figures.phases import draw_phases
from grokscope.papers.structural_inference.figures.streams import draw_streams
from grokscope.papers.structural_inference.figures.strengths import draw_acceleration
from grokscope.papers.structural_inference.figures.strips import (
    draw_outcomes,
    draw_priors,
    draw_rates,
    draw_tasks,
    draw_tickets,
)

__all__ = [
    "draw_acceleration",
    "draw_bounds",
    "draw_heads",
    "draw_lengths",
    "draw_map",
    "draw_outcomes",
    "draw_phases",
    "draw_priors",
    "draw_rates",
    "draw_streams",
    "draw_tasks",
    "draw_tickets",
    "draw_widths",
]
