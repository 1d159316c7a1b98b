"""The page of a paper: complete, closed to gaps, self-contained, always the same."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from html import unescape

import polars as pl
import pytest

import tiny_paper
from grokscope.claims.evidence import Tables
from grokscope.claims.judgements import Faster, Level, Share, Trend
from grokscope.claims.studies import Claim, plan
from grokscope.claims.verdicts import Estimate, Finding
from grokscope.claims.words import RULINGS, state_effect, state_interest, state_tally
from grokscope.errors import SpecError
from grokscope.pages import paper as page
from grokscope.pages.book import Cell, sum_up

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


def rows_of(html):
    """Text of the cells of every row of every table."""
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[unescape(re.sub(r"<[^>]+>", " ", cell)) for cell in row] for row in cells]


def test_every_claim_is_on_both_pages_with_its_verdict_and_effect(texts):
    """The numbers are those of the findings, the HTML's those of the Markdown."""
    markdown, html = texts
    book = page.Book.read(PAPER, {"laptop": make_tables()})
    rows = [" | ".join(row) for row in rows_of(html)]
    for study in PAPER.studies:
        for claim in study.claims:
            assert claim.test.describe() in markdown
            assert claim.test.describe() in unescape(html)
            for cell in book.cells(study, claim):
                assert re.search(
                    rf"{claim.says}.*\*\*{cell.ruling}\*\*<br>{re.escape(cell.detail)}", markdown
                )
                (row,) = [row for row in rows if row.startswith(claim.says)]
                assert cell.ruling in row
                assert cell.detail in row
    rulings = {cell.ruling for cells in book.verdicts.values() for cell in cells}
    assert rulings == {"supported", "inconclusive"}
    assert set(re.findall(r'class="chip ([a-z-]+)"', html)) == rulings
    assert all(f"*{ruling}*: " in markdown for ruling in RULINGS)  # each is explained


def test_one_line_renews_a_readme(tmp_path):
    tables = {"laptop": make_tables()}
    brief = page.verdict_table(PAPER, tables)
    assert brief.startswith("**[A Tiny Paper](docs/tiny.md)** (")
    assert brief.count("\n") == 1
    assert "1 supported" in brief
    readme = tmp_path / "README.md"
    begin, end = page.marks(PAPER)
    readme.write_text(f"# Mine\n\n{begin}\nold\n{end}\n\nMore.\n")
    page.renew(readme, PAPER, tables)
    assert readme.read_text() == f"# Mine\n\n{begin}\n{brief}{end}\n\nMore.\n"
    page.renew(readme, PAPER, tables)  # and again
    assert readme.read_text().count(brief) == 1
    readme.write_text("# Mine\n")
    with pytest.raises(SpecError, match="needs the two lines"):
        page.renew(readme, PAPER, tables)


def test_the_first_screen_tells_the_story():
    part = {"study": "second", "claim": "faster", "says": "It is quick.", "why": "We looked."}
    paper = dataclasses.replace(PAPER, story=(part,), picture="second")
    tables = {"laptop": make_tables()}
    markdown, html = render(paper, **tables)
    study = next(study for study in PAPER.studies if study.name == "second")
    anchor = page.slug(f"{study.source}: {study.title}")
    assert f'<h2 id="{anchor}">' in html
    for home, text in (
        ("", markdown.partition("## Contents")[0]),
        ("docs/tiny.md", page.verdict_table(paper, tables)),
    ):
        link = f"[{study.source}]({home}#{anchor})"
        row = f"| It is quick. {link} | **supported** | We looked. *Supported: laptop constant.* |"
        assert row in text
    assert page.verdict_table(paper, tables).startswith("**[A Tiny Paper](docs/tiny.md)**")
    # The picture comes first, and only once; the tables come last, and are closed.
    assert markdown.count("figures/tiny-second-laptop.svg") == 1
    assert markdown.index("tiny-second-laptop") < markdown.index("tiny-first-laptop")
    assert html.index('id="contents"') < html.index('id="all-verdicts"')
    closed = html.partition('id="all-verdicts"')[2]
    assert closed.index("<details>") < closed.index("<table")
    assert html.count("<details>") == html.count("</details>") == 3
    names = re.findall(r'\bid="([^"]+)"', html)
    assert len(names) == len(set(names))
    for kind in ("supported", "contradicted", "inconclusive", "untestable", "not-run"):
        assert f'id="only-{kind}"' in html
        assert f"#only-{kind}:checked" in html  # and the style that it stands for


def test_sections_of_the_appendix_are_closed():
    studies = tuple(dataclasses.replace(s, appendix=s.name == "second") for s in PAPER.studies)
    paper = dataclasses.replace(PAPER, studies=studies)
    _, html = render(paper, laptop=make_tables())
    for study in studies:
        anchor = page.slug(f"{study.source}: {study.title}")
        section = html.partition(f'<h2 id="{anchor}">')[2].partition("<h2 ")[0]
        body = section.partition("</h2>")[2].strip()
        assert body.startswith("<details><summary>Show figures") == study.appendix
        assert section.count("<details>") == section.count("</details>")


def test_one_word_for_several_settings():
    def summed(*rulings):
        return sum_up([Cell("laptop", each, FASTER, Finding(each)) for each in rulings])

    assert summed("supported", "untestable") == "supported"
    assert summed("supported", "inconclusive") == "supported where decided"
    assert summed("supported", "opposite", "inconclusive") == "depends"
    assert summed("opposite", "smaller than claimed") == "contradicted"
    assert summed("opposite", "opposite") == "opposite"
    assert summed("larger than claimed", "inconclusive") == "contradicted where decided"
    assert summed("untestable", "not run") == "untestable"
    assert summed("not run") == "not run"


def test_the_tally_is_counted(texts):
    for text in texts:
        assert "1 supported, 1 inconclusive of 2 verdicts on claims of the paper" in text


def test_a_missing_run_takes_the_verdict_away():
    tables = make_tables(lacking=lambda i: i.spec.prior.kind == "oracle" and i.seed == 3)
    markdown, html = render(laptop=tables)
    assert "**supported**" not in markdown
    assert 'class="chip supported"' not in html
    assert "**not run**" in markdown
    assert 'class="chip not-run"' in html
    assert "9 of 10 runs" in markdown


def test_smoke_is_shown_only_where_there_is_nothing_larger():
    smoke = make_tables("smoke", 1)
    alone, _ = render(smoke=smoke)
    assert "smoke, constant" in alone
    both, _ = render(smoke=smoke, laptop=make_tables())
    assert "smoke" not in both


def test_how_it_was_obtained(texts):
    for text in texts:
        for words in (
            "grokscope reproduce tiny second --scale laptop",
            "10 runs, 5 of them shared",
            "abc1234",
            "jax 1.2",
            PAPER.deviations[0],
            PAPER.revisions[0],
            PAPER.glossary["grokked"],
        ):
            assert words in text


def test_questions_of_ours_are_marked():
    first, second = PAPER.studies
    asked = dataclasses.replace(second.claims[0], ours=True)
    paper = dataclasses.replace(
        PAPER, studies=(first, dataclasses.replace(second, claims=(asked,)))
    )
    markdown, html = render(paper, laptop=make_tables())
    assert "The prior is faster. *(our question)*" in markdown
    assert re.search(r'The prior is faster\. <span class="ours">', html)


def test_the_page_needs_nothing_else(texts):
    _, html = texts
    assert not re.search(r"<(script|link|img|iframe)\b", html)
    assert not re.search(r"""\b(src|href)=["'](?!#)""", html)
    assert "@import" not in html
    assert set(re.findall(r"https?://[^\s\"'<]+", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "<svg" in html
    names = re.findall(r'\bid="([^"]+)"', html)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(names)


HOSTILE = (
    "Is a < b | c & <script>alert(1)</script>?",
    "![x](https://example.org/x.png) [y](https://example.org) *bold* _it_ `code` &lt;b&gt;",
    "<br><img src=x onerror=alert(1)>\n# title",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_escaped(text):
    """Whatever a claim, an arm or a remark holds is shown as it is, and nothing is fetched."""
    first, second = PAPER.studies
    odd = dataclasses.replace(first.claims[0], says=text)
    study = dataclasses.replace(first, claims=(odd,), title=text, how=text, caption=text)
    paper = dataclasses.replace(PAPER, studies=(study, second), summary=text)
    markdown, html = render(paper, laptop=make_tables())
    assert not re.search(r"<(script|img|b>)|onerror=alert\(1\)>", html)
    assert not re.search(r'(src|href)="(?!#)', html)
    shown = re.sub(r"\s+", " ", text)
    assert any(shown in " ".join(row).replace("  ", " ") for row in rows_of(html))
    assert unescape(re.sub(r"\s+", " ", html)).count(shown) >= 3
    row = next(line for line in markdown.splitlines() if line.endswith("n\u00a05 |"))
    assert "<script" not in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_contradictions_are_told_apart_and_counted_together():
    counted = Counter(["supported", "opposite", "smaller than claimed", "opposite", "untestable"])
    assert state_tally(counted) == (
        "1 supported, 3 contradicted (1 smaller than claimed, 2 opposite), 1 untestable of 5 "
        "verdicts"
    )


SLOW = "in most seeds the slower arm never gets there"
FAST = "in most seeds the arm that ought to be faster never gets there"


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(2.1, 1.6, 3.0, 5), "2.1 (1.6 to 3)"),
        (Estimate(2.1, 1.6, math.inf, 5), "2.1 (at least 1.6)"),
        (Estimate(math.inf, 1.8, math.inf, 5), f"at least 1.8: {SLOW}"),
        (Estimate(math.inf, math.inf, math.inf, 5), SLOW),
        (Estimate(math.inf, 0.0, math.inf, 1), SLOW),
        (Estimate(0.0, 0.0, 0.7, 5), f"at most 0.7: {FAST}"),
        (Estimate(0.0, 0.0, 0.0, 5), FAST),
        (Estimate(math.nan, 0.0, math.inf, 5), "unknown: in most seeds neither arm gets there"),
        (Estimate(1.5, 0.0, math.inf, 1), "1.5 (no interval)"),
        (Estimate(0.7, 0.0, 0.9, 5), "0.7 (at most 0.9)"),
    ],
)
def test_speed_ups_read_well(estimate, text):
    assert state_effect(FASTER, estimate) == text


def test_other_effects_read_well():
    share = Claim("share", "They grok.", Share("a", "grok"))
    assert state_effect(share, Estimate(0.8, 0.344, 0.9895, 5)) == "80 % (34.4 to 99 %)"
    assert state_interest(Claim("few", "Few grok.", Share("a", "few"))) == "≤ 50 %"
    assert state_interest(FASTER) == "≥ 1.25"
    assert state_interest(Claim("in", "In.", Level("a", "x", "y", low=-1, high=1))) == "-1 to 1"
    level = Claim("level", "It is high.", Level("a", "x", "height", low=1))
    assert state_effect(level, Estimate(3.0, -math.inf, 4.0, 5)) == "3 (at most 4)"
    trend = Claim("trend", "It falls.", Trend(lambda arm: 1.0, "dose"))
    assert state_effect(trend, None) == ""


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
    assert "Not run yet" not in markdown  # half of its runs are there, shared with the other study
    none = make_tables(lacking=lambda item: item.spec.prior.kind == "oracle" or item.seed == 1)
    for text in render(paper, laptop=none):
        assert "Not run yet: Figure 2 (second)." in text
        assert second.title not in text
        assert first.title in text
