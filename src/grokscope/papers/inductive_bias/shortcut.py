"""Figure 3a: does the MLP memorise by the size of its input?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.probes import scale_removed
from grokscope.papers.inductive_bias.quantities import look, summarise_scale
from grokscope.papers.inductive_bias.settings import (
    AV,
    MOST,
    NO_NORM,
    PILOTS,
    RUNS,
    M,
    ask,
    complete,
    plain,
    with_norm,
)
from grokscope.spec import RunSpec

FORMS = {
    "authors": "as the authors take it",
    "unit": "unit norm",
    "mean": "the mean norm for all",
    "global": "rescaled together",
}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = (NO_NORM, M) if setting.scale == "smoke" else (NO_NORM, M, AV)
    return {name: setting.baseline(seed).replace(**with_norm(name)) for name in chosen}


def level(arm: str, column: str, name: str, **bounds: Any) -> Level:
    return Level(arm, column, name, **bounds, absent="have no look between fit and generalisation")


def read(evidence: Evidence) -> str:
    """The accuracy that is left at the end under each perturbation."""
    sentences = []
    for regime, sample in complete(evidence):
        words = [
            f"{arm.name} "
            + ", ".join(
                f"{np.nanmean(arm.values(f'end_accuracy_{form}')):.2f} {name}"
                for form, name in FORMS.items()
            )
            for arm in sample.arms.values()
        ]
        sentences.append(
            f"{regime.capitalize()}: accuracy on the training examples at the end with the MLP's "
            f"input perturbed: {'; '.join(words)}."
        )
    return " ".join(sentences)


STUDY = Study(
    name="shortcut",
    source="Figure 3a",
    title="Training loss without the size of the MLP's input",
    paper_says="Without a LayerNorm the network leans on the size of the MLP's input while it "
    "memorises: with every input scaled to norm one (“SR-train”) its training loss is far larger, "
    "rises during memorisation and falls as it generalises. With A^v it does neither; with M it "
    "falls strongly.",
    how="On kept weights, the training loss with the input v of the MLP replaced: by v/|v| (the "
    "paper's form), by v/|v| times the mean norm (only what tells examples apart by size is gone), "
    "and by v over the mean norm (only the common scale is gone), always with the variant's own "
    "attention and norms. The authors' own probe also removes every norm of the network, so it is "
    "a pure perturbation of scale for no LN alone; it is given beside ours. A norm before the MLP "
    "undoes any rescaling: M's own sensitivity is zero by construction.",
    settings=plain,
    arms=arms,
    claims=(
        Claim(
            "no LN leans on scale",
            "Without a LayerNorm the unit norm costs at least one nat of training loss.",
            level(NO_NORM, "gap_unit", "largest excess of SR-train over the training loss", low=1),
        ),
        Claim(
            "SR-train rises",
            "… which rises by at least half a nat after the training examples are fitted …",
            level(NO_NORM, "rise_unit", "rise of SR-train during the wait", low=0.5),
        ),
        Claim(
            "SR-train falls",
            "… and falls by at least half a nat until the end.",
            level(NO_NORM, "fall_unit", "fall of SR-train from its peak to the end", low=0.5),
        ),
        Claim(
            "A^v: SR-train does not rise",
            "With A^v it rises by less than half a nat (the authors' probe).",
            level(AV, "rise_authors", "rise of SR-train during the wait", high=0.5),
        ),
        Claim(
            "M: SR-train falls",
            "With M it falls by at least half a nat (the authors' probe).",
            level(M, "fall_authors", "fall of SR-train from its peak to the end", low=0.5),
        ),
        Claim(
            "A^v: SR-train does not fall",
            "With A^v it falls by less than that (the authors' probe).",
            level(AV, "fall_authors", "fall of SR-train from its peak to the end", high=0.5),
        ),
        ask(
            "A^v: no rise with its norm kept",
            "With A^v and its own attention kept, the rise is less than half a nat, …",
            level(AV, "rise_unit", "rise of SR-train during the wait", high=0.5),
        ),
        ask(
            "A^v: no fall with its norm kept",
            "… and so is the fall.",
            level(AV, "fall_unit", "fall of SR-train from its peak to the end", high=0.5),
        ),
        ask(
            "sizes of single inputs matter",
            "Giving all inputs the same norm, the mean one, costs no LN at least one nat: the "
            "network tells examples apart by their size.",
            level(NO_NORM, "gap_mean", "largest excess with the mean norm", low=1),
        ),
        ask(
            "the common scale matters",
            "Rescaling all inputs together costs no LN at least one nat: part of SR-train is not "
            "about single examples.",
            level(NO_NORM, "gap_global", "largest excess when rescaled together", low=1),
        ),
    ),
    draw=figures.draw_shortcut,
    caption="Training loss under each perturbation of the MLP's input, on kept weights: median and "
    "range over seeds.",
    read=read,
    curve_arms=(NO_NORM, M, AV),
    summarise=summarise_scale,
    trace=partial(look, probe=scale_removed),
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
