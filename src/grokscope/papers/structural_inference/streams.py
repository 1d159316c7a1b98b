"""Appendix G: the autoregressive setting, next-token prediction on streams of sparse parities."""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.papers.judgements import Faster, Share
from grokscope.papers.structural_inference import figures
from grokscope.papers.studies import Claim, ScaleName, Setting, Study
from grokscope.spec import RunSpec

BASELINE, PRIOR = "no prior", "prior"


def settings(scale: ScaleName) -> Sequence[Setting]:
    if scale != "laptop":
        return []
    base = RunSpec().replace(
        **{
            "task.kind": "parity_stream",
            "task.bits": 14,
            "task.operands": 3,
            "task.blocks": 2,
            "task.examples": 1600,
            "model.kind": "transformer",
            "model.width": 32,
            "model.hidden": 128,
            "optimiser.lr": 2e-3,
            "optimiser.batch": 512,
            "training.epochs": 4000,
            "training.log_every": 50,
        }
    )
    return [Setting(scale, "stream", base)]


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.variant(seed),
        PRIOR: setting.variant(seed, prior__kind="oracle"),
    }


STUDY = Study(
    name="streams",
    source="Appendix G",
    title="Next-token prediction on streams of parities",
    paper_says="Delayed generalisation and the effect of the prior carry over to autoregressive "
    "next-token prediction on sparse parities.",
    how="A stream is twice fourteen random bits, each time followed by the parity of three of "
    "them. One causal layer of the general transformer predicts every next token, in batches of "
    "512 of 800 streams; only the parities can be known, and they alone count as accuracy. The "
    "penalty is applied where the next token depends on earlier ones: at the last bit of each "
    "block.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "grokking carries over",
            "Without help the network memorises first and generalises later.",
            Share(BASELINE, "grok"),
        ),
        Claim(
            "prior accelerates",
            "With the penalty (λ = 1) it groks earlier.",
            Faster(PRIOR, BASELINE, least=1.25),
        ),
        Claim(
            "prior generalises",
            "With the penalty it groks.",
            Share(PRIOR, "grok"),
            ours=True,
        ),
    ),
    draw=figures.draw_streams,
    caption="Accuracy on the parities of seen and unseen streams, and the divergence of attention "
    "at the positions where they are asked for; median over seeds with the range as a band.",
    curves=("train_accuracy", "test_accuracy", "divergence"),
    curve_arms=(BASELINE, PRIOR),
    appendix=True,
)
