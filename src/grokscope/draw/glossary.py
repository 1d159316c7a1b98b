"""The measures of `measures.toml`: what each is called, how it is written and drawn, what it means.

Charts, pages and the terminal all look here. A column that is not listed, such as a measure of the
user's own, is called by its name and drawn on an axis that fits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grokscope.draw import theme
from grokscope.spec import KINDS
from grokscope.spec.fields import help_of

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


MEASURES = {column: Measure(**entry) for column, entry in theme.read_toml("measures.toml").items()}


def measure_of(column: str) -> Measure:
    """The entry of a column; one made from its name where the glossary has none."""
    words = column.replace("_", " ")
    return MEASURES.get(column) or Measure(words, words.capitalize(), brief=words)


def columns() -> dict[str, str]:
    """Every column of the tables of runs and curves, and what it is."""
    words = theme.read_toml("columns.toml")
    found = words["table"] | {name: m.definition for name, m in MEASURES.items() if m.definition}
    scores, drawn = words["scores"], words["scores"] | words["uncertainty"]
    for cell, where in words["cells"].items():
        found |= {f"{cell}_{name}": f"{what}, {where}." for name, what in scores.items()}
        for name, what in drawn.items():
            found[f"{cell}_posterior_{name}"] = f"{what} under draws of the weights, {where}."
    for kind in KINDS.values():
        for name, text in help_of(kind).items():
            found.setdefault(name.replace(".", "_"), f"Field {name}: {text}")
    return found
