"""The figures of the structural-inference paper's studies, drawn from their evidence.

All say the same thing in the same way: a dot is a run that grokked, a triangle one that had not
when its budget ended, a cross one that failed; vermilion has no prior, green the oracle's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from grokscope.papers.evidence import ArmRuns, Evidence, Sample
from grokscope.papers.judgements import InverseLaw
from grokscope.papers.studies import Panel
from grokscope.report import theme
from grokscope.report.layers import ENDINGS, EPOCH_TITLE, inline
from grokscope.report.panels import POWERS
from grokscope.spec import RunSpec
from grokscope.verdicts import fit_power_law, median_time

WIDTH = 270  # of a panel's plot, in pixels: three stand side by side, one fills a phone
STRIP = 306  # of a plot without a vertical axis
ROW = 36  # height of an arm's row: its name above its runs
NONE, ORACLE, ADVERSARIAL = theme.ARMS[:3]
PRIORS = {"none": NONE, "oracle": ORACLE, "adversarial": ADVERSARIAL}
TICKET, WITH_ATTENTION, ATTENTION, CONTROL = (theme.ARMS[i] for i in (3, 7, 4, 5))
GROKKED, CENSORED, _, FAILED = ENDINGS
INK, SOFT, PALE, LATE = "#1E252F", "#5B6675", "#F3F5F8", "#2B323C"


# Figure 1


class Curve(NamedTuple):
    """One of the plots that stand under each other."""

    columns: Mapping[str, tuple[str, str]]
    """Columns with what to call them and their colours."""
    height: int
    scale: Mapping[str, Any]
    labels: str = "format(datum.value, ',~r')"


CURVES = (
    Curve(
        {
            "train_accuracy": ("Accuracy: seen", theme.TRAIN),
            "test_accuracy": ("unseen", theme.TEST),
        },
        110,
        {"domain": [0, 1]},
        "format(datum.value, '.0%')",
    ),
    Curve({"divergence": ("Divergence of attention", theme.DIVERGENCE)}, 70, {"zero": True}),
    Curve(
        {"interaction_gradient": ("Gradient on attention", theme.GRADIENTS[0])},
        70,
        {"type": "log"},
        POWERS,
    ),
    Curve({"mlp_norm": ("Norm of the MLP", theme.NORMS[0])}, 70, {"zero": False}),
)


def draw_phases(evidence: Evidence) -> list[Panel]:
    """Accuracy, divergence, gradient and norm over training, a panel a regime."""
    bands = {}
    for regime, sample in present(evidence):
        arm = next(iter(sample.arms.values()))
        table = _bands(evidence, arm)
        if table:
            bands[regime] = (sample, arm, table)
    everything = [row for _, _, table in bands.values() for row in table]
    panels = []
    for regime, (sample, arm, table) in bands.items():
        events = _events(arm)
        plots = [
            # Divergences are too far apart between regimes for one axis.
            _plot(
                curve,
                table,
                table if "divergence" in curve.columns else everything,
                events,
                sample.budget,
            )
            for curve in CURVES
        ]
        chart = alt.vconcat(*plots, spacing=26)
        panels.append(Panel(regime, chart, _count(sample)))
    return panels


def _bands(evidence: Evidence, arm: ArmRuns) -> list[dict[str, float]]:
    """Median and range of every column at the epochs that all finished runs have."""
    import polars as pl

    runs = [row["run"] for row in arm.rows if row is not None and row["status"] == "finished"]
    if not runs or not len(evidence.curves):
        return []
    columns = [name for curve in CURVES for name in curve.columns]
    mine = evidence.curves.filter(pl.col("run").is_in(runs))
    return (
        mine.group_by("epoch")
        .agg(
            pl.len().alias("runs"),
            *(pl.col(name).median() for name in columns),
            *(pl.col(name).min().alias(f"{name}_low") for name in columns),
            *(pl.col(name).max().alias(f"{name}_high") for name in columns),
        )
        .filter(pl.col("runs") == mine["run"].n_unique())
        .drop("runs")
        .with_columns(pl.all().exclude("epoch").round_sig_figs(5))
        .sort("epoch")
        .to_dicts()
    )


def _events(arm: ArmRuns) -> list[dict[str, Any]]:
    """Median epochs of memorisation and grokking, where most runs got there."""
    events = []
    for column in ("memorised", "grokked"):
        times = arm.times(column)[[_sound(row) for row in arm.rows]]
        middle = median_time(times)
        if math.isfinite(middle):
            events.append({"epoch": middle, "event": column})
    return events


def _plot(
    curve: Curve,
    table: Sequence[Mapping[str, float]],
    within: Sequence[Mapping[str, float]],
    events: list[dict[str, Any]],
    budget: int,
) -> alt.LayerChart:
    """One measure with its name above it; the axis fits all rows `within`."""
    logarithmic = curve.scale.get("type") == "log"
    ends = [
        row[f"{name}_{end}"] for row in within for name in curve.columns for end in ("low", "high")
    ]
    ends = [value for value in ends if value > 0 or not logarithmic]
    domain = curve.scale.get("domain")
    if domain is None and ends:
        domain = [0 if curve.scale.get("zero") else min(ends), max(ends)]
    scale = alt.Scale(**{**curve.scale, "domain": domain or [0.1, 1], "nice": domain != [0, 1]})
    first, last = curve is CURVES[0], curve is CURVES[-1]
    x = alt.X(
        "epoch:Q",
        title=EPOCH_TITLE if last else None,
        scale=alt.Scale(domain=[0, budget], nice=False),
        axis=alt.Axis(format=",d", labels=last, tickCount=5),
    )
    axis = alt.Axis(title=None, labelExpr=curve.labels, tickCount=4 if first else 3)
    rules = [
        alt.Chart(inline(events)).mark_rule(style="event").encode(x=x),
        *(_event_names(events, x, budget) if first else []),
    ]
    lines: list[alt.Chart] = []
    left = 0.0
    for name, (label, colour) in curve.columns.items():
        y = alt.Y(f"{name}:Q", scale=scale, axis=axis)
        rows = [
            {
                "epoch": row["epoch"],
                **{key: row[key] for key in (name, f"{name}_low", f"{name}_high")},
            }
            for row in table
            if row[f"{name}_low"] > 0 or not logarithmic
        ]
        drawn = alt.Chart(inline(rows))
        lines += [
            drawn.mark_area(color=colour, opacity=theme.BAND_OPACITY).encode(
                x=x, y=alt.Y(f"{name}_low:Q", scale=scale, axis=axis), y2=f"{name}_high:Q"
            ),
            drawn.mark_line(color=colour).encode(x=x, y=y),
            _text(label, left, -9, colour, fontWeight=600),
        ]
        left += 8.2 * len(label)
    return alt.LayerChart(layer=[*lines, *rules], width=WIDTH, height=curve.height)


def _event_names(events: list[dict[str, Any]], x: alt.X, budget: int) -> list[alt.Chart]:
    """Beside their rules, on the side where there is room."""
    names = []
    for height, event in enumerate(events):
        left = event["epoch"] > 0.7 * budget
        names.append(
            alt.Chart(inline([event]))
            .mark_text(
                style="note",
                align="right" if left else "left",
                dx=-4 if left else 4,
                y=48 + 14 * height,
            )
            .encode(x=x, text="event:N")
        )
    return names


# Figures 2 and 4: a row an arm, its name above its runs


def draw_outcomes(evidence: Evidence) -> list[Panel]:
    """Final test accuracy of every run, a panel a regime."""
    panels = []
    for regime, sample in present(evidence):
        x = alt.X(
            "value:Q",
            title="Final accuracy on unseen examples",
            scale=alt.Scale(domain=[-0.02, 1.02], nice=False),
            axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
        )
        threshold = sample.setting.base.training.test_threshold
        strips = [
            Strip(arm, PRIORS[arm.spec.prior.kind], arm.values("test_accuracy"), _share(arm))
            for arm in sample.arms.values()
        ]
        panels.append(
            Panel(
                regime,
                _draw_strips(strips, x, threshold, [4, 3]),
                f"{_count(sample)}; right: how many grok; triangles do not",
            )
        )
    return panels


def draw_tickets(evidence: Evidence) -> list[Panel]:
    """Grok epoch of every run with the median of each arm, a panel a regime."""
    panels = []
    low, high = _span(evidence)
    for regime, sample in present(evidence):
        x = alt.X(
            "value:Q",
            title="Grok epoch (log scale)",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(values=_ticks(low, high), format=",d"),
        )
        strips = [
            Strip(arm, _ticket_colour(arm.spec), _seen(arm, sample.budget), *_middle(arm))
            for arm in sample.arms.values()
        ]
        chart = _draw_strips(strips, x, sample.budget, [1, 3])
        panels.append(Panel(regime, chart, _count(sample)))
    return panels


class Strip(NamedTuple):
    """A row of a strip plot."""

    arm: ArmRuns
    colour: str
    values: np.ndarray  # (seeds,), NaN where there is nothing to draw
    summary: str
    """At the right end, above the runs."""
    middle: float | None = None
    """Where to put a bar."""


def _draw_strips(
    strips: Sequence[Strip], x: alt.X, limit: float, dash: list[float]
) -> alt.LayerChart:
    """Tracks from top to bottom, a name above each, single runs spread a little; a line across the
    tracks at the limit."""
    height = ROW * len(strips)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None)
    tracks, names, points, bars = [], [], [], []
    for place, strip in enumerate(strips):
        top = place * ROW
        tracks.append({"top": top + 16, "bottom": top + ROW - 3})
        names.append({"y": top + 8, "name": strip.arm.name, "summary": strip.summary})
        for index, (row, value) in enumerate(zip(strip.arm.rows, strip.values, strict=True)):
            if row is not None and math.isfinite(value):
                points.append(
                    {
                        "value": float(value),
                        "y": top + 24.5 + 9 * _spread(index, len(strip.values)),
                        "ending": _ending(row),
                        "colour": strip.colour,
                    }
                )
        if strip.middle is not None:
            bars.append(
                {
                    "value": strip.middle,
                    "y": top + 16,
                    "bottom": top + ROW - 3,
                    "colour": strip.colour,
                }
            )
    colour = alt.Color("colour:N", scale=None)
    track = alt.Chart(inline(tracks)).mark_rect(color=PALE)
    written = alt.Chart(inline(names)).encode(y=y)
    return alt.LayerChart(
        layer=[
            track.encode(x=alt.value(0), x2=alt.value(STRIP), y=_renamed(y, "top"), y2="bottom:Q"),
            alt.Chart(inline(tracks))
            .mark_rule(color=SOFT, strokeDash=dash)
            .encode(x=alt.datum(limit), y=_renamed(y, "top"), y2="bottom:Q"),
            alt.Chart(inline(bars))
            .mark_rule(strokeWidth=3, opacity=0.55)
            .encode(x=x, y=y, y2="bottom:Q", color=colour),
            _points(points, x, y, colour),
            written.mark_text(align="left", fontSize=10.8, color=INK).encode(
                x=alt.value(0), text="name:N"
            ),
            written.mark_text(align="right", style="note").encode(
                x=alt.value(STRIP), text="summary:N"
            ),
        ],
        width=STRIP,
        height=height,
    )


def _share(arm: ArmRuns) -> str:
    """How many grok ("4 of 5"), of the runs that have finished."""
    sound = [row for row in arm.rows if _sound(row)]
    if not sound:
        return "not run"
    return f"{sum(row['grokked'] is not None for row in sound if row)} of {len(sound)}"


def _middle(arm: ArmRuns) -> tuple[str, float | None]:
    """Median grok epoch of the finished runs, in words and as a number."""
    times = arm.times()[[_sound(row) for row in arm.rows]]
    if not len(times):
        return "not run", None
    middle = median_time(times)
    if math.isinf(middle):
        return f"{_share(arm)} grok", None
    return f"median {middle:,.0f}", middle


def _ticket_colour(spec: RunSpec) -> str:
    mask, taught = spec.interventions.mask, spec.interventions.frozen_attention == "teacher"
    if mask.kind == "none":
        return ATTENTION if taught else PRIORS[spec.prior.kind]
    if taught:
        return WITH_ATTENTION
    return TICKET if mask.kind == "magnitude" and mask.effect == "prune" else CONTROL


# Figure 3


def draw_acceleration(evidence: Evidence) -> list[Panel]:
    """Grok epoch against the strength of the prior, with the law that was fitted."""
    test = next(c.test for c in evidence.study.claims if isinstance(c.test, InverseLaw))
    doses = sorted(
        {test.dose(arm) or 0.0 for s in evidence.samples.values() for arm in s.arms.values()}
        - {0.0}
    )
    low, high = _span(evidence)
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
        axis=alt.Axis(values=_ticks(low, high), format=",d"),
    )
    panels = []
    for regime, sample in present(evidence):
        points, reference = [], None
        for arm in sample.arms.values():
            dose = test.dose(arm) or 0.0
            colour = PRIORS[arm.spec.prior.kind]
            seen = _seen(arm, sample.budget)
            if not dose:
                reference = _middle(arm)[1]
            for index, (row, value) in enumerate(zip(arm.rows, seen, strict=True)):
                if row is not None:
                    shift = 10 ** (0.2 * _spread(index, len(seen)))
                    points.append(
                        {
                            "dose": (dose or absent) * shift,
                            "value": float(value),
                            "ending": _ending(row),
                            "colour": colour,
                        }
                    )
        band = alt.Chart(inline([{"low": absent / 1.8, "high": edge}])).mark_rect(color=PALE)
        layer = [
            band.encode(x=_renamed(x, "low"), x2="high:Q"),
            alt.Chart().mark_rule(color=SOFT, strokeDash=[1, 3]).encode(y=alt.datum(sample.budget)),
            *_reference(reference, y),
            *_law(test, sample, x, y, high),
            _points(points, x, y, alt.Color("colour:N", scale=None), upwards=True),
        ]
        chart = alt.LayerChart(layer=layer, width=WIDTH, height=230)
        panels.append(Panel(regime, chart, f"{_count(sample)}; dashed: median without a prior"))
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
    if not arms or not all(arm.complete and not arm.failed for arm in arms):
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


# The map


def draw_map(evidence: Evidence) -> list[Panel]:
    """Median grok epoch by alphabet and strength, by alphabet and decay; median starvation."""
    panels = []
    for _, sample in present(evidence):
        usual = sample.setting.base.optimiser.weight_decay
        arms = list(sample.arms.values())
        decayed = [arm for arm in arms if arm.spec.optimiser.weight_decay == usual]
        alone = [arm for arm in arms if arm.spec.prior.kind == "none"]
        for title, level, column, chosen in (
            ("Grok epoch, by strength of the prior", "Strength λ", "grokked", decayed),
            ("Grok epoch without a prior, by decay", "Weight decay", "grokked", alone),
            ("Epochs of starvation, by strength", "Strength λ", "starved", decayed),
        ):
            cells = [_cell(arm, level, column) for arm in chosen]
            if len({cell["level"] for cell in cells}) > 1:
                most = sample.budget if column == "grokked" else None
                panels.append(Panel(title, _heat_map(cells, level, most), _count(sample)))
    return panels


def _cell(arm: ArmRuns, level: str, column: str) -> dict[str, Any]:
    """What a field says: the median of the finished runs, "never", or a dash if there are none."""
    spec = arm.spec
    strength = spec.prior.strength if spec.prior.kind != "none" else 0.0
    values = [row.get(column) for row in arm.rows if row is not None and _sound(row)]
    if column == "grokked":
        middle = median_time(np.array([math.inf if v is None else v for v in values] or [math.nan]))
    else:
        known = [value for value in values if value is not None]
        middle = float(np.median(known)) if known else math.nan
    cell = {
        "alphabet": spec.task.alphabet,
        "level": strength if level.startswith("Strength") else spec.optimiser.weight_decay,
        "value": middle if math.isfinite(middle) else None,
        "text": f"{middle:,.0f}" if math.isfinite(middle) else "–",
    }
    return {**cell, "text": "never"} if math.isinf(middle) else cell


def _heat_map(cells: list[dict[str, Any]], level: str, most: float | None) -> alt.LayerChart:
    """Light is early, dark is late, and black is never. Numbers stand in the fields."""
    values = [cell["value"] for cell in cells if cell["value"] is not None] or [1.0]
    high = max(most or 0.0, *values, 1.0)
    low = min(*values, high / 2) if most else 0.0
    bright = low**0.3 * high**0.7 if most else high / 4  # beyond it, letters are white
    for cell in cells:
        dark = cell["text"] == "never" or (cell["value"] or 0) > bright
        cell["ink"] = "#FFFFFF" if dark else INK
    x = alt.X(
        "alphabet:O",
        title="Distractor tokens r",
        axis=alt.Axis(labelAngle=0, domain=False, ticks=False),
    )
    y = alt.Y(
        "level:O",
        title=level,
        sort="descending",
        axis=alt.Axis(labelExpr="datum.value == 0 ? 'none' : format(datum.value, '~g')"),
    )
    base = alt.Chart(inline(cells))
    square: dict[str, Any] = {"stroke": "#FFFFFF", "strokeWidth": 2}
    colours = theme.theme()["range"]["heatmap"]
    scale = alt.Scale(
        type="log" if most else "symlog", domain=[low, high], range=colours[:3], interpolate="lab"
    )
    return alt.LayerChart(
        layer=[
            base.mark_rect(color=PALE, **square).encode(x=x, y=y),
            base.transform_filter("isValid(datum.value)")
            .mark_rect(**square)
            .encode(x=x, y=y, color=alt.Color("value:Q", scale=scale, legend=None)),
            base.transform_filter("datum.text == 'never'")
            .mark_rect(color=LATE, **square)
            .encode(x=x, y=y),
            base.mark_text(fontSize=10.5).encode(
                x=x, y=y, text="text:N", color=alt.Color("ink:N", scale=None)
            ),
        ],
        width=WIDTH,
        height=34 * len({cell["level"] for cell in cells}),
        resolve=alt.Resolve(scale=alt.ScaleResolveMap(color="independent")),
    )


# What figures share


def present(evidence: Evidence) -> Iterator[tuple[str, Sample]]:
    """Regimes with at least one run that has ended."""
    for regime, sample in evidence.samples.items():
        if any(row is not None for arm in sample.arms.values() for row in arm.rows):
            yield regime, sample


def _sound(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row["status"] == "finished"


def _ending(row: Mapping[str, Any]) -> str:
    if not _sound(row):
        return FAILED
    return CENSORED if row["grokked"] is None else GROKKED


def _seen(arm: ArmRuns, budget: int) -> np.ndarray:  # (seeds,)
    """Grok epoch; the budget where there is none, the last epoch of a run that failed."""
    values = []
    for row in arm.rows:
        if row is None:
            values.append(math.nan)
        elif _sound(row):
            values.append(row["grokked"] if row["grokked"] is not None else budget)
        else:
            values.append(max(row["epochs"], 1))
    return np.array(values, float)


def _count(sample: Sample) -> str:
    """Seeds, and the runs that are not there to see."""
    rows = [row for arm in sample.arms.values() for row in arm.rows]
    seeds = max(len(arm.rows) for arm in sample.arms.values())
    words = [f"{seeds} seed{'s' * (seeds > 1)}"]
    missing = sum(row is None for row in rows)
    failed = sum(row is not None and not _sound(row) for row in rows)
    if missing:
        words.append(f"{missing} of {len(rows)} runs missing")
    if failed:
        words.append(f"{failed} failed")
    return ", ".join(words)


def _span(evidence: Evidence) -> tuple[float, float]:
    """The range of grok epochs, from the earliest run to a little beyond the budget."""
    budget = max((sample.budget for sample in evidence.samples.values()), default=1)
    values = [
        value
        for _, sample in present(evidence)
        for arm in sample.arms.values()
        for value in _seen(arm, sample.budget)
        if math.isfinite(value)
    ]
    return min([*values, budget / 4]) / 1.25, budget * 1.2


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... within the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def _spread(index: int, n: int) -> float:
    """Where a seed stands among its own, from -1/2 to 1/2."""
    return index / (n - 1) - 0.5 if n > 1 else 0.0


def _renamed(axis: alt.X | alt.Y, field: str) -> Any:
    named = axis.copy()
    named.shorthand = f"{field}:Q"
    return named


def _text(text: str, x: float, y: float, colour: str, **style: Any) -> alt.Chart:
    mark = {"align": "left", "fontSize": 11.5, "color": colour, **style}
    return (
        alt.Chart(inline([{}]))
        .mark_text(**mark)
        .encode(x=alt.value(x), y=alt.value(y), text=alt.value(text))
    )


def _points(
    rows: list[dict[str, Any]], x: alt.X, y: alt.Y, colour: alt.Color, upwards: bool = False
) -> alt.Chart:
    """Runs, shaped by how they ended."""
    shapes = {**ENDINGS, CENSORED: "triangle-up"} if upwards else ENDINGS
    scale = alt.Scale(domain=list(shapes), range=list(shapes.values()))
    return (
        alt.Chart(inline(rows))
        .mark_point(filled=True, size=48, opacity=0.85, stroke="#FFFFFF", strokeWidth=0.5)
        .encode(x=x, y=y, color=colour, shape=alt.Shape("ending:N", scale=scale, legend=None))
    )
