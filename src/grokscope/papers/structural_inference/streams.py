"""Appendix G: the autoregressive setting, next-token prediction on streams of sparse parities."""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.claims.evidence import Event
from grokscope.claims.judgements import Faster
from grokscope.claims.studies import ScaleName, Setting
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import (
    MEMORISED,
    ORACLE,
    PROSE,
    changing,
    most,
    within,
)
from grokscope.spec import RunSpec
from grokscope.store import Run

BASELINE, PRIOR = "no prior", "prior"
DELAY = 1.5


def settings(scale: ScaleName) -> Sequence[Setting]:
    if scale != "laptop":
        return []
    base = RunSpec().replace(
        **within("task", kind="parity_stream", bits=12, operands=3, blocks=2, examples=800),
        **within("model", kind="transformer", width=32, hidden=128),
        **within("optimiser", lr=2e-3, batch=512),
        **within("training", epochs=2000, log_every=50),
    )
    return [Setting(scale, "stream", base)]


def summarise(run: Run) -> dict[str, float | None]:
    """The grok epoch of a run that had memorised long before, None for any other run."""
    memorised, grokked = (run.outcome[name]["epoch"] for name in ("memorised", "grokked"))
    late = None not in (memorised, grokked) and grokked >= DELAY * memorised
    return {"delayed": grokked if late else None}


STUDY = PROSE.study(
    "streams",
    tests={
        "grokking carries over": most(
            BASELINE, event=Event("delayed", "grok late"), given=MEMORISED
        ),
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior generalises": most(PRIOR),
    },
    settings=settings,
    arms=changing({BASELINE: {}, PRIOR: ORACLE}),
    draw=figures.draw_streams,
    curves=("train_accuracy", "test_accuracy", "divergence"),
    curve_arms=(BASELINE, PRIOR),
    summarise=summarise,
)
