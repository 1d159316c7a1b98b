"""Figure 8, first part: informative positions that differ from example to example."""

from __future__ import annotations

from grokscope.claims.judgements import Faster
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import ORACLE, PROSE, changing, on_laptop

PLACES = {"task.length": 6, "task.positions": "random"}
SETTINGS = {
    "one distractor token": {**PLACES, "task.alphabet": 1},
    "43 distractor tokens": {**PLACES, "task.alphabet": 43, "task.distractors": "own"},
}
BASELINE, PRIOR, FROZEN = "no prior", "prior", "attention fixed"
FIXED = {"interventions.frozen_attention": "oracle"}

STUDY = PROSE.study(
    "random-positions",
    tests={
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior is as good as knowing": Faster(PRIOR, FROZEN, least=0.8, control=FROZEN),
        "routing is the bottleneck": Faster(FROZEN, BASELINE, least=1.25),
    },
    settings=on_laptop(SETTINGS),
    arms=changing({BASELINE: None, PRIOR: ORACLE, FROZEN: FIXED}),
    draw=figures.draw_tickets,
)
