"""Figure 3: grok epochs against the strength of the prior, with the fitted law."""

from __future__ import annotations

import math

import altair as alt
import numpy as np

from grokscope.claims.evidence import Evidence, Sample
from grokscope.claims.judgements import InverseLaw
from grokscope.claims.studies import Panel
from grokscope.claims.verdicts import fit_power_law, median_time
from grokscope.draw.layers import inline
from grokscope.papers.structural_inference.figures.marks import (
    NONE,
    ORACLE,
    PALE,
    PRIORS,
    SOFT,
    WIDTH,
    count_runs,
    ending,
    middle_of,
    present,
    renamed,
    run_points,
    seen_times,
    spread,
    ticks,
    time_span,
)


def draw_acceleration(evidence: Evidence) -> list[Panel]:
    """Grok epoch against the strength of the prior, with the law that was fitted."""
    test = next(c.test for c in evidence.study.claims if isinstance(c.test, InverseLaw))
    doses = sorted(
        {test.dose(arm) or 0.0 for s in evidence.samples.values() for arm in s.arms.values()}
        - {0.0}
    )
    low, high = time_span(evidence)
    absent = doses[0] / 4  # where runs without a prior stand: a log axis has no zero
    edge = doses[0] / 2
    x = alt.X(
        "dose:Q",
        title="Strength λ of the penalty (log scale)",
        scale=alt.Scale(type="log", domain=[absent / 1.8, doses[-1] * 1.5], nice=False),
        axis=alt.Axis(
            values=[absent, *doses],
            labelExpr=f"datum.value < {edge:g} ? 'none' : format(datum.value, '~g')",
        ),
    )
    y = alt.Y(
        "value:Q",
        title="Grok epoch (log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=ticks(low, high), format=",d"),
    )
    panels = []
    for regime, sample in present(evidence):
        points, reference = [], None
        for arm in sample.arms.values():
            dose = test.dose(arm) or 0.0
            colour = PRIORS[arm.spec.prior.kind]
            seen = seen_times(arm, sample.budget)
            if not dose:
                reference = middle_of(arm)[1]
            for index, (row, value) in enumerate(zip(arm.rows, seen, strict=True)):
                if row is not None:
                    shift = 10 ** (0.2 * spread(index, len(seen)))
                    points.append(
                        {
                            "dose": (dose or absent) * shift,
                            "value": float(value),
                            "ending": ending(row),
                            "colour": colour,
                        }
                    )
        band = alt.Chart(inline([{"low": absent / 1.8, "high": edge}])).mark_rect(color=PALE)
        layer = [
            band.encode(x=renamed(x, "low"), x2="high:Q"),
            alt.Chart().mark_rule(color=SOFT, strokeDash=[1, 3]).encode(y=alt.datum(sample.budget)),
            *_reference(reference, y),
            *_law(test, sample, x, y, high),
            run_points(points, x, y, alt.Color("colour:N", scale=None), upwards=True),
        ]
        chart = alt.LayerChart(layer=layer, width=WIDTH, height=230)
        panels.append(Panel(regime, chart, f"{count_runs(sample)}; dashed: median without a prior"))
    return panels


def _reference(middle: float | None, y: alt.Y) -> list[alt.Chart]:
    """The median without a prior, all the way across."""
    if middle is None:
        return []
    data = alt.Chart(inline([{"value": middle}]))
    return [data.mark_rule(color=NONE, strokeDash=[4, 3], opacity=0.8).encode(y=y)]


def _law(test: InverseLaw, sample: Sample, x: alt.X, y: alt.Y, high: float) -> list[alt.Chart]:
    """The fitted law, where every run it needs is there and enough of them grok."""
    arms = [sample.arms[name] for name in test.needs(sample)]
    if not arms or not all(arm.sound for arm in arms):
        return []
    medians = np.array([median_time(arm.times(test.event)) for arm in arms])
    if np.isfinite(medians).sum() < 3:
        return []
    doses = np.array([test.dose(arm) or math.nan for arm in arms])
    law = fit_power_law(doses, medians, sample.budget)
    grid = np.geomspace(doses.min(), doses.max(), 60)
    rows = [
        {"dose": float(f"{dose:.4g}"), "value": float(f"{time:.5g}")}
        for dose, time in zip(grid, np.asarray(law(grid)), strict=True)
        if time <= high
    ]
    return [alt.Chart(inline(rows)).mark_line(color=ORACLE, opacity=0.7).encode(x=x, y=y)]
