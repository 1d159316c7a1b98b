"""Figure 3 again: a denser grid of strengths where the prior begins to work."""

from __future__ import annotations

from grokscope.claims.judgements import InverseLaw
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.acceleration import ROUTED, arm, dose
from grokscope.papers.structural_inference.settings import ORACLE, PROSE, only
from grokscope.spec import RunSpec

STRENGTHS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3)


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        arm(strength): setting.variant(seed, {**ORACLE, "prior.strength": strength})
        for strength in (STRENGTHS if setting.scale == "laptop" else STRENGTHS[-1:])
    }


STUDY = PROSE.study(
    "threshold",
    tests={
        "inverse law near the threshold": InverseLaw(dose),
        "routing is inverse near the threshold": InverseLaw(dose, ROUTED),
    },
    settings=only(smoke=("noise",), laptop=("noise",)),
    arms=arms,
    draw=figures.draw_tickets,
    appendix=True,
)
