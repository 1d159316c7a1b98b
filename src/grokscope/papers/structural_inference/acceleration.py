"""Figure 3: how much does a penalty on attention accelerate grokking, and by which law?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.judgements import Faster, InverseLaw, Trend
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures, settings
from grokscope.spec import RunSpec

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
BASELINE = "no prior"


def arm(strength: float) -> str:
    return f"strength {strength:g}"


def strengths(setting: Setting) -> tuple[float, ...]:
    if setting.scale == "smoke":
        return (0.1, 1.0)
    if (setting.scale, setting.regime) == ("paper", "constant"):
        return (0.01, 0.1, 1.0, 10.0)
    return STRENGTHS


def graded(setting: Setting, seed: int, strengths: Sequence[float]) -> dict[str, RunSpec]:
    return {
        arm(strength): setting.variant(seed, {**settings.ORACLE, "prior.strength": strength})
        for strength in strengths
    }


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {BASELINE: setting.baseline(seed), **graded(setting, seed, strengths(setting))}


def dose(one: ArmRuns) -> float:
    """Strength of the prior; 0 without one."""
    return one.spec.prior.strength if one.spec.prior.kind == "oracle" else 0.0


LAW = InverseLaw(dose)
# What eq. 7 bounds is the time until attention is right, not until the network has grokked.
ROUTING = InverseLaw(dose, settings.RIGHT)


def read(evidence: Evidence) -> str:
    """The fitted law in each regime: slope, floor, and from where the floor dominates."""
    sentences = []
    (claim,) = (claim for claim in evidence.study.claims if claim.test is LAW)
    for regime, sample in evidence.finished():
        finding = evidence.findings(claim)[regime]
        said = finding.remark
        if finding.estimate is not None and not math.isnan(finding.estimate.value):
            law, floor_is = LAW.fit(sample)
            said = (
                f"grok epoch = {law.floor:,.0f} + {law.scale:,.3g} / λ^{law.exponent:.2f} "
                f"(exponent: {finding.estimate}); the floor {floor_is}"
            )
        sentences.append(f"{regime.capitalize()}: {said}.")
    return " ".join(sentences)


STUDY = settings.study(
    "acceleration",
    tests={
        "prior accelerates": Faster(arm(1.0), BASELINE, least=1.25),
        "stronger is faster": Trend(dose, "the strength of the prior (0 without one)", high=-0.3),
        "inverse law": LAW,
        "inverse law of routing": ROUTING,
    },
    arms=arms,
    draw=figures.draw_acceleration,
    read=read,
)
