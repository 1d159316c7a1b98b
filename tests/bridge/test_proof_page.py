"""The page on the small GPT-2 is what its tables give."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from examples import gpt2_modular


@pytest.fixture(scope="module")
def tables():
    return gpt2_modular.read_tables()


def test_the_page_is_what_the_tables_give(tables):
    _, outcomes, about = tables
    assert (ROOT / "docs" / "bridge.md").read_text() == gpt2_modular.render(outcomes, about)
    assert (ROOT / "docs" / "figures" / "bridge-gpt2.svg").exists()


def test_tables_are_whole(tables):
    curves, outcomes, _ = tables
    runs = sum(2 * len(seeds) for _, seeds in gpt2_modular.SETTINGS)
    assert len(outcomes) == runs
    last = curves.filter(pl.col("epoch") == gpt2_modular.STEPS)
    assert len(last) == runs
    both = outcomes.join(last, on=["distractors", "arm", "seed"])
    assert (both["test_accuracy"] - both["test_accuracy_right"]).abs().max() == 0


def test_the_words_follow_the_numbers(tables):
    _, outcomes, about = tables
    plain = pl.col("arm") == "no prior"
    worse = outcomes.with_columns(pl.when(plain).then(100).otherwise(None).alias("grokked"))
    text = gpt2_modular.render(worse, about)
    assert text.count("The prior does not help here.") == len(gpt2_modular.SETTINGS)
    equal = outcomes.with_columns(pl.lit(None, pl.Int64).alias("grokked"))
    assert "No difference is seen." in gpt2_modular.render(equal, about)


def test_sentences_are_right():
    tokens, train, test = gpt2_modular.make_sentences(2, 0)
    assert ((tokens[:, 0] + tokens[:, 2]) % 23 == tokens[:, 5]).all()
    assert tokens[:, [1, 3]].max() == 1
    assert sorted([*train, *test]) == list(range(23**2))
