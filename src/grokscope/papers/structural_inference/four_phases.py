"""Figure 1: memorisation, plateau, resurgence, grokking, in runs without any intervention."""

from __future__ import annotations

from grokscope.claims.evidence import GROKKING, Event, Evidence
from grokscope.claims.judgements import Ahead, Level
from grokscope.papers.structural_inference import figures, settings

BASELINE = "no prior"
FALL, CONTRACTION = "fall of the gradient", "contraction in units of the decay"
RIGHT_ACCURACY = "test accuracy when attention becomes right"
NO_PLATEAU = "have no plateau: something moves as soon as they have memorised"


def starves(arm: str, absent: str = Level.absent, column: str = "starvation") -> Level:
    """Also asked of other tasks, with the same threshold."""
    return Level(arm, column, FALL, low=10, logarithmic=True, absent=absent)


def contracts(arm: str, absent: str = Level.absent, column: str = "norm_rate") -> Level:
    """Also asked of other optimisers, with the same threshold."""
    return Level(arm, column, CONTRACTION, low=0.5, high=2, absent=absent)


def read(evidence: Evidence) -> str:
    """Was there anything to wait for? Counts the runs whose attention was right at memorisation."""
    early = {}
    for regime, sample in evidence.finished():
        runs = sample.arms[BASELINE]
        # No number, since it never was right: not early.
        early[regime] = runs.values("structured") <= runs.values("memorised")
    if not early:
        return ""
    words = settings.PROSE.reading("four-phases")
    found = ", ".join(f"{regime} {each.sum()} of {len(each)}" for regime, each in early.items())
    some = any(each.any() for each in early.values())
    return " ".join([words["says"].format(found=found), *[words["early"]] * some])


STUDY = settings.study(
    "four-phases",
    tests={
        "gradient starves": starves(BASELINE, NO_PLATEAU),
        "gradient starves while it waits": starves(BASELINE, column="waiting_fall"),
        "attention first": Ahead(
            BASELINE, settings.RIGHT, GROKKING, 0.05, settings.MEMORISED, "lead of attention"
        ),
        "near chance until then": Level(BASELINE, "right_accuracy", RIGHT_ACCURACY, high=0.2),
        "norm contracts": contracts(BASELINE, NO_PLATEAU),
        "norm contracts while it waits": contracts(BASELINE, column="waiting_rate"),
        "four phases": settings.most(BASELINE, event=Event("four_phases", "show all four phases")),
    },
    arms=settings.changing({BASELINE: None}),
    draw=figures.draw_phases,
    read=read,
    curves=("train_accuracy", "test_accuracy", "divergence", "interaction_gradient", "mlp_norm"),
    curve_arms=(BASELINE,),
)
