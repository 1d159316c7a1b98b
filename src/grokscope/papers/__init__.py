"""Papers as studies. To add one: a package whose module `paper` has a `PAPER`, and a line here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grokscope.claims.studies import Paper

PAPERS = {
    "structural-inference": "grokscope.papers.structural_inference.paper",
    "inductive-bias": "grokscope.papers.inductive_bias.paper",
    "epistemic-icl": "grokscope.papers.epistemic_icl.paper",
    "martingale-operators": "grokscope.papers.martingale_operators.paper",
}


def find_paper(name: str) -> Paper:
    from grokscope.errors import SpecError, suggest  # a paper's theory stands alone

    if name not in PAPERS:
        raise SpecError(f"There is no paper {name!r}.{suggest(name, PAPERS)}")
    return importlib.import_module(PAPERS[name]).PAPER
