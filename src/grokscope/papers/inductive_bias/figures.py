"""The figures of the paper's studies, as calls of the charts that every paper shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.judgements import Dose
from grokscope.claims.studies import Panel
from grokscope.draw import evidence as charts
from grokscope.draw import theme
from grokscope.draw.axes import fitting_axis, log_axis, renamed
from grokscope.draw.evidence import BUDGET, Curves, Stack, Strip, present, run_rows
from grokscope.draw.marks import Rows, draw_rule
from grokscope.draw.words import count_runs
from grokscope.papers.inductive_bias.judgements import GENERALISED
from grokscope.papers.inductive_bias.places import PLACES

Draw = Callable[[Evidence], list[Panel]]
EVENT = GENERALISED.column
AXIS = "Step of test accuracy 0.995"
COLOURS = dict(zip(PLACES, theme.ARMS, strict=False))
SUBTRACTED = theme.ARMS[4]


def colour_of(arm: ArmRuns) -> str:
    """By where the norm stands."""
    place = next(name for name, norm in PLACES.items() if norm == arm.spec.model.norm)
    return COLOURS[place]


def draw_times(evidence: Evidence) -> list[Panel]:
    """Times of every run with the median of each arm, one panel per regime."""
    return charts.draw_times(evidence, colour_of, AXIS, EVENT)


def stacked(*plots: Curves, own: Sequence[str] = (), times: bool = False) -> Draw:
    """A panel of curves for each arm whose curves were kept, the columns `own` in the arm's colour;
    before them, if asked for, the times of every run."""

    def draw(evidence: Evidence) -> list[Panel]:
        kept = evidence.study.curve_arms
        several = len(list(present(evidence))) > 1
        stacks = []
        for regime, sample in present(evidence):
            for arm in (arm for arm in sample.arms.values() if arm.name in kept):
                title = f"{arm.name}, {regime}" if several else arm.name
                hues = dict.fromkeys(own, colour_of(arm))
                coloured = [plot._replace(colours={**hues, **plot.colours}) for plot in plots]
                stacks.append(Stack(title, sample, arm, coloured, ("fitted", EVENT)))
        first = draw_times(evidence) if times else []
        return [*first, *charts.draw_stacks(evidence, stacks)]

    return draw


draw_placements = stacked(
    Curves({"test_accuracy": "Accuracy, unseen"}, 90),
    Curves({"fourier_concentration": "C_Fourier"}, 90, limit=1.0),
    own=("fourier_concentration",),
    times=True,
)
PERTURBED = {"sr_unit_loss": "Unit norm", "sr_mean_loss": "mean norm", "sr_global_loss": "together"}
HUES = dict(zip((*PERTURBED, "sr_authors_loss"), theme.ARMS, strict=False))
draw_shortcut = stacked(
    Curves(PERTURBED, 130, HUES), Curves({"sr_authors_loss": "The authors' probe"}, 90, HUES)
)
ENTROPIES = {"entropy_at_query": "At “=”", "entropy_authors": "the authors' (dashed)"}
draw_entropy = stacked(
    Curves(ENTROPIES, 110, dashed=("entropy_authors",), limit=math.log(3)),
    own=tuple(ENTROPIES),
    times=True,
)
draw_compression = stacked(
    Curves({"rank_test": "Effective rank"}, 100),
    Curves({"exponent_test": "Power-law exponent"}, 90),
    own=("rank_test", "exponent_test"),
)


def over(dose: Dose, title: str, more: Mapping[str, str] = {}) -> Draw:
    """Times of every run over a dose, and `more` of its numbers: columns with what to call them. A
    panel per regime each."""

    def draw_all(evidence: Evidence) -> list[Panel]:
        doses = sorted({d for arm in charts.arms_of(evidence) if (d := dose(arm))})
        if not doses:
            return []
        x = log_axis(alt.X, "place", title, (doses[0] / 1.3, doses[-1] * 1.3), doses)
        axes = {EVENT: charts.time_axis(alt.Y, evidence, AXIS, EVENT)}
        for column, name in more.items():
            every = np.concatenate([arm.values(column) for arm in charts.arms_of(evidence)])
            if (known := every[np.isfinite(every)]).size:
                axes[column] = renamed(fitting_axis(name.capitalize(), "zero", known), "value")
        panels, regimes = [], list(present(evidence))
        for (column, y), (regime, sample) in product(axes.items(), regimes):
            several = f", {regime}" * (len(regimes) > 1)
            heading = regime if column == EVENT else more[column] + several
            chart = draw_doses(dose, x, y, sample, column)
            panels.append(Panel(heading, chart, f"{count_runs(sample)}; line: medians"))
        return panels

    return draw_all


def draw_doses(dose: Dose, x: alt.X, y: alt.Y, sample: Sample, column: str) -> alt.LayerChart:
    """A column of every run over a dose, with the medians of the arms that subtract nothing."""
    points: Rows = []
    middles: Rows = []
    timed = column == EVENT
    for arm in sample.arms.values():
        aside = arm.spec.model.initial_outputs == "subtracted"
        colour = SUBTRACTED if aside else COLOURS["no LN"]
        at = dose(arm) or math.nan
        values, middle = arm.values(column), arm.median(column)
        if timed:
            values = charts.seen_times(arm, sample.budget, EVENT)
            middle = charts.middle_of(arm, EVENT)[1] or math.nan
        points += run_rows(arm, values, colour, at, 1.08, event=EVENT)
        if math.isfinite(middle) and not aside:
            middles.append({"place": at, "value": middle, "colour": colour})
    under = [draw_rule("y", sample.budget, BUDGET)] if timed else []
    return charts.draw_over(points, x, y, [(middles, {"opacity": 0.7})], under, upwards=timed)


STARTS = {
    "begun": "step at which 3 % of the training loss is gone",
    "kernel_begun": "drift of the tangent kernel",
}


def draw_laziness(evidence: Evidence) -> list[Panel]:
    """Time to the first 3 % of the training loss, and drift of the kernel by then."""
    panels = []
    for column, title in STARTS.items():
        every = np.concatenate([[], *(arm.values(column) for arm in charts.arms_of(evidence))])
        if (seen := every[every > 0]).size:
            ends = (float(seen.min()) / 1.5, float(seen.max()) * 1.5)
            x, strip = log_axis(alt.X, "value", title.capitalize(), ends), partial(_start, column)
            panels += charts.draw_tracks(evidence, strip, x, title=title)
    return panels


def _start(column: str, sample: Sample, arm: ArmRuns) -> Strip:
    values = arm.values(column)
    known = values[values > 0]
    words = f"median {np.median(known):.3g}" if len(known) else "no number"
    words = words if arm.finished.any() else "not run"
    colour = theme.kind_colour(theme.OPTIMISERS, arm.spec.optimiser.kind)
    return Strip(arm, colour, values, words, event=column)
