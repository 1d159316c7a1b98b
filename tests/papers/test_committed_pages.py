"""The committed pages, and the README's table, are what the committed tables give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grokscope.claims.evidence import read_frames
from grokscope.claims.reproduction import read_all
from grokscope.pages import paper as page
from grokscope.pages.book import Book
from grokscope.papers.structural_inference import theory_page
from grokscope.papers.structural_inference.paper import PAPER
from grokscope.papers.structural_inference.theory import STATEMENTS

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def tables():
    return read_all(PAPER, ROOT / "results")


def test_the_paper(tables, monkeypatch):
    """Except for the drawings, whose layout depends on the fonts of the machine."""
    book = Book.read(PAPER, tables)
    committed = (DOCS / f"{PAPER.name}.md").read_text()
    assert committed == page.render_markdown(book)
    for study in PAPER.studies:
        for claim in study.claims:
            for cell in book.cells(study, claim):
                assert claim.says in committed
                assert f"**{cell.ruling}**" in committed
    text = (ROOT / "README.md").read_text()
    assert f"{page.BEGIN}\n{page.verdict_table(PAPER, tables)}{page.END}" in text
    for part in book.parts():
        drawn = (DOCS / part.figure).read_text() if part.panels else ""
        assert all(panel.title.capitalize() in drawn for panel in part.panels)
    monkeypatch.setattr(page, "_inline", lambda panel, prefix: "<svg></svg>")
    html = (DOCS / f"{PAPER.name}.html").read_text()
    blank = re.sub(r"<svg.*?</svg>", "<svg></svg>", html, flags=re.DOTALL)
    assert blank == page.render_html(book)
    # Five seeds for every figure that is shown, three for the map, at laptop scale; none missing.
    assert set(PAPER.select(["main"])) <= set(book.shown)
    for study in book.shown:
        for sample in tables["laptop"].evidence(study, "laptop").samples.values():
            for arm in sample.arms.values():
                assert len(arm.rows) == (3 if study.name == "map" else 5)
                assert not arm.missing, (study.name, arm.name)


def test_the_theory():
    frames, about = read_frames(ROOT / "results" / "theory")
    text, figures = theory_page.render(frames, about)
    assert (DOCS / "theory.md").read_text() == text
    for statement in STATEMENTS:  # each met real runs
        checks = frames["certificates"].filter(statement=statement.number)
        assert f"of {len(checks.filter(name=checks['name'][0]))} checks" in text
    linked = re.findall(r"\]\(figures/([^)]+)\)", text)
    assert set(linked) == set(figures)
    assert all((DOCS / "figures" / name).exists() for name in linked)
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


def test_the_words_of_the_theory_follow_the_numbers():
    """A population in which the condition separates perfectly is described as such."""
    import polars as pl

    frames, _ = read_frames(ROOT / "results" / "theory")
    vague, sharp = (
        frames["population"],
        frames["population"].with_columns(
            pl.lit(0.1).alias("tau"),
            pl.when("generalised").then(0.4).otherwise(0.01).alias("weakest_min"),
            pl.col("generalised").alias("structural_condition"),
        ),
    )
    pairs = frames["certificates"].filter(name="pair necessity")

    def told(table):
        columns = (table[name].to_numpy() for name in ("structural_condition", "generalised"))
        return theory_page._state_sharpness(table, *columns, pairs)

    assert "as the theorem demands" in told(sharp)
    assert "close to vacuous" not in told(sharp)
    assert "close to vacuous" in told(vague)
