"""Figures of the studies on martingale operators, from the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.studies import Panel
from grokscope.draw import evidence as charts
from grokscope.draw import theme
from grokscope.draw.axes import decades, log_axis, share_axis, ticks
from grokscope.draw.evidence import LIMIT, Curves, Stack, Strip, present, run_rows
from grokscope.draw.marks import Rows, draw_rule, draw_text, inline
from grokscope.draw.words import count_runs
from grokscope.papers.martingale_operators.evaluation import DEFINITIONS, LEVELS

Draw = Callable[[Evidence], list[Panel]]
Place = Callable[[ArmRuns], float]
Line = tuple[Rows, dict[str, Any]]  # with its style
ENDED = "epochs"  # every finished run has it: all marks are dots
COLOURS = {
    "diagonal": theme.ARMS[0],
    "joint": theme.ARMS[1],
    "flow": theme.ARMS[2],
    "pointwise": theme.ARMS[3],
    "dropout": theme.ARMS[4],
    "moments": theme.ARMS[7],
    "energy": theme.ARMS[6],
}
LAWS = {  # what is compared with the Dirac: arm, prefix of its columns, colour
    "operator, diagonal": ("diagonal", "", theme.ARMS[0]),
    "operator, joint": ("joint", "", theme.ARMS[1]),
    "B1, one deviation": ("diagonal", "global_", theme.ARMS[5]),
    "B2, one covariance": ("diagonal", "constant_", theme.INK),
    "B6, coarse solver": ("diagonal", "coarse_", theme.ARMS[2]),
    "fresh true sample": ("diagonal", "floor_", theme.NEUTRAL),
}
Columns = Mapping[str, Sequence[str]]
"""The title of a column, and columns through whose medians a line is drawn."""
BOTH = ("truth", "learned")
SHOWN_MODES, FAINT = 16, 1e-6  # frequencies of a figure, and the least variance that it shows


def colour_of(arm: ArmRuns) -> str:
    operator = arm.spec.operator
    if operator.kind == "flow":
        return COLOURS["flow"]
    kind = arm.spec.objective.kind if operator.rank else "pointwise"
    return COLOURS.get("dropout" if operator.dropout else kind, theme.INK)


def _span(channel: Any, field: str, title: str, seen: Sequence[float]) -> Any:
    """An axis that holds every number."""
    known = [v for v in seen if math.isfinite(v) and v > 0] or [0.1, 1.0]
    low, high = min(known) / 1.4, max(known) * 1.4
    spaced = decades(low, high) if high > 300 * low else []
    return log_axis(channel, field, title, (low, high), spaced or ticks(low, high))


def _numbers(evidence: Evidence, *columns: str) -> list[float]:
    return [v for arm in charts.arms_of(evidence) for c in columns for v in arm.values(c)]


def strips(columns: Mapping[str, str], limits: Sequence[float] = ()) -> Draw:
    """A panel per regime and column: a track per arm with its runs and their median."""

    def draw(evidence: Evidence) -> list[Panel]:
        panels = []
        for column, title in columns.items():
            x = _span(alt.X, "value", title, _numbers(evidence, column))
            strip = partial(_track, column, limits)
            panels += charts.draw_tracks(evidence, strip, x, LIMIT, title="{}: " + title)
        return panels

    return draw


def _track(column: str, limits: Sequence[float], _: Sample, arm: ArmRuns) -> Strip:
    centre = arm.median(column)
    words, at = (f"median {centre:.2g}", centre) if math.isfinite(centre) else ("not run", None)
    return Strip(arm, colour_of(arm), arm.values(column), words, at, limits, event=ENDED)


def scatter(place: Place, across: str, columns: Columns, rule: float | None = None) -> Draw:
    """Runs over a dose, a panel per regime and column, with lines through medians of others: that
    of the sampling floor is dashed."""

    def draw(evidence: Evidence) -> list[Panel]:
        panels = []
        x = _span(alt.X, "place", across, [place(arm) for arm in charts.arms_of(evidence)])
        under = [] if rule is None else [draw_rule("y", rule, LIMIT)]
        for column, (title, *others) in columns.items():
            seen = _numbers(evidence, column, *others)
            y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
            if min([v for v in seen if math.isfinite(v)], default=1) > 0:
                y = _span(alt.Y, "value", title, seen)
            for regime, sample in present(evidence):
                arms = sorted(sample.arms.values(), key=place)
                points: Rows = []
                for arm in arms:
                    values, colour = arm.values(column), colour_of(arm)
                    points += run_rows(arm, values, colour, place(arm), 1.08, event=ENDED)
                medians = {n: [(place(arm), arm.median(n)) for arm in arms] for n in others}
                lines = [_line(ends, theme.INK, n) for n, ends in medians.items()]
                chart = charts.draw_over(points, x, y, lines, under)
                panels.append(Panel(f"{regime}: {title}", chart, count_runs(sample)))
        return panels

    return draw


def _line(ends: Sequence[tuple[float, float]], colour: str, column: str = "") -> Line:
    """A line through what is known, and its style."""
    style: dict[str, Any] = {"strokeDash": LIMIT} if column.startswith("floor_") else {}
    rows = [{"place": x, "value": y, "colour": colour} for x, y in ends if math.isfinite(y)]
    return rows, {**style, "opacity": 0.7}


def draw_distances(evidence: Evidence) -> list[Panel]:
    panels = [panel for _, sample in present(evidence) for panel in _factors(sample)]
    return panels + [p for regime, arm in _traced(evidence) for p in _laws(evidence, regime, arm)]


def _factors(sample: Sample) -> list[Panel]:
    """Dirac over each law, by definition."""
    rows: Rows = []
    for law, (name, prefix, _) in LAWS.items():
        for column, words in DEFINITIONS.items() if name in sample.arms else ():
            ratio = sample.arms[name].median(f"dirac_{column}", prefix + column)
            if math.isfinite(ratio) and ratio > 0:
                rows.append({"law": law, "definition": words, "value": float(f"{ratio:.4g}")})
    if not rows:
        return []
    names = list(dict.fromkeys(row["law"] for row in rows))
    scale = alt.Scale(domain=names, range=[LAWS[name][2] for name in names])
    x = _span(alt.X, "value", "Dirac over law", [68.0, 120.0, *(row["value"] for row in rows)])
    y = alt.Y(
        "definition:N", sort=list(DEFINITIONS.values()), title=None, axis=alt.Axis(minExtent=130)
    )
    shape = alt.Shape("law:N", scale=alt.Scale(domain=names), legend=None)
    legend = alt.Legend(title=None, orient="bottom", columns=2, columnPadding=20)
    colour = alt.Color("law:N", scale=scale, legend=legend)
    points = alt.Chart(inline(rows)).mark_point(filled=True, size=60, opacity=0.9)
    marks = points.encode(x=x, y=y, color=colour, shape=shape)
    rules = [draw_rule("x", value, LIMIT) for value in (68.0, 120.0)]
    chart = alt.LayerChart(layer=[*rules, marks], width=300, height=210)
    title = f"{sample.setting.regime}: times closer than the Dirac"
    return [Panel(title, chart, count_runs(sample))]


def _traced(evidence: Evidence) -> list[tuple[str, ArmRuns]]:
    """With its regime, every arm of which rows are kept."""
    names = evidence.study.curve_arms
    found = [(regime, a) for regime, s in present(evidence) for a in s.arms.values()]
    return [(regime, arm) for regime, arm in found if arm.name in names]


def _kept(evidence: Evidence, arm: ArmRuns, kind: str) -> Rows:
    """Rows of a kind that were kept of the arm's first seed."""
    if "kind" not in evidence.curves.columns:
        return []
    names = [row["run"] for row in arm.rows if row is not None]
    return evidence.curves.filter(pl.col("run").is_in(names), pl.col("kind") == kind).to_dicts()


def _laws(evidence: Evidence, regime: str, arm: ArmRuns) -> list[Panel]:
    """A field with bands and samples, and the covariance learned and true."""
    found = _kept(evidence, arm, "field")
    if not found:
        return []
    rows = [{k: round(v, 5) for k, v in row.items() if isinstance(v, float)} for row in found]
    x = alt.X("x:Q", title="x", scale=alt.Scale(domain=[0, 1], nice=False))
    data, colour = alt.Chart(inline(rows)), colour_of(arm)

    def line(column: str, colour: str, **style: Any) -> alt.Chart:
        y = alt.Y(f"{column}:Q", title="field", scale=alt.Scale(zero=False))
        return data.mark_line(color=colour, **style).encode(x=x, y=y)

    band = data.mark_area(color=colour, opacity=theme.BAND_OPACITY)
    layers = [
        band.encode(x=x, y=alt.Y("low:Q", title="field"), y2="high:Q"),
        *(line(f"sample{i}", colour, strokeWidth=1, opacity=0.6) for i in range(3)),
        *(line(column, theme.INK, strokeDash=LIMIT) for column in ("true_low", "true_high")),
        line("true", theme.INK),
        line("mean", colour, strokeWidth=2),
    ]
    field = alt.LayerChart(layer=layers, width=charts.WIDTH, height=180)
    note = "colour: operator, 90 % band, samples; black: truth"
    matrix = _kept(evidence, arm, "covariance")
    cells = {
        which: [{"x": r["x"], "y": r["y"], "value": round(r[which], 4)} for r in matrix]
        for which in BOTH
    }
    most = max(abs(row["value"]) for rows in cells.values() for row in rows)
    scale = alt.Scale(scheme="blueorange", domain=[-most, most], reverse=True)
    views = [
        alt.Chart(inline(rows))
        .mark_rect()
        .encode(
            x=alt.X("x:O", title=which, axis=alt.Axis(labels=False, ticks=False)),
            y=alt.Y("y:O", axis=None),
            color=alt.Color("value:Q", scale=scale, legend=None),
        )
        .properties(width=128, height=128)
        for which, rows in cells.items()
    ]
    pair = alt.hconcat(*views, spacing=14)
    return [
        Panel(f"{regime}, {arm.name}: a field", field, note),
        Panel(f"{regime}, {arm.name}: its covariance", pair, "in variances of the truth"),
    ]


def draw_losses(evidence: Evidence) -> list[Panel]:
    return [
        *strips({"correlation_error": "Error of the correlations"}, (1.0,))(evidence),
        *strips({"std_error": "Error of the deviation"})(evidence),
        *charts.draw_regimes(evidence, _calibration, title="{}: calibration"),
    ]


def _calibration(sample: Sample) -> alt.LayerChart:
    """Coverage against the level, a line per arm through the medians."""
    x = share_axis(alt.X, "place", "Level of the interval", 0.4)
    y = share_axis(alt.Y, "value", "Truth inside", 0.4)
    points: Rows = []
    ends: Rows = [{"place": v, "value": v, "colour": theme.SOFT} for v in (0.4, 1.0)]
    lines: list[Line] = [(ends, {"strokeDash": LIMIT})]
    names = []
    for i, (name, arm) in enumerate(sample.arms.items()):
        colour = colour_of(arm)
        columns = {level: f"coverage_{100 * level:.0f}" for level in LEVELS}
        for level, column in columns.items():
            points += run_rows(arm, arm.values(column), colour, level, event=ENDED)
        lines.append(_line([(v, arm.median(c)) for v, c in columns.items()], colour))
        names.append(draw_text(name, 6 + 70 * i, -9, colour, fontWeight=600))
    return charts.draw_over(points, x, y, lines, over=names)


def draw_ranks(evidence: Evidence) -> list[Panel]:
    columns: Columns = {
        "covariance_error": ("Covariance error", "limit_covariance_error"),
        "bures": ("Joint W2", "limit_bures"),
    }
    panels = scatter(lambda arm: arm.spec.operator.rank, "Rank", columns)(evidence)
    return panels + [panel for _, arm in _traced(evidence) for panel in _modes(evidence, arm)]


def _modes(evidence: Evidence, arm: ArmRuns) -> list[Panel]:
    """Variances by frequency, learned over true."""
    rows = [row for row in _kept(evidence, arm, "mode") if row["x"] <= SHOWN_MODES]
    if not rows:
        return []
    data: list[Rows] = [
        [{"k": int(r["x"]), "value": float(f"{max(r[which], FAINT):.3g}")} for r in rows]
        for which in BOTH
    ]
    x = alt.X("k:Q", title="Frequency k", scale=alt.Scale(domain=[0, SHOWN_MODES]))
    y = _span(alt.Y, "value", "Variance", [row["value"] for part in data for row in part])
    truth, learned = (alt.Chart(inline(part)) for part in data)
    layers = [
        truth.mark_line(color=theme.INK, opacity=0.7).encode(x=x, y=y),
        learned.mark_point(color=colour_of(arm), filled=True).encode(x=x, y=y),
    ]
    chart = alt.LayerChart(layer=layers, width=charts.WIDTH, height=180)
    note = "dots: learned, first seed; line: truth"
    return [Panel(f"{arm.name}: variance by frequency", chart, note)]


def draw_delay(evidence: Evidence) -> list[Panel]:
    colours = {"train_error": theme.TRAIN, "test_error": theme.TEST}
    labels = {"train_error": "Training conditions", "test_error": "unseen ones"}
    plots = [Curves(labels, 150, colours, limit=0.2)]
    stacks = [
        Stack(arm.name, sample, arm, plots, ("fitted", "generalised"))
        for _, sample in present(evidence)
        for arm in sample.arms.values()
    ]
    return charts.draw_stacks(evidence, stacks)
