"""The fifteen statements of the paper in words, and the functions that compute them."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from types import FunctionType
from typing import NamedTuple

from grokscope.papers.structural_inference import theory


class Statement(NamedTuple):
    """One statement."""

    number: int
    key: str
    title: str
    sentence: str  # for a newcomer
    formula: str  # LaTeX
    reference: str
    unwatched: str = ""  # why it cannot be checked on any model of the user's own

    @property
    def functions(self) -> dict[str, FunctionType]:
        """By name, those whose documentation begins with the statement's number."""
        begins = re.compile(rf"Statement {self.number}\b")
        return {
            name: function
            for name, function in vars(theory).items()
            if isinstance(function, FunctionType) and begins.match(function.__doc__ or "")
        }

    @property
    def corrections(self) -> dict[str, str]:
        """Where a function differs from the paper, in the words of its documentation."""
        told = {
            n: (f.__doc__ or "").partition("Differs from the paper: ")
            for n, f in self.functions.items()
        }
        return {name: " ".join(text.split()) for name, (_, found, text) in told.items() if found}


_TEXT = (resources.files(__package__) / "statements.toml").read_text(encoding="utf-8")
STATEMENTS = tuple(
    Statement(entry.pop("number"), **{name: " ".join(text.split()) for name, text in entry.items()})
    for entry in tomllib.loads(_TEXT)["statement"]
)
