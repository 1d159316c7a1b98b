"""Figure 11, first part: with attention fixed at the truth, does the MLP still have to wait?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grokscope.claims.judgements import Faster, Level, Share
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import settings
from grokscope.spec import RunSpec
from grokscope.store import Run

BASELINE = "learned"
PRIOR = "learned, with the prior"
ORACLE = "fixed at the true positions"
UNIFORM = "fixed evenly over all positions"


def where(scale: ScaleName) -> Sequence[Setting]:
    return settings(scale) if scale == "laptop" else []


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.baseline(seed),
        PRIOR: setting.variant(seed, prior__kind="oracle"),
        ORACLE: setting.variant(seed, interventions__frozen_attention="oracle"),
        UNIFORM: setting.variant(seed, interventions__frozen_attention="uniform"),
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
    paper_says="With attention frozen at the true positions the MLP alone generalises fast: what a "
    "network waits for is its attention.",
    how="Attention is replaced by the oracle from the first step on, so that only embeddings, "
    "values and the MLP learn. It is compared with learned attention, without and with the prior "
    "(λ = 1), and, as a control for freezing itself, with attention fixed evenly over all "
    "positions.",
    settings=where,
    arms=arms,
    claims=(
        Claim(
            "MLP alone generalises",
            "With attention fixed at the true positions the network generalises.",
            Share(ORACLE, "grok"),
        ),
        Claim(
            "MLP alone is fast",
            "… and much earlier than with learned attention.",
            Faster(ORACLE, BASELINE, least=1.25),
        ),
        Claim(
            "the truth, not the freezing",
            "… and earlier than with attention fixed evenly over all positions.",
            Faster(ORACLE, UNIFORM, least=1.25),
            ours=True,
        ),
        Claim(
            "prior is as good as the truth",
            "The prior is at least as fast (to within a fifth) as attention that is right from the "
            "start.",
            Faster(PRIOR, ORACLE, least=0.8, control=ORACLE),
            ours=True,
        ),
        Claim(
            "still delayed",
            "Even with attention fixed at the true positions, grokking comes at twice the "
            "memorisation epoch or later.",
            Level(
                ORACLE,
                "delay",
                "grok epoch over memorisation epoch",
                low=2,
                logarithmic=True,
                absent="did not memorise and grok",
            ),
            ours=True,
        ),
    ),
    draw=figures.draw_tickets,
    caption="Grok epochs, one dot a seed, a bar at the median; triangles for runs that had not "
    "grokked when their budget ended.",
    summarise=summarise,
    appendix=True,
)
