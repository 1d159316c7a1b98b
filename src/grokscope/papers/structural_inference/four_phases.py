"""Figure 1: memorisation, plateau, resurgence, grokking, in runs without any intervention."""

from __future__ import annotations

from grokscope.claims.evidence import Event, Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import finished, most, settings
from grokscope.spec import RunSpec

BASELINE = "no prior"
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


STUDY = Study(
    name="four-phases",
    source="Figure 1",
    title="Four phases of a run without help",
    paper_says="A spike of gradient while the network memorises is followed by a collapse: the MLP "
    "fits the training data, so attention is hardly taught. Weight decay then contracts the MLP "
    "until attention can move; the divergence falls first, then test accuracy rises.",
    how="We train the network without any prior and follow accuracy, the divergence D between the "
    "true posterior and attention, the task's gradient on the attention interaction, and the norm "
    "of the MLP.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "gradient starves",
            "After memorisation the task's gradient on attention collapses.",
            starves(BASELINE, NO_PLATEAU),
        ),
        Claim(
            "attention first",
            "Attention condenses before test accuracy rises.",
            Level(
                BASELINE,
                "lead",
                "lead of the divergence (share of the grok epoch)",
                low=0.05,
                absent="did not grok",
            ),
        ),
        Claim(
            "norm contracts",
            "On the plateau the norm of the MLP contracts geometrically at the rate of the decay.",
            contracts(BASELINE, NO_PLATEAU),
        ),
        Claim(
            "four phases",
            "All four phases can be found, each by its rule.",
            most(BASELINE, event=Event("four_phases", "show all four phases")),
        ),
    ),
    draw=figures.draw_phases,
    read=read,
    caption="Median over seeds with the range as a band. Top to bottom: accuracy on seen and "
    "unseen examples; divergence of attention from the true positions (0 is right); the task's "
    "gradient on attention, on a log scale; the norm of the MLP.",
    curves=("train_accuracy", "test_accuracy", "divergence", "interaction_gradient", "mlp_norm"),
    curve_arms=(BASELINE,),
)
