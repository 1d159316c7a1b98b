"""How every figure looks: one palette (`colours.toml`), a configuration for light and dark pages.

Colours follow Okabe and Ito's colour-blind-safe set, with lightness as a second cue. They are
readable on white and on near-black, so only text, axes and grid differ between the two.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any


def read_text(name: str) -> str:
    return (resources.files("grokscope.draw") / name).read_text(encoding="utf-8")


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(read_text(name))


FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
COLOURS = read_toml("colours.toml")
TRAIN, TEST, ARMS, RAMP = (COLOURS[name] for name in ("train", "test", "arms", "ramp"))
PHASES, NEUTRAL = COLOURS["phases"], COLOURS["neutral"]
PRIORS, OPTIMISERS = (
    {kind: ARMS[place] for kind, place in COLOURS[kinds].items()}
    for kinds in ("priors", "optimisers")
)
INK, SOFT = COLOURS["light"]["ink"], COLOURS["light"]["soft"]
PALE, LATE = COLOURS["pale"], COLOURS["dark"]["grid"]
BAND_OPACITY, PHASE_OPACITY = 0.18, 0.2


def arm_colour(index: int) -> str:
    """The colour of an arm by its place; they repeat after eleven."""
    return ARMS[index % len(ARMS)]


def arm_colours(count: int) -> list[str]:
    """Colours of so many arms: the palette's, or where they are too many for it a ramp through it,
    so that no two are alike and neighbours look related."""
    if count <= len(ARMS):
        return list(ARMS[:count])
    import numpy as np  # a listing of runs does without

    stops = np.array([[*bytes.fromhex(colour[1:])] for colour in RAMP])  # (stops, 3)
    places = np.arange(count) / (count - 1) * (len(RAMP) - 1)
    mixed = [np.interp(places, np.arange(len(RAMP)), channel) for channel in stops.T]
    return [f"#{round(r):02X}{round(g):02X}{round(b):02X}" for r, g, b in zip(*mixed, strict=True)]


def kind_colour(colours: Mapping[str, str], kind: str) -> str:
    """The colour of a kind; a neutral one where the table does not name it."""
    return colours.get(kind, NEUTRAL)


def theme(dark: bool = False) -> dict[str, Any]:
    """The Vega-Lite configuration of every figure: `theme.json` with the colours put in."""
    look = COLOURS["dark" if dark else "light"]
    text = read_text("theme.json")
    for name, value in {**look, "font": FONT}.items():
        text = text.replace(f'"{{{name}}}"', json.dumps(value))
    return {**json.loads(text), "background": look["ground"], "range": {"heatmap": look["heat"]}}
