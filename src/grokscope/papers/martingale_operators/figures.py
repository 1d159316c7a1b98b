"""Figures of the studies on martingale operators, from the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from grokscope.papers.martingale_operators.settings import middle, typical

ENDED = "epochs"  # every finished run has it: all marks are dots
COLOURS = {
    "diagonal": theme.ARMS[0],
    "joint": theme.ARMS[1],
    "flow": theme.ARMS[2],
    "pointwise": theme.ARMS[3],
    "dropout": theme.ARMS[4],
    "moments": theme.ARMS[7],
    "energy": theme.ARMS[6],
    "B1": theme.ARMS[5],
    "B2": theme.INK,
    "floor": theme.NEUTRAL,
}


def colour_of(arm: ArmRuns) -> str:
    spec: Any = arm.spec
    if spec.operator.kind == "flow":
        return COLOURS["flow"]
    kind = "pointwise" if not spec.operator.rank else spec.objective.kind
    return COLOURS.get("dropout" if spec.operator.dropout else kind, theme.INK)


def log_x(evidence: Evidence, title: str, *columns: str) -> alt.X:
    """An axis that holds every run's number in these columns."""
    seen = [v for arm in charts.arms_of(evidence) for c in columns for v in arm.values(c)]
    return _span(alt.X, "value", title, seen)


def _span(channel: Any, field: str, title: str, seen: Sequence[float]) -> Any:
    known = [v for v in seen if math.isfinite(v) and v > 0] or [0.1, 1.0]
    low, high = min(known) / 1.4, max(known) * 1.4
    spaced = decades(low, high) if high > 300 * low else []
    return log_axis(channel, field, title, (low, high), spaced or ticks(low, high))


def strips(evidence: Evidence, columns: dict[str, str], limit: float | None = None) -> list[Panel]:
    """A panel per regime and column: a track per arm with its runs and their median."""
    panels = []
    for column, title in columns.items():
        x = log_x(evidence, title, column)
        for regime, sample in present(evidence):
            tracks = []
            for arm in sample.arms.values():
                centre = middle(arm, column)
                words = f"median {centre:.2g}" if math.isfinite(centre) else "not run"
                at = centre if math.isfinite(centre) else None
                limits = () if limit is None else (limit,)
                values = arm.values(column)
                tracks.append(Strip(arm, colour_of(arm), values, words, at, limits, event=ENDED))
            panels.append(
                Panel(
                    f"{regime}: {title}", charts.draw_strips(tracks, x, LIMIT), count_runs(sample)
                )
            )
    return panels


def draw_distances(evidence: Evidence) -> list[Panel]:
    panels = [p for _, sample in present(evidence) if (p := _factors(sample, evidence)) is not None]
    for regime, sample in present(evidence):
        for name in evidence.study.curve_arms:
            panels += _laws(evidence, regime, sample, name)
    return panels


def _factors(sample: Sample, evidence: Evidence) -> Panel | None:
    """Dirac over each law, by definition."""
    rows: Rows = []
    for name, arm_name, prefix in (
        ("operator, diagonal", "diagonal", ""),
        ("operator, joint", "joint", ""),
        ("B1, one deviation", "diagonal", "global_"),
        ("B2, one covariance", "diagonal", "constant_"),
        ("B6, coarse solver", "diagonal", "coarse_"),
        ("fresh true sample", "diagonal", "floor_"),
    ):
        arm = sample.arms.get(arm_name)
        if arm is None:
            continue
        for column, words in DEFINITIONS.items():
            ratio = typical(arm, f"dirac_{column}", prefix + column)
            if math.isfinite(ratio) and ratio > 0:
                rows.append({"law": name, "definition": words, "value": float(f"{ratio:.4g}")})
    if not rows:
        return None
    names = list(dict.fromkeys(row["law"] for row in rows))
    keys = ("diagonal", "joint", "B1", "B2", "flow", "floor")
    scale = alt.Scale(domain=names, range=[COLOURS[k] for k in keys][: len(names)])
    x = _span(alt.X, "value", "Dirac over law", [68.0, 120.0, *(row["value"] for row in rows)])
    y = alt.Y(
        "definition:N", sort=list(DEFINITIONS.values()), title=None, axis=alt.Axis(minExtent=130)
    )
    shape = alt.Shape("law:N", scale=alt.Scale(domain=names), legend=None)
    legend = alt.Legend(title=None, orient="bottom", columns=2, columnPadding=20)
    points = alt.Chart(inline(rows)).mark_point(filled=True, size=60, opacity=0.9)
    marks = points.encode(
        x=x, y=y, color=alt.Color("law:N", scale=scale, legend=legend), shape=shape
    )
    rules = [draw_rule("x", value, LIMIT) for value in (68.0, 120.0)]
    chart = alt.LayerChart(layer=[*rules, marks], width=300, height=210)
    regime = sample.setting.regime
    return Panel(f"{regime}: times closer than the Dirac", chart, count_runs(sample))


def _kept(evidence: Evidence, arm: ArmRuns, kind: str) -> pl.DataFrame:
    """Rows of a kind that were kept of the arm's first seed."""
    if "kind" not in evidence.curves.columns:
        return pl.DataFrame()
    names = [row["run"] for row in arm.rows if row is not None]
    return evidence.curves.filter(pl.col("run").is_in(names) & (pl.col("kind") == kind))


def _laws(evidence: Evidence, regime: str, sample: Sample, name: str) -> list[Panel]:
    """A field with bands and samples, and the covariance learned and true."""
    if name not in sample.arms:
        return []
    arm = sample.arms[name]
    fields, matrix = (_kept(evidence, arm, kind) for kind in ("field", "covariance"))
    if not len(fields):
        return []
    rows = [
        {k: round(v, 5) for k, v in row.items() if isinstance(v, float)}
        for row in fields.to_dicts()
    ]
    x = alt.X("x:Q", title="x", scale=alt.Scale(domain=[0, 1], nice=False))
    data = alt.Chart(inline(rows))

    def line(column: str, colour: str, **style: Any) -> alt.Chart:
        y = alt.Y(f"{column}:Q", title="field", scale=alt.Scale(zero=False))
        return data.mark_line(color=colour, **style).encode(x=x, y=y)

    band = data.mark_area(color=colour_of(arm), opacity=theme.BAND_OPACITY)
    thin: dict[str, Any] = {"strokeWidth": 1, "opacity": 0.6}
    layers = [
        band.encode(x=x, y=alt.Y("low:Q", title="field"), y2="high:Q"),
        *(line(f"sample{i}", colour_of(arm), **thin) for i in range(3)),
        *(line(column, theme.INK, strokeDash=LIMIT) for column in ("true_low", "true_high")),
        line("true", theme.INK),
        line("mean", colour_of(arm), strokeWidth=2),
    ]
    field = alt.LayerChart(layer=layers, width=charts.WIDTH, height=180)
    note = "colour: operator, 90 % band, samples; black: truth"
    both = [
        {"x": round(r["x"], 4), "y": round(r["y"], 4), "value": round(r[which], 4), "which": which}
        for r in matrix.to_dicts()
        for which in ("truth", "learned")
    ]
    most = max(abs(row["value"]) for row in both)
    views = []
    for which in ("truth", "learned"):
        cells = alt.Chart(inline([row for row in both if row["which"] == which])).mark_rect()
        scale = alt.Scale(scheme="blueorange", domain=[-most, most], reverse=True)
        views.append(
            cells.encode(
                x=alt.X("x:O", title=which, axis=alt.Axis(labels=False, ticks=False)),
                y=alt.Y("y:O", axis=None),
                color=alt.Color("value:Q", scale=scale, legend=None),
            ).properties(width=128, height=128)
        )
    pair = alt.hconcat(*views, spacing=14)
    return [
        Panel(f"{regime}, {name}: a field", field, note),
        Panel(f"{regime}, {name}: its covariance", pair, "in variances of the truth"),
    ]


def draw_losses(evidence: Evidence) -> list[Panel]:
    return [
        *strips(evidence, {"correlation_error": "Error of the correlations"}, 1.0),
        *strips(evidence, {"std_error": "Error of the deviation"}),
        *draw_calibration(evidence),
    ]


def draw_calibration(evidence: Evidence) -> list[Panel]:
    """Coverage against the level, a line per arm through the medians."""
    x, y = (
        share_axis(alt.X, "place", "Level of the interval", 0.4),
        share_axis(alt.Y, "value", "Truth inside", 0.4),
    )

    def draw(sample: Sample) -> alt.LayerChart:
        points: Rows = []
        lines = []
        for arm in sample.arms.values():
            colour, line = colour_of(arm), []
            for level in LEVELS:
                values = arm.values(f"coverage_{100 * level:.0f}")
                points += run_rows(arm, values, colour, level, event=ENDED)
                if math.isfinite(centre := middle(arm, f"coverage_{100 * level:.0f}")):
                    line.append({"place": level, "value": centre, "colour": colour})
            lines.append((line, {"opacity": 0.7}))
        ends = [{"place": v, "value": v, "colour": theme.SOFT} for v in (0.4, 1.0)]
        names = [
            draw_text(name, 6 + 70 * i, -9, colour_of(arm), fontWeight=600)
            for i, (name, arm) in enumerate(sample.arms.items())
        ]
        return charts.draw_over(points, x, y, [(ends, {"strokeDash": LIMIT}), *lines], over=names)

    return [
        Panel(f"{panel.title}: calibration", panel.chart, panel.note)
        for panel in charts.draw_regimes(evidence, draw)
    ]


Lines = Sequence[tuple[str, dict[str, Any]]]  # a column and the style of the line through it


def scatter(
    evidence: Evidence,
    place: Callable[[ArmRuns], float],
    across: str,
    columns: dict[str, tuple[str, Lines]],
    logarithmic: bool = True,
    rule: float | None = None,
) -> list[Panel]:
    """Runs over a dose, a panel per regime and column, with lines through medians of others."""
    panels = []
    arms = charts.arms_of(evidence)
    for column, (title, others) in columns.items():
        seen = [v for arm in arms for c in (column, *(o for o, _ in others)) for v in arm.values(c)]
        x = _span(alt.X, "place", across, [place(arm) for arm in arms])
        if logarithmic and min([v for v in seen if math.isfinite(v)], default=1) > 0:
            y = _span(alt.Y, "value", title, seen)
        else:
            y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
        for regime, sample in present(evidence):
            points: Rows = []
            lines: list[tuple[Rows, dict[str, Any]]] = []
            ordered = sorted(sample.arms.values(), key=place)
            for arm in ordered:
                values, colour = arm.values(column), colour_of(arm)
                points += run_rows(arm, values, colour, place(arm), 1.08, event=ENDED)
            for other, style in others:
                rows = [
                    {"place": place(arm), "value": middle(arm, other), "colour": theme.INK}
                    for arm in ordered
                    if math.isfinite(middle(arm, other))
                ]
                lines.append((rows, style))
            under = [] if rule is None else [draw_rule("y", rule, LIMIT)]
            chart = charts.draw_over(points, x, y, lines, under)
            panels.append(Panel(f"{regime}: {title}", chart, count_runs(sample)))
    return panels


DASHED: dict[str, Any] = {"strokeDash": LIMIT, "opacity": 0.7}
SOLID: dict[str, Any] = {"opacity": 0.7}


def spec_of(arm: ArmRuns) -> Any:
    return arm.spec


def draw_ranks(evidence: Evidence) -> list[Panel]:
    columns: dict[str, tuple[str, Lines]] = {
        "covariance_error": ("Covariance error", [("limit_covariance_error", SOLID)]),
        "bures": ("Joint W2", [("limit_bures", SOLID)]),
    }
    panels = scatter(evidence, lambda arm: spec_of(arm).operator.rank, "Rank", columns)
    for _, sample in present(evidence):
        for name in evidence.study.curve_arms:
            if name in sample.arms:
                panels += _modes(_kept(evidence, sample.arms[name], "mode"), sample.arms[name])
    return panels


SHOWN_MODES, FAINT = 16, 1e-6  # frequencies of the figure, and the least variance that it shows


def _modes(rows: pl.DataFrame, arm: ArmRuns) -> list[Panel]:
    """Variances by frequency, learned over true."""
    if not len(rows):
        return []
    shown = [row for row in rows.to_dicts() if row["x"] <= SHOWN_MODES]
    data: Rows = [
        {"k": int(row["x"]), "value": float(f"{max(row[which], FAINT):.3g}"), "which": which}
        for row in shown
        for which in ("truth", "learned")
    ]
    x = alt.X("k:Q", title="Frequency k", scale=alt.Scale(domain=[0, SHOWN_MODES]))
    y = _span(alt.Y, "value", "Variance", [row["value"] for row in data])
    parts = {
        w: alt.Chart(inline([r for r in data if r["which"] == w])) for w in ("truth", "learned")
    }
    layers = [
        parts["truth"].mark_line(color=theme.INK, opacity=0.7).encode(x=x, y=y),
        parts["learned"].mark_point(color=colour_of(arm), filled=True).encode(x=x, y=y),
    ]
    chart = alt.LayerChart(layer=layers, width=charts.WIDTH, height=180)
    note = "dots: learned, first seed; line: truth"
    return [Panel(f"{arm.name}: variance by frequency", chart, note)]


def draw_grids(evidence: Evidence) -> list[Panel]:
    shown = {f"std_error_{f}x": f"Error of the deviation, grid × {f}" for f in (1, 2, 4)}
    return strips(evidence, shown)


def draw_noises(evidence: Evidence) -> list[Panel]:
    columns: dict[str, tuple[str, Lines]] = {
        "gain": ("Dirac over operator, pointwise W2", []),
        "mean_error": ("Error of the mean, in deviations", []),
        "std_error": ("Error of the deviation", []),
        "start_loss": ("Likelihood loss at the start", []),
    }
    return scatter(evidence, lambda arm: spec_of(arm).equation.noise, "Noise σ", columns, rule=1.0)


def draw_roughness(evidence: Evidence) -> list[Panel]:
    columns: dict[str, tuple[str, Lines]] = {
        "w2": ("Pointwise W2", [("gaussian_w2", SOLID), ("floor_w2", DASHED)])
    }
    return scatter(evidence, lambda arm: spec_of(arm).equation.hurst, "H", columns)


def draw_wells(evidence: Evidence) -> list[Panel]:
    columns: dict[str, tuple[str, Lines]] = {
        "w2": ("Pointwise W2", [("gaussian_w2", SOLID), ("floor_w2", DASHED)]),
        "kurtosis": ("Excess kurtosis of the truth", []),
    }
    return scatter(evidence, lambda arm: spec_of(arm).equation.time, "Time T", columns)


def draw_speeds(evidence: Evidence) -> list[Panel]:
    columns: dict[str, tuple[str, Lines]] = {"sliced": ("Sliced W2", [("floor_sliced", DASHED)])}
    return scatter(evidence, lambda arm: middle(arm, "law_ms"), "Milliseconds per law", columns)


def draw_budgets(evidence: Evidence) -> list[Panel]:
    return strips(evidence, {"w2": "Pointwise W2", "mean_error": "Error of the mean"})


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
