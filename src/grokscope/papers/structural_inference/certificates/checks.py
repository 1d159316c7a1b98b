"""A run against the paper's statements: measured, bound, ratio, holds or not, by how much.

Bounds that need weights are evaluated at every stored snapshot and at the end; those that need
norms and divergences only, at every row of the curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from grokscope.errors import SpecError, StoreError
from grokscope.models.roles import MATRICES, MLP, role
from grokscope.notebook import html_table
from grokscope.papers.structural_inference import theory
from grokscope.papers.structural_inference.certificates import inspection
from grokscope.papers.structural_inference.quantities import find_plateau, scalars
from grokscope.parts import trusting
from grokscope.problems.routing import build
from grokscope.spec import ObservedSpec, OptimiserSpec, RunSpec
from grokscope.store import Run, Store, as_trained
from grokscope.tasks import build_task

ROUNDING = 1e-4  # float32 training against exact inequalities
IDENTITY = 1e-5  # error, relative to the vectors compared, that float32 explains


@dataclass(frozen=True)
class Certificate:
    """One comparison. `ratio` is measured / bound for an upper bound and bound / measured for a
    lower one, so that it is at most 1 where the statement holds, and 1/ratio is the slack."""

    name: str
    statement: int
    epoch: int
    measured: float
    bound: float
    ratio: float
    holds: bool
    note: str = ""


def certify(run: Run, store: Store | None = None, *, trust: bool = False) -> pl.DataFrame:
    """Every certificate of a finished run, one row each, ordered by name and epoch. For a model of
    the user's own these are the few that need only what was watched (see `inapplicable`). `trust`
    allows loading the run's own parts (a rule, a model): their code is executed."""
    with trusting(trust), as_trained(run):
        return _table(_check(run, store))


def _check(run: Run, store: Store | None) -> Iterable[Certificate]:
    if run.status != "finished":
        raise StoreError(f"Run {run.id} is {run.status}; only finished runs can be certified.")
    if isinstance(run.about, ObservedSpec):
        from grokscope.papers.structural_inference.certificates import observation

        return observation.check_observation(run, run.about)  # it builds on this module
    store = store or Store(run.path.parent)
    curve = scalars(run)
    rows = [
        *structure_checks(run.spec.structure_threshold, curve),
        *contraction_checks(run.spec, curve, run.weights()),
        *plateau_checks(run, run.spec.optimiser, curve),
    ]
    if run.spec.model.kind == "minimal":  # what the other statements are about
        rows += [
            *_from_checkpoints(run, store),
            *_prior_decay(run.spec, curve, np.array(run.curve["attention"].to_list())),
            *variance_checks(run, run.spec.optimiser, curve),
        ]
    return rows


def _table(rows: Iterable[Certificate]) -> pl.DataFrame:
    frame = pl.DataFrame([asdict(row) for row in rows], schema=get_type_hints(Certificate))
    return Certificates(frame.sort("name", "epoch", maintain_order=True))


class Certificates(pl.DataFrame):
    """The table of certificates, which a notebook shows in brief."""

    def _repr_html_(self, **options: Any) -> str:
        brief = summarise(self)
        return html_table(f"{len(self)} certificates", brief.rows(), brief.columns)


def summarise(certificates: pl.DataFrame) -> pl.DataFrame:
    """A row per certificate: how often it holds, the worst ratio, the usual slack."""
    return (
        certificates.group_by("name", maintain_order=True)
        .agg(
            pl.col("statement").first(),
            pl.len().alias("checks"),
            *([pl.col("arm").n_unique().alias("arms")] if "arm" in certificates.columns else []),
            pl.col("holds").sum().alias("hold"),
            pl.col("ratio").max().alias("worst_ratio"),
            pl.col("ratio").median().alias("median_ratio"),
            pl.col("note").last(),
        )
        .sort("statement", "name")
    )


def inspect_run(
    run: Run, store: Store, epochs: list[int | None]
) -> Iterator[tuple[int, dict[str, float]]]:
    """Numbers of `inspection.inspect` at snapshots (None: the final weights)."""
    problem, data, numbers_of_run = build(run.spec, store)
    inspected = inspection.Inspected(data.train, data.test, numbers_of_run)
    pairs = inspection.draw_pairs(run.spec, build_task(run.spec.task, run.spec.seed))
    pairs = jax.tree.map(jnp.asarray, pairs)
    inspector = inspection.make_inspector(problem.shape)
    last = run.outcome["epochs"]
    for epoch in epochs:
        params = {name: jnp.asarray(array) for name, array in run.weights(epoch).items()}
        numbers = jax.device_get(inspector(params, inspected, pairs))
        yield (last if epoch is None else epoch), {n: float(v) for n, v in numbers.items()}


def upper_check(
    name: str, statement: int, epoch: int, measured: float, bound: float, note: str = ""
) -> Certificate:
    """measured <= bound."""
    if math.isnan(measured) or math.isnan(bound):
        ratio = math.nan
    else:
        ratio = measured / bound if bound > 0 else (0.0 if measured <= 0 else math.inf)
    holds = bool(ratio <= 1 + ROUNDING)
    return Certificate(name, statement, epoch, measured, bound, ratio, holds, note)


# What is checked at a checkpoint: name, statement, measured number, its bound, what it needs.
_CHECKS: tuple[tuple[str, int, str, str | float, str], ...] = (
    ("Lipschitz constant", 3, "lipschitz", "lipschitz_from_norm", ""),
    ("closed form", 4, "closed_form_error", IDENTITY, "learned"),
    ("pair difference", 5, "pair_difference_ratio_max", 1.0, "learned"),
    ("pair necessity", 5, "necessity_ratio_max", 1.0, "learned pairs"),
    ("lower bound", 6, "lower_bound_ratio_max", 1.0, "learned"),
    ("squared-norm identity", 7, "squared_identity_error", IDENTITY, "learned"),
    ("divergence", 8, "divergence_at_worst", "divergence_allowed_at_worst", "finite"),
    ("explaining away", 9, "gradient_at_worst", "bound_at_worst", "learned"),
    ("prior's gradient", 11, "prior_gradient_error", IDENTITY, "learned softmax positive"),
    ("logit variance", 14, "variance_at_worst", "variance_bound_at_worst", "learned"),
    ("pooled mass", 15, "necessity_ratio_max", 1.0, "heads pairs"),
    # That one head has enough is not necessary, and may well fail.
    ("mass of the best head", 15, "single_head_ratio_max", 1.0, "heads pairs"),
)
_NOTES = {
    "pair necessity": "{pairs_told_apart:.0%} of the sampled pairs are told apart; the median one "
    "needs {necessity_ratio_median:.1%} of the mass it has",
    "lower bound": "positive, so that it says something, for {lower_bound_useful:.0%}",
    "explaining away": "mean ratio {gradient_ratio_mean:.1e}",
    "pooled mass": "least mass over all inputs: {best_head_mass_min:.3f} in the best head, "
    "{pooled_mass_min:.3f} in all together",
    "mass of the best head": "not required: it fails where several heads share the work",
}


def _from_checkpoints(run: Run, store: Store) -> Iterator[Certificate]:
    softmax = run.spec.model.attention == "softmax"
    for epoch, seen in inspect_run(run, store, [*run.snapshots, None]):
        facts = {
            "learned": run.spec.interventions.frozen_attention == "no",
            "softmax": softmax,
            "heads": run.spec.model.heads > 1,
            "pairs": seen["pairs_told_apart"] > 0,
            "positive": seen["weakest_min"] > 0,
            "finite": softmax or seen["weakest_min"] > 0,
        }
        for name, statement, measured, bound, needs in _CHECKS:
            if all(facts[need] for need in needs.split()):
                limit = seen[bound] if isinstance(bound, str) else bound
                note = _NOTES.get(name, "").format(**seen)
                yield upper_check(name, statement, epoch, seen[measured], limit, note)


def structure_checks(threshold: float, curve: dict[str, np.ndarray]) -> Iterator[Certificate]:
    """B_tau at the run's tau (half of the oracle's share unless set): a condition, not a law."""
    columns = (curve[name] for name in ("epoch", "structure_share", "weakest_min"))
    for epoch, share, weakest in zip(*columns, strict=True):
        ratio = threshold / max(float(weakest), 1e-12)
        note = f"tau {threshold:g}; at the end {share:.0%} of inputs satisfy it"
        compared = (int(epoch), float(weakest), threshold, ratio, ratio <= 1)
        yield Certificate("structural condition", 2, *compared, note)


def _sgd(optimiser: OptimiserSpec, weights: Mapping[str, np.ndarray]) -> float:
    """Gradients are clipped together, so the bound is one for all arrays."""
    clip = optimiser.clip
    return float(theory.sgd_update_bound(clip, optimiser.beta1)) if clip else math.inf


def _adamw(optimiser: OptimiserSpec, name: str, shape: tuple[int, ...]) -> float:
    betas = (optimiser.beta1, optimiser.beta2)
    return theory.adamw_update_bound(shape, *betas) if betas[0] ** 2 < betas[1] else math.inf


def _lion(optimiser: OptimiserSpec, name: str, shape: tuple[int, ...]) -> float:
    return theory.lion_update_bound(shape)


def _muon(optimiser: OptimiserSpec, name: str, shape: tuple[int, ...]) -> float:
    if role(name) in MATRICES:
        return theory.muon_update_bound(shape)
    return _adamw(optimiser, name, shape)  # as it is trained


def _over(bound: Callable[[OptimiserSpec, str, tuple[int, ...]], float]) -> Bound:
    """The bound of several arrays from that of each."""
    return lambda optimiser, weights: math.hypot(
        *(bound(optimiser, name, array.shape) for name, array in weights.items())
    )


Bound = Callable[[OptimiserSpec, Mapping[str, np.ndarray]], float]
UPDATE_BOUNDS = {"sgd": _sgd, "adamw": _over(_adamw), "lion": _over(_lion), "muon": _over(_muon)}


def update_bound(spec: RunSpec, weights: Mapping[str, np.ndarray]) -> float:
    """B of statement 1 for all weights of the MLP under the optimiser that was used; infinite where
    nothing bounds its updates (SGD without clipping, AdamW with beta1^2 >= beta2)."""
    kind = spec.optimiser.kind
    if kind not in UPDATE_BOUNDS:
        known = ", ".join(UPDATE_BOUNDS)
        raise SpecError(f"There is no such bound for this optimiser: {kind!r}. Known: {known}.")
    mlp = {name: array for name, array in weights.items() if role(name) in MLP}
    return UPDATE_BOUNDS[kind](spec.optimiser, mlp)


def contraction_checks(
    spec: RunSpec, curve: dict[str, np.ndarray], weights: dict[str, np.ndarray]
) -> Iterator[Certificate]:
    """|W| at a row against what the norm one row earlier allows."""
    optimiser = spec.optimiser
    if optimiser.weight_decay == 0 or spec.interventions.mlp_norm > 0:
        return
    updates = update_bound(spec, weights) if optimiser.kind in UPDATE_BOUNDS else math.inf
    if not math.isfinite(updates):
        return  # `inapplicable` says why
    floor = float(theory.norm_floor(optimiser.weight_decay, updates))
    epochs, norms = curve["epoch"], curve["mlp_norm"]
    rows = np.flatnonzero(epochs[:-1] >= optimiser.warmup)
    # The triangle inequality is sharper than the squared form of eq. (1), and implies it.
    rate, steps = (optimiser.lr, optimiser.weight_decay), np.diff(epochs)[rows]
    bounds = theory.norm_bound(norms[rows].astype(float), *rate, updates, steps)
    note = f"the bound contracts only above a norm of {floor:.0f}"
    for row, bound in zip(rows, bounds, strict=True):
        epoch, norm = int(epochs[row + 1]), float(norms[row + 1])
        yield upper_check("norm contraction", 1, epoch, norm, float(bound), note)


def plateau_checks(
    run: Run, optimiser: OptimiserSpec, curve: dict[str, np.ndarray]
) -> Iterator[Certificate]:
    """Eq. 5 over the plateau that was found: how long decay alone needs for that fall."""
    plateau = find_plateau(run.outcome)
    if plateau["start"] is None or plateau["end"] is None or optimiser.weight_decay == 0:
        return
    start, end = (_at(curve, "mlp_norm", plateau[name]) for name in ("start", "end"))
    predicted = float(theory.plateau_lower_bound(start, end, optimiser.lr, optimiser.weight_decay))
    measured = float(plateau["end"] - plateau["start"])
    note = f"MLP norm {start:.1f} at its start, {end:.1f} at its end"
    if predicted == 0:
        note += "; it did not shrink, so eq. (5) predicts no wait at all"
    ratio = predicted / measured  # a lower bound on the length: at most 1
    compared = (plateau["end"], measured, predicted, ratio, ratio <= 1 + ROUNDING)
    yield Certificate("plateau length", 10, *compared, note)


def _prior_decay(
    spec: RunSpec, curve: dict[str, np.ndarray], attention: np.ndarray
) -> Iterator[Certificate]:  # attention (rows, T), the mean over inputs
    """D under a constant oracle prior against both laws. The paper's effective strength (learning
    rate, embedding geometry, optimiser) is not known beforehand. It is read off the first interval
    after warm-up, through -dD/dt = strength * |alpha - alpha*|^2 (eq. 48), and then predicts the
    curve, up to where D reaches the floor that weight decay sets (twice its median over the last
    quarter of the run). A run whose D never comes down to a tenth of its start has no such floor:
    it is judged to its end, and its delay counts as the time it was watched if that is longer than
    allowed. The laws are about one softmax head and fixed positions, and the interval must be
    short: if D falls by more than half in it, nothing is concluded."""
    prior, task = spec.prior, spec.task
    simple = spec.model.attention == "softmax" and spec.model.heads == 1
    if prior.kind != "oracle" or prior.strength == 0 or prior.end or prior.start:
        return
    if not simple or task.positions != "fixed" or spec.interventions.frozen_attention != "no":
        return
    first = int(np.searchsorted(curve["epoch"], spec.optimiser.warmup))
    time = curve["epoch"][first:].astype(float) - float(curve["epoch"][first])
    divergence = curve["divergence_train"][first:].astype(float)
    oracle = build_task(task, spec.seed).oracle[0]
    informative = task.operands
    distractors = len(oracle) - informative
    if len(time) < 8 or distractors < 1 or not 0.5 <= divergence[1] / divergence[0] < 1:
        return
    gap = float(np.sum((attention[first] - oracle) ** 2))
    strength = (divergence[0] - divergence[1]) / time[1] / gap
    mass = float(attention[first][oracle > 0].min())
    floor = 2 * float(np.median(divergence[-max(len(divergence) // 4, 1) :]))
    constant = 1 / informative  # c of |alpha - alpha*|^2 >= 2 c D, as the paper has it
    tenth = divergence[0] / 10
    reached = np.flatnonzero(divergence <= tenth)
    delay = float(theory.exponential_delay(divergence[0], tenth, constant, strength))
    counts = (informative, distractors)
    latest = float(theory.delay_bound(divergence[0], tenth, mass, *counts, strength))
    note = f"from {divergence[0]:.2f} to a tenth of it "
    note += f"in {time[reached[0]]:.0f} epochs" if len(reached) else f"not in {time[-1]:.0f} epochs"
    end, floor = (int(reached[0]), floor) if len(reached) else (len(time) - 1, 0.0)
    at = int(curve["epoch"][first + end])
    if len(reached) or time[end] > latest:  # else the run was watched too briefly to tell
        yield upper_check("prior's delay", 13, at, float(time[end]), latest, note)
    exponential = theory.exponential_envelope(divergence[0], constant, strength, time)
    hyperbolic = theory.hyperbolic_envelope(divergence[0], mass, *counts, strength, time)
    for index in range(1, len(time)):
        if divergence[index] <= floor:
            break
        for name, bound, says in (
            ("prior's exponential decay", exponential, f"this law says {delay:.0f}"),
            ("prior's corrected decay", hyperbolic, f"this law says {latest:.0f} at the most"),
        ):
            epoch = int(curve["epoch"][first + index])
            limit = float(bound[index])
            yield upper_check(name, 12, epoch, divergence[index], limit, f"{note}; {says}")


def variance_checks(
    run: Run, optimiser: OptimiserSpec, curve: dict[str, np.ndarray]
) -> Iterator[Certificate]:
    """Conjecture E.1 over the plateau: decay alone would shrink the variance by this factor."""
    plateau = find_plateau(run.outcome)
    if plateau["start"] is None or optimiser.weight_decay == 0:
        return
    end = plateau["end"] if plateau["end"] is not None else run.outcome["epochs"]
    first, last = (_at(curve, "logit_variance", epoch) for epoch in (plateau["start"], end))
    steps = end - plateau["start"]
    rate = (optimiser.lr, optimiser.weight_decay)
    left = first * float(theory.variance_contraction(*rate, steps, decayed_factors=4))
    note = f"{first:.3g} to {last:.3g}; decay alone would leave {left:.2g}"
    # The conjecture is that it contracts at all; the bound is therefore the value at the start.
    yield upper_check("variance contraction", 14, int(end), last, first, note=note)


def _at(curve: dict[str, np.ndarray], name: str, epoch: int) -> float:
    return float(curve[name][np.searchsorted(curve["epoch"], epoch)])
