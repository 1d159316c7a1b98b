"""The committed pages, and the README's table, are what the committed tables give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grokscope.claims.reproduction import find_paper, read_all
from grokscope.pages import paper as page
from grokscope.pages.book import Book

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAPER = find_paper("structural-inference")


@pytest.fixture(scope="module")
def tables():
    return read_all(PAPER, ROOT / "results")


@pytest.fixture(scope="module")
def book(tables):
    return Book.read(PAPER, tables)


def test_markdown(book):
    assert (DOCS / f"{PAPER.name}.md").read_text() == page.render_markdown(book)


def test_html(book, monkeypatch):
    """But for the drawings, whose layout depends on the fonts of the machine."""
    monkeypatch.setattr(page, "_inline", lambda panel, prefix: "<svg></svg>")
    committed = (DOCS / f"{PAPER.name}.html").read_text()
    drawn = re.sub(r"<svg.*?</svg>", "<svg></svg>", committed, flags=re.DOTALL)
    assert drawn == page.render_html(book)


def test_figures(book):
    for part in book.parts():
        if part.panels:
            text = (DOCS / part.figure).read_text()
            for panel in part.panels:
                assert panel.title.capitalize() in text


def test_readme(tables):
    text = (ROOT / "README.md").read_text()
    assert f"{page.BEGIN}\n{page.verdict_table(PAPER, tables)}{page.END}" in text


def test_enough_seeds(book, tables):
    """Five seeds for every figure that is shown, three for the map, at laptop scale; nothing
    missing there. All main figures are shown."""
    assert "laptop" in tables
    assert {study.name for study in PAPER.select(["main"])} <= {s.name for s in book.shown}
    for study in book.shown:
        part = book.studies[study.name]["laptop"]
        for sample in part.evidence.samples.values():
            for arm in sample.arms.values():
                assert len(arm.rows) == (3 if study.name == "map" else 5)
                assert arm.complete, (study.name, arm.name)
