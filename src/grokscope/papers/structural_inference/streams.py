"""Appendix G: the autoregressive setting, next-token prediction on streams of sparse parities."""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.claims.evidence import Event
from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import MEMORISED, ORACLE, ask, most
from grokscope.spec import RunSpec
from grokscope.store import Run

BASELINE, PRIOR = "no prior", "prior"
DELAY = 1.5


def settings(scale: ScaleName) -> Sequence[Setting]:
    if scale != "laptop":
        return []
    base = RunSpec().replace(
        **{
            "task.kind": "parity_stream",
            "task.bits": 12,
            "task.operands": 3,
            "task.blocks": 2,
            "task.examples": 800,
            "model.kind": "transformer",
            "model.width": 32,
            "model.hidden": 128,
            "optimiser.lr": 2e-3,
            "optimiser.batch": 512,
            "training.epochs": 2000,
            "training.log_every": 50,
        }
    )
    return [Setting(scale, "stream", base)]


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        BASELINE: setting.variant(seed),
        PRIOR: setting.variant(seed, ORACLE),
    }


def summarise(run: Run) -> dict[str, float | None]:
    """The grok epoch of a run that had memorised long before, None for any other run."""
    memorised, grokked = (run.outcome[name]["epoch"] for name in ("memorised", "grokked"))
    late = None not in (memorised, grokked) and grokked >= DELAY * memorised
    return {"delayed": grokked if late else None}


STUDY = Study(
    name="streams",
    source="Appendix G",
    title="Next-token prediction on streams of parities",
    paper_says="Delayed generalisation and the effect of the prior carry over to autoregressive "
    "next-token prediction on sparse parities.",
    how="A stream is twice twelve random bits, each time followed by the parity of three of them. "
    "One causal layer of the general transformer predicts every next token, in batches of 512 "
    "drawn from 400 streams; only the parities can be known, and they alone count as accuracy. The "
    "penalty is applied where the next token depends on earlier ones: at the last bit of each "
    "block. The budget is 2,000 steps. The sizes are smaller than those of a trial run (twice "
    "fourteen bits, 800 streams), in which a network without help had not memorised within that "
    "budget either.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "grokking carries over",
            "Without help the network memorises first and generalises later (at one and a half "
            "times the epoch, or more).",
            most(BASELINE, event=Event("delayed", "grok late"), given=MEMORISED),
        ),
        Claim(
            "prior accelerates",
            "With the penalty (λ = 1) it groks earlier.",
            Faster(PRIOR, BASELINE, least=1.25),
        ),
        ask("prior generalises", "With the penalty it groks.", most(PRIOR)),
    ),
    draw=figures.draw_streams,
    caption="Accuracy on the parities of seen and unseen streams, and the divergence of attention "
    "at the positions where they are predicted; median over seeds with the range as a band.",
    curves=("train_accuracy", "test_accuracy", "divergence"),
    curve_arms=(BASELINE, PRIOR),
    summarise=summarise,
    appendix=True,
)
