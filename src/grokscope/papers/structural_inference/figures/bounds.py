"""Figure 5: the task's gradient on attention beside the bound that the paper proves for it."""

from __future__ import annotations

from grokscope.claims.evidence import Evidence
from grokscope.claims.studies import Panel
from grokscope.draw.panels import POWERS
from grokscope.papers.structural_inference.figures.marks import (
    INK,
    NONE,
    PRIORS,
    SOFT,
    count_runs,
    present,
)
from grokscope.papers.structural_inference.figures.phases import (
    Curve,
    Epochs,
    bands_of,
    stack_curves,
)


def curves(colour: str) -> tuple[Curve, ...]:
    """Means over logits and examples, then the ratios of single ones."""
    return (
        Curve(
            {
                "gradient_mean": ("Gradient", colour),
                "bound_mean": ("bound (dashed)", INK),
            },
            120,
            {"type": "log"},
            POWERS,
            dashed=("bound_mean",),
        ),
        Curve(
            {
                "ratio_worst": ("Gradient/bound: worst", colour),
                "ratio_median": ("median (dashed)", SOFT),
            },
            120,
            {"type": "log"},
            POWERS,
            dashed=("ratio_median",),
            limit=1.0,
        ),
    )


def draw_bounds(evidence: Evidence) -> list[Panel]:
    """Gradient and bound over training, a panel for each arm of a regime."""
    drawn = []
    for name in next((list(s.arms) for s in evidence.samples.values()), []):
        for regime, sample in present(evidence):
            arm = sample.arms[name]
            plots = curves(PRIORS.get(arm.spec.prior.kind, NONE))
            if table := bands_of(evidence, arm, plots):
                drawn.append((f"{regime}, {name}", sample, arm, plots, table))
    everything = [row for *_, table in drawn for row in table]
    # The bound itself belongs into the picture.
    everything += [{**row, "ratio_worst_high": 1.0} for row in everything[:1]]
    panels = []
    for title, sample, arm, plots, table in drawn:
        # Most happens in the first tenth: a root scale gives it a third of the width.
        ticks = [round(sample.budget * share) for share in (0, 0.02, 0.1, 0.25, 0.5, 1)]
        epochs = Epochs(sample.budget, {"type": "sqrt"}, {"values": ticks})
        chart = stack_curves(plots, table, [everything] * len(plots), arm, epochs)
        panels.append(Panel(title, chart, count_runs(sample)))
    return panels
