"""Appendix G: the autoregressive setting, next-token prediction on streams of sparse parities."""

from __future__ import annotations

from grokscope.claims.evidence import Event
from grokscope.claims.judgements import Faster
from grokscope.claims.studies import name_settings
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import (
    FIELDS,
    MEMORISED,
    ORACLE,
    changing,
    most,
    study,
)
from grokscope.spec import RunSpec
from grokscope.store import Run

BASELINE, PRIOR = "no prior", "prior"
DELAY = 1.5


def summarise(run: Run) -> dict[str, float | None]:
    """The grok epoch of a run that had memorised long before, None for any other run."""
    memorised, grokked = (run.outcome[name]["epoch"] for name in ("memorised", "grokked"))
    late = None not in (memorised, grokked) and grokked >= DELAY * memorised
    return {"delayed": grokked if late else None}


STUDY = study(
    "streams",
    tests={
        "grokking carries over": most(
            BASELINE, event=Event("delayed", "grok late"), given=MEMORISED
        ),
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior generalises": most(PRIOR),
    },
    settings=name_settings(lambda scale: RunSpec(), {"stream": FIELDS["stream"]}),
    arms=changing({BASELINE: {}, PRIOR: ORACLE}),
    draw=figures.draw_streams,
    curves=("train_accuracy", "test_accuracy", "divergence"),
    curve_arms=(BASELINE, PRIOR),
    summarise=summarise,
)
