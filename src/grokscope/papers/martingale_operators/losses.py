"""Does the diagonal likelihood learn any correlation (T4), and which loss does?"""

from __future__ import annotations

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.papers.martingale_operators import figures
from grokscope.papers.martingale_operators.settings import (
    DIAGONAL,
    HEAT,
    JOINT,
    MULTIPLICATIVE,
    PHI4,
    PROSE,
    SEEDS,
    Ratio,
    only,
    vary,
)

ARMS = {
    "diagonal": DIAGONAL,
    "joint": JOINT,
    "moments": {"objective.kind": "moments"},
    "energy": {"objective.kind": "energy"},
}
ERROR = "error of the correlations"
WRONG = 0.25  # error of the correlations from which a joint run counts as failed


def say_failures(evidence: Evidence) -> str:
    """Runs of the joint likelihood that did not learn the correlations."""
    found = []
    for regime, sample in evidence.samples.items():
        joint = sample.arms["joint"]
        for spec, value in zip(joint.specs, joint.values("correlation_error"), strict=True):
            if value > WRONG:
                found.append(f"{regime}, seed {spec.seed} ({value:.2g})")
    if not found:
        return ""
    return (
        f"The joint likelihood is not safe: correlations stay off by more than {WRONG:g} in "
        f"{', '.join(found)}, though the same loss learns them with the other seeds."
    )


STUDY = PROSE.study(
    "losses",
    {
        "diagonal likelihood gets the variances right": Level(
            "diagonal", "std_error", "error of the deviation", high=0.15
        ),
        "diagonal likelihood leaves the correlations wrong": Level(
            "diagonal", "correlation_error", ERROR, low=0.25
        ),
        "some correlation is learned all the same": Level(
            "diagonal", "correlation_error", ERROR, high=0.9
        ),
        "joint likelihood learns the correlations": Ratio(
            "diagonal",
            "correlation_error",
            "correlation_error",
            "diagonal over joint",
            2.0,
            reference="joint",
        ),
        "moments learn the correlations": Ratio(
            "diagonal",
            "correlation_error",
            "correlation_error",
            "diagonal over moments",
            2.0,
            reference="moments",
        ),
        "energy score learns the correlations": Ratio(
            "diagonal",
            "correlation_error",
            "correlation_error",
            "diagonal over energy",
            2.0,
            reference="energy",
        ),
        "scores of points do not tell": Ratio(
            "diagonal", "w2", "w2", "diagonal over joint, pointwise W2", 0.8, 1.25, "joint"
        ),
    },
    settings=only((HEAT, PHI4, MULTIPLICATIVE), smoke=(HEAT,)),
    arms=vary(ARMS),
    draw=figures.draw_losses,
    read=say_failures,
    seeds=SEEDS,
)
