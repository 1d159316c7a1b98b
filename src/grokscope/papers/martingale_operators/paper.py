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
from grokscope.papers.martingale_operators.settings import PROSE, REGIMES, middle

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


def _say_factors(table: Tables) -> str:
    parts = []
    for regime in ("phi4", "burgers"):
        arm = table.evidence(distances.STUDY, "laptop").samples[regime].arms["diagonal"]
        if arm.missing == len(arm.rows):
            parts.append(f"{regime}: not run")
            continue
        found = {c: middle(arm, f"dirac_{c}") / middle(arm, c) for c in DEFINITIONS}
        most = {c: middle(arm, f"dirac_{c}") / middle(arm, f"floor_{c}") for c in DEFINITIONS}
        listed = ", ".join(
            f"{DEFINITIONS[c]} {found[c]:.3g} (a fresh sample of the truth {most[c]:.3g})"
            for c in ("w2", "w2_squared", "sliced_squared", "bures", "bures_squared")
        )
        parts.append(f"{regime}: {listed}")
    return "Dirac over operator with the paper's loss. " + "; ".join(parts) + "."


def _say_constant(table: Tables) -> str:
    parts = []
    for regime in REGIMES:
        arms = table.evidence(distances.STUDY, "laptop").samples[regime].arms
        if arms["diagonal"].missing == len(arms["diagonal"].rows):
            parts.append(f"{regime} not run")
            continue
        words = []
        for name in ("diagonal", "joint"):
            ratios = (
                middle(arms[name], f"constant_{c}") / middle(arms[name], c) for c in ("w2", "bures")
            )
            one, joint = ratios
            words.append(f"{one:.2g} / {joint:.2g} ({name})")
        parts.append(f"{regime} {', '.join(words)}")
    return (
        "Constant covariance (B2) over operator, pointwise W2 / joint W2, below 1 where B2 is "
        "closer: " + "; ".join(parts) + "."
    )


def _say_correlation(table: Tables) -> str:
    parts = []
    for regime, sample in table.evidence(losses.STUDY, "laptop").samples.items():
        known = {
            name: middle(arm, "correlation_error")
            for name, arm in sample.arms.items()
            if arm.missing < len(arm.rows)
        }
        listed = ", ".join(f"{name} {value:.2g}" for name, value in known.items())
        parts.append(f"{regime}: {listed or 'not run'}")
    return "Error of the correlations (1: none is learned). " + "; ".join(parts) + "."


def _say_gaussian(table: Tables) -> str:
    sample = table.evidence(wells.STUDY, "laptop").samples["double well"]
    parts = [
        f"{name}: {middle(arm, 'w2') / middle(arm, 'floor_w2'):.2g} times (excess kurtosis "
        f"{middle(arm, 'kurtosis'):.2g})"
        for name, arm in sample.arms.items()
        if arm.missing < len(arm.rows)
    ]
    if not parts:
        return NOT_RUN
    return "Double well, pointwise W2 over the sampling floor: " + "; ".join(parts) + "."


PAPER = PROSE.paper(
    studies=tuple(module.STUDY for module in STUDIES),
    regimes=REGIMES,
    summarise=summarise,
    answer=answer,
)
