"""The page of a paper, as Markdown and as one self-contained HTML file, and its figures.

A pure function of the tables. The page is written once, as Markdown; the HTML is made from it, with
the figures inside. A scale is shown if it has runs; the smoke scale only where there is no other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from grokscope.claims.evidence import Tables
from grokscope.claims.studies import Paper, ScaleName, Study
from grokscope.draw.theme import FONT, INK, SOFT
from grokscope.draw.words import RULINGS
from grokscope.pages.book import Book, Drawing
from grokscope.pages.files import read_resource, template, write_between, write_file

BEGIN, END = "<!-- verdicts: made by make pages -->", "<!-- end of verdicts -->"
ACROSS, GAP, HEAD = 3, 24, 46  # panels in a row; pixels between them, and for their words


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
    return write_between(readme, BEGIN, END, verdict_table(paper, tables))


def verdict_table(paper: Paper, tables: Mapping[ScaleName, Tables]) -> str:
    """The paper's own claims in every setting, in brief, as Markdown."""
    return _verdicts(Book.read(paper, tables), brief=True)


def render_markdown(book: Book, html: bool = False) -> str:
    """The page as Markdown, to be read on a repository's site or turned into HTML."""
    text = template("paper.md", plain=plain).render(
        book=book, paper=book.paper, html=html, verdicts=_verdicts, heading=_heading
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def plain(text: str) -> str:
    """Text that means itself in Markdown, also in a table."""
    text = text.replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _heading(study: Study) -> str:
    return plain(f"{study.source}: {study.title}")


def _verdicts(book: Book, brief: bool = False) -> str:
    """Settings as columns, claims as rows; in brief without our own questions, without n and
    without the appendix."""
    lines = []
    for wheres, studies in book.blocks():
        if brief:
            studies = [s for s in studies if not (s.appendix or all(c.ours for c in s.claims))]
        studies = [study for study in studies if book.studies[study.name]]
        if not studies:
            continue
        lines += [f"| claim | {' | '.join(wheres)} |", "|---" * (len(wheres) + 1) + "|"]
        for study in studies:
            title = _heading(study)
            title = title if brief else f"[{title}](#{slug(title)})"
            lines.append(f"| **{title}** " + "| " * len(wheres) + "|")
            for claim in study.claims:
                if brief and claim.ours:
                    continue
                found = {cell.where: cell for cell in book.cells(study, claim)}
                cells = [
                    f"**{cell.ruling}**<br>{plain(cell.short if brief else cell.detail)}"
                    if (cell := found.get(where))
                    else ""
                    for where in wheres
                ]
                mine = " *(our question)*" if claim.ours else ""
                effect = "" if brief else f"<br>*{plain(claim.test.effect)}*"
                lines.append(f"| {plain(claim.says)}{mine}{effect} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def render_html(book: Book) -> str:
    """The page as one file with everything in it."""
    figures = {
        part.figure: _inline_figure(part.drawings, f"{part.evidence.study.name}-{scale}")
        for parts in book.studies.values()
        for scale, part in parts.items()
        if part.panels
    }
    style = read_resource("page.css") + read_resource("paper.css")
    body = to_html(render_markdown(book, html=True), figures)
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
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slug(inline.content.replace("\\", "")))
    _prepare_tables(tokens)
    html = reader.renderer.render(tokens, reader.options, {})
    html = html.replace("<table>", '<table class="stacking">')
    html = re.sub(r"<p>(<figure.*?)</p>", r'<div class="panels">\1</div>', html, flags=re.DOTALL)
    html = html.replace("<em>(our question)</em>", '<span class="ours">our question</span>')
    for ruling in RULINGS:
        chip = f'<span class="chip {slug(ruling)}">{ruling}</span>'
        html = html.replace(f"<strong>{ruling}</strong>", chip)
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


def _inline_figure(drawings: Sequence[Drawing], prefix: str) -> str:
    return "".join(
        f'<figure role="img" aria-label="{escape(drawing.panel.title)}"><figcaption><strong>'
        f"{escape(drawing.panel.title.capitalize())}</strong><small>{escape(drawing.panel.note)}"
        f"</small></figcaption>{_inline(drawing, f'{prefix}-{number}')}</figure>"
        for number, drawing in enumerate(drawings, start=1)
    )


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
    across = len(drawings) if len(drawings) <= 4 else ACROSS
    rows = [drawings[i : i + across] for i in range(0, len(drawings), across)]
    parts: list[str] = []
    top = widest = 0.0
    for row in rows:
        left, sizes = 0.0, [_size(drawing.svg) for drawing in row]
        for drawing, (width, _) in zip(row, sizes, strict=True):
            prefix = f"panel{len(parts)}-"
            # Another font may be wider than the one that the drawing was laid out with.
            place = f'overflow="visible" x="{left:g}" y="{top + HEAD:g}"'
            inner = re.sub(r'(id="|#)part', rf"\1{prefix}part", drawing.svg)
            parts.append(
                f'<text x="{left + 6:g}" y="{top + 18:g}" font-size="14" font-weight="600" '
                f'fill="{INK}">{escape(drawing.panel.title.capitalize())}</text>'
                f'<text x="{left + 6:g}" y="{top + 36:g}" font-size="11" fill="{SOFT}">'
                f"{escape(drawing.panel.note)}</text>{inner.replace('<svg', f'<svg {place}', 1)}"
            )
            left += width + GAP
        top += HEAD + max(height for _, height in sizes) + GAP
        widest = max(widest, left - GAP)
    size = f'width="{widest:g}" height="{top - GAP:g}" viewBox="0 0 {widest:g} {top - GAP:g}"'
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    ground = '<rect width="100%" height="100%" fill="#FFFFFF"/>'
    font = f'font-family="{escape(FONT)}"'
    return f"<svg {names} {size} {font}>{ground}{''.join(parts)}</svg>\n"


def _size(svg: str) -> tuple[float, float]:
    """Width and height of a drawing, in pixels."""
    opening = svg[svg.index("<svg") : svg.index(">", svg.index("<svg"))]
    found: Any = [re.search(rf' {side}="([\d.]+)"', opening) for side in ("width", "height")]
    return float(found[0][1]), float(found[1][1])
