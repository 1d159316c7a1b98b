"""How every figure looks: one palette, and one configuration each for light and dark pages.

Colours follow Okabe and Ito's colour-blind-safe set, with lightness as a second cue. They are
readable on white and on near-black, so only text, axes and grid differ between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

TRAIN, TEST = "#D98200", "#2274B5"
DIVERGENCE = "#8C5BB0"
GRADIENTS = ("#B5446E", "#5F7A1E")
NORMS = ("#4F6D8F", "#8A6A3B")
# From the reassuring mean to the worst input: ever warmer and stronger.
MASSES = ("#7C8794", "#EDA45A", "#DB6B24", "#A8320B")
ARMS = (
    "#D55E00",
    "#009E73",
    "#8C6BB1",
    "#56B4E9",
    "#A6761D",
    "#6B7280",
    "#CC79A7",
    "#3F51A3",
    "#9A9A2E",
    "#E39AB0",
    "#7A4E2D",
)
PHASES = {
    "memorisation": "#8793A5",
    "plateau": "#E3B23C",
    "resurgence": "#8C6BB1",
    "grokking": "#35A27B",
}
INK, SOFT, PALE, LATE = "#1E252F", "#5B6675", "#F3F5F8", "#2B323C"
NEUTRAL = "#B4B9C1"
"""Of a kind that has no colour: no arm, measure or phase has this one."""
PRIORS = {
    "none": ARMS[0],
    "oracle": ARMS[1],
    "adversarial": ARMS[2],
    "entropy": ARMS[5],
    "sparsity": ARMS[5],
    "teacher": ARMS[4],
    "inferred": ARMS[7],
}
OPTIMISERS = {"adamw": ARMS[0], "sgd": ARMS[3], "lion": ARMS[3], "muon": ARMS[3]}
BAND_OPACITY, PHASE_OPACITY = 0.18, 0.2


def arm_colour(index: int) -> str:
    """The colour of an arm by its place; they repeat after eleven."""
    return ARMS[index % len(ARMS)]


def kind_colour(colours: Mapping[str, str], kind: str) -> str:
    """The colour of a kind; a neutral one where the table does not name it."""
    return colours.get(kind, NEUTRAL)


def theme(dark: bool = False) -> dict[str, Any]:
    """The Vega-Lite configuration of every figure."""
    ink, soft, grid = ("#E6E9EE", "#A3ACB9", LATE) if dark else (INK, SOFT, "#E6E9EE")
    heat = (
        ["#1C222A", "#1F4E7F", "#5B9BD5", "#DCEBFA"]
        if dark
        else ["#F3F6FA", "#A9C7E8", "#2F6FB0", "#0B2F5C"]
    )
    text = {"labelFont": FONT, "titleFont": FONT, "labelColor": soft, "titleColor": soft}
    return {
        "background": "transparent" if dark else "#FFFFFF",
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": grid,
            "domainColor": soft,
            "tickColor": soft,
            "tickSize": 4,
            "labelPadding": 4,
            "labelOverlap": True,
        },
        "axisX": {"grid": False},
        # Equal room for labels keeps the time axes of stacked figures in line.
        "axisY": {"domain": False, "ticks": False, "minExtent": 38, "tickCount": 5},
        "legend": {
            **text,
            "orient": "top",
            "title": None,
            "labelFontSize": 12,
            "labelColor": ink,
            "labelLimit": 320,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "symbolStrokeWidth": 2.5,
            "columnPadding": 14,
            "rowPadding": 3,
        },
        "title": {
            "font": FONT,
            "color": ink,
            "fontSize": 14,
            "fontWeight": 600,
            "subtitleFont": FONT,
            "subtitleColor": soft,
            "subtitleFontSize": 11,
            "subtitlePadding": 4,
            "anchor": "start",
            "frame": "group",
            "offset": 10,
        },
        "line": {"strokeWidth": 2, "strokeCap": "round", "strokeJoin": "round"},
        "rule": {"strokeWidth": 1},
        "style": {
            "threshold": {"strokeDash": [4, 3], "strokeWidth": 1, "opacity": 0.8},
            "event": {"color": soft, "strokeDash": [2, 2], "strokeWidth": 1},
            "cursor": {"color": soft, "strokeWidth": 1, "opacity": 0.6},
            "note": {"color": soft, "font": FONT, "fontSize": 11},
            "phase-number": {"color": soft, "font": FONT, "fontSize": 11, "fontWeight": 600},
            "informative": {"color": ink, "strokeWidth": 1.5},
        },
        "range": {"heatmap": heat},
        "concat": {"spacing": 28},
    }
