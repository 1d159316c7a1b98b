"""How every figure looks: one palette, and one configuration each for light and dark pages.

Colours follow Okabe and Ito's colour-blind-safe set, with lightness as a second cue. They are
readable on white and on near-black, so only text, axes and grid differ between the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

TRAIN, TEST = "#D98200", "#2274B5"
ARMS = (
    *("#D55E00", "#009E73", "#8C6BB1", "#56B4E9", "#A6761D", "#6B7280"),
    *("#CC79A7", "#3F51A3", "#9A9A2E", "#E39AB0", "#7A4E2D"),
)
RAMP = ("#3F51A3", "#56B4E9", "#009E73", "#9A9A2E", "#D98200", "#D55E00", "#CC79A7")
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
    "custom": ARMS[6],
}
OPTIMISERS = {"adamw": ARMS[0], **dict.fromkeys(("sgd", "lion", "muon", "ivon"), ARMS[3])}
HEAT = ["#F3F6FA", "#A9C7E8", "#2F6FB0", "#0B2F5C"]
HEAT_DARK = ["#1C222A", "#1F4E7F", "#5B9BD5", "#DCEBFA"]
BAND_OPACITY, PHASE_OPACITY = 0.18, 0.2


def arm_colour(index: int) -> str:
    """The colour of an arm by its place; they repeat after eleven."""
    return ARMS[index % len(ARMS)]


def arm_colours(count: int) -> list[str]:
    """Colours of so many arms: the palette's, or where they are too many for it a ramp through it,
    so that no two are alike and neighbours look related."""
    if count <= len(ARMS):
        return list(ARMS[:count])
    stops = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in RAMP]
    colours = []
    for place in range(count):
        at = place / (count - 1) * (len(stops) - 1)
        low = min(int(at), len(stops) - 2)
        parts = zip(stops[low], stops[low + 1], strict=True)
        colours.append("#" + "".join(f"{round(a + (at - low) * (b - a)):02X}" for a, b in parts))
    return colours


def kind_colour(colours: Mapping[str, str], kind: str) -> str:
    """The colour of a kind; a neutral one where the table does not name it."""
    return colours.get(kind, NEUTRAL)


def theme(dark: bool = False) -> dict[str, Any]:
    """The Vega-Lite configuration of every figure: `theme.json` with the colours put in."""
    ink, soft, grid = ("#E6E9EE", "#A3ACB9", LATE) if dark else (INK, SOFT, "#E6E9EE")
    text = (resources.files("grokscope.draw") / "theme.json").read_text(encoding="utf-8")
    for name, value in {"ink": ink, "soft": soft, "grid": grid, "font": FONT}.items():
        text = text.replace(f'"{{{name}}}"', json.dumps(value))
    heat = HEAT_DARK if dark else HEAT
    ground = "transparent" if dark else "#FFFFFF"
    return {**json.loads(text), "background": ground, "range": {"heatmap": heat}}
