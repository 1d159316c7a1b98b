"""The paper's statements on a model of the user's own: those that need nothing but what was seen,
and for the others the reason why they cannot be judged."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grokscope.measures.attention import TINY
from grokscope.papers.structural_inference.certificates.checks import (
    Certificate,
    plateau_checks,
    structure_checks,
    upper_check,
    variance_checks,
)
from grokscope.spec import PER_EXAMPLE, ObservedSpec
from grokscope.store import Run


def check_observation(run: Run, spec: ObservedSpec) -> Iterator[Certificate]:
    """The statements that a watched model of the user's can be held against."""
    known = {n for n in run.curve.columns if not run.curve[n].dtype.is_nested()}
    curve = {name: run.curve[name].to_numpy() for name in known}
    missing = inapplicable(run)
    if 2 not in missing:
        yield from structure_checks(spec.training.structure_threshold, curve)
    if 8 not in missing:
        k = len(spec.watch.informative.split(", "))
        for epoch, furthest, weakest in zip(
            curve["epoch"], curve["divergence_max"], curve["weakest_min"], strict=True
        ):
            allowed = -math.log(k * max(float(weakest), TINY))
            yield upper_check("divergence", 8, int(epoch), float(furthest), allowed)
    if spec.optimiser is not None and 10 not in missing:
        yield from plateau_checks(run, spec.optimiser, curve)
    if spec.optimiser is not None and 14 not in missing:
        yield from variance_checks(run, spec.optimiser, curve)


def inapplicable(run: Run) -> dict[int, str]:
    """Statements that cannot be held against a run, and why. All can against a lab run of the
    minimal model."""
    spec = run.about
    if not isinstance(spec, ObservedSpec):
        if spec.model.kind == "minimal":
            return {}
        beyond = "is stated for the minimal transformer: one layer, read at a constant query"
        return dict.fromkeys((n for n in range(1, 16) if n not in (1, 2, 10)), beyond)
    reasons = {
        1: "needs the shape and the decay of each MLP weight, which are not watched",
        3: "is about the two-layer MLP of the minimal transformer",
        **dict.fromkeys((4, 5, 6, 7), "needs the values that attention mixes, not watched"),
        9: "needs the Lipschitz constant of all that follows attention",
        11: "is an identity of softmax; the lab checks it",
        **dict.fromkeys((12, 13), "is about one layer and one head that a prior alone moves"),
        15: "needs pairs of inputs that differ in one informative position",
    }
    if not spec.watch.informative:
        reasons |= dict.fromkeys((2, 8), "needs the informative positions, which were not named")
    elif spec.watch.informative == PER_EXAMPLE:
        reasons[8] = "needs the same number of informative positions in every example"
    plateau = next(phase for phase in run.outcome["phases"] if phase["name"] == "plateau")
    columns = run.curve.columns
    rates = run.curve["learning_rate"].n_unique() if "learning_rate" in columns else 1
    if spec.optimiser is None or spec.optimiser.weight_decay == 0:
        reasons |= dict.fromkeys((10, 14), "needs AdamW with weight decay (Observer(optimizer=))")
    elif rates > 1:
        reasons |= dict.fromkeys((10, 14), "needs a constant learning rate")
    elif plateau["start"] is None:
        reasons |= dict.fromkeys((10, 14), "needs a plateau, and none was found")
    elif plateau["end"] is None or "mlp_norm" not in columns:
        reasons[10] = "needs a plateau that has ended, and the norm of the MLP"
    return dict(sorted(reasons.items()))
