"""Figures 1 and 2: where a LayerNorm stands, and how soon the network generalises."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level, Trend
from grokscope.claims.studies import Test
from grokscope.claims.verdicts import median_time, state_time
from grokscope.papers.inductive_bias import figures, places
from grokscope.papers.inductive_bias.judgements import GENERALISED, Association, faster, few, most
from grokscope.papers.inductive_bias.places import AQK, AV, MA, MAV, NO_NORM, WHOLE, A, M
from grokscope.papers.inductive_bias.settings import fewer, plain, study
from grokscope.papers.inductive_bias.side_by_side import compare_placements

FITTED = Event("fitted", "fit", "step of training loss 0.01")
PERIODIC = Event("fourier", "reach C_Fourier 1", "step of C_Fourier 1")
DIVERGENCE = Event("wait_divergence", "have a divergence", "divergence from the oracle at “=”")


def rank(arm: ArmRuns) -> float | None:
    """Place in the paper's order, 1 the fastest."""
    return WHOLE.index(arm.name) + 1 if arm.name in WHOLE else None


# What is asked of the four placements of whole blocks, wherever they are compared.
ORDER: Mapping[str, Test] = {
    "M beats no LN": faster(M, NO_NORM, 1.5),
    "M+A* beats no LN": faster(MA, NO_NORM, 1.25),
    "A* beats no LN": faster(A, NO_NORM, 1.05),
    "order of placements": Trend(rank, "the place in the paper's order", GENERALISED, low=0.4),
}


def read(evidence: Evidence) -> str:
    """Times by three rules, the plateau by mirror images, and what happens afterwards."""
    sentences = []
    for regime, sample in evidence.finished():
        words = []
        for arm in sample.arms.values():
            times = [arm.times(c) for c in ("low_loss", "generalised", "grokked")]
            words.append(f"{arm.name} {'/'.join(state_time(median_time(each)) for each in times)}")
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


STUDY = study(
    "placement",
    {
        **ORDER,
        "fit does not predict": Association(FITTED, GENERALISED, high=0.3),
        "no LN becomes periodic": most(NO_NORM, event=PERIODIC),
        **{
            f"{name} ends periodic": Level(
                name, "fourier_concentration", "C_Fourier at the end", low=1.0
            )
            for name in WHOLE
        },
        "periodicity follows the order": Association(PERIODIC, GENERALISED, low=0.4, arms=WHOLE),
        "A^qk does not generalise": few(AQK, control=NO_NORM),
        "A^qk is worse than no LN": faster(NO_NORM, AQK, 1.25),
        "A^v accelerates": faster(AV, NO_NORM, 1.5),
        "A^v is slower than M": faster(M, AV, 1.05),
        "M+A^v is fastest": faster(MAV, M, 0.9),
        "plateau is mirror images": Level(
            NO_NORM, "wait_mirror_gain", "accuracy on mirrored minus other pairs", low=0.1
        ),
        "divergence orders the variants": Association(DIVERGENCE, GENERALISED, low=0.3),
    },
    settings=lambda scale: [*plain(scale), *fewer(scale)],
    arms=places.place,
    draw=figures.draw_placements,
    read=read,
    table=compare_placements,
    curves=("test_loss", "test_accuracy", "train_loss", "fourier_concentration", "parameter_norm"),
    curve_arms=tuple(places.PLACES),
)
