"""Figure 11, first part: with attention fixed at the truth, does the MLP still have to wait?"""

from __future__ import annotations

from collections.abc import Mapping

from grokscope.claims.judgements import Faster, Level
from grokscope.papers.structural_inference import settings
from grokscope.store import Run

BASELINE = "learned"
PRIOR = "learned, with the prior"
TRUTH = "fixed at the true positions"
UNIFORM = "fixed evenly over all positions"
DELAY = "grok epoch over memorisation epoch"


ARMS: dict[str, settings.Changes | None] = {
    BASELINE: None,
    PRIOR: settings.ORACLE,
    TRUTH: {"interventions.frozen_attention": "oracle"},
    UNIFORM: {"interventions.frozen_attention": "uniform"},
}


def summarise(run: Run) -> Mapping[str, float | None]:
    """How much later than memorisation grokking comes, as a ratio of epochs. Both are known to
    within a row of the curve, so epoch 0 counts as the first row."""
    times = [run.outcome[name]["epoch"] for name in ("memorised", "grokked")]
    if None in times:
        return {"delay": None}
    memorised, grokked = (max(time, run.spec.training.log_every) for time in times)
    return {"delay": grokked / memorised}


STUDY = settings.study(
    "frozen-attention",
    tests={
        "MLP alone generalises": settings.most(TRUTH),
        "MLP alone is fast": Faster(TRUTH, BASELINE, least=1.25),
        "the truth, not the freezing": Faster(TRUTH, UNIFORM, least=1.25),
        "prior is as good as the truth": Faster(PRIOR, TRUTH, least=0.8, control=TRUTH),
        "still delayed": Level(
            TRUTH, "delay", DELAY, low=2, logarithmic=True, absent="did not memorise and grok"
        ),
    },
    settings=settings.only(),
    arms=settings.changing(ARMS),
    summarise=summarise,
)
