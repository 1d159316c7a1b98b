"""Figures 1 and 2: where a LayerNorm stands, and how soon the network generalises."""

from __future__ import annotations

import numpy as np

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level, Trend
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.claims.verdicts import median_time
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.judgements import Association
from grokscope.papers.inductive_bias.settings import (
    AQK,
    AV,
    FITTED,
    GENERALISED,
    MA,
    MAV,
    MOST,
    NO_NORM,
    PERIODIC,
    PILOTS,
    PLACES,
    RUNS,
    TIMES,
    WHOLE,
    A,
    M,
    ask,
    complete,
    faster,
    few,
    fewer,
    most,
    plain,
    with_norm,
)
from grokscope.papers.inductive_bias.side_by_side import compare_placements, step
from grokscope.spec import RunSpec

DIVERGENCE = Event("wait_divergence", "have a divergence", "divergence from the oracle at “=”")


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = (NO_NORM, M) if setting.scale == "smoke" else tuple(PLACES)
    return {name: setting.baseline(seed).replace(**with_norm(name)) for name in chosen}


def rank(arm: ArmRuns) -> float | None:
    """Place in the paper's order, 1 the fastest."""
    return WHOLE.index(arm.name) + 1 if arm.name in WHOLE else None


def order_claims() -> tuple[Claim, ...]:
    """What is said of the four placements of whole blocks, wherever they are compared."""
    return (
        Claim(
            "M beats no LN",
            "A LayerNorm before the MLP (M) makes the network generalise much earlier.",
            faster(M, NO_NORM, 1.5),
        ),
        Claim(
            "M+A* beats no LN",
            "So do LayerNorms before both (M+A*), …",
            faster(MA, NO_NORM, 1.25),
        ),
        Claim(
            "A* beats no LN",
            "… and one before attention alone (A*), by less.",
            faster(A, NO_NORM, 1.05),
        ),
        Claim(
            "order of placements",
            "From early to late: M, M+A*, A*, no LN.",
            Trend(rank, "the place in the paper's order", GENERALISED, low=0.4),
        ),
    )


def read(evidence: Evidence) -> str:
    """Times by three rules, the plateau by mirror images, and what happens afterwards."""
    sentences = []
    for regime, sample in complete(evidence):
        words = []
        for arm in sample.arms.values():
            times = [arm.times(c) for c in ("low_loss", "generalised", "grokked")]
            words.append(f"{arm.name} {'/'.join(step(median_time(each)) for each in times)}")
        sentences.append(
            f"{regime.capitalize()}: median steps of test loss 0.01, of test accuracy 0.995, and "
            f"of accuracy 0.95 that lasts: {'; '.join(words)}."
        )
        mirrored = [
            f"{arm.name} {np.nanmean(arm.values('wait_mirrored')):.2f} and "
            f"{np.nanmean(arm.values('wait_unmirrored')):.2f}"
            for arm in sample.arms.values()
            if np.isfinite(arm.values("wait_mirrored")).any()
        ]
        if mirrored:
            sentences.append(
                "Between fit and generalisation the accuracy on test pairs whose mirror image was "
                f"trained on, and on the others: {'; '.join(mirrored)}."
            )
        relapse = [
            f"{arm.name} {np.nanmean(arm.values('relapse')):.0%}"
            for arm in sample.arms.values()
            if np.isfinite(arm.values("relapse")).any()
        ]
        if relapse:
            sentences.append(
                "Share of the rows after the first at test loss 0.01 that are above it again: "
                f"{', '.join(relapse)}."
            )
    return " ".join(sentences)


STUDY = Study(
    name="placement",
    source="Figures 1, 2 and 3b",
    title="Where a LayerNorm stands decides when the network generalises",
    paper_says="Every placement of a LayerNorm before a whole sublayer speeds generalisation up, "
    "in the order M, M+A*, A*, no LN, and how soon the training examples are fitted does not "
    "predict it. All variants end with periodic embeddings, in the same order. Split by what it "
    "feeds, the norm of attention helps through the values (A^v) and harms through queries and "
    "keys (A^qk).",
    how="One block without a causal mask, read at “=”, with LayerNorms (no epsilon, with gain and "
    "bias) before the MLP (M), before attention (A*; its queries and keys alone A^qk, its values "
    "alone A^v), or both. The main time is the authors' second: the first "
    "row with a test accuracy of 0.995.",
    settings=lambda scale: [*plain(scale), *fewer(scale)],
    arms=arms,
    claims=(
        *order_claims(),
        Claim(
            "fit does not predict",
            "How soon the training examples are fitted does not predict how soon the network "
            "generalises.",
            Association(FITTED, GENERALISED, high=0.3),
        ),
        Claim(
            "no LN becomes periodic",
            "Without a LayerNorm the embeddings become periodic: C_Fourier reaches 1.",
            most(NO_NORM, event=PERIODIC),
        ),
        *(
            Claim(
                f"{name} ends periodic",
                f"At the end of training the embeddings of {name} are periodic: C_Fourier is 1 or "
                "more.",
                Level(name, "fourier_concentration", "C_Fourier at the end", low=1.0),
            )
            for name in WHOLE
        ),
        Claim(
            "periodicity follows the order",
            "Variants whose embeddings become periodic earlier generalise earlier.",
            Association(PERIODIC, GENERALISED, low=0.4, arms=WHOLE),
        ),
        Claim(
            "A^qk does not generalise",
            "With a LayerNorm on queries and keys alone the network does not generalise in time.",
            few(AQK, control=NO_NORM),
        ),
        Claim(
            "A^qk is worse than no LN",
            "… and takes longer than without any.",
            faster(NO_NORM, AQK, 1.25),
        ),
        Claim(
            "A^v accelerates",
            "With a LayerNorm on the values alone it generalises much earlier than without any, …",
            faster(AV, NO_NORM, 1.5),
        ),
        Claim("A^v is slower than M", "… and later than with M.", faster(M, AV, 1.05)),
        ask(
            "M+A^v is fastest",
            "LayerNorms on values and MLP together are at least as fast (to within a tenth) as M.",
            faster(MAV, M, 0.9),
        ),
        ask(
            "plateau is mirror images",
            "Before no LN generalises, test pairs whose mirror image was trained on are right more "
            "often than the others, by at least a tenth.",
            Level(NO_NORM, "wait_mirror_gain", "accuracy on mirrored minus other pairs", low=0.1),
        ),
        ask(
            "divergence orders the variants",
            "Variants whose attention at “=” is closer to the oracle (half on each operand) while "
            "they wait generalise earlier.",
            Association(DIVERGENCE, GENERALISED, low=0.3),
        ),
    ),
    draw=figures.draw_placements,
    caption=f"{TIMES} Then curves by variant: median and range over seeds.",
    read=read,
    table=compare_placements,
    curves=("test_loss", "test_accuracy", "train_loss", "fourier_concentration", "parameter_norm"),
    curve_arms=tuple(PLACES),
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
