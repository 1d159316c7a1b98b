"""Figure 11, first part: with attention fixed at the truth, does the MLP still have to wait?"""

from __future__ import annotations

from collections.abc import Mapping

from grokscope.claims.judgements import Faster, Level
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import GROK_EPOCHS, ORACLE, ask, most, only
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


STUDY = Study(
    name="frozen-attention",
    source="Figure 11",
    title="Attention fixed at the truth: what the MLP does alone",
    paper_says="With attention frozen at the true positions the MLP alone generalises fast: a "
    "network waits for its attention.",
    how="Attention is replaced by the oracle from the first step on, so that only embeddings, "
    "values and the MLP learn. It is compared with learned attention, without and with the prior "
    "(λ = 1), and, as a control for freezing itself, with attention fixed evenly over all "
    "positions.",
    settings=only(),
    arms=arms,
    claims=(
        Claim(
            "MLP alone generalises",
            "With attention fixed at the true positions the network generalises.",
            most(TRUTH),
        ),
        Claim(
            "MLP alone is fast",
            "… and much earlier than with learned attention.",
            Faster(TRUTH, BASELINE, least=1.25),
        ),
        ask(
            "the truth, not the freezing",
            "… and earlier than with attention fixed evenly over all positions.",
            Faster(TRUTH, UNIFORM, least=1.25),
        ),
        ask(
            "prior is as good as the truth",
            "The prior is at least as fast (to within a fifth) as attention that is right from the "
            "start.",
            Faster(PRIOR, TRUTH, least=0.8, control=TRUTH),
        ),
        ask(
            "still delayed",
            "Even with attention fixed at the true positions, grokking comes at twice the "
            "memorisation epoch or later.",
            Level(
                TRUTH,
                "delay",
                "grok epoch over memorisation epoch",
                low=2,
                logarithmic=True,
                absent="did not memorise and grok",
            ),
        ),
    ),
    draw=figures.draw_tickets,
    caption=GROK_EPOCHS,
    summarise=summarise,
    appendix=True,
)
