"""Figure 4: a prior on attention against a pruned winning ticket."""

from __future__ import annotations

from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference.settings import ORACLE, Changes, only, study, within
from grokscope.spec import RunSpec

KEEP = 0.4
SPARSITIES = (0.7, 0.2, 0.1)

DENSE = "dense"
BAYESIAN = "Bayesian ticket"
LOTTERY = "lottery ticket with its attention"
TICKET = "lottery ticket"
RANDOM = "random mask"
SHUFFLED = "shuffled mask"
SAME_NORM = "dense, norm of the ticket"
ATTENTION = "dense, attention of the ticket"
TRANSFERRED = "lottery ticket, new weights"


def sparsity_arm(keep: float) -> str:
    return f"{TICKET}, {keep:.0%} kept"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    source = setting.baseline(seed)

    def masked(kind: str, changes: Changes | None = None, keep: float = KEEP) -> RunSpec:
        named = "" if kind == "random" else source.id
        mask = within("interventions.mask", kind=kind, keep=keep, source=named)
        return setting.variant(seed, {**mask, **(changes or {})})

    taught = {"interventions.frozen_attention": "teacher", "prior.teacher": source.id}
    result = {
        DENSE: source,
        BAYESIAN: setting.variant(seed, ORACLE),
        LOTTERY: masked("magnitude", taught),
        TICKET: masked("magnitude"),
        RANDOM: masked("random"),
        SHUFFLED: masked("shuffled"),
        SAME_NORM: masked("magnitude", {"interventions.mask.effect": "norm"}),
        ATTENTION: setting.variant(seed, taught),
    }
    if setting.scale == "laptop":
        # Other weights, the same data: the mask must work without the weights it was found with.
        result[TRANSFERRED] = masked("magnitude", {"seed": seed + 100, "task.seed": seed})
        result |= {sparsity_arm(keep): masked("magnitude", keep=keep) for keep in SPARSITIES}
    if setting.regime == "noise":
        # No run without help groks here, so there is no winning ticket to dissect.
        result = {name: result[name] for name in (DENSE, BAYESIAN, LOTTERY, TICKET)}
    return result


STUDY = study(
    "tickets",
    tests={
        "Bayesian matches lottery": Faster(BAYESIAN, LOTTERY, least=0.9, control=DENSE),
        "lottery ticket wins": Faster(LOTTERY, DENSE, least=1.25),
        "attention is the ticket": Faster(ATTENTION, DENSE, least=1.25),
        "mask beats random": Faster(TICKET, RANDOM, least=1.25),
        "mask beats shuffled": Faster(TICKET, SHUFFLED, least=1.25),
        "not just the norm": Faster(TICKET, SAME_NORM, least=1.25),
    },
    settings=only(smoke=("constant",), paper=("bottleneck",)),
    arms=arms,
)
