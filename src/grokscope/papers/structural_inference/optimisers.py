"""Figure 11, second part: does the norm decay on the plateau under any batch size, momentum and
optimiser?

The rates and decays of the other optimisers, and the batch sizes, were chosen on short pilot runs
of another seed, so that they memorise; thresholds are those of figure 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures, four_phases, settings, theory
from grokscope.papers.structural_inference.quantities import Curve, Outcome, plateau_rows, scalars
from grokscope.spec import RunSpec
from grokscope.store import Run

ADAMW = "AdamW, full batch"
GUARANTEED = "guaranteed contraction in units of the decay"
NO_PLATEAU = "have no plateau: they do not memorise, or something moves as soon as they have"
BATCHES = {f"batch of {size}": settings.within("optimiser", batch=size) for size in (512, 256, 128)}
MOMENTA = {
    f"{name} {value:g}": settings.within("optimiser", **{name: value})
    for name, value in (("beta1", 0.0), ("beta1", 0.95), ("beta2", 0.9), ("beta2", 0.98))
}
# Learning rate and decay of each.
OPTIMISERS = {
    name: settings.within("optimiser", kind=name.lower(), lr=rate, weight_decay=decay)
    for name, rate, decay in (("SGD", 1.0, 1e-3), ("Lion", 1e-3, 0.3), ("Muon", 1e-2, 0.3))
}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    # In noise pilots with batches of 128 and 256 had not memorised after 2,500 and 1,500 steps.
    batches = BATCHES if setting.regime == "constant" else {}
    changes = batches | MOMENTA | OPTIMISERS
    changed = {name: setting.variant(seed, change) for name, change in changes.items()}
    return {ADAMW: setting.baseline(seed), **changed}


def summarise(run: Run) -> Mapping[str, float | None]:
    """What statement 1 guarantees on the plateau, and whether the run kept to it: its length if
    the norm at every row is within what the row before allows."""
    from grokscope.papers.structural_inference.certificates import checks

    curve, weights = scalars(run), run.weights()
    rows = list(checks.contraction_checks(run.spec, curve, weights))
    kept = bool(rows) and all(row.holds for row in rows)
    rate = certified_rate(curve, run.outcome, run.spec, checks.update_bound(run.spec, weights))
    return {"bound_kept": run.outcome["epochs"] if kept else None, "certified_rate": rate}


def certified_rate(curve: Curve, outcome: Outcome, spec: RunSpec, updates: float) -> float | None:
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
    words, sentences = settings.PROSE.reading("optimisers"), []
    for regime, sample in evidence.samples.items():
        present = [arm for arm in sample.arms.values() if arm.sound]
        rates = np.concatenate([np.empty(0), *(arm.values("norm_rate") for arm in present)])
        known = rates[np.isfinite(rates)]
        if not len(known):
            continue
        counts = {"known": len(known), "all": len(rates), "shrinks": (known > 0).sum()}
        sentences.append(words["plateaus"].format(regime=regime.capitalize(), **counts))
        guarantees = [
            f"{arm.name} {np.nanmean(arm.values('certified_rate')):.2g} (measured "
            f"{np.nanmean(arm.values('norm_rate')):.2g})"
            for arm in present
            if arm.name in (ADAMW, *OPTIMISERS) and np.isfinite(arm.values("certified_rate")).any()
        ]
        if guarantees:
            sentences.append(words["guarantees"].format(found=", ".join(guarantees)))
        kept = np.concatenate([arm.values("bound_kept") for arm in present])
        sentences.append(words["kept"].format(kept=np.isfinite(kept).sum(), all=len(kept)))
    return " ".join(sentences)


def contracts(arm: str) -> Level:
    return four_phases.contracts(arm, NO_PLATEAU)


def shrinks(arm: str) -> Level:
    return Level(arm, "certified_rate", GUARANTEED, low=0, absent=NO_PLATEAU)


STUDY = settings.study(
    "optimisers",
    tests={
        **{f"norm contracts, {arm}": contracts(arm) for arm in BATCHES | MOMENTA | OPTIMISERS},
        **{f"bound guarantees contraction, {arm}": shrinks(arm) for arm in (ADAMW, *OPTIMISERS)},
    },
    settings=settings.only(laptop=("constant", "noise")),
    arms=arms,
    draw=figures.draw_rates,
    read=read,
    summarise=summarise,
)
