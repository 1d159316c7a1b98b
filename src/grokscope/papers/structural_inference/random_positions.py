"""Figure 8, first part: informative positions that differ from example to example."""

from __future__ import annotations

from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import (
    GROK_EPOCHS,
    ORACLE,
    PROSE,
    on_laptop,
)
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


STUDY = PROSE.study(
    "random-positions",
    tests={
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior is as good as knowing": Faster(PRIOR, FROZEN, least=0.8, control=FROZEN),
        "routing is the bottleneck": Faster(FROZEN, BASELINE, least=1.25),
    },
    settings=on_laptop(SETTINGS),
    arms=arms,
    draw=figures.draw_tickets,
    caption=GROK_EPOCHS,
    appendix=True,
)
