"""Figure 8, first part: informative positions that differ from example to example."""

from __future__ import annotations

from grokscope.claims.judgements import Faster
from grokscope.papers.structural_inference.settings import (
    FIELDS,
    ORACLE,
    changing,
    on_laptop,
    study,
)

SETTINGS = {name: FIELDS[name] for name in ("one distractor token", "43 distractor tokens")}
BASELINE, PRIOR, FROZEN = "no prior", "prior", "attention fixed"
FIXED = {"interventions.frozen_attention": "oracle"}

STUDY = study(
    "random-positions",
    tests={
        "prior accelerates": Faster(PRIOR, BASELINE, least=1.25),
        "prior is as good as knowing": Faster(PRIOR, FROZEN, least=0.8, control=FROZEN),
        "routing is the bottleneck": Faster(FROZEN, BASELINE, least=1.25),
    },
    settings=on_laptop(SETTINGS),
    arms=changing({BASELINE: None, PRIOR: ORACLE, FROZEN: FIXED}),
)
