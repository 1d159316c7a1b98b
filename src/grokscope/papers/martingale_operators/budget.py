"""Many initial conditions or many noises, at the same number of samples?"""

from __future__ import annotations

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Trend
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import (
    DIAGONAL,
    MULTIPLICATIVE,
    PROSE,
    SEEDS,
    Ratio,
    only,
    vary,
)

SAMPLES = 4096
NOISES = (1, 4, 16, 64, 256)
ARMS = {
    f"{SAMPLES // m} × {m}": {
        **DIAGONAL,
        "equation.conditions": SAMPLES // m,
        "equation.noises": m,
    }
    for m in NOISES
}
DISTANCE = Event("w2", "err", "pointwise W2")
JOINT = Event("bures", "err", "joint W2")
CORRELATIONS = Event("correlation_error", "err", "error of the correlations")
DOSE = "noises per condition"


def noises_of(arm: ArmRuns) -> float:
    return arm.spec.equation.noises


STUDY = PROSE.study(
    "budget",
    {
        "more conditions are better": Trend(noises_of, DOSE, DISTANCE, low=0.3, censored=False),
        "more conditions are better, jointly": Trend(
            noises_of, DOSE, JOINT, low=0.3, censored=False
        ),
        "more noises help the correlations": Trend(
            noises_of, DOSE, CORRELATIONS, high=-0.3, censored=False
        ),
        "one noise is enough": Ratio(
            "4096 × 1", "w2", "w2", "1 noise over 16", high=1.25, reference="256 × 16"
        ),
    },
    settings=only((MULTIPLICATIVE,)),
    arms=vary(ARMS),
    draw=figures.draw_budgets,
    seeds=SEEDS,
)
