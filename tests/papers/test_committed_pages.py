"""The committed pages of all papers, and the README, are what the committed tables give."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from grokscope.claims.evidence import read_frames
from grokscope.claims.reproduction import read_all, survey
from grokscope.pages import paper as page
from grokscope.pages.book import Book
from grokscope.papers import PAPERS, find_paper
from grokscope.papers.structural_inference import theory_page
from grokscope.papers.structural_inference.theory import STATEMENTS
from grokscope.store import Store

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
# Papers of which no laptop run is missing.
COMPLETE = ("structural-inference", "martingale-operators")


@pytest.fixture(scope="module", params=[n for n in PAPERS if (ROOT / "results" / n).exists()])
def book(request):
    paper = find_paper(request.param)
    return Book.read(paper, read_all(paper, ROOT / "results"))


def test_the_paper(book, monkeypatch):
    """Except for the drawings, whose layout depends on the fonts of the machine."""
    paper = book.paper
    committed = (DOCS / f"{paper.name}.md").read_text()
    assert committed == page.render_markdown(book)
    for study in paper.studies:
        for claim in study.claims:
            for cell in book.cells(study, claim):
                assert page.plain(claim.says) in committed
                assert f"**{cell.ruling}**" in committed
    text = (ROOT / "README.md").read_text()
    begin, end = page.marks(paper)
    assert f"{begin}\n{page.verdict_table(paper, book.tables)}{end}" in text
    for part in book.parts():
        drawn = unescape((DOCS / part.figure).read_text()) if part.panels else ""
        assert all(panel.heading in drawn for panel in part.panels)
    monkeypatch.setattr(page, "_inline", lambda panel, prefix: "<svg></svg>")
    html = (DOCS / f"{paper.name}.html").read_text()
    blank = re.sub(r"<svg.*?</svg>", "<svg></svg>", html, flags=re.DOTALL)
    assert blank == page.render_html(book)
    # At laptop scale every figure that is shown has all the seeds that it asks for, or says that it
    # has not.
    main = set(paper.select(["main"])) & set(paper.studies)
    assert main <= {*book.shown, *book.waiting}
    begun = book.tables["laptop"].about["seeds"] if "laptop" in book.tables else {}
    for study in (study for study in book.shown if study.name in begun):
        part = book.studies[study.name].get("laptop")
        if part is None or not part.missing:
            arms = (
                [a for s in part.evidence.samples.values() for a in s.arms.values()] if part else []
            )
            enough = all(len(arm.rows) >= len(study.seeds_at("laptop")) for arm in arms)
            assert enough or paper.name not in COMPLETE, study.name
            continue
        assert paper.name not in COMPLETE, study.name
        total = len(part.rows) + part.missing
        assert f"{len(part.rows)} of {total} runs" in committed or not part.rows
        for claim in study.claims:
            for regime, sample in part.evidence.samples.items():
                if any(
                    sample.arms[n].missing for n in claim.test.needs(sample) if n in sample.arms
                ):
                    assert part.evidence.findings(claim)[regime].ruling == "not run"


def test_annexes_have_names_of_their_own():
    """Their tables and pages stand beside those of other papers."""
    names = [annex.name for name in PAPERS for annex in find_paper(name).annexes]
    assert len({*names, *PAPERS}) == len(names) + len(PAPERS)


def test_nothing_that_the_committed_tables_have_is_trained_again(book, tmp_path):
    """What is shown is whole or known not to be, and the tables are of these runs."""
    store = Store(tmp_path)
    for scale, tables in book.tables.items():
        known = [study for study in book.paper.studies if study.name in tables.about["seeds"]]
        annexes = book.paper.annexes if scale == "laptop" else ()
        work = survey([*known, *annexes], scale, None, store, tables, ROOT / "results")
        again = {spec.id for spec in work.left} & tables.by_id.keys()
        assert not again
        assert not work.left or book.paper.name not in COMPLETE


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

    frames, about = read_frames(ROOT / "results" / "theory")
    population = frames["population"].with_columns(
        pl.lit(0.1).alias("tau"),
        pl.when("generalised").then(0.4).otherwise(0.01).alias("weakest_min"),
        pl.col("generalised").alias("structural_condition"),
    )
    sharp, _ = theory_page.render({**frames, "population": population}, about)
    vague, _ = theory_page.render(frames, about)
    assert "as the theorem demands" in sharp
    assert "close to vacuous" not in sharp
    assert "close to vacuous" in vague
