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


_TEXT = (resources.files("grokscope.draw") / "measures.toml").read_text(encoding="utf-8")
MEASURES = {column: Measure(**entry) for column, entry in tomllib.loads(_TEXT).items()}


def measure_of(column: str) -> Measure:
    """The entry of a column; one made from its name where the glossary has none."""
    words = column.replace("_", " ")
    return MEASURES.get(column) or Measure(words, words.capitalize(), brief=words)


def columns() -> dict[str, str]:
    """Every column of the tables of runs and curves, and what it is."""
    found = {**TABLE, **{name: m.definition for name, m in MEASURES.items() if m.definition}}
    for cell, where in CELLS.items():
        found |= {f"{cell}_{name}": f"{what}, {where}." for name, what in SCORES.items()}
        for name, what in (SCORES | UNCERTAINTY).items():
            found[f"{cell}_posterior_{name}"] = f"{what} under draws of the weights, {where}."
    for kind in KINDS.values():
        for name, text in help_of(kind).items():
            found.setdefault(name.replace(".", "_"), f"Field {name}: {text}")
    return found


TABLE = {
    "run": "Name of the run: 16 digits of the hash of its spec.",
    "status": "finished, failed (a number was no longer finite) or partial (no outcome yet).",
    "started": "When its training started (UTC).",
    "name": "The name that somebody gave it.",
    "tags": "Its tags, separated by spaces.",
    "note": "The note that somebody wrote about it.",
    "epochs": "The last epoch that it reached.",
    "epoch": "Of a row: how many updates had been made.",
    "memorised": "The epoch from which training accuracy stays at its threshold; null if never.",
    "grokked": "The epoch from which test accuracy stays at its threshold; null if never.",
    "reached": "Runs of kind incontext: from when known tasks on new inputs are right.",
    "carried": "Runs of kind incontext: from when new tasks on known inputs are right.",
    "fitted": "Runs of kind fields: from when train_error stays below its threshold.",
    "generalised": "Runs of kind fields: from when test_error stays below its threshold.",
    "attention": "Attention at each position where the answer is read, mean over heads and inputs.",
    "mass_by_head": "Attention of each head on all informative positions, mean over inputs.",
    "frequencies": "The Fourier frequencies with most power in the embedding, largest first.",
    "train_error": "Runs of kind fields: error of the predicted mean, in deviations of the means.",
    "test_error": "The same on initial conditions that were not trained on.",
    "spread_error": "Runs of kind fields: relative error of the predicted standard deviation.",
}
CELLS = {  # of runs of kind incontext
    "id_train": "known tasks and known inputs",
    "id_val": "known tasks and new inputs",
    "ood_train": "new tasks and known inputs",
    "ood_val": "new tasks and new inputs",
}
SCORES = {
    "accuracy": "Share of right answers to the last question",
    "accuracy_everywhere": "Share of right answers to all questions",
    "log_likelihood": "Mean log-likelihood of the right answer",
    "ece": "Expected calibration error",
    "entropy": "Entropy of the prediction in nats",
}
UNCERTAINTY = {
    "tu": "Total uncertainty, the entropy of the mean prediction in nats",
    "au": "Aleatoric uncertainty, the mean entropy of single predictions in nats",
    "eu": "Epistemic uncertainty, total minus aleatoric, in nats",
    "eu_corrected": "Epistemic uncertainty, freed of the error of few draws, in nats",
}
