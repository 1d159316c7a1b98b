"""The figures of the paper's studies, as calls of the charts that every paper shares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.judgements import InverseLaw
from grokscope.claims.studies import Panel
from grokscope.claims.verdicts import median_time
from grokscope.draw import evidence as charts
from grokscope.draw import theme
from grokscope.draw.axes import decades, log_axis, share_axis
from grokscope.draw.evidence import BUDGET, LIMIT, Curves, Stack, Strip, present, run_rows
from grokscope.draw.marks import Rows, draw_rule, draw_text, inline
from grokscope.draw.words import count_reached, count_runs
from grokscope.spec import OptimiserSpec

TICKET, WITH_ATTENTION, ATTENTION, CONTROL = (theme.ARMS[i] for i in (3, 7, 4, 5))
BATCH, MOMENTUM = (theme.ARMS[i] for i in (4, 5))
TEACHING = "a teacher: "
"""How the names of arms begin that are trained for their attention only."""
COLUMN = "accuracy_at_"
"""Begins the names of the columns of accuracies, which end with the length."""
LEAST = 1e-8  # smaller weights are drawn here: a log axis has no zero
RATES = (-50, -20, -10, -5, -2, -1, 0, 0.5, 1, 2, 5, 10, 20, 50)
PHASES = (
    Curves({"train_accuracy": "Accuracy: seen", "test_accuracy": "unseen"}, 110),
    # Divergences are too far apart between regimes for one axis.
    Curves({"divergence": "Divergence of attention"}, shared=False),
    Curves({"interaction_gradient": "Gradient on attention"}),
    Curves({"mlp_norm": "Norm of the MLP"}),
)


def prior_colour(arm: ArmRuns) -> str:
    return theme.kind_colour(theme.PRIORS, arm.spec.prior.kind)


def ticket_colour(arm: ArmRuns) -> str:
    """By what is cut or frozen, else by the prior."""
    mask = arm.spec.interventions.mask
    frozen = arm.spec.interventions.frozen_attention
    taught = frozen in ("teacher", "oracle")
    if mask.kind == "none" and frozen != "uniform":
        return ATTENTION if taught else prior_colour(arm)
    if taught:
        return WITH_ATTENTION
    return TICKET if mask.kind == "magnitude" and mask.effect == "prune" else CONTROL


def rate_colour(arm: ArmRuns) -> str:
    """By the optimiser; AdamW's by what is unusual about it."""
    usual, given = OptimiserSpec(), arm.spec.optimiser
    if given.kind != usual.kind:
        return theme.kind_colour(theme.OPTIMISERS, given.kind)
    if given.batch:
        return BATCH
    same = (given.beta1, given.beta2) == (usual.beta1, usual.beta2)
    return theme.OPTIMISERS[usual.kind] if same else MOMENTUM


def draw_outcomes(evidence: Evidence) -> list[Panel]:
    """Final test accuracy of every run, one panel per regime."""

    def strip(sample: Sample, arm: ArmRuns) -> Strip:
        values, limits = arm.values("test_accuracy"), (sample.setting.base.training.test_threshold,)
        return Strip(arm, prior_colour(arm), values, count_reached(arm.rows), None, limits)

    x = share_axis(alt.X, "value", "Final accuracy on unseen examples", low=-0.02)
    return charts.draw_tracks(evidence, strip, x, LIMIT, "right: how many grok; triangles do not")


def draw_tickets(evidence: Evidence) -> list[Panel]:
    """Grok epoch of every run with the median of each arm, one panel per regime."""
    return charts.draw_times(evidence, ticket_colour)


def draw_priors(evidence: Evidence) -> list[Panel]:
    """The same by kind of prior, without the runs that only teach."""
    shown = {}
    for regime, sample in evidence.samples.items():
        arms = {n: arm for n, arm in sample.arms.items() if not n.startswith(TEACHING)}
        shown[regime] = replace(sample, arms=arms)
    return draw_tickets(replace(evidence, samples=shown))


def draw_tasks(evidence: Evidence) -> list[Panel]:
    """Grok epochs of every task; how far its gradient on attention falls; how near the bound."""
    chosen = dict(present(evidence))
    every = [(f"{t}, {arm.name}", s, arm) for t, s in chosen.items() for arm in s.arms.values()]
    if not every:
        return []
    times = [charts.time_strip(s, arm, ticket_colour(arm), name) for name, s, arm in every]
    note = "; ".join(dict.fromkeys(map(count_runs, chosen.values())))
    first = charts.draw_strips(times, charts.time_axis(alt.X, evidence))
    panels = [Panel("grok epoch", first, note)]
    alone = [entry for entry in every if entry[2].spec.prior.kind == "none"]
    for title, axis, column, limit, entries in (
        ("fall of the gradient", "Peak over plateau", "starvation", 10.0, alone),
        ("gradient over its bound", "Largest ratio", "bound_ratio", 1.0, every),
    ):
        strips, seen = [], [limit]
        for name, _, arm in entries:
            values = arm.values(column)
            known = values[np.isfinite(values)]
            seen += known[known > 0].tolist()
            words = f"median {np.median(known):.2g}" if len(known) else "no number"
            strips.append(Strip(arm, ticket_colour(arm), values, words, None, (limit,), name))
        span = (min(seen) / 1.5, max(seen) * 1.5)
        x = log_axis(alt.X, "value", axis, span, decades(*span))
        panels.append(Panel(title, charts.draw_strips(strips, x), note))
    return panels


def draw_rates(evidence: Evidence) -> list[Panel]:
    """Contraction of the norm on every run's plateau, one panel per regime."""
    rates = [v for arm in charts.arms_of(evidence) for v in arm.values("norm_rate")]
    drawn = [-0.5, 2.2, *(v for v in rates if math.isfinite(v))]  # at least what the claim asks
    low, high = 1.1 * min(drawn), 1.1 * max(drawn)
    # Linear around 0, logarithmic far from it: a norm may grow many times faster than decay.
    scale = alt.Scale(type="symlog", constant=1, domain=[low, high], nice=False)
    axis = alt.Axis(values=[v for v in RATES if low <= v <= high], format="~g")
    x = alt.X("value:Q", title="Contraction in units of the decay", scale=scale, axis=axis)

    def strip(sample: Sample, arm: ArmRuns) -> Strip:
        values = arm.values("norm_rate")
        known = values[np.isfinite(values)]
        sound = arm.finished.sum()
        middle = float(known.mean()) if len(known) == sound > 0 else None
        words = f"{len(known)} of {sound} have a plateau" if sound else "not run"
        words = words if middle is None else f"mean {middle:.2f}"
        return Strip(arm, rate_colour(arm), values, words, middle, (0.5, 2))

    return charts.draw_tracks(evidence, strip, x, LIMIT, "a run without a plateau has no rate")


def draw_acceleration(evidence: Evidence) -> list[Panel]:
    """Grok epoch against the strength of the prior, with the law that was fitted."""
    test = next(c.test for c in evidence.study.claims if isinstance(c.test, InverseLaw))
    doses = sorted({test.dose(arm) or 0.0 for arm in charts.arms_of(evidence)} - {0.0})
    if not doses:
        return []
    absent, edge = doses[0] / 4, doses[0] / 2  # runs without a prior: a log axis has no zero
    span = (absent / 1.8, doses[-1] * 1.5)
    x = log_axis(alt.X, "place", "Strength λ of the penalty", span, [absent, *doses])
    x["axis"]["labelExpr"] = f"datum.value < {edge:g} ? 'none' : format(datum.value, '~g')"
    y = charts.time_axis(alt.Y, evidence)
    ground = alt.Chart(inline([{"place": span[0], "edge": edge}])).mark_rect(color=theme.PALE)
    style: dict[str, Any] = {"color": theme.PRIORS["none"], "strokeDash": LIMIT, "opacity": 0.8}

    def draw(sample: Sample) -> alt.LayerChart:
        points: Rows = []
        under = [ground.encode(x=x, x2="edge:Q"), draw_rule("y", sample.budget, BUDGET)]
        for arm in sample.arms.values():
            dose, middle = test.dose(arm) or 0.0, charts.middle_of(arm)[1]
            if not dose and middle is not None:
                data = inline([{"value": middle}])
                under.append(alt.Chart(data).mark_rule(**style).encode(y=y))
            times = charts.seen_times(arm, sample.budget)
            points += run_rows(arm, times, prior_colour(arm), dose or absent, 10**0.2)
        law = [(_law(test, sample, y["scale"]["domain"][1]), {"opacity": 0.7})]
        return charts.draw_over(points, x, y, law, under, upwards=True)

    return charts.draw_regimes(evidence, draw, "dashed: median without a prior")


def _law(test: InverseLaw, sample: Sample, high: float) -> Rows:
    """The fitted law, where every run it needs is there and enough of them grok."""
    doses, times = test.read(sample, test.event)
    sound = all(sample.arms[name].sound for name in test.needs(sample))
    if not sound or sum(math.isfinite(median_time(row)) for row in times) < 3:
        return []
    grid, (law, _) = np.geomspace(doses.min(), doses.max(), 60), test.fit(sample)
    return [
        {"place": float(f"{d:.4g}"), "value": float(f"{t:.5g}"), "colour": theme.PRIORS["oracle"]}
        for d, t in zip(grid, np.asarray(law(grid)), strict=True)
        if t <= high
    ]


def draw_widths(evidence: Evidence) -> list[Panel]:
    """Grok epoch against the width, and from when attention is right, one panel per regime."""
    widths = sorted({arm.spec.model.width for arm in charts.arms_of(evidence)})
    if not widths:
        return []
    x = log_axis(alt.X, "place", "Width d", (widths[0] / 1.5, widths[-1] * 2.6), widths)
    y = charts.time_axis(alt.Y, evidence, "Epoch", "structured")

    def draw(sample: Sample) -> alt.LayerChart:
        points: Rows = []
        middles: dict[str, Rows] = {"grokked": [], "structured": []}
        for arm in sorted(sample.arms.values(), key=lambda arm: arm.spec.model.width):
            width, colour = arm.spec.model.width, prior_colour(arm)
            points += run_rows(arm, charts.seen_times(arm, sample.budget), colour, width, 2**0.3)
            name = "no prior" if arm.spec.prior.kind == "none" else arm.spec.prior.kind
            for event, rows in middles.items():
                if arm.sound and 0 < (middle := median_time(arm.times(event))) < math.inf:
                    look = {"colour": colour, "arm": name}
                    rows.append({"place": width, "value": middle, **look})
        ends = list({row["arm"]: row for row in middles["grokked"]}.values())
        style: dict[str, Any] = {"align": "left", "dx": 16, "fontSize": 10.8, "color": theme.INK}
        text = alt.Chart(inline(ends)).mark_text(**style)
        dashed: dict[str, Any] = {"opacity": 0.7, "strokeDash": LIMIT}
        lines = [(middles["grokked"], {"opacity": 0.7}), (middles["structured"], dashed)]
        under = [draw_rule("y", sample.budget, BUDGET)]
        names = [text.encode(x=x, y=y, text="arm:N")]
        return charts.draw_over(points, x, y, lines, under, names, upwards=True)

    return charts.draw_regimes(evidence, draw, "dashed: from when attention is right")


def draw_lengths(evidence: Evidence) -> list[Panel]:
    """Every run at every length, a line through the medians of each arm; one panel per encoding."""
    rows = [row for arm in charts.arms_of(evidence) for row in arm.rows if row is not None]
    columns = {name for row in rows for name, value in row.items() if value is not None}
    lengths = sorted(int(c.removeprefix(COLUMN)) for c in columns if c.startswith(COLUMN))
    if not lengths:
        return []
    scale = alt.Scale(domain=[lengths[0] - 0.6, lengths[-1] + 0.6], nice=False)
    axis = alt.Axis(values=lengths, format="d", grid=False)
    x = alt.X("place:Q", title="Length of the sequence", scale=scale, axis=axis)
    y = share_axis(alt.Y, "value", None)

    def draw(sample: Sample) -> alt.LayerChart:
        points, middles, names = [], [], []
        for number, (name, arm) in enumerate(sample.arms.items()):
            colour = prior_colour(arm)
            for length in lengths:
                values = arm.values(f"{COLUMN}{length}")
                at = length + 0.36 * (number - 0.5)  # side by side, or one would hide the other
                points += run_rows(arm, values, colour, at, shift=0.25)
                if np.isfinite(values).any():
                    middle = float(np.nanmedian(values))
                    middles.append({"place": length, "value": middle, "colour": colour})
            names.append(draw_text(name, 6 + 90 * number, -9, colour, fontWeight=600))
        lines = [(middles, {"strokeWidth": 2})]
        return charts.draw_over(points, x, y, lines, over=names, height=190)

    return charts.draw_regimes(evidence, draw, f"trained at length {lengths[0]}")


def draw_heads(evidence: Evidence) -> list[Panel]:
    """The best head's weakest weight against the pooled one, without a prior; grok epochs by
    arm."""
    panels = []
    for _, sample in present(evidence):
        alone = [arm for arm in sample.arms.values() if arm.spec.prior.kind == "none"]
        points: Rows = []
        for arm in alone:
            best, pooled = (arm.values(column) for column in ("best_head_min", "weakest_min"))
            pooled, best = np.maximum(pooled, LEAST), np.maximum(best, LEAST)
            points += run_rows(arm, pooled, prior_colour(arm), best)
        spans = [(min([0.1, *(p[f] for p in points)]) / 1.5, 1.0) for f in ("place", "value")]
        x = log_axis(alt.X, "place", "Best single head", spans[0], decades(*spans[0]))
        y = log_axis(alt.Y, "value", "Mean over heads", spans[1], decades(*spans[1]))
        tau = sample.setting.base.structure_threshold
        rules = [draw_rule(channel, tau, LIMIT) for channel in ("x", "y")]
        words = draw_text("the heads together, no single one", 6, 10, theme.SOFT, fontSize=10.8)
        chart = charts.draw_over(points, x, y, under=rules, over=[words])
        note = f"{count_runs(sample)}, without a prior; dashed: the condition"
        panels.append(Panel("weakest weight on any input", chart, note))
    return [*panels, *(replace(panel, title="grok epoch") for panel in draw_tickets(evidence))]


def draw_map(evidence: Evidence) -> list[Panel]:
    """Median grok epoch by alphabet and strength, by alphabet and decay; median starvation."""

    def strength(arm: ArmRuns) -> float:
        return arm.spec.prior.strength if arm.spec.prior.kind != "none" else 0.0

    def decay(arm: ArmRuns) -> float:
        return arm.spec.optimiser.weight_decay

    panels = []
    for _, sample in present(evidence):
        usual = sample.setting.base.optimiser.weight_decay
        decayed = [arm for arm in sample.arms.values() if decay(arm) == usual]
        alone = [arm for arm in sample.arms.values() if not strength(arm)]
        for title, axis, level, column, arms in (
            ("Grok epoch, by strength of the prior", "Strength λ", strength, "grokked", decayed),
            ("Grok epoch without a prior, by decay", "Weight decay", decay, "grokked", alone),
            ("Epochs of starvation, by strength", "Strength λ", strength, "starved", decayed),
        ):
            event = column == "grokked"
            cells = [
                {"x": arm.spec.task.alphabet, "y": level(arm)}
                | charts.median_cell(arm, column, event)
                for arm in arms
            ]
            if len({cell["y"] for cell in cells}) > 1:
                most = sample.budget if event else None
                chart = charts.draw_heat_map(cells, "Distractor tokens r", axis, most)
                panels.append(Panel(title, chart, count_runs(sample)))
    return panels


def draw_phases(evidence: Evidence) -> list[Panel]:
    """Accuracy, divergence, gradient and norm over training, one panel per regime."""
    firsts = [(regime, s, next(iter(s.arms.values()))) for regime, s in present(evidence)]
    return charts.draw_stacks(evidence, [Stack(*first, PHASES) for first in firsts])


def draw_streams(evidence: Evidence) -> list[Panel]:
    """Accuracy and divergence over training, one panel per arm."""
    plots = (PHASES[0], PHASES[1]._replace(shared=True))
    arms = [(sample, arm) for _, sample in present(evidence) for arm in sample.arms.values()]
    return charts.draw_stacks(evidence, [Stack(arm.name, s, arm, plots) for s, arm in arms])


def draw_bounds(evidence: Evidence) -> list[Panel]:
    """The task's gradient on attention beside the bound that the paper proves, first as means over
    logits and examples, then as ratios of single ones; one panel per arm of a regime."""
    means = {"gradient_mean": "Gradient", "bound_mean": "bound (dashed)"}
    ratios = {"ratio_worst": "Gradient/bound: worst", "ratio_median": "median (dashed)"}
    stacks = []
    for name in next((list(s.arms) for s in evidence.samples.values()), []):
        for regime, sample in present(evidence):
            arm = sample.arms[name]
            colours = dict.fromkeys(("gradient_mean", "ratio_worst"), prior_colour(arm))
            above = Curves(means, 120, colours, ("bound_mean",))
            below = Curves(ratios, 120, colours, ("ratio_median",), limit=1.0)
            stacks.append(Stack(f"{regime}, {name}", sample, arm, (above, below)))
    return charts.draw_stacks(evidence, stacks, root=True)
