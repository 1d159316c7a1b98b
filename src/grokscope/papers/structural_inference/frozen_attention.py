"""Figure 11, first part: with attention fixed at the truth, does the MLP still have to wait?"""

from __future__ import annotations

from collections.abc import Mapping

from grokscope.claims.judgements import Faster, Level
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import (
    GROK_EPOCHS,
    ORACLE,
    PROSE,
    most,
    only,
)
from grokscope.spec import RunSpec
from grokscope.store import Run

BASELINE = "learned"
PRIOR = "learned, with the prior"
TRUTH = "fixed at the true positions"
UNIFORM = "fixed evenly over all positions"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.baseline(seed),
        PRIOR: setting.variant(seed, ORACLE),
        TRUTH: setting.variant(seed, {"interventions.frozen_attention": "oracle"}),
        UNIFORM: setting.variant(seed, {"interventions.frozen_attention": "uniform"}),
    }


def summarise(run: Run) -> Mapping[str, float | None]:
    """How much later than memorisation grokking comes, as a ratio of epochs. Both are known to
    within a row of the curve, so epoch 0 counts as the first row."""
    memorised, grokked = (run.outcome[name]["epoch"] for name in ("memorised", "grokked"))
    if memorised is None or grokked is None:
        return {"delay": None}
    first = run.spec.training.log_every
    return {"delay": max(grokked, first) / max(memorised, first)}


STUDY = PROSE.study(
    "frozen-attention",
    tests={
        "MLP alone generalises": most(TRUTH),
        "MLP alone is fast": Faster(TRUTH, BASELINE, least=1.25),
        "the truth, not the freezing": Faster(TRUTH, UNIFORM, least=1.25),
        "prior is as good as the truth": Faster(PRIOR, TRUTH, least=0.8, control=TRUTH),
        "still delayed": Level(
            TRUTH,
            "delay",
            "grok epoch over memorisation epoch",
            low=2,
            logarithmic=True,
            absent="did not memorise and grok",
        ),
    },
    settings=only(),
    arms=arms,
    draw=figures.draw_tickets,
    caption=GROK_EPOCHS,
    summarise=summarise,
    appendix=True,
)
