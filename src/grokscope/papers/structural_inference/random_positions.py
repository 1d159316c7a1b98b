"""Figure 8, first part: informative positions that differ from example to example."""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import base
from grokscope.spec import RunSpec

# How many tokens of their own the distractors have.
ALPHABETS = {"one distractor token": 1, "43 distractor tokens": 43}
BASELINE, PRIOR, FROZEN = "no prior", "prior", "attention fixed"


def settings(scale: ScaleName) -> Sequence[Setting]:
    if scale != "laptop":
        return []
    return [
        Setting(
            scale,
            name,
            base(scale).replace(
                **{
                    "task.length": 6,
                    "task.positions": "random",
                    "task.distractors": "own" if alphabet > 1 else "operand",
                    "task.alphabet": alphabet,
                }
            ),
        )
        for name, alphabet in ALPHABETS.items()
    ]


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.baseline(seed),
        PRIOR: setting.variant(seed, prior__kind="oracle"),
        FROZEN: setting.variant(seed, interventions__frozen_attention="oracle"),
    }


STUDY = Study(
    name="random-positions",
    source="Figure 8",
    title="Informative positions drawn anew for each example",
    paper_says="Where the informative positions differ between examples, a prior that knows them "
    "for each example restores the bypass: the network groks without the wait.",
    how="The two operands stand, in their order, at two of five places drawn for each example; the "
    "other places hold distractors with tokens of their own (one, or as many as there are "
    "operands), so that attention has to go by content. The prior is told the places of each "
    "example. As the limit of what routing can give, attention is also fixed at the truth.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "prior accelerates",
            "With the penalty (λ = 1) the network groks earlier.",
            Faster(PRIOR, BASELINE, least=1.25),
        ),
        Claim(
            "prior is as good as knowing",
            "… and about as early (to within a fifth) as with attention fixed at the truth.",
            Faster(PRIOR, FROZEN, least=0.8, control=FROZEN),
            ours=True,
        ),
        Claim(
            "routing is the bottleneck",
            "With attention fixed at the truth the network groks earlier than when left alone.",
            Faster(FROZEN, BASELINE, least=1.25),
            ours=True,
        ),
    ),
    draw=figures.draw_tickets,
    caption="Grok epochs, one dot a seed, a bar at the median; triangles for runs that had not "
    "grokked when their budget ended.",
    appendix=True,
)
