"""Figure 3c: is low attention entropy why a norm on queries and keys fails?"""

from __future__ import annotations

from functools import partial

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Setting
from grokscope.draw.words import count_reached
from grokscope.papers.inductive_bias import figures, probes, quantities
from grokscope.papers.inductive_bias.judgements import GENERALISED, Few, HelpsMore, faster, most
from grokscope.papers.inductive_bias.places import AQK, AV, NO_NORM, A, place, with_norm
from grokscope.papers.inductive_bias.settings import FIELDS, PLAIN, PROSE, changed, regimes, study
from grokscope.spec import RunSpec

WATCHED = (NO_NORM, AQK, AV, A)
QK_UNIFORM, NO_UNIFORM = f"{AQK}, uniform attention", f"{NO_NORM}, uniform attention"
QK_PRIOR, NO_SHARP = f"{AQK}, prior", f"{NO_NORM}, low entropy"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        **place(setting, seed, WATCHED),
        QK_UNIFORM: changed(setting, seed, with_norm(AQK) | FIELDS["uniform"]),
        NO_UNIFORM: changed(setting, seed, FIELDS["uniform"]),
        QK_PRIOR: changed(setting, seed, with_norm(AQK) | FIELDS["oracle"]),
        NO_SHARP: changed(setting, seed, FIELDS["sharpened"]),
    }


def read(evidence: Evidence) -> str:
    """How far each arm's entropy is from that of A^qk, and how many of its runs generalise."""
    words, sentences = PROSE.reading("entropy"), []
    for regime, sample in evidence.finished():
        named = sample.arms.items()
        entropies = {name: f"{arm.median('wait_entropy'):.2f}" for name, arm in named}
        counts = {name: count_reached(arm.rows, GENERALISED.column) for name, arm in named}
        every = "; ".join(f"{name} {entropies[name]}, {counts[name]}" for name in entropies)
        given = {"regime": regime.capitalize(), "every": every}
        for key, name in {"sharp": NO_SHARP, "qk": AQK, "a": A, "prior": QK_PRIOR}.items():
            if name in entropies:
                given |= {key: entropies[name], f"{key}_count": counts[name]}
        sentences += [text.format(**given) for text in words.values()]
    return " ".join(sentences)


STUDY = study(
    "entropy",
    {
        "A^qk lowers the entropy": Level(
            AQK, "wait_entropy", "attention entropy", high=-0.05, reference=NO_NORM
        ),
        "low entropy blocks": Few(NO_SHARP, control=NO_NORM),
        "the penalty lowers the entropy enough": Level(
            NO_SHARP, "wait_entropy", "attention entropy", high=0.05, reference=AQK
        ),
        "uniform attention helps A^qk more than no LN": HelpsMore(
            (QK_UNIFORM, AQK), (NO_UNIFORM, NO_NORM), 1.25, GENERALISED
        ),
        "the prior rescues A^qk": most(QK_PRIOR),
        "the prior speeds A^qk up": faster(QK_PRIOR, AQK, 1.5),
        "uniform attention speeds no LN up": faster(NO_UNIFORM, NO_NORM, 1.25),
    },
    settings=regimes({PLAIN: {}}),
    arms=arms,
    draw=figures.draw_entropy,
    read=read,
    curves=("attention_entropy",),
    curve_arms=WATCHED,
    trace=partial(quantities.look, probe=probes.attention_entropy),
)
