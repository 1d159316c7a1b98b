"""Martingale neural operators (arXiv 2605.15806): a study of the idea."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grokscope.claims.evidence import Tables
from grokscope.claims.studies import ScaleName
from grokscope.papers.martingale_operators import (
    budget,
    delay,
    distances,
    grids,
    losses,
    rank,
    roughness,
    small_noise,
    speed,
    wells,
)
from grokscope.papers.martingale_operators.evaluation import DEFINITIONS, summarise
from grokscope.papers.martingale_operators.settings import PROSE, REGIMES, middle, typical

STUDIES = (distances, losses, rank, wells, grids, small_noise, roughness, speed, budget, delay)


def answer(tables: Mapping[ScaleName, Tables]) -> Sequence[str]:
    """The central questions with what the laptop tables say."""
    if "laptop" not in tables:
        return ()
    table = tables["laptop"]
    return [
        f"**Which “Wasserstein” could give 120 times?** {_say_factors(table)}",
        f"**How much is left against a constant covariance?** {_say_constant(table)}",
        f"**Does the diagonal likelihood learn any correlation?** {_say_correlation(table)}",
        f"**Where does a Gaussian head stop being enough?** {_say_gaussian(table)}",
    ]


NOT_RUN = "Not run."
SHOWN = ("w2", "sliced", "bures")
RIVALS = {
    "global": "one deviation for all points and conditions (B1)",
    "constant": "one covariance (B2)",
    "floor": "a fresh sample of the truth",
}


def _say_factors(table: Tables) -> str:
    parts = []
    for regime, claimed in distances.CLAIMED.items():
        arm = table.evidence(distances.STUDY, "laptop").samples[regime].arms["diagonal"]
        if arm.missing == len(arm.rows):
            continue
        found = {c: typical(arm, f"dirac_{c}", c) for c in DEFINITIONS}
        best = max(found, key=lambda c: found[c])
        others = ", ".join(f"{DEFINITIONS[c]} gives {found[c]:.2g}" for c in SHOWN if c != best)
        rivals = ", ".join(
            f"{typical(arm, f'dirac_{best}', f'{prefix}_{best}'):.0f} for {words}"
            for prefix, words in RIVALS.items()
        )
        parts.append(
            f"On {regime} at most {found[best]:.0f} times, by {DEFINITIONS[best]} (the paper: "
            f"{claimed:.0f}); {others}. By that most favourable distance it is {rivals}."
        )
    if not parts:
        return NOT_RUN
    return (
        "How many times closer to the truth than its mean alone is the operator with the paper's "
        "loss? " + " ".join(parts)
    )


def _say_constant(table: Tables) -> str:
    parts, solvers = [], []
    for regime, sample in table.evidence(distances.STUDY, "laptop").samples.items():
        arms = [sample.arms[name] for name in ("diagonal", "joint")]
        if any(arm.missing == len(arm.rows) for arm in arms):
            continue
        paper, joint = (typical(a, "constant_bures", "bures") for a in arms)
        same = typical(arms[1], "ranked_bures", "bures")
        parts.append(f"{regime} {paper:.2g}, {joint:.2g} and {same:.2g}")
        coarse = " and ".join(f"{typical(a, 'coarse_bures', 'bures'):.2g}" for a in arms)
        solvers.append(f"{regime} {coarse}")
    if not parts:
        return NOT_RUN
    return (
        "Distance of one covariance for all initial conditions over the operator's (joint W2; "
        "below 1 the constant is better): with the paper's loss, with the joint likelihood, and "
        f"with the joint likelihood against a constant of the same rank: {'; '.join(parts)}. The "
        "same of a coarse solver that has the operations of one forward pass (B6), with the "
        f"paper's loss and with the joint likelihood: {'; '.join(solvers)}."
    )


def _say_correlation(table: Tables) -> str:
    parts = []
    for regime, sample in table.evidence(losses.STUDY, "laptop").samples.items():
        known = [
            f"{name} {middle(arm, 'correlation_error'):.2g}"
            for name, arm in sample.arms.items()
            if arm.missing < len(arm.rows)
        ]
        parts += [f"{regime}: {', '.join(known)}"] if known else []
    if not parts:
        return NOT_RUN
    return (
        "Error of the correlations by loss (1: as far off as a law without any; where correlation "
        f"is learned that is not there it can exceed 1). {'; '.join(parts)}."
    )


def _say_gaussian(table: Tables) -> str:
    arms = table.evidence(wells.STUDY, "laptop").samples["double well"].arms
    known = {name: arm for name, arm in arms.items() if arm.missing < len(arm.rows)}
    heads = [
        f"{middle(arm, 'excess_w2'):.2g} at {name} (excess kurtosis {middle(arm, 'kurtosis'):.1f})"
        for name, arm in known.items()
        if not name.startswith("flow")
    ]
    flows = [
        f"{middle(arm, 'excess_w2'):.2g} at {name.removeprefix('flow, ')}"
        for name, arm in known.items()
        if name.startswith("flow")
    ]
    if not heads:
        return NOT_RUN
    return (
        "In the double well the law splits in two with time. Pointwise W2 of the Gaussian head "
        "beyond that of a fresh sample of the truth, in deviations: "
        f"{', '.join(heads)}; of a flow: {', '.join(flows)}."
    )


PAPER = PROSE.paper(
    studies=tuple(module.STUDY for module in STUDIES),
    regimes=REGIMES,
    summarise=summarise,
    answer=answer,
)
