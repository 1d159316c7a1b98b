"""Figure 3: how much does a penalty on attention accelerate grokking, and by which law?"""

from __future__ import annotations

import math

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.judgements import Faster, InverseLaw, Trend
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import ORACLE, finished, settings
from grokscope.spec import RunSpec

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BASELINE = "no prior"


def arm(strength: float) -> str:
    return f"strength {strength:g}" if strength else BASELINE


def strengths(setting: Setting) -> tuple[float, ...]:
    if setting.scale == "smoke":
        return (0.1, 1.0)
    if (setting.scale, setting.regime) == ("paper", "constant"):
        return (0.01, 0.1, 1.0, 10.0)
    return STRENGTHS


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.baseline(seed),
        **{
            arm(strength): setting.variant(seed, {**ORACLE, "prior.strength": strength})
            for strength in strengths(setting)
        },
    }


def dose(one: ArmRuns) -> float:
    """Strength of the prior; 0 without one."""
    return one.spec.prior.strength if one.spec.prior.kind == "oracle" else 0.0


LAW = InverseLaw(dose)
INVERSE = Claim("inverse law", "The grok epoch is linear in 1/λ until a floor.", LAW)


def read(evidence: Evidence) -> str:
    """The fitted law in each regime: slope, floor, and from where the floor dominates."""
    sentences = []
    for regime, sample in finished(evidence):
        finding = evidence.findings(INVERSE)[regime]
        if finding.estimate is None or math.isnan(finding.estimate.value):
            sentences.append(f"{regime.capitalize()}: {finding.remark}.")
            continue
        law, floor_is = LAW.fit(sample)
        sentences.append(
            f"{regime.capitalize()}: grok epoch = {law.floor:,.0f} + {law.scale:,.3g} / "
            f"λ^{law.exponent:.2f} (exponent: {finding.estimate}); the floor {floor_is}."
        )
    return " ".join(sentences)


STUDY = Study(
    name="acceleration",
    source="Figure 3",
    title="A prior on attention, from weak to strong",
    paper_says="Increasing the penalty moves grokking earlier, and the grok epoch is approximately "
    "linear in the inverse of its strength until it reaches a floor set by early training.",
    how="A penalty λ KL(true posterior ‖ attention) is added to the loss, with λ from 0.01 to 10. "
    "Grok epochs are compared with those of runs without a penalty, and a law floor + c / λ^b is "
    "fitted.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "prior accelerates",
            "With the penalty (λ = 1) the network groks much earlier.",
            Faster(arm(1.0), BASELINE, least=1.25),
        ),
        Claim(
            "stronger is faster",
            "The grok epoch falls as the strength grows.",
            Trend(dose, "the strength of the prior (0 without one)", high=-0.3),
        ),
        INVERSE,
    ),
    draw=figures.draw_acceleration,
    caption="Grok epoch against the strength of the penalty, both on log scales; one dot per seed, "
    "triangles for runs that had not grokked when their budget ended. The line is the fitted law; "
    "the band on the left holds the runs without a penalty, the dashed line their median.",
    read=read,
)
