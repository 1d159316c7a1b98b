"""Beyond the paper: which part of the set-up do the placements depend on?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grokscope.claims.studies import Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.placement import order_claims
from grokscope.papers.inductive_bias.settings import (
    MOST,
    NO_NORM,
    PILOTS,
    RUNS,
    TIMES,
    WHOLE,
    changed,
    regimes,
    with_norm,
)
from grokscope.spec import RunSpec

# What differs in the base, and in the norms of those arms that have one.
PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no gain": ({}, {"model.norm_gain": "no"}),
    "epsilon 1e-5": ({}, {"model.norm_epsilon": 1e-5}),
    "ReLU": ({"model.activation": "relu"}, {}),
}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    normed = PARTS[setting.regime][1]
    found = {}
    for name in WHOLE:
        changes = with_norm(name) | (normed if name != NO_NORM else {})
        found[name] = changed(setting, seed, changes)
    return found


STUDY = Study(
    name="norm-parts",
    source="Beyond the paper",
    title="Gain, epsilon and activation",
    paper_says="Nothing of norms without gain and bias or with an epsilon. Its released code "
    "defaults to ReLU at its last commit, its published curves are GELU's.",
    how="The placements of whole blocks with LayerNorms that learn no gain and no bias, with "
    "PyTorch's usual epsilon of 1e-5, and with ReLU in the MLP.",
    settings=regimes({name: changes for name, (changes, _) in PARTS.items()}),
    arms=arms,
    claims=tuple(replace(claim, ours=True) for claim in order_claims()),
    draw=figures.draw_times,
    caption=TIMES,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
    appendix=True,
)
