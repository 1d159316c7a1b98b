"""The page of a paper: complete, closed to gaps, self-contained, always the same."""

from __future__ import annotations

import dataclasses
import math
import re

import polars as pl
import pytest

import tiny_paper
from grokscope.claims.evidence import Tables
from grokscope.claims.judgements import Faster, Level, Share
from grokscope.claims.studies import Claim, plan
from grokscope.claims.verdicts import Estimate
from grokscope.errors import SpecError
from grokscope.pages import paper as page
from grokscope.pages.book import state_effect

PAPER = tiny_paper.PAPER
FASTER = Claim("faster", "It is faster.", Faster("a", "b", least=1.25))


def make_tables(scale="laptop", seeds=5, lacking=None, paper=PAPER):
    """Runs without a prior grok at 80 and never in turn, runs with one at 20. `lacking` says which
    planned runs to leave out."""
    items = {item.spec.id: item for item in plan(paper.studies, scale, seeds)}
    rows = [
        {
            "run": name,
            "seed": item.seed,
            "status": "finished",
            "epochs": 100,
            "memorised": 10,
            "grokked": 20 if item.spec.prior.kind == "oracle" else (80, None)[item.seed % 2],
            "seconds": 60.0,
            "commit": "abc1234",
            "test_accuracy": 1.0,
        }
        for name, item in items.items()
        if lacking is None or not lacking(item)
    ]
    about = {"seeds": {study.name: seeds for study in paper.studies}, "versions": {"jax": "1.2"}}
    return Tables(pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(), about)


def render(paper=PAPER, **tables):
    book = page.Book.read(paper, tables)
    return page.render_markdown(book), page.render_html(book)


@pytest.fixture(scope="module")
def texts():
    """Markdown and HTML of five seeds at laptop scale."""
    return render(laptop=make_tables())


def test_every_claim_has_its_row_with_verdict_effect_interval_and_seeds(texts):
    """Three of five seeds grok without a prior; with one they take a quarter of the epochs."""
    markdown, html = texts
    for study in PAPER.studies:
        for claim in study.claims:
            for text in (markdown, html):
                assert claim.says in text
                assert claim.test.effect in text
                assert claim.test.describe() in text
    rows = {
        line.split("|")[1].split("<br>")[0].strip(): line
        for line in markdown.splitlines()
        if line.startswith("|")
    }
    assert re.search(r"inconclusive.*60 % \(19 to 92 %\).*5", rows["It groks."])
    assert re.search(r"supported.*4 \(.*4.*\).*5", rows["The prior is faster."])
    for word in ("supported", "inconclusive"):
        assert word in html
    for text in (*PAPER.deviations, *PAPER.revisions, *PAPER.glossary.values()):
        assert text in markdown
        assert text in html


def test_the_brief_table_renews_a_readme(tmp_path):
    tables = {"laptop": make_tables()}
    brief = page.verdict_table(PAPER, tables)
    assert "60 % (19 to 92 %)" in brief
    readme = tmp_path / "README.md"
    readme.write_text(f"# Mine\n\n{page.BEGIN}\nold\n{page.END}\n\nMore.\n")
    page.renew(readme, PAPER, tables)
    assert readme.read_text() == f"# Mine\n\n{page.BEGIN}\n{brief}{page.END}\n\nMore.\n"
    page.renew(readme, PAPER, tables)  # and again
    assert readme.read_text().count(brief) == 1
    readme.write_text("# Mine\n")
    with pytest.raises(SpecError, match="needs the two lines"):
        page.renew(readme, PAPER, tables)


def test_a_missing_run_takes_the_verdict_away():
    tables = make_tables(lacking=lambda i: i.spec.prior.kind == "oracle" and i.seed == 3)
    for text in render(laptop=tables):
        table = text[: text.index("The second question")]
        assert "not run" in text
        assert not re.search(r"\*\*supported|chip supported", table)
        assert "9 of 10 runs" in text


def test_smoke_is_shown_only_where_there_is_nothing_larger():
    smoke = make_tables("smoke", 1)
    alone, _ = render(smoke=smoke)
    assert "smoke, constant" in alone
    both, _ = render(smoke=smoke, laptop=make_tables())
    assert "smoke" not in both


def test_the_page_needs_nothing_else(texts):
    _, html = texts
    assert not re.search(r"<(script|link|img|iframe)\b", html)
    assert not re.search(r"""(src|href)=["'](?!#)""", html)
    assert "@import" not in html
    assert set(re.findall(r"https?://[^\s\"'<]+", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "<svg" in html
    names = re.findall(r'\bid="([^"]+)"', html)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(names)


def test_text_is_escaped():
    first, second = PAPER.studies
    odd = dataclasses.replace(first.claims[0], says="Is a < b | c & <script>alert(1)</script>?")
    paper = dataclasses.replace(PAPER, studies=(dataclasses.replace(first, claims=(odd,)), second))
    markdown, html = render(paper, laptop=make_tables())
    assert "<script>" not in html
    assert "<script>" not in markdown
    row = next(line for line in markdown.splitlines() if line.startswith("| Is a"))
    assert "\\| c" in row


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(2.1, 1.6, 3.0, 5), "2.1 (1.6 to 3)"),
        (Estimate(2.1, 1.6, math.inf, 5), "2.1 (at least 1.6)"),
        (
            Estimate(math.inf, 1.8, math.inf, 5),
            "at least 1.8: the slower arm's median is never reached",
        ),
        (Estimate(math.inf, math.inf, math.inf, 5), "the slower arm's median is never reached"),
        (Estimate(math.inf, -math.inf, math.inf, 1), "the slower arm's median is never reached"),
        (
            Estimate(0.0, 0.0, 0.7, 5),
            "at most 0.7: the median of the arm that ought to be faster is never reached",
        ),
        (
            Estimate(0.0, 0.0, 0.0, 5),
            "the median of the arm that ought to be faster is never reached",
        ),
        (Estimate(math.nan, -math.inf, math.inf, 5), "neither median is reached"),
        (Estimate(1.5, -math.inf, math.inf, 1), "1.5 (no interval)"),
    ],
)
def test_speed_ups_read_well(estimate, text):
    assert state_effect(FASTER, estimate) == text


def test_other_effects_read_well():
    share = Claim("share", "They grok.", Share("a", "most"))
    assert state_effect(share, Estimate(0.8, 0.34, 0.99, 5)) == "80 % (34 to 99 %)"
    level = Claim("level", "It is high.", Level("a", "x", "height", low=1))
    assert state_effect(level, Estimate(3.0, -math.inf, 4.0, 5)) == "3 (at most 4)"
    assert state_effect(level, None) == ""


def test_pages_come_out_the_same(tmp_path):
    tables = {"laptop": make_tables()}
    first = page.write(PAPER, tables, tmp_path / "first")
    second = page.write(PAPER, tables, tmp_path / "second")
    names = [path.relative_to(tmp_path / "first").as_posix() for path in first]
    assert names == [
        "figures/tiny-first-laptop.svg",
        "figures/tiny-second-laptop.svg",
        "tiny.md",
        "tiny.html",
    ]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    markdown = (tmp_path / "first" / "tiny.md").read_text()
    assert set(re.findall(r"\]\((figures/[^)]+)\)", markdown)) == set(names[:2])


def test_what_has_hardly_been_begun_is_named_and_left_out():
    first, second = PAPER.studies
    paper = dataclasses.replace(PAPER, studies=(first, dataclasses.replace(second, appendix=True)))
    lacking = make_tables(lacking=lambda item: item.spec.prior.kind == "oracle")
    markdown, _ = render(paper, laptop=lacking)
    assert second.title in markdown  # half of its runs are there, shared with the other study
    none = make_tables(lacking=lambda item: item.spec.prior.kind == "oracle" or item.seed == 1)
    for text in render(paper, laptop=none):
        assert "Figure 2 (second)" in text
        assert second.title not in text
        assert first.title in text
