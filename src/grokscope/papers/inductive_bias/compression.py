"""Figure 6: do the features become compressible before the network generalises?"""

from __future__ import annotations

from functools import partial

import numpy as np

from grokscope.claims.evidence import Event, Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.judgements import Association
from grokscope.papers.inductive_bias.probes import compressibility
from grokscope.papers.inductive_bias.quantities import (
    look,
    summarise_first_look,
    summarise_rank,
)
from grokscope.papers.inductive_bias.settings import (
    GENERALISED,
    MOST,
    NO_NORM,
    PILOTS,
    RUNS,
    WHOLE,
    A,
    M,
    ask,
    complete,
    plain,
    with_norm,
)
from grokscope.papers.inductive_bias.side_by_side import compare_compression
from grokscope.spec import RunSpec
from grokscope.store import Run

RANK = Event("rank_onset", "have an onset", "step at which the effective rank nears its minimum")
EXPONENT = Event("exponent_onset", "have an onset", "step at which the exponent nears its minimum")


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = (M, NO_NORM) if setting.scale == "smoke" else WHOLE
    return {name: setting.baseline(seed).replace(**with_norm(name)) for name in chosen}


def summarise(run: Run) -> dict[str, float | None]:
    return {**summarise_rank(run), **summarise_first_look(run)}


def read(evidence: Evidence) -> str:
    """Where rank and exponent end, and how good the fits are."""
    sentences = []
    for regime, sample in complete(evidence):
        words = []
        for arm in sample.arms.values():
            rank, trained, exponent, tail, distance = (
                float(np.median(arm.values(column)))
                for column in (
                    "rank_end",
                    "rank_end_train",
                    "exponent_end",
                    "exponent_tail",
                    "exponent_distance",
                )
            )
            words.append(
                f"{arm.name} {rank:.1f} and {trained:.1f}, {exponent:.2f} (n {tail:.0f}, distance "
                f"{distance:.2f})"
            )
        sentences.append(
            f"{regime.capitalize()}: medians at the end of the effective rank on test and on "
            "training examples, and of the exponent with the number n of eigenvalues in the tail "
            f"and the fit's Kolmogorov-Smirnov distance: {'; '.join(words)}."
        )
    return " ".join(sentences)


STUDY = Study(
    name="compression",
    source="Figure 6",
    title="Effective rank and spectrum of the features",
    paper_says="Features change continuously, so training is rich throughout. Variants that "
    "generalise earlier come within a tenth of their lowest effective rank and power-law exponent "
    "earlier, and A* does not reach a lower rank than no LN.",
    how="Pre-logits at “=” on kept weights: eigenvalues of the uncentred z'z, their effective rank "
    "exp(entropy), and the exponent of a power law fitted to their tail, on test examples as in "
    "the authors' released numbers (those on training examples are in the tables). The onset is "
    "the first look within a tenth of the minimum, per seed, of the looks since the training "
    "examples are fitted. A run that does not generalise has none: its minimum would be that of "
    "memorising.",
    settings=plain,
    arms=arms,
    claims=(
        Claim(
            "features keep changing",
            "In every third of the wait without a norm the effective rank moves by 5 % or more.",
            Level(NO_NORM, "rank_move", "smallest movement of log rank in a third", low=0.05),
        ),
        Claim(
            "rank follows the order",
            "Variants whose effective rank nears its minimum earlier generalise earlier.",
            Association(RANK, GENERALISED, low=0.4, arms=WHOLE, censored=False),
        ),
        Claim(
            "exponent follows the order",
            "Variants whose exponent nears its minimum earlier generalise earlier.",
            Association(EXPONENT, GENERALISED, low=0.4, arms=WHOLE, censored=False),
        ),
        Claim(
            "A* is not more compressed",
            "A* does not reach a lower effective rank than no LN (by half a dimension or more).",
            Level(A, "rank_least", "lowest effective rank", low=-0.5, reference=NO_NORM),
        ),
        ask(
            "compression comes after",
            "With M the effective rank nears its minimum only after the network has generalised.",
            Level(M, "rank_lag", "onset after generalisation, as a share of its time", low=0.0),
        ),
        ask(
            "the kernel has left",
            "Without a norm the tangent kernel has moved by more than its own norm at the first "
            "look after the start (step 50 on a laptop, 200 at paper scale).",
            Level(NO_NORM, "kernel_first", "relative drift of the kernel", low=1.0),
        ),
    ),
    draw=figures.draw_compression,
    caption="Effective rank and exponent of the features over training, on kept weights: median "
    "and range over seeds.",
    read=read,
    table=compare_compression,
    curve_arms=WHOLE,
    summarise=summarise,
    trace=partial(look, probe=compressibility),
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
