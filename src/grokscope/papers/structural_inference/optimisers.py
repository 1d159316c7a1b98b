"""Figure 11, second part: does the norm decay on the plateau under any batch size, momentum and
optimiser?

The rates and decays of the other optimisers, and the batch sizes, were chosen on short pilot runs
of another seed, so that they memorise; thresholds are those of figure 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.structural_inference import figures, theory
from grokscope.papers.structural_inference.four_phases import contracts
from grokscope.papers.structural_inference.quantities import plateau_rows
from grokscope.papers.structural_inference.settings import ask, only
from grokscope.spec import RunSpec
from grokscope.store import Run

ADAMW = "AdamW, full batch"
GUARANTEED = "guaranteed contraction in units of the decay"
NO_PLATEAU = "have no plateau: they do not memorise, or something moves as soon as they have"
BATCHES: dict[str, dict[str, Any]] = {
    f"batch of {size}": {"optimiser.batch": size} for size in (512, 256, 128)
}
MOMENTA: dict[str, dict[str, Any]] = {
    **{f"beta1 {value:g}": {"optimiser.beta1": value} for value in (0.0, 0.95)},
    **{f"beta2 {value:g}": {"optimiser.beta2": value} for value in (0.9, 0.98)},
}
# Learning rate and decay of each.
OPTIMISERS: dict[str, dict[str, Any]] = {
    name: {"optimiser.kind": name.lower(), "optimiser.lr": rate, "optimiser.weight_decay": decay}
    for name, rate, decay in (("SGD", 1.0, 1e-3), ("Lion", 1e-3, 0.3), ("Muon", 1e-2, 0.3))
}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    # In noise pilots with batches of 128 and 256 had not memorised after 2,500 and 1,500 steps.
    batches = BATCHES if setting.regime == "constant" else {}
    changed = {
        name: setting.variant(seed, change)
        for name, change in (batches | MOMENTA | OPTIMISERS).items()
    }
    return {ADAMW: setting.baseline(seed), **changed}


def summarise(run: Run) -> Mapping[str, float | None]:
    """What statement 1 guarantees on the plateau, and whether the run kept to it: its length if
    the norm at every row is within what the row before allows."""
    from grokscope.papers.structural_inference.certificates.checks import (
        contraction_checks,
        update_bound,
    )

    curve = {name: run.curve[name].to_numpy() for name in ("epoch", "mlp_norm")}
    weights = run.weights()
    checks = list(contraction_checks(run.spec, curve, weights))
    kept = bool(checks) and all(check.holds for check in checks)
    rate = certified_rate(curve, run.outcome, run.spec, update_bound(run.spec, weights))
    return {"bound_kept": run.outcome["epochs"] if kept else None, "certified_rate": rate}


def certified_rate(
    curve: Mapping[str, np.ndarray], outcome: Mapping[str, Any], spec: RunSpec, updates: float
) -> float | None:
    """The least rate of contraction over the plateau that statement 1 guarantees, with |U| <=
    `updates`, in the units of `norm_rate`: 1 if there were no updates, below 0 where the norm may
    grow. None without a plateau."""
    rows = plateau_rows(curve, outcome)
    if rows is None:
        return None
    rate, decay = spec.optimiser.lr, spec.optimiser.weight_decay
    steps = float(np.ptp(curve["epoch"][rows]))
    norm = float(curve["mlp_norm"][rows][0])
    bound = float(theory.norm_bound(norm, rate, decay, updates, steps))
    return math.log(bound / norm) / (steps * math.log1p(-rate * decay))


def read(evidence: Evidence) -> str:
    """How many runs shrink at all, and what the bound of each optimiser guarantees."""
    sentences = []
    for regime, sample in evidence.samples.items():
        present = [arm for arm in sample.arms.values() if arm.sound]
        rates = np.concatenate([arm.values("norm_rate") for arm in present] or [np.array([])])
        known = rates[np.isfinite(rates)]
        if not len(known):
            continue
        text = (
            f"{regime.capitalize()}: {len(known)} of {len(rates)} runs have a plateau; the norm "
            f"shrinks on it in {int((known > 0).sum())} of these."
        )
        guarantees = [
            f"{arm.name} {np.nanmean(arm.values('certified_rate')):.2g} (measured "
            f"{np.nanmean(arm.values('norm_rate')):.2g})"
            for arm in present
            if arm.name in (ADAMW, *OPTIMISERS) and np.isfinite(arm.values("certified_rate")).any()
        ]
        if guarantees:
            text += (
                " Mean contraction that the bound guarantees, in units of the decay: "
                f"{', '.join(guarantees)}; below 0 it allows the norm to grow."
            )
        kept = np.concatenate([arm.values("bound_kept") for arm in present])
        text += f" {int(np.isfinite(kept).sum())} of {len(kept)} runs keep to it at every row."
        sentences.append(text)
    return " ".join(sentences)


def contraction_claim(arm: str, under: str) -> Claim:
    says = f"{under} {arm} the norm contracts on the plateau at the decay's rate."
    return Claim(f"norm contracts, {arm}", says, contracts(arm, NO_PLATEAU))


STUDY = Study(
    name="optimisers",
    source="Figure 11",
    title="Norm decay under other batches, momenta and optimisers",
    paper_says="The decay of the MLP's norm in the second phase survives other batch sizes and "
    "other momenta of Adam, and SGD, AdamW, Lion and Muon all contract the norm.",
    how="Figure 1's measure and threshold, with one thing changed at a time: batches of examples "
    "drawn anew at each step; beta1 or beta2 of AdamW (from 0.9 and 0.999); SGD with momentum 0.9 "
    "(learning rate 1, decay 0.001), Lion (0.001 and 0.3) and Muon (0.01 and 0.3). These pairs "
    "were chosen on short pilot runs of another seed, so that the network memorises in both "
    "regimes: of six pairs for Lion and three for Muon these were the ones that did, and of three "
    "for SGD, which all did, this is the one that grokked. Two kinds of plateau: one that ends by "
    "itself (constant) and one that lasts to the end of the run (noise; without batches: pilots "
    "with 128 and 256 had not memorised there after 2,500 and 1,500 steps). Added: does the bound "
    "that theory gives for each optimiser guarantee any contraction?",
    settings=only(laptop=("constant", "noise")),
    arms=arms,
    claims=(
        *(contraction_claim(arm, "With a") for arm in BATCHES),
        *(contraction_claim(arm, "With") for arm in MOMENTA),
        *(contraction_claim(arm, "Under") for arm in OPTIMISERS),
        *(
            ask(
                f"bound guarantees contraction, {arm}",
                f"Under {arm} the corrected bound of definition 3.2 guarantees that the norm "
                "contracts on the plateau.",
                Level(arm, "certified_rate", GUARANTEED, low=0, absent=NO_PLATEAU),
            )
            for arm in (ADAMW, *OPTIMISERS)
        ),
    ),
    draw=figures.draw_rates,
    read=read,
    caption="Rate at which the norm of the MLP contracts on the plateau, in units of the decay's "
    "own rate: 1 is decay alone, 0 a constant norm, below 0 a growing one. One dot per seed, a bar "
    "at the mean; the claim asks for a mean between the dashed lines.",
    summarise=summarise,
    appendix=True,
)
