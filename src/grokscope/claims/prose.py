"""The words of a paper, in `prose.toml` beside its code: what the paper says, what we did,
captions, the sentence of every claim. The code of a study has what is computed: arms and tests."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from grokscope.claims.studies import Claim, Paper, Study, Test
from grokscope.errors import SpecError

FILE = "prose.toml"


@dataclass(frozen=True)
class Prose:
    """`[paper]` has the words of the paper itself. `[studies.<name>]` has those of a study;
    `claims` in it are the paper's, `questions` are ours, each a name and a sentence."""

    paper_words: Mapping[str, Any]
    study_words: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, package: str) -> Prose:
        data = tomllib.loads((resources.files(package) / FILE).read_text(encoding="utf-8"))
        return cls(_unwrap(data["paper"]), _unwrap(data["studies"]))

    def paper(self, **parts: Any) -> Paper:
        return Paper(**self.paper_words, **parts)

    def study(
        self,
        name: str,
        tests: Mapping[str, Test],
        numbers: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Study:
        """A study with its words and with a test for each of its claims, in this order. `numbers`
        replace `{NAME}` in the words, so that they follow the code."""
        words = dict(_fill(self.study_words[name], numbers) if numbers else self.study_words[name])
        claims, questions = words.pop("claims", {}), words.pop("questions", {})
        if odd := (claims | questions).keys() ^ tests.keys():
            raise SpecError(f"{name}: a test without a sentence in {FILE}, or the reverse: {odd}.")
        judged = (
            Claim(claim, (claims | questions)[claim], test, ours=claim in questions)
            for claim, test in tests.items()
        )
        return Study(name=name, claims=tuple(judged), **{**words, **parts})


def _unwrap(value: Any) -> Any:
    """Paragraphs without the line breaks of the file."""
    if isinstance(value, str):
        return re.sub(r"[ \n]+", " ", value).strip(" ")
    if isinstance(value, list):
        return tuple(map(_unwrap, value))
    return {key: _unwrap(each) for key, each in value.items()}


def _fill(value: Any, numbers: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return value.format(**numbers)
    return {key: _fill(each, numbers) for key, each in value.items()}
