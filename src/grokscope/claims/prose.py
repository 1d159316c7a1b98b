"""What stands beside the code of a paper. In `prose.toml` its words: what the paper says, what we
did, captions, the sentence of every claim. In `settings.toml` what its runs have in common. The
code of a study has what is computed: arms and tests."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any

from grokscope.claims.studies import Annex, Claim, Paper, Study, Test
from grokscope.errors import SpecError
from grokscope.spec.fields import flatten

FILE = "prose.toml"


def read_toml(package: str, name: str) -> dict[str, Any]:
    """A file of data in the folder of a package."""
    return tomllib.loads((resources.files(package) / name).read_text(encoding="utf-8"))


def read_settings(package: str) -> dict[str, dict[str, Any]]:
    """The tables of `settings.toml`, each with the fields of a spec by path: "task.modulus"."""
    tables = read_toml(package, "settings.toml")
    return {name: dict(flatten(table)) for name, table in tables.items()}


@dataclass(frozen=True)
class Prose:
    """`[paper]` has the words of the paper itself. `[studies.<name>]` has those of a study, and
    whether it stands in the appendix; `claims` in it are the paper's, `questions` are ours, each a
    name and a sentence. A study that judges claims of another study as well names it in
    `claims_of`, or in `questions_of` if the paper does not claim them there; their sentences are
    only written once. `reading` in it has what its tables say, and `[answers]` what the page says
    first, with `{NAME}` where the tables have a number. `[phrases]`, if there are any, replace
    `{NAME}` in the other words of every study."""

    package: str
    paper_words: Mapping[str, Any]
    study_words: Mapping[str, Mapping[str, Any]]
    phrases: Mapping[str, str]
    answers: Mapping[str, Any]

    @classmethod
    def read(cls, package: str) -> Prose:
        data = read_toml(package, FILE)
        parts = (data["paper"], data["studies"], data.get("phrases", {}), data.get("answers", {}))
        return cls(package, *map(_unwrap, parts))

    def paper(self, **parts: Any) -> Paper:
        return Paper(**self.paper_words, **parts)

    def studies(self, *modules: str) -> tuple[Study, ...]:
        """The `STUDY` of each of these modules, or its `STUDIES`, in the order of the words."""
        found = [import_module(f"{self.package}.{name}") for name in modules]
        every = [study for one in found for study in getattr(one, "STUDIES", ()) or (one.STUDY,)]
        order = list(self.study_words)
        return tuple(sorted(every, key=lambda study: order.index(study.name)))

    def study(
        self,
        name: str,
        tests: Mapping[str, Test],
        numbers: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Study:
        """A study with its words and with a test for each of its claims, in this order. `numbers`
        replace `{NAME}` in the words, so that they follow the code."""
        words = self._borrow(self.study_words[name], tests)
        words.pop("reading", None)
        if values := {**self.phrases, **(numbers or {})}:
            words = _fill(words, values)
        claims, questions = words.pop("claims"), words.pop("questions")
        if odd := (claims | questions).keys() ^ tests.keys():
            raise SpecError(f"{name}: a test without a sentence in {FILE}, or the reverse: {odd}.")
        judged = (
            Claim(claim, (claims | questions)[claim], test, ours=claim in questions)
            for claim, test in tests.items()
        )
        return Study(name=name, claims=tuple(judged), **{**words, **parts})

    def reading(self, name: str) -> Mapping[str, str]:
        """Sentences for the `read` of a study, which fills in what its tables have."""
        return self.study_words[name]["reading"]

    def annex(self, name: str, **parts: Any) -> Annex:
        """A study with a page of its own; it judges nothing."""
        return Annex(name=name, **self.study_words[name], **parts)

    def _borrow(self, words: Mapping[str, Any], tests: Mapping[str, Test]) -> dict[str, Any]:
        """The words of a study, with the sentences of those claims of another study that it has a
        test for. A sentence of its own counts more."""
        whole: dict[str, Any] = {"claims": {}, "questions": {}, **words}
        for kind in ("claims", "questions"):
            if other := whole.pop(f"{kind}_of", None):
                lent = self.study_words[other]["claims"]
                whole[kind] = {claim: lent[claim] for claim in lent if claim in tests} | whole[kind]
        return whole


def _unwrap(value: Any) -> Any:
    """Paragraphs without the line breaks of the file."""
    if isinstance(value, str):
        return re.sub(r"[ \n]+", " ", value).strip(" ")
    if isinstance(value, list):
        return tuple(map(_unwrap, value))
    return {key: _unwrap(each) for key, each in value.items()} if isinstance(value, dict) else value


def _fill(value: Any, numbers: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return value.format(**numbers)
    if isinstance(value, dict):
        return {key: _fill(each, numbers) for key, each in value.items()}
    return value
