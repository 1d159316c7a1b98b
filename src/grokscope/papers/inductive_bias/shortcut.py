"""Figure 3a: does the MLP memorise by the size of its input?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.verdicts import median
from grokscope.draw.evidence import curve_of
from grokscope.papers.inductive_bias import figures, probes, quantities, side_by_side
from grokscope.papers.inductive_bias.places import AV, NO_NORM, M, place
from grokscope.papers.inductive_bias.settings import PROSE, plain, study, tell

ARMS = (NO_NORM, M, AV)
FORMS = {
    "authors": "as the authors take it",
    "unit": "unit norm",
    "mean": "the mean norm for all",
    "global": "rescaled together",
}


def level(arm: str, column: str, name: str, **bounds: Any) -> Level:
    return Level(arm, column, name, **bounds, absent="have no look between fit and generalisation")


def read(evidence: Evidence) -> str:
    """The accuracy that is left at the end under each perturbation."""
    words = PROSE.reading("shortcut")

    def accuracies(arm: ArmRuns) -> str:
        means = {form: np.nanmean(arm.values(f"end_accuracy_{form}")) for form in FORMS}
        return ", ".join(f"{mean:.2f} {FORMS[form]}" for form, mean in means.items())

    def climbs(arm: ArmRuns) -> str:
        authors, unit = (median(climbs_of(evidence, arm, form)) for form in ("authors", "unit"))
        return f"{authors:.2f} and {unit:.2f}"

    told = (tell(evidence, words["left"], accuracies), tell(evidence, words["risen"], climbs))
    return " ".join(told)


def climbs_of(evidence: Evidence, arm: ArmRuns, form: str) -> np.ndarray:  # (runs with looks,)
    """As the column of that name, from the kept curves."""
    column, found = f"sr_{form}_loss", []
    for row in filter(None, arm.rows):
        if len(looks := curve_of(evidence, row["run"], column)):
            epochs, loss = looks["epoch"].to_numpy(), looks[column].to_numpy()
            found.append(quantities.climb_of(epochs, loss, row["generalised"]))
    return np.array(found)


EXCESS = "largest excess of SR-train over the training loss"
RISE = "rise of SR-train during the wait"
CLIMB = "climb of SR-train from the first look of all"
FALL = "fall of SR-train from its peak to the end"

STUDY = study(
    "shortcut",
    {
        "no LN leans on scale": level(NO_NORM, "gap_unit", EXCESS, low=1),
        "SR-train rises": level(NO_NORM, "rise_unit", RISE, low=0.5),
        "SR-train falls": level(NO_NORM, "fall_unit", FALL, low=0.5),
        "A^v: SR-train does not rise": level(AV, "climb_authors", CLIMB, high=0.5),
        "M: SR-train falls": level(M, "fall_authors", FALL, low=0.5),
        "A^v: SR-train does not fall": level(AV, "fall_authors", FALL, high=0.5),
        "A^v: no rise with its norm kept": level(AV, "climb_unit", CLIMB, high=0.5),
        "A^v: no fall with its norm kept": level(AV, "fall_unit", FALL, high=0.5),
        "sizes of single inputs matter": level(
            NO_NORM, "gap_mean", "largest excess with the mean norm", low=1
        ),
        "the common scale matters": level(
            NO_NORM, "gap_global", "largest excess when rescaled together", low=1
        ),
    },
    settings=plain,
    arms=partial(place, names=ARMS),
    draw=figures.draw_shortcut,
    read=read,
    table=side_by_side.compare_scale,
    curve_arms=ARMS,
    summarise=quantities.summarise_scale,
    trace=partial(quantities.look, probe=probes.scale_removed),
)
