"""Figure 1: memorisation, plateau, resurgence, grokking, in runs without any intervention."""

from __future__ import annotations

from grokscope.claims.evidence import GROKKING, Event, Evidence
from grokscope.claims.judgements import Ahead, Level
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import (
    MEMORISED,
    PROSE,
    finished,
    most,
    settings,
)
from grokscope.spec import RunSpec

BASELINE = "no prior"
RIGHT = Event("structured", "get attention right", "epoch at which attention is right")
NO_PLATEAU = "have no plateau: something moves as soon as they have memorised"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {BASELINE: setting.baseline(seed)}


def starves(arm: str, absent: str) -> Level:
    """Also asked of other tasks, with the same threshold."""
    effect = "fall of the gradient"
    return Level(arm, "starvation", effect, low=10, logarithmic=True, absent=absent)


def contracts(arm: str, absent: str) -> Level:
    """Also asked of other optimisers, with the same threshold."""
    return Level(
        arm, "norm_rate", "contraction in units of the decay", low=0.5, high=2, absent=absent
    )


def read(evidence: Evidence) -> str:
    """Was there anything to wait for? Counts the runs whose attention was right at memorisation."""
    parts, any_early = [], False
    for regime, sample in finished(evidence):
        runs = sample.arms[BASELINE]
        early = runs.values("structured") <= runs.values("memorised")  # no number: not early
        any_early |= bool(early.any())
        parts.append(f"{regime} {int(early.sum())} of {len(early)}")
    if not parts:
        return ""
    text = (
        "Runs whose attention was right on 99 % of the inputs by the time they had memorised: "
        f"{', '.join(parts)}."
    )
    if any_early:
        text += (
            " In those its gradient vanishes because nothing is left to correct, and “attention "
            "first” holds from the start."
        )
    return text


STUDY = PROSE.study(
    "four-phases",
    tests={
        "gradient starves": starves(BASELINE, NO_PLATEAU),
        "gradient starves while it waits": Level(
            BASELINE, "waiting_fall", "fall of the gradient", low=10, logarithmic=True
        ),
        "attention first": Ahead(BASELINE, RIGHT, GROKKING, 0.05, MEMORISED, "lead of attention"),
        "near chance until then": Level(
            BASELINE, "right_accuracy", "test accuracy when attention becomes right", high=0.2
        ),
        "norm contracts": contracts(BASELINE, NO_PLATEAU),
        "norm contracts while it waits": Level(
            BASELINE, "waiting_rate", "contraction in units of the decay", low=0.5, high=2
        ),
        "four phases": most(BASELINE, event=Event("four_phases", "show all four phases")),
    },
    settings=settings,
    arms=arms,
    draw=figures.draw_phases,
    read=read,
    curves=("train_accuracy", "test_accuracy", "divergence", "interaction_gradient", "mlp_norm"),
    curve_arms=(BASELINE,),
)
