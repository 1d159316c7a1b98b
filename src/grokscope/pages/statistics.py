"""The page on the rules that judge claims, from the table of the simulation."""

from __future__ import annotations

import polars as pl

from grokscope.claims.looks import ERRORS, LOOKS, SPENT
from grokscope.claims.simulation import false_rates
from grokscope.claims.words import MEANINGS
from grokscope.pages.files import template


def render(table: pl.DataFrame, draws: int) -> str:
    """The page as Markdown."""
    rates = false_rates(table)
    worst = rates.select("false_supported", "false_contradicted").max().row(0)
    page = template("statistics.md", percent=_percent)
    return page.render(
        rows=rates.filter(pl.col("design") != "looks").rows(named=True),
        looks=rates.filter(pl.col("design") == "looks").rows(named=True),
        levels=zip(LOOKS, ERRORS, SPENT, strict=True),
        worst=max(worst),
        draws=draws,
        meanings=MEANINGS,
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"
