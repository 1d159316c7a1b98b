"""Figure 3 again: a denser grid of strengths where the prior begins to work."""

from __future__ import annotations

from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference.acceleration import LAW, ROUTING, graded
from grokscope.papers.structural_inference.settings import only, study
from grokscope.spec import RunSpec

STRENGTHS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3)


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return graded(setting, seed, STRENGTHS if setting.scale == "laptop" else STRENGTHS[-1:])


STUDY = study(
    "threshold",
    tests={"inverse law near the threshold": LAW, "routing is inverse near the threshold": ROUTING},
    settings=only(smoke=("noise",), laptop=("noise",)),
    arms=arms,
)
