"""Figure 8, first part: informative positions that differ from example to example."""

from __future__ import annotations

from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import GROK_EPOCHS, ORACLE, ask, on_laptop
from grokscope.spec import RunSpec

PLACES = {"task.length": 6, "task.positions": "random"}
SETTINGS = {
    "one distractor token": {**PLACES, "task.alphabet": 1},
    "43 distractor tokens": {**PLACES, "task.alphabet": 43, "task.distractors": "own"},
}
BASELINE, PRIOR, FROZEN = "no prior", "prior", "attention fixed"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.baseline(seed),
        PRIOR: setting.variant(seed, ORACLE),
        FROZEN: setting.variant(seed, {"interventions.frozen_attention": "oracle"}),
    }


STUDY = Study(
    name="random-positions",
    source="Figure 8",
    title="Informative positions drawn anew for each example",
    paper_says="Where the informative positions differ between examples, a prior that knows them "
    "for each example restores the bypass: the network groks without the wait.",
    how="The two operands stand, in order, at two of five places drawn for each example; the other "
    "places hold distractors with tokens of their own (one, or as many as there are operands), so "
    "that attention has to go by content. The prior is told the places in each example. As the "
    "limit of what routing can achieve, attention is also fixed at the truth.",
    settings=on_laptop(SETTINGS),
    arms=arms,
    claims=(
        Claim(
            "prior accelerates",
            "With the penalty (λ = 1) the network groks earlier.",
            Faster(PRIOR, BASELINE, least=1.25),
        ),
        ask(
            "prior is as good as knowing",
            "… and about as early (to within a fifth) as with attention fixed at the truth.",
            Faster(PRIOR, FROZEN, least=0.8, control=FROZEN),
        ),
        ask(
            "routing is the bottleneck",
            "With attention fixed at the truth the network groks earlier than when left alone.",
            Faster(FROZEN, BASELINE, least=1.25),
        ),
    ),
    draw=figures.draw_tickets,
    caption=GROK_EPOCHS,
    appendix=True,
)
