"""Appendix G: the autoregressive setting, next-token prediction on streams of sparse parities."""

from __future__ import annotations

from grokscope.claims.evidence import Event
from grokscope.claims.judgements import Faster
from grokscope.claims.studies import name_settings
from grokscope.papers.structural_inference import figures, settings
from grokscope.spec import RunSpec
from grokscope.store import Run

BASELINE, PRIOR = "no prior", "prior"
DELAY, LATE = 1.5, Event("delayed", "grok late")


def summarise(run: Run) -> dict[str, float | None]:
    """The grok epoch of a run that had memorised long before, None for any other run."""
    memorised, grokked = (run.outcome[name]["epoch"] for name in ("memorised", "grokked"))
    late = None not in (memorised, grokked) and grokked >= DELAY * memorised
    return {"delayed": grokked if late else None}


STUDY = settings.study(
    "streams",
    tests={
        "grokking carries over": settings.most(BASELINE, event=LATE, given=settings.MEMORISED),
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior generalises": settings.most(PRIOR),
    },
    settings=name_settings(lambda scale: RunSpec(), {"stream": settings.FIELDS["stream"]}),
    arms=settings.changing({BASELINE: {}, PRIOR: settings.ORACLE}),
    draw=figures.draw_streams,
    curves=("train_accuracy", "test_accuracy", "divergence"),
    curve_arms=(BASELINE, PRIOR),
    summarise=summarise,
)
