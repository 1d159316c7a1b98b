"""Figure 3c: is low attention entropy why a norm on queries and keys fails?"""

from __future__ import annotations

from functools import partial
from typing import Any

from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.judgements import HelpsMore
from grokscope.papers.inductive_bias.probes import attention_entropy
from grokscope.papers.inductive_bias.quantities import look
from grokscope.papers.inductive_bias.settings import (
    AQK,
    AV,
    GENERALISED,
    MOST,
    NO_NORM,
    PILOTS,
    PLAIN,
    RUNS,
    TIMES,
    A,
    ask,
    changed,
    faster,
    few,
    most,
    regimes,
    with_norm,
)
from grokscope.spec import RunSpec

UNIFORM: dict[str, Any] = {"interventions.frozen_attention": "uniform"}
ORACLE: dict[str, Any] = {"prior.kind": "oracle"}
SHARPENED: dict[str, Any] = {"prior.kind": "entropy", "prior.strength": 0.1}
QK_UNIFORM, NO_UNIFORM = f"{AQK}, uniform attention", f"{NO_NORM}, uniform attention"
QK_PRIOR, NO_SHARP = f"{AQK}, prior", f"{NO_NORM}, low entropy"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    one = setting.baseline(seed)
    return {
        **{name: one.replace(**with_norm(name)) for name in (NO_NORM, AQK, AV, A)},
        QK_UNIFORM: changed(setting, seed, with_norm(AQK) | UNIFORM),
        NO_UNIFORM: changed(setting, seed, UNIFORM),
        QK_PRIOR: changed(setting, seed, with_norm(AQK) | ORACLE),
        NO_SHARP: changed(setting, seed, SHARPENED),
    }


STUDY = Study(
    name="entropy",
    source="Figure 3c",
    title="Does low attention entropy block generalisation?",
    paper_says="A LayerNorm on queries and keys lowers the entropy of attention, so that the "
    "network attends to one operand and cannot compose the two.",
    how="The paper shows entropies; we also intervene. Attention fixed at one third everywhere "
    "takes queries and keys out of the game: if A^qk fails through attention, this must help it, "
    "and more than it helps no LN. A prior λ KL(oracle ‖ attention) with λ = 1 pulls attention at "
    "“=” to one half on each operand. The other way round, a penalty of 0.1 times the entropy "
    "sharpens the attention of the network without norms. Entropies are means over heads at “=”, "
    "the row that is read.",
    settings=regimes({PLAIN: {}}),
    arms=arms,
    claims=(
        Claim(
            "A^qk lowers the entropy",
            "While they wait, attention at “=” has less entropy with A^qk than without a norm, by "
            "at least 0.05 nats.",
            Level(AQK, "wait_entropy", "attention entropy", high=-0.05, reference=NO_NORM),
        ),
        Claim(
            "low entropy blocks",
            "Sharpened attention keeps the network without norms from generalising in time.",
            few(NO_SHARP, control=NO_NORM),
        ),
        ask(
            "the penalty lowers the entropy enough",
            "While it waits, sharpened attention has no more entropy than that of A^qk, to within "
            "0.05 nats.",
            Level(NO_SHARP, "wait_entropy", "attention entropy", high=0.05, reference=AQK),
        ),
        ask(
            "uniform attention helps A^qk more than no LN",
            "Uniform attention speeds A^qk up more than it speeds no LN up, by a fourth or more.",
            HelpsMore((QK_UNIFORM, AQK), (NO_UNIFORM, NO_NORM), 1.25, GENERALISED),
        ),
        ask(
            "the prior rescues A^qk",
            "With the prior on attention A^qk generalises …",
            most(QK_PRIOR),
        ),
        ask(
            "the prior speeds A^qk up",
            "… and much earlier than by itself.",
            faster(QK_PRIOR, AQK, 1.5),
        ),
        ask(
            "uniform attention speeds no LN up",
            "Uniform attention makes the network without norms generalise earlier.",
            faster(NO_UNIFORM, NO_NORM, 1.25),
        ),
        ask(
            "with uniform attention the norm is idle",
            "With uniform attention A^qk and no LN are the same network: queries and keys are not "
            "read. A^qk is as fast.",
            faster(QK_UNIFORM, NO_UNIFORM, 0.8),
        ),
    ),
    draw=figures.draw_entropy,
    caption=f"{TIMES} Then entropy of attention: mean over heads at “=”, and as the authors take "
    "it (of the mean over heads, on average over all three rows, dashed).",
    curves=("attention_entropy",),
    curve_arms=(NO_NORM, AQK, AV, A),
    trace=partial(look, probe=attention_entropy),
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
