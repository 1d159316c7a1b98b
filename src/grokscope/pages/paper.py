"""The page of a paper, as Markdown and as one self-contained HTML file, and its figures.

A pure function of the tables. The page is written once, as Markdown; the HTML is made from it, with
the figures inside. A scale is shown if it has runs; the smoke scale only where there is no other.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from grokscope.claims.evidence import Tables
from grokscope.claims.studies import Paper, ScaleName
from grokscope.claims.words import MEANINGS, RULINGS, kind_of, state_tally
from grokscope.draw.theme import FONT, INK, SOFT
from grokscope.pages.book import Book, Drawing, head
from grokscope.pages.files import read_resource, template, write_between
from grokscope.store.files import write_file

GAP, HEAD = 24, 46  # pixels between panels, and for their words


def write(paper: Paper, tables: Mapping[ScaleName, Tables], docs: Path) -> list[Path]:
    """Pages and figures from the tables; the paths of what was written."""
    book = Book.read(paper, tables)
    written = [
        write_file(docs / part.figure, draw_together(part.drawings).encode())
        for part in book.parts()
        if part.panels
    ]
    for suffix, text in ((".md", render_markdown(book)), (".html", render_html(book))):
        written.append(write_file(docs / f"{paper.name}{suffix}", text.encode()))
    return written


def renew(readme: Path, paper: Paper, tables: Mapping[ScaleName, Tables]) -> Path:
    """Put the verdict table between the two marks of a Markdown file."""
    return write_between(readme, *marks(paper), verdict_table(paper, tables))


def marks(paper: Paper) -> tuple[str, str]:
    """The lines of a Markdown file between which the paper's verdicts stand."""
    name = f"verdicts of {paper.name}"
    return f"<!-- {name}: made by make pages -->", f"<!-- end of {name} -->"


def verdict_table(paper: Paper, tables: Mapping[ScaleName, Tables]) -> str:
    """The paper in one line of Markdown: how many verdicts of which kind; and its story, where it
    has one."""
    return _fill("readme.md", Book.read(paper, tables))


def render_markdown(book: Book, html: bool = False) -> str:
    """The page as Markdown, to be read on a repository's site or turned into HTML."""
    return _fill("paper.md", book, html=html)


def _fill(name: str, book: Book, **choices: bool) -> str:
    page = template(name, plain=plain, slug=slug, tally=state_tally, head=head)
    text = page.render(book=book, paper=book.paper, meanings=MEANINGS, **choices)
    return tidy(text)


def tidy(text: str) -> str:
    """No more than one empty line in a row."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def plain(text: str) -> str:
    """Text that means itself in Markdown, also in a table."""
    text = text.replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def render_html(book: Book) -> str:
    """The page as one file with everything in it."""
    figures = {}
    for part in book.parts():
        prefix = f"{part.evidence.study.name}-{part.evidence.scale}"
        page = template("panels.html")
        drawn = page.render(drawings=part.drawings, inline=_inline, prefix=prefix)
        figures[part.figure] = drawn.strip()
    style = read_resource("page.css") + read_resource("paper.css")
    body = to_html(render_markdown(book, html=True), figures)
    body = _fold_sections(body, [slug(head(study)) for study in book.shown if study.appendix])
    return template("paper.html").render(title=book.paper.title, style=style, body=body)


def to_html(text: str, figures: Mapping[str, str]) -> str:
    """HTML from a page's Markdown. Raw HTML other than a line break is shown as text, verdicts
    become chips, headings get anchors, tables can be stacked on a narrow screen, and an image is
    replaced by the figure of that name: nothing is ever fetched."""
    reader = MarkdownIt("commonmark").enable("table")
    rules: dict[str, Callable[[Token], str]] = {
        "image": lambda token: figures.get(str(token.attrGet("src")), escape(token.content)),
        "html_inline": lambda token: "<br>" if token.content == "<br>" else escape(token.content),
        "html_block": lambda token: escape(token.content),
    }
    for name, rule in rules.items():
        reader.add_render_rule(name, lambda _, tokens, i, *rest, rule=rule: rule(tokens[i]))
    tokens = reader.parse(text)
    seen: Counter[str] = Counter()
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            name = slug(inline.content.replace("\\", ""))
            opening.attrSet("id", f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    _prepare_tables(tokens)
    html = reader.renderer.render(tokens, reader.options, {})
    html = html.replace("<table>", '<table class="stacking">')
    html = re.sub(r"<p>(<figure.*?)</p>", r'<div class="panels">\1</div>', html, flags=re.DOTALL)
    html = html.replace("<em>(our question)</em>", '<span class="ours">our question</span>')
    for word in (*RULINGS, *SUMMED_UP):
        kind = slug(kind_of(word)).partition("-where")[0]
        chip = f'<span class="chip {kind}">{word}</span>'
        html = html.replace(f"<strong>{word}</strong>", chip)
    return _fold(html)


SUMMED_UP = ("contradicted", "depends", "supported where decided", "contradicted where decided")
KINDS = ("supported", "contradicted", "inconclusive", "untestable", "not run")


def _fold(html: str) -> str:
    """Tables of tests and the table of all verdicts, closed until they are asked for. The latter
    can be narrowed down to one kind of verdict, by style alone: the page has no scripts."""
    html = re.sub(
        r'<table class="stacking">\s*<thead>\s*<tr>\s*<th[^>]*>claim and test.*?</table>',
        r"<details><summary>Claims, tests and verdicts of this figure</summary>\g<0></details>",
        html,
        flags=re.DOTALL,
    )
    before, mark, after = html.partition('<h2 id="all-verdicts">')
    if not mark:
        return html
    heading, _, tables = after.partition("</h2>")
    choices = "".join(
        f'<label><input type="radio" name="kind" id="only-{slug(kind)}"> {kind}</label> '
        for kind in KINDS
    )
    filters = (
        '<p class="filters"><label><input type="radio" name="kind" checked> all</label> '
        f"{choices}</p>"
    )
    summary = f"<details><summary>Show the table</summary>{filters}"
    return f"{before}{mark}{heading}</h2>{summary}{tables}</details>"


def _fold_sections(html: str, names: Sequence[str]) -> str:
    """The sections with these anchors, closed below their headings: a phone has to pass them."""
    for name in names:
        html = re.sub(
            rf'(<h2 id="{re.escape(name)}">.*?</h2>)(.*?)(?=<h2 )',
            r"\1<details><summary>Show figures, claims and verdicts</summary>\2</details>",
            html,
            count=1,
            flags=re.DOTALL,
        )
    return html


def _prepare_tables(tokens: Sequence[Token]) -> None:
    """Every cell knows the heading of its column; a row that has only its first cell is a title
    across the table; the first cell of a row is its heading."""
    headings: list[str] = []
    for place, token in enumerate(tokens):
        if token.type == "thead_open":
            headings = []
        elif token.type == "th_open":
            headings.append(tokens[place + 1].content)
            token.attrSet("scope", "col")
        elif token.type == "tr_open" and tokens[place + 1].type == "td_open":
            cells = [tokens[place + 3 * column + 1 :][:3] for column in range(len(headings))]
            title = not any(inline.content for _, inline, _ in cells[1:])
            token.attrSet("class", "study" if title else "")
            for column, (opening, inline, closing) in enumerate(cells):
                if column == 0:
                    opening.tag = closing.tag = "th"
                    opening.attrSet("scope", "row")
                else:
                    opening.attrSet("data-label", headings[column])
                if not inline.content:
                    opening.attrSet("class", "unasked")


def _inline(drawing: Drawing, prefix: str) -> str:
    """A drawing inside a page: as wide as its place, with names that no other one has."""
    text = drawing.svg[drawing.svg.index("<svg") :]
    text = text.replace('"part', f'"{prefix}-part').replace("#part", f"#{prefix}-part")
    width, _ = _size(text)
    opening = text[: text.index(">")]
    sized = re.sub(r' (width|height)="[\d.]+"', "", opening)
    return f'{sized} style="max-width: {round(1.4 * width)}px"{text[len(opening) :]}'


def draw_together(drawings: Sequence[Drawing]) -> str:
    """All panels with their words in one SVG, side by side, more than four in rows of three."""
    across = len(drawings) if len(drawings) <= 4 else 3
    parts: list[dict[str, Any]] = []
    top = widest = 0.0
    for first in range(0, len(drawings), across):
        left, lowest = 0.0, 0.0
        for drawing in drawings[first : first + across]:
            width, height = _size(drawing.svg)
            inner = re.sub(r'(id="|#)part', rf"\1panel{len(parts)}-part", drawing.svg)
            # Another font may be wider than the one that the drawing was laid out with.
            place = f'<svg overflow="visible" x="{left:g}" y="{top + HEAD:g}"'
            words = {"title": drawing.panel.heading, "note": drawing.panel.note}
            parts.append({**words, "x": left, "y": top, "svg": inner.replace("<svg", place, 1)})
            left, lowest = left + width + GAP, max(lowest, height)
        top, widest = top + HEAD + lowest + GAP, max(widest, left)
    return template("figure.svg.html").render(
        parts=parts, width=widest, height=top, font=FONT, ink=INK, soft=SOFT
    )


def _size(svg: str) -> tuple[float, float]:
    """Width and height of a drawing, in pixels."""
    opening = svg[svg.index("<svg") : svg.index(">", svg.index("<svg"))]
    found: Any = [re.search(rf' {side}="([\d.]+)"', opening) for side in ("width", "height")]
    return float(found[0][1]), float(found[1][1])
