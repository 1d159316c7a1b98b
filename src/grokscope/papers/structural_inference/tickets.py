"""Figure 4: a prior on attention against a pruned winning ticket."""

from __future__ import annotations

from typing import Any

from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import GROK_EPOCHS, ORACLE, ask, only
from grokscope.spec import RunSpec

KEEP = 0.4
SPARSITIES: dict[ScaleName, tuple[float, ...]] = {
    "smoke": (),
    "laptop": (0.7, 0.2, 0.1),
    "paper": (),
}

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

    def masked(kind: str, changes: dict[str, Any] | None = None, keep: float = KEEP) -> RunSpec:
        mask = {
            "interventions.mask.kind": kind,
            "interventions.mask.keep": keep,
            "interventions.mask.source": "" if kind == "random" else source.id,
        }
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
    for keep in SPARSITIES[setting.scale]:
        result[sparsity_arm(keep)] = masked("magnitude", keep=keep)
    if setting.regime == "noise":
        # No run without help groks here, so there is no winning ticket to dissect.
        result = {name: result[name] for name in (DENSE, BAYESIAN, LOTTERY, TICKET)}
    return result


STUDY = Study(
    name="tickets",
    source="Figure 4",
    title="A prior against a winning lottery ticket",
    paper_says="A network of fresh random weights with the penalty on attention (the Bayesian "
    "ticket) matches or outperforms a full lottery ticket, that is a trained network pruned by "
    "magnitude, reset to its initial weights and trained again with the attention it had learned.",
    how="A network is trained to the end without help; the two fifths of its MLP weights that are "
    "largest make the mask. The masked network starts again from its initial weights, its "
    "attention fixed to what the trained network had. Controls: the same with attention learned "
    "anew, a random mask, the mask shuffled within each matrix, a dense network scaled to the "
    "initial norm of the ticket, a dense network with the ticket's attention, other sparsities, "
    "and the mask on new weights.",
    settings=only(smoke=("constant",), paper=("bottleneck",)),
    arms=arms,
    claims=(
        Claim(
            "Bayesian matches lottery",
            "The prior is at least as fast (to within a tenth) as the full lottery ticket with two "
            "fifths of its weights.",
            Faster(BAYESIAN, LOTTERY, least=0.9, control=DENSE),
        ),
        Claim(
            "lottery ticket wins",
            "The full lottery ticket is faster than the dense network it was cut from.",
            Faster(LOTTERY, DENSE, least=1.25),
        ),
        Claim(
            "attention is the ticket",
            "A dense network given the ticket's attention alone is faster than one without.",
            Faster(ATTENTION, DENSE, least=1.25),
        ),
        ask(
            "mask beats random",
            "The ticket's mask, without its attention, is faster than a random one.",
            Faster(TICKET, RANDOM, least=1.25),
        ),
        ask(
            "mask beats shuffled",
            "… and faster than the same mask shuffled within each matrix.",
            Faster(TICKET, SHUFFLED, least=1.25),
        ),
        ask(
            "not just the norm",
            "… and faster than a dense network of the same initial norm.",
            Faster(TICKET, SAME_NORM, least=1.25),
        ),
    ),
    draw=figures.draw_tickets,
    caption=GROK_EPOCHS,
)
