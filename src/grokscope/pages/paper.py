"""The page of a paper, as Markdown and as one self-contained HTML file, and its figures.

A pure function of the tables: verdicts first, then each figure beside what the paper says and how
it was obtained. A scale is shown if it has runs; the smoke scale only where there is no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt
import vl_convert

from grokscope.claims.evidence import Tables
from grokscope.claims.studies import Panel, Paper, ScaleName, Study
from grokscope.draw.theme import theme
from grokscope.pages.book import KEY, NOTE, RULES, Book
from grokscope.pages.files import (
    grammar_version,
    read_resource,
    template,
    write_between,
    write_file,
)


def write(paper: Paper, tables: Mapping[ScaleName, Tables], docs: Path) -> list[Path]:
    """Pages and figures from the tables; the paths of what was written."""
    book = Book.read(paper, tables)
    written = []
    for part in book.parts():
        if part.panels:
            data = draw_together(part.panels).encode()
            written.append(write_file(docs / part.figure, data))
    for suffix, text in ((".md", render_markdown(book)), (".html", render_html(book))):
        written.append(write_file(docs / f"{paper.name}{suffix}", text.encode()))
    return written


BEGIN, END = "<!-- verdicts: made by make pages -->", "<!-- end of verdicts -->"


def renew(readme: Path, paper: Paper, tables: Mapping[ScaleName, Tables]) -> Path:
    """Put the verdict table between the two marks of a Markdown file."""
    return write_between(readme, BEGIN, END, verdict_table(paper, tables))


def verdict_table(paper: Paper, tables: Mapping[ScaleName, Tables]) -> str:
    """The paper's own claims in every setting, in brief, as Markdown."""
    return _markdown_verdicts(Book.read(paper, tables), brief=True)


# Figures


def draw_together(panels: Sequence[Panel]) -> str:
    """All panels side by side, more than four in rows of three, with their words, as SVG."""
    views = [
        panel.chart.properties(title=alt.Title(panel.title.capitalize(), subtitle=panel.note))
        for panel in panels
    ]
    if len(views) > 4:
        rows = [alt.hconcat(*views[i : i + 3], spacing=24) for i in range(0, len(views), 3)]
        return _svg(alt.vconcat(*rows, spacing=32))
    return _svg(alt.hconcat(*views, spacing=24) if len(views) > 1 else views[0])


def _svg(chart: alt.TopLevelMixin) -> str:
    spec = chart.to_dict(validate=False)
    spec["config"] = {**theme(), "aria": False}
    text = vl_convert.vegalite_to_svg(spec, vl_version=grammar_version())
    # Vega counts its clips on from figure to figure; from zero in each, pages come out the same.
    names = dict.fromkeys(re.findall(r'id="([^"]+)"', text))
    for number, name in enumerate(names):
        text = re.sub(rf'(id="|#){re.escape(name)}(?=["\)])', rf"\g<1>part{number}", text)
    return text


def _inline(panel: Panel, prefix: str) -> str:
    """A figure inside a page: as wide as its place, with names that no other figure has."""
    text = _svg(panel.chart)
    text = (
        text[text.index("<svg") :]
        .replace('"part', f'"{prefix}-part')
        .replace("#part", f"#{prefix}-part")
    )
    width = re.search(r'width="([\d.]+)"', text)
    most = round(1.4 * float(width[1])) if width else 480
    opening = text[: text.index(">")]
    sized = re.sub(r' (width|height)="[\d.]+"', "", opening)
    return f'{sized} style="max-width: {most}px"{text[len(opening) :]}'


# HTML


def render_html(book: Book) -> str:
    """The page as one file with everything in it."""
    style = read_resource("page.css") + read_resource("paper.css")
    return template("paper.html").render(
        style=style,
        book=book,
        paper=book.paper,
        note=f"{NOTE} {KEY}",
        rules=RULES,
        inline=_inline,
        slug=_slug,
        everything=_commands(book),
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z]+", "-", text.lower()).strip("-")


def _commands(book: Book) -> str:
    return "\n".join(f"grokscope reproduce {book.paper.name} --scale {s}" for s in book.tables)


# Markdown


def render_markdown(book: Book) -> str:
    """The page for reading on the repository's site."""
    paper = book.paper
    lines = [
        f"# {paper.title}",
        "",
        f"*{paper.reference}, reproduced. Made by `grokscope reproduce` from the tables in "
        f"`results/{paper.name}`; not edited by hand. [The same as a page]({paper.name}.html).*",
        "",
        paper.summary,
        "",
        "Claims are judged in several regimes of the task:",
        "",
        *(f"- **{name}**: {what}" for name, what in paper.regimes.items()),
        "",
        "Words in use:",
        "",
        *(f"- **{word}**: {meaning}" for word, meaning in paper.glossary.items()),
        "",
        "## Verdicts",
        "",
        *(f"- {line}" for line in [*book.tally(), *_groups(book), book.waiting] if line),
        "",
        _markdown_verdicts(book),
        f"{NOTE} {KEY}",
        "",
        *(line for study in book.shown for line in _markdown_study(book, study)),
        "## How verdicts are made",
        "",
        *(f"{rule}\n" for rule in RULES),
        "## Deviations from the paper",
        "",
        *(f"{number}. {text}" for number, text in enumerate(paper.deviations, start=1)),
        "",
        "## What was changed after runs had been seen",
        "",
        *(f"{number}. {text}" for number, text in enumerate(paper.revisions, start=1)),
        "",
        "## How to get this",
        "",
        "```",
        _commands(book),
        "```",
        "",
        *(f"- {line}" for line in book.provenance()),
    ]
    return "\n".join(lines) + "\n"


def _groups(book: Book) -> list[str]:
    return [f"{group}: {', '.join(names)}." for group, names in book.uniform().items()]


def _markdown_verdicts(book: Book, brief: bool = False) -> str:
    """Settings as columns, claims as rows; in brief without our own questions, without n and
    without the appendix."""
    lines = []
    for wheres, studies in book.blocks():
        if brief:
            studies = [s for s in studies if not (s.appendix or all(c.ours for c in s.claims))]
        if not studies:
            continue
        lines += [f"| claim | {' | '.join(wheres)} |", "|---" * (len(wheres) + 1) + "|"]
        for study in studies:
            if not book.studies[study.name]:
                continue
            lines.append(f"| **{study.source}: {_cell(study.title)}** " + "| " * len(wheres) + "|")
            for claim in study.claims:
                if brief and claim.ours:
                    continue
                found = {cell.where: cell for cell in book.cells(study, claim)}
                cells = [
                    f"**{cell.ruling}**<br>{_cell(cell.short if brief else cell.detail)}"
                    if (cell := found.get(where))
                    else ""
                    for where in wheres
                ]
                mine = " *(our question)*" if claim.ours else ""
                effect = "" if brief else f"<br>*{_cell(claim.test.effect)}*"
                says = f"{_cell(claim.says)}{mine}{effect}"
                lines.append(f"| {says} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text inside a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _markdown_study(book: Book, study: Study) -> list[str]:
    lines = [
        f"## {study.source}: {study.title}",
        "",
        f"**What the paper says.** {study.paper_says}",
        "",
        f"**What we did.** {study.how}",
        "",
    ]
    for scale, part in book.studies[study.name].items():
        lines += [f"### {study.source}, {scale} scale", ""]
        if part.panels:
            lines += [
                f"![{study.title}, {scale} scale]({part.figure})",
                "",
                f"*{study.caption}*",
                "",
            ]
        lines += [part.reading, ""] if part.reading else []
        lines += [f"`{part.command}`: {part.obtained}", ""]
    lines += ["| claim and test | where | verdict | effect | remark |", "|---|---|---|---|---|"]
    for claim in study.claims:
        title = f"**{_cell(claim.name)}**: {_cell(claim.test.describe())}"
        for cell in book.cells(study, claim) or []:
            effect = f"{cell.effect}, {cell.seeds}" if cell.effect else ""
            lines.append(
                f"| {title} | {cell.where} | {cell.ruling} | {_cell(effect)} "
                f"| {_cell(cell.finding.remark)} |"
            )
            title = ""
    return [*lines, ""]
