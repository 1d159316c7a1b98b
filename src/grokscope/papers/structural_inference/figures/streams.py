"""Appendix G: accuracy and attention along streams, an arm a panel."""

from __future__ import annotations

from grokscope.claims.evidence import Evidence
from grokscope.claims.studies import Panel
from grokscope.papers.structural_inference.figures.marks import count_runs, present
from grokscope.papers.structural_inference.figures.phases import (
    CURVES,
    Epochs,
    bands_of,
    stack_curves,
)

SHOWN = tuple(c for c in CURVES if {"test_accuracy", "divergence"} & set(c.columns))


def draw_streams(evidence: Evidence) -> list[Panel]:
    """Accuracy and divergence over training, a panel an arm."""
    bands = [
        (sample, arm, table)
        for _, sample in present(evidence)
        for arm in sample.arms.values()
        if (table := bands_of(evidence, arm, SHOWN))
    ]
    everything = [row for _, _, table in bands for row in table]
    return [
        Panel(
            arm.name,
            stack_curves(SHOWN, table, [everything] * len(SHOWN), arm, Epochs(sample.budget)),
            count_runs(sample),
        )
        for sample, arm, table in bands
    ]
