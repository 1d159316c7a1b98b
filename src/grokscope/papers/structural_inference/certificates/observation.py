"""The paper's statements on a model of the user's own: those that need only what was watched, and
for the others why they cannot be checked."""

from __future__ import annotations

import math
from collections.abc import Iterator

from grokscope.measures.attention import TINY
from grokscope.papers.structural_inference.certificates import checks
from grokscope.papers.structural_inference.quantities import find_plateau, scalars
from grokscope.papers.structural_inference.theory import STATEMENTS
from grokscope.spec import PER_EXAMPLE, ObservedSpec
from grokscope.store import Run


def check_observation(run: Run, spec: ObservedSpec) -> Iterator[checks.Certificate]:
    """The statements that can be checked on a watched model."""
    curve = scalars(run)
    missing = inapplicable(run)
    if 2 not in missing:
        yield from checks.structure_checks(spec.structure_threshold, curve)
    if 8 not in missing:
        k = len(spec.watch.informative.split(", "))
        columns = (curve[name] for name in ("epoch", "divergence_max", "weakest_min"))
        for epoch, furthest, weakest in zip(*columns, strict=True):
            allowed = -math.log(k * max(float(weakest), TINY))
            yield checks.upper_check("divergence", 8, int(epoch), float(furthest), allowed)
    if spec.optimiser is not None and 10 not in missing:
        yield from checks.plateau_checks(run, spec.optimiser, curve)
    if spec.optimiser is not None and 14 not in missing:
        yield from checks.variance_checks(run, spec.optimiser, curve)


def inapplicable(run: Run) -> dict[int, str]:
    """Statements that cannot be checked on a run, and why."""
    spec = run.about
    if not isinstance(spec, ObservedSpec):
        spec = run.spec
        optimiser, reasons = spec.optimiser, {}
        if spec.model.kind != "minimal":
            beyond = "is stated for the minimal transformer: one layer, read at a constant query"
            reasons = dict.fromkeys((n for n in range(1, 16) if n not in (1, 2, 10)), beyond)
        if optimiser.kind not in checks.UPDATE_BOUNDS or math.isinf(
            checks.update_bound(spec, run.weights())
        ):
            reasons[1] = f"there is no such bound for this optimiser ({optimiser.kind})"
        return dict(sorted(reasons.items()))
    reasons = {s.number: s.unwatched for s in STATEMENTS if s.unwatched}
    if not spec.watch.informative:
        reasons |= dict.fromkeys((2, 8), "needs the informative positions, which were not named")
    elif spec.watch.informative == PER_EXAMPLE:
        reasons[8] = "needs the same number of informative positions in every example"
    plateau = find_plateau(run.outcome)
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
