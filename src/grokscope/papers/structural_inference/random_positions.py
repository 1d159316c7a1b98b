"""Figure 8, first part: informative positions that differ from example to example."""

from __future__ import annotations

from grokscope.claims.judgements import Faster
from grokscope.papers.structural_inference import settings

SETTINGS = ("one distractor token", "43 distractor tokens")
BASELINE, PRIOR, FROZEN = "no prior", "prior", "attention fixed"
FIXED = {"interventions.frozen_attention": "oracle"}

STUDY = settings.study(
    "random-positions",
    tests={
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior is as good as knowing": Faster(PRIOR, FROZEN, least=0.8, control=FROZEN),
        "routing is the bottleneck": Faster(FROZEN, BASELINE, least=1.25),
    },
    settings=settings.on_laptop({name: settings.FIELDS[name] for name in SETTINGS}),
    arms=settings.changing({BASELINE: None, PRIOR: settings.ORACLE, FROZEN: FIXED}),
)
