"""Figure 6: do the features become compressible before the network generalises?"""

from __future__ import annotations

from functools import partial

import numpy as np

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level
from grokscope.papers.inductive_bias import figures, probes, quantities, side_by_side
from grokscope.papers.inductive_bias.judgements import GENERALISED, Association
from grokscope.papers.inductive_bias.places import NO_NORM, WHOLE, A, M, place
from grokscope.papers.inductive_bias.settings import PROSE, plain, study, tell
from grokscope.store import Run

RANK = Event("rank_onset", "have an onset", "step at which the effective rank nears its minimum")
EXPONENT = Event("exponent_onset", "have an onset", "step at which the exponent nears its minimum")
follows = partial(Association, second=GENERALISED, low=0.4, arms=WHOLE, censored=False)


def summarise(run: Run) -> dict[str, float | None]:
    """With how far the tangent kernel has moved at the first look after the initial one."""
    drift = probes.kernel_drift(run, run.snapshots[1])["kernel_drift"]
    return {**quantities.summarise_rank(run), "kernel_first": drift}


def read(evidence: Evidence) -> str:
    """Where rank and exponent end, and how good the fits are."""
    words = PROSE.reading("compression")
    columns = ("rank_end", "rank_end_train", "exponent_end", "exponent_tail", "exponent_distance")

    def medians(arm: ArmRuns) -> str:
        return words["medians"].format(**{name: np.median(arm.values(name)) for name in columns})

    return tell(evidence, words["what"], medians)


STUDY = study(
    "compression",
    {
        "features keep changing": Level(
            NO_NORM, "rank_move", "smallest movement of log rank in a third", low=0.05
        ),
        "rank follows the order": follows(RANK),
        "exponent follows the order": follows(EXPONENT),
        "A* is not more compressed": Level(
            A, "rank_least", "lowest effective rank", low=-0.5, reference=NO_NORM
        ),
        "compression comes after": Level(
            M, "rank_lag", "onset after generalisation, as a share of its time", low=0.0
        ),
        "the kernel has left": Level(
            NO_NORM, "kernel_first", "relative drift of the kernel", low=1.0
        ),
    },
    settings=plain,
    arms=partial(place, names=WHOLE),
    draw=figures.draw_compression,
    read=read,
    table=side_by_side.compare_compression,
    curve_arms=WHOLE,
    summarise=summarise,
    trace=partial(quantities.look, probe=probes.compressibility),
)
