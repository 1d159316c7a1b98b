"""The measures of `measures.toml`: what each is called, how it is written and drawn, what it means.

Charts, pages and the terminal all look here. A column that is not listed, such as a measure of the
user's own, is called by its name and drawn on an axis that fits it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from grokscope.draw import theme

Scale = Literal["share", "log", "zero", "free"]


@dataclass(frozen=True)
class Measure:
    """A column of a curve; `measures.toml` explains the fields."""

    label: str
    axis: str
    scale: Scale = "free"
    format: str = ".4~g"
    colour: str = theme.ARMS[5]
    brief: str = ""
    band: bool = True
    name: str = ""
    definition: str = ""

    @property
    def noun(self) -> str:
        return self.name or self.label


_TEXT = (resources.files("grokscope.draw") / "measures.toml").read_text(encoding="utf-8")
MEASURES = {column: Measure(**entry) for column, entry in tomllib.loads(_TEXT).items()}


def measure_of(column: str) -> Measure:
    """The entry of a column; one made from its name where the glossary has none."""
    words = column.replace("_", " ")
    return MEASURES.get(column) or Measure(words, words.capitalize(), brief=words)
