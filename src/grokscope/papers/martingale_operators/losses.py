"""Does the diagonal likelihood learn any correlation (T4), and which loss does?"""

from __future__ import annotations

from functools import partial

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.papers.martingale_operators.figures import draw_losses
from grokscope.papers.martingale_operators.judgements import Ratio
from grokscope.papers.martingale_operators.settings import PROSE, study

ERROR = "error of the correlations"
WRONG = 0.25  # error of the correlations from which a joint run counts as failed
correlations = partial(Level, "diagonal", "correlation_error", ERROR)


def say_failures(evidence: Evidence) -> str:
    """Runs of the joint likelihood that did not learn the correlations."""
    found = [
        f"{regime}, seed {spec.seed} ({value:.2g})"
        for regime, sample in evidence.samples.items()
        for joint in [sample.arms["joint"]]
        for spec, value in zip(joint.specs, joint.values("correlation_error"), strict=True)
        if value > WRONG
    ]
    words = PROSE.reading("losses")["unsafe"]
    return words.format(WRONG=WRONG, RUNS=", ".join(found)) if found else ""


def better(loss: str) -> Ratio:
    """Another loss learns the correlations."""
    return Ratio("diagonal", "correlation_error", f"diagonal over {loss}", 2.0, reference=loss)


STUDY = study(
    "losses",
    ["heat", "φ⁴", "Burgers, multiplicative noise"],
    ["diagonal", "joint", "moments", "energy"],
    {
        "diagonal likelihood gets the variances right": Level(
            "diagonal", "std_error", "error of the deviation", high=0.15
        ),
        "diagonal likelihood leaves the correlations wrong": correlations(low=0.25),
        "some correlation is learned all the same": correlations(high=0.9),
        "joint likelihood learns the correlations": better("joint"),
        "moments learn the correlations": better("moments"),
        "energy score learns the correlations": better("energy"),
        "scores of points do not tell": Ratio(
            "diagonal", "w2", "diagonal over joint, pointwise W2", 0.8, 1.25, reference="joint"
        ),
    },
    smoke="heat",
    draw=draw_losses,
    read=say_failures,
)
