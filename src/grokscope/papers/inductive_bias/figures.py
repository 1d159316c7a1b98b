"""The figures of the paper's studies, as calls of the charts that every paper shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.draw import evidence as charts
from grokscope.draw import theme
from grokscope.draw.axes import log_axis
from grokscope.draw.evidence import BUDGET, Curves, Stack, Strip, present, run_rows
from grokscope.draw.marks import Rows, draw_rule
from grokscope.draw.words import count_runs, is_sound
from grokscope.papers.inductive_bias.settings import GENERALISED, PLACES

EVENT = GENERALISED.column
AXIS = "Step of test accuracy 0.995"
COLOURS = dict(zip(PLACES, (theme.ARMS[i % len(theme.ARMS)] for i in range(9)), strict=False))
SUBTRACTED = theme.ARMS[4]


def colour_of(arm: ArmRuns) -> str:
    """By where the norm stands."""
    place = next(name for name, norm in PLACES.items() if norm == arm.spec.model.norm)
    return COLOURS[place]


def draw_times(evidence: Evidence) -> list[Panel]:
    """Times of every run with the median of each arm, one panel per regime."""
    x = charts.time_axis(alt.X, evidence, AXIS, EVENT)

    def draw(sample: Sample) -> alt.LayerChart:
        arms = sample.arms.values()
        return charts.draw_strips(
            [charts.time_strip(sample, arm, colour_of(arm), event=EVENT) for arm in arms], x
        )

    return charts.draw_regimes(evidence, draw)


def _stacks(evidence: Evidence, plots: Callable[[ArmRuns], Sequence[Curves]]) -> list[Panel]:
    """A panel of curves for each arm whose curves were kept."""
    kept = evidence.study.curve_arms
    several = len(list(present(evidence))) > 1
    stacks = [
        Stack(
            f"{arm.name}, {regime}" if several else arm.name,
            sample,
            arm,
            plots(arm),
            ("fitted", EVENT),
        )
        for regime, sample in present(evidence)
        for arm in sample.arms.values()
        if arm.name in kept
    ]
    return charts.draw_stacks(evidence, stacks)


def draw_placements(evidence: Evidence) -> list[Panel]:
    """Times, then accuracy and periodicity of every variant."""

    def plots(arm: ArmRuns) -> Sequence[Curves]:
        colour = {"fourier_concentration": colour_of(arm)}
        return (
            Curves({"test_accuracy": "Accuracy, unseen"}, 90),
            Curves({"fourier_concentration": "C_Fourier"}, 90, colour, limit=1.0),
        )

    return [*draw_times(evidence), *_stacks(evidence, plots)]


def draw_shortcut(evidence: Evidence) -> list[Panel]:
    """Training loss under each perturbation of the MLP's input."""
    labels = {
        "sr_unit_loss": "Unit norm",
        "sr_mean_loss": "mean norm",
        "sr_global_loss": "together",
    }
    hues = dict(zip((*labels, "sr_authors_loss"), theme.ARMS, strict=False))

    def plots(arm: ArmRuns) -> Sequence[Curves]:
        return (
            Curves(labels, 130, hues),
            Curves({"sr_authors_loss": "The authors' probe"}, 90, hues),
        )

    return _stacks(evidence, plots)


def draw_entropy(evidence: Evidence) -> list[Panel]:
    """Times, then the entropy of attention."""

    def plots(arm: ArmRuns) -> Sequence[Curves]:
        labels = {"entropy_at_query": "At “=”", "entropy_authors": "the authors' (dashed)"}
        hues = dict.fromkeys(labels, colour_of(arm))
        return (Curves(labels, 110, hues, dashed=("entropy_authors",), limit=math.log(3)),)

    return [*draw_times(evidence), *_stacks(evidence, plots)]


def draw_compression(evidence: Evidence) -> list[Panel]:
    """Effective rank and exponent over training."""

    def plots(arm: ArmRuns) -> Sequence[Curves]:
        hues = dict.fromkeys(("rank_test", "exponent_test"), colour_of(arm))
        return (
            Curves({"rank_test": "Effective rank"}, 100, hues),
            Curves({"exponent_test": "Power-law exponent"}, 90, hues),
        )

    return _stacks(evidence, plots)


def over(dose: Callable[[ArmRuns], float | None], title: str) -> Callable[[Evidence], list[Panel]]:
    """Times of every run over a dose, one panel per regime."""

    def draw_all(evidence: Evidence) -> list[Panel]:
        doses = sorted({d for arm in charts.arms_of(evidence) if (d := dose(arm))})
        if not doses:
            return []
        x = log_axis(alt.X, "place", title, (doses[0] / 1.3, doses[-1] * 1.3), doses)
        y = charts.time_axis(alt.Y, evidence, AXIS, EVENT)

        def draw(sample: Sample) -> alt.LayerChart:
            points: Rows = []
            middles: Rows = []
            for arm in sample.arms.values():
                aside = arm.spec.model.initial_outputs == "subtracted"
                colour = SUBTRACTED if aside else COLOURS["no LN"]
                at = dose(arm) or math.nan
                times = charts.seen_times(arm, sample.budget, EVENT)
                points += run_rows(arm, times, colour, at, 1.08, event=EVENT)
                middle = charts.middle_of(arm, EVENT)[1]
                if middle is not None and not aside:
                    middles.append({"place": at, "value": middle, "colour": colour})
            under = [draw_rule("y", sample.budget, BUDGET)]
            return charts.draw_over(
                points, x, y, [(middles, {"opacity": 0.7})], under, upwards=True
            )

        return charts.draw_regimes(evidence, draw, "line: medians")

    return draw_all


def draw_laziness(evidence: Evidence) -> list[Panel]:
    """Time to the first 3 % of the training loss, and drift of the kernel by then."""
    panels = []
    for title, column in (
        ("step at which 3 % of the training loss is gone", "begun"),
        ("drift of the tangent kernel", "kernel_begun"),
    ):
        for _, sample in present(evidence):
            strips, seen = [], []
            for arm in sample.arms.values():
                values = arm.values(column)
                known = values[np.isfinite(values) & (values > 0)]
                seen += known.tolist()
                words = f"median {np.median(known):.3g}" if len(known) else "no number"
                sound = any(is_sound(row) for row in arm.rows)
                colour = theme.kind_colour(theme.OPTIMISERS, arm.spec.optimiser.kind)
                strips.append(
                    Strip(arm, colour, values, words if sound else "not run", event=column)
                )
            if seen:
                x = log_axis(alt.X, "value", title.capitalize(), (min(seen) / 1.5, max(seen) * 1.5))
                panels.append(Panel(title, charts.draw_strips(strips, x), count_runs(sample)))
    return panels
