"""Explaining grokking through the lens of inductive bias (arXiv 2602.06702) as studies."""

from __future__ import annotations

from grokscope.papers.inductive_bias import (
    compression,
    doses,
    entropy,
    laziness,
    placement,
    shortcut,
    variations,
)
from grokscope.papers.inductive_bias.quantities import summarise
from grokscope.papers.inductive_bias.settings import PROSE

PAPER = PROSE.paper(
    studies=(  # in the order of the page
        placement.STUDY,
        shortcut.STUDY,
        entropy.STUDY,
        *doses.STUDIES,
        compression.STUDY,
        variations.RMS,
        variations.DEPTH,
        laziness.STUDY,
        variations.SPLIT,
        variations.PARTS,
    ),
    summarise=summarise,
    brief=True,
)
