"""Words from `prose.toml`: phrases, numbers, and claims that several studies judge."""

from __future__ import annotations

import pytest

from grokscope.claims.judgements import Share
from grokscope.claims.prose import Prose
from grokscope.errors import SpecError

TEXT = """
[phrases]
DOTS = "One dot per seed."

[paper]
name = "tiny"

[studies.first]
source = "Figure 1"
title = "First"
paper_says = "It works."
how = "With {COUNT} runs."
caption = "{DOTS} Then curves."

[studies.first.claims]
works = "It works."
fast = "It is fast."

[studies.again]
source = "Beyond the paper"
title = "Again"
paper_says = "Nothing."
how = "As before."
questions_of = "first"

[studies.again.questions]
fast = "Is it fast, too?"
often = "Does it often work?"

[studies.page]
source = "Beyond the paper"
title = "A page"
paper_says = "Nothing."
how = "Without claims."
"""
TEST = Share("arm", "most")
PARTS = {"settings": lambda scale: [], "arms": lambda setting, seed: {}}


@pytest.fixture
def prose(tmp_path, monkeypatch):
    monkeypatch.setattr("grokscope.claims.prose.resources.files", lambda package: tmp_path)
    (tmp_path / "prose.toml").write_text(TEXT, encoding="utf-8")
    return Prose.read("tiny")


def test_phrases_and_numbers_are_filled_in(prose):
    study = prose.study("first", {"fast": TEST, "works": TEST}, numbers={"COUNT": 5}, **PARTS)
    assert study.how == "With 5 runs."
    assert study.caption == "One dot per seed. Then curves."
    assert [claim.name for claim in study.claims] == ["fast", "works"]  # as the tests are ordered


def test_claims_of_another_study_keep_their_sentences(prose):
    study = prose.study("again", {"often": TEST, "works": TEST, "fast": TEST}, **PARTS)
    assert [(claim.name, claim.says, claim.ours) for claim in study.claims] == [
        ("often", "Does it often work?", True),
        ("works", "It works.", True),
        ("fast", "Is it fast, too?", True),
    ]
    fewer = prose.study("again", {"often": TEST, "fast": TEST}, **PARTS)  # not all of them
    assert len(fewer.claims) == 2


def test_a_study_with_a_page_of_its_own(prose):
    parts = {**PARTS, "tabulate": lambda runs, store: {}, "render": lambda tables, about: ("", {})}
    annex = prose.annex("page", runs=False, **parts)
    assert (annex.name, annex.title, annex.claims, annex.runs) == ("page", "A page", (), False)


@pytest.mark.parametrize("names", [["often"], ["often", "fast", "slow"]])
def test_tests_and_sentences_have_to_match(prose, names):
    with pytest.raises(SpecError, match="without a sentence"):
        prose.study("again", dict.fromkeys(names, TEST), **PARTS)
