"""Figures 1 and 2: where a LayerNorm stands, and how soon the network generalises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level, Trend
from grokscope.claims.studies import Claim, Comparison, Test
from grokscope.claims.verdicts import Finding, median, median_time, state_time
from grokscope.papers.inductive_bias import figures, places, side_by_side
from grokscope.papers.inductive_bias.judgements import GENERALISED, Association, Few, faster, most
from grokscope.papers.inductive_bias.places import AQK, AV, MA, MAV, NO_NORM, WHOLE, A, M
from grokscope.papers.inductive_bias.settings import PROSE, fewer, plain, study

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


ends_periodic = partial(
    Level, column="fourier_concentration", effect="C_Fourier at the end", low=1.0
)
FIT = Association(FITTED, GENERALISED, high=0.3)
BUT_AQK = tuple(name for name in places.PLACES if name != AQK)
CLOSENESS = Association(DIVERGENCE, GENERALISED, low=0.3)


def state(finding: Finding) -> str:
    """Effect, interval and verdict."""
    if not (found := finding.estimate):
        return finding.ruling
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f}: {finding.ruling})"


def read(evidence: Evidence) -> str:
    """What the verdicts on fit, periodicity and divergence rest on."""
    found: dict[str, list[str]] = {name: [] for name in PROSE.reading("placement")}
    for regime, sample in evidence.finished():
        if not set(BUT_AQK) < set(sample.arms):
            continue
        every, rest, closeness = (
            state(sample.finding(Claim("", "", test)))
            for test in (FIT, replace(FIT, arms=BUT_AQK), CLOSENESS)
        )
        found["fit"].append(f"{regime}: {every} with A^qk, {rest} without")
        counts = ((arm, _fallen(arm)) for arm in sample.arms.values())
        fallen = (f"{arm.name} {count} of {len(arm.rows)}" for arm, count in counts if count)
        found["periodic"].append(f"{regime}: {', '.join(fallen)}")
        order = sorted(sample.arms.values(), key=lambda arm: median_time(arm.times("generalised")))
        far = (f"{arm.name} {arm.median('wait_divergence'):.2f}" for arm in order)
        found["closeness"].append(f"{regime}: {closeness} for {', '.join(far)}")
    return " ".join(
        PROSE.reading("placement")[name].format(found="; ".join(each))
        for name, each in found.items()
        if each
    )


def _fallen(arm: ArmRuns) -> int:
    """Runs that have reached a C_Fourier of 1 and end below it."""
    below = arm.values("fourier_concentration") < 1
    return int((np.isfinite(arm.times(PERIODIC)) & below).sum())


def _time(column: str, arm: ArmRuns) -> str:
    return state_time(median_time(arm.times(column)[arm.finished]))


def _mean(column: str, arm: ArmRuns) -> str:
    values = arm.values(column)
    return f"{np.nanmean(values):.2f}" if np.isfinite(values).any() else "–"


def _periodic(arm: ArmRuns) -> str:
    ends = arm.values("fourier_concentration")[arm.finished]
    return f"{median(ends):.1f} ({(ends >= 1).sum()} of {len(ends)})"


OURS: dict[str, Callable[[ArmRuns], str]] = {
    "test loss 0.01": partial(_time, "low_loss"),
    "test accuracy 0.995": partial(_time, "generalised"),
    "accuracy 0.95 that lasts": partial(_time, "grokked"),
    "fit": partial(_time, "fitted"),
    "C_Fourier at the end (1 or more)": _periodic,
    "accuracy while it waits, mirror trained on": partial(_mean, "wait_mirrored"),
    "the same, others": partial(_mean, "wait_unmirrored"),
    "later rows above loss 0.01": partial(_mean, "relapse"),
}

DOUBLED = {"test loss 0.01", "test accuracy 0.995", "fit", "later rows above loss 0.01"}
ADDED = [name for name in OURS if name not in DOUBLED]  # what stands in no column of side_by_side


def tabulate(evidence: Evidence) -> Comparison | None:
    """Times by three rules, the plateau by mirror images, what happens afterwards; at paper scale
    the authors' numbers before them."""
    several = len(evidence.finished()) > 1
    rows = {
        (f"{arm.name}, {regime}" if several else arm.name): arm
        for regime, sample in evidence.samples.items()
        for arm in sample.arms.values()
        if arm.finished.any()
    }
    beside = side_by_side.compare_placements(evidence)
    names, known = (ADDED, beside.rows) if beside else ([*OURS], [(name,) for name in rows])
    headings = beside.headings if beside else ("variant",)
    told = [(*row, *(OURS[name](rows[row[0]]) for name in names)) for row in known]
    return Comparison((*headings, *names), tuple(told)) if told else None


STUDY = study(
    "placement",
    {
        **ORDER,
        "fit does not predict": FIT,
        "no LN becomes periodic": most(NO_NORM, event=PERIODIC),
        **{f"{name} ends periodic": ends_periodic(name) for name in WHOLE},
        "periodicity follows the order": Association(PERIODIC, GENERALISED, low=0.4, arms=WHOLE),
        "A^qk does not generalise": Few(AQK, control=NO_NORM),
        "A^qk is worse than no LN": faster(NO_NORM, AQK, 1.25),
        "A^v accelerates": faster(AV, NO_NORM, 1.5),
        "A^v is slower than M": faster(M, AV, 1.05),
        "M+A^v is fastest": faster(MAV, M, 0.9),
        "plateau is mirror images": Level(
            NO_NORM, "wait_mirror_gain", "accuracy on mirrored minus other pairs", low=0.1
        ),
        "divergence orders the variants": CLOSENESS,
    },
    settings=lambda scale: [*plain(scale), *fewer(scale)],
    arms=places.place,
    draw=figures.draw_placements,
    read=read,
    table=tabulate,
    curves=("test_loss", "test_accuracy", "train_loss", "fourier_concentration", "parameter_norm"),
    curve_arms=tuple(places.PLACES),
)
