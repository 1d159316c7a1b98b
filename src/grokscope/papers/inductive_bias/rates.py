"""Figure 4, first half: the learning rate at a fixed product with weight decay."""

from __future__ import annotations

from grokscope.claims.evidence import ArmRuns
from grokscope.claims.judgements import Trend
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.judgements import Slope
from grokscope.papers.inductive_bias.settings import (
    GENERALISED,
    MOST,
    PILOTS,
    RUNS,
    TIMES,
    changed,
    plain,
)
from grokscope.papers.inductive_bias.side_by_side import compare_rates
from grokscope.spec import RunSpec

RATES = (1e-3, 3e-3, 5e-3, 1e-2)


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    one = setting.base
    product = one.optimiser.lr * one.optimiser.weight_decay
    usual = one.optimiser.lr
    chosen = RATES[1:3] if setting.scale == "smoke" else RATES
    return {
        f"rate {rate:g}": changed(setting, seed, balanced(rate, product) if rate != usual else {})
        for rate in chosen
    }


def balanced(rate: float, product: float) -> dict[str, float]:
    return {"optimiser.lr": rate, "optimiser.weight_decay": float(f"{product / rate:.6g}")}


def rate(arm: ArmRuns) -> float:
    return arm.spec.optimiser.lr


STUDY = Study(
    name="rates",
    source="Figure 4a and b",
    title="Learning rate, with its product with weight decay fixed",
    paper_says="A higher learning rate at a fixed product with weight decay generalises earlier, "
    "and the early update norms are not comparable: rate and decay are not one knob.",
    how="No LN at four learning rates, decay divided accordingly.",
    settings=plain,
    arms=arms,
    claims=(
        Claim(
            "higher rate is faster",
            "The higher the learning rate, the earlier the network generalises.",
            Trend(rate, "the learning rate", GENERALISED, high=-0.2),
        ),
        Claim(
            "early updates differ",
            "Early updates grow with the learning rate, at least as its square root.",
            Slope("early_update", "the mean early update norm", rate, "the learning rate", low=0.5),
        ),
    ),
    draw=figures.over(rate, "Learning rate"),
    caption=TIMES,
    table=compare_rates,
    curves=("test_loss",),
    curve_arms=tuple(f"rate {rate:g}" for rate in RATES),
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
