"""Papers in the lab: every claim with its verdicts, and the runs behind each of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, get_args

from grokscope.claims.reproduction import read_all
from grokscope.claims.studies import Claim, Study
from grokscope.claims.verdicts import CONTRADICTED, Ruling
from grokscope.errors import SpecError
from grokscope.pages.book import Book
from grokscope.pages.paper import draw_together
from grokscope.papers import PAPERS, find_paper
from grokscope.store import Store


def list_papers() -> list[dict[str, str]]:
    return [_fields(find_paper(name), "name", "title", "reference") for name in PAPERS]


def _fields(thing: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


@cache
def read_book(name: str, results: Path) -> Book:
    """Judging takes seconds, and the tables change only when the paper is reproduced again."""
    paper = find_paper(name)
    return Book.read(paper, read_all(paper, results))


def describe_paper(name: str, results: Path, store: Store) -> dict[str, Any]:
    """A paper's story and its claims. Of each verdict the runs that this store has are named."""
    book, known = read_book(name, results), set(store.ids())
    studies = [
        {
            **_fields(study, "name", "source", "title", "paper_says", "how"),
            "scales": [s for s, p in book.studies[study.name].items() if p.evidence.present],
            "claims": [
                {"sentence": claim.says, "verdicts": _verdicts(book, study, claim, known)}
                for claim in study.claims
            ],
        }
        for study in book.paper.studies
    ]
    claims = [claim for study in studies for claim in study["claims"]]
    told = [verdict["ruling"] for claim in claims for verdict in claim["verdicts"]]
    tally = [
        {"ruling": ruling, "side": _side(ruling), "count": told.count(ruling)}
        for ruling in get_args(Ruling)
        if ruling in told
    ]
    head = _fields(book.paper, "name", "title", "reference", "summary")
    return {**head, "tally": tally, "studies": studies}


def _side(ruling: Ruling) -> str:
    return "contradicted" if ruling in CONTRADICTED else ruling


def _verdicts(book: Book, study: Study, claim: Claim, known: set[str]) -> list[dict[str, Any]]:
    found = []
    for cell in book.cells(study, claim):
        sample = book.studies[study.name][cell.scale].evidence.samples[cell.regime]
        arms = [sample.arms[name] for name in claim.test.needs(sample) if name in sample.arms]
        runs = dict.fromkeys(spec.id for arm in arms for spec in arm.specs)
        found.append(
            {
                "where": cell.where,
                "ruling": cell.ruling,
                "side": _side(cell.ruling),
                "effect": cell.detail,
                "runs": [run for run in runs if run in known],
                "all": len(runs),
            }
        )
    return found


def draw_study(name: str, study: str, scale: str, results: Path) -> str:
    """The figure of a study at one scale, as SVG."""
    part = read_book(name, results).studies.get(study, {}).get(scale)  # type: ignore[call-overload]
    if part is None or not part.panels:
        raise SpecError(f"{name} has no figure of {study!r} at the scale {scale!r}.")
    return draw_together(part.drawings)
