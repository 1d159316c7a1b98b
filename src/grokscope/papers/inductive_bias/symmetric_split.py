"""Beyond the paper: the same placements where no test pair has its mirror image in training."""

from __future__ import annotations

from dataclasses import replace

from grokscope.claims.studies import Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.placement import order_claims
from grokscope.papers.inductive_bias.settings import (
    AQK,
    AV,
    MOST,
    NO_NORM,
    PILOTS,
    PLACES,
    RUNS,
    TIMES,
    ask,
    changed,
    faster,
    few,
    regimes,
    with_norm,
)
from grokscope.spec import RunSpec

TOGETHER = "mirror pairs together"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {name: changed(setting, seed, with_norm(name)) for name in PLACES}


STUDY = Study(
    name="symmetric-split",
    source="Beyond the paper",
    title="The placements without mirror images between training and test",
    paper_says="Nothing: its split is not symmetric, so that a test pair (a, b) often has (b, a) "
    "among the training pairs, and a network that knows only that a + b = b + a gets those right.",
    how="Pairs and their mirror images are on the same side of the split; everything else is as in "
    "Figure 1.",
    settings=regimes({TOGETHER: {"task.split": "mirror"}}),
    arms=arms,
    claims=(
        *(replace(claim, ours=True) for claim in order_claims()),
        ask("A^v accelerates", "A^v beats no LN.", faster(AV, NO_NORM, 1.5)),
        ask("A^qk does not generalise", "A^qk does not generalise.", few(AQK, control=NO_NORM)),
    ),
    draw=figures.draw_times,
    caption=TIMES,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
    appendix=True,
)
