"""The committed page is what the committed tables give."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from grokscope.papers.structural_inference import theory_page
from grokscope.papers.structural_inference.theory import STATEMENTS

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "theory"


@pytest.fixture(scope="module")
def tables():
    return (
        pl.read_parquet(RESULTS / theory_page.POPULATION),
        pl.read_parquet(RESULTS / theory_page.CERTIFICATES),
        json.loads((RESULTS / theory_page.ABOUT).read_text()),
    )


def test_the_page_is_what_the_tables_give(tables):
    assert (ROOT / "docs" / "theory.md").read_text() == theory_page.render(*tables)


def test_links_and_figures_exist(tables):
    text = theory_page.render(*tables)
    figures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(figures) >= 12
    for figure in figures:
        assert (ROOT / "docs" / figure).exists(), figure
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert anchor in headings


def test_every_statement_met_real_runs(tables):
    population, certificates, _ = tables
    assert set(certificates["statement"]) == {s.number for s in STATEMENTS}
    assert len(population) >= 60
    assert 0 < population["generalised"].mean() < 1


def test_the_words_follow_the_numbers(tables):
    """A population in which the condition separates perfectly is described as such."""
    population, certificates, about = tables
    sharp = population.with_columns(
        pl.lit(0.1).alias("tau"),
        pl.when("generalised").then(0.4).otherwise(0.01).alias("weakest_min"),
        pl.col("generalised").alias("structural_condition"),
    )
    text = theory_page.render(sharp, certificates, about)
    assert "as the theorem demands" in text
    assert "close to vacuous" not in text
