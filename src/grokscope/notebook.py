"""How things look in notebooks: small tables, and charts that need no network."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from typing import Any


def html_table(title: str, rows: Iterable[Sequence[Any]], heading: Sequence[str] = ()) -> str:
    """A title and rows of cells, escaped."""

    def line(cells: Sequence[Any], kind: str) -> str:
        style = ' style="text-align:left"'
        return "".join(f"<{kind}{style}>{escape(_cell(value))}</{kind}>" for value in cells)

    head = f"<thead><tr>{line(heading, 'th')}</tr></thead>" if heading else ""
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<div><strong>{escape(title)}</strong><table>{head}<tbody>{body}</tbody></table></div>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@cache
def draw_offline() -> None:
    """In a notebook, let Altair draw as SVG, unless somebody has chosen otherwise: its default asks
    a server for the script that draws. Once: whoever changes it back has it."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    import altair as alt

    if alt.renderers.active == "default":
        alt.renderers.enable("svg")
