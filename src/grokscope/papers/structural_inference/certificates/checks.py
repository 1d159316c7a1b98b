"""A run against the paper's statements: measured, bound, ratio, holds or not, by how much.

Bounds that need weights are evaluated at every stored snapshot and at the end; those that need
norms and divergences only, at every row of the curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.errors import StoreError
from grokscope.models.roles import MATRICES, MLP, role
from grokscope.papers.structural_inference import theory
from grokscope.papers.structural_inference.certificates.inspection import (
    Inspected,
    draw_pairs,
    make_inspector,
)
from grokscope.problems.routing import build
from grokscope.spec import ObservedSpec, OptimiserSpec, RunSpec
from grokscope.store import Run, Store
from grokscope.tasks import build_task

if TYPE_CHECKING:
    import polars as pl

ROUNDING = 1e-4  # float32 training against exact inequalities


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


IDENTITY = 1e-5  # error, relative to the vectors compared, that float32 explains


def certify(run: Run, store: Store | None = None) -> pl.DataFrame:
    """Every certificate of a finished run, one row each, ordered by name and epoch. For a model of
    the user's own these are the few that need nothing but what was watched (see `inapplicable`)."""
    if run.status != "finished":
        raise StoreError(f"Run {run.id} is {run.status}; only finished runs can be certified.")
    if isinstance(run.about, ObservedSpec):
        from grokscope.papers.structural_inference.certificates.observation import (
            check_observation,  # it builds on this module
        )

        return _table(check_observation(run, run.about))
    store = store or Store(run.path.parent)
    curve = {name: run.curve[name].to_numpy() for name in _SCALARS}
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
    return _table(rows)


def _table(rows: Iterable[Certificate]) -> pl.DataFrame:
    import polars as pl

    kinds = {"statement": pl.Int64, "epoch": pl.Int64, "holds": pl.Boolean}
    text = {"name": pl.String, "note": pl.String}
    schema = {f.name: {**kinds, **text}.get(f.name, pl.Float64) for f in fields(Certificate)}
    frame = pl.DataFrame([asdict(row) for row in rows], schema=schema)
    return frame.sort("name", "epoch", maintain_order=True)


_SCALARS = (
    "epoch",
    "mlp_norm",
    "divergence_train",
    "logit_variance",
    "structure_share",
    "weakest_min",
)


def summarise(certificates: pl.DataFrame) -> pl.DataFrame:
    """A row per certificate: how often it holds, the worst ratio, the usual slack."""
    import polars as pl

    return (
        certificates.group_by("name", maintain_order=True)
        .agg(
            pl.col("statement").first(),
            pl.len().alias("checks"),
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
    problem, arrays, numbers_of_run = build(run.spec, store)
    member = Inspected(arrays.train, arrays.test, numbers_of_run)
    pairs = jax.tree.map(
        jnp.asarray, draw_pairs(run.spec, build_task(run.spec.task, run.spec.seed))
    )
    inspector = make_inspector(problem.shape)
    last = run.outcome["epochs"]
    for epoch in epochs:
        params = {name: jnp.asarray(array) for name, array in run.weights(epoch).items()}
        numbers = jax.device_get(inspector(params, member, pairs))
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


def _from_checkpoints(run: Run, store: Store) -> Iterator[Certificate]:
    frozen = run.spec.interventions.frozen_attention != "no"
    softmax = run.spec.model.attention == "softmax"
    for epoch, seen in inspect_run(run, store, [*run.snapshots, None]):
        at = partial(upper_check, epoch=epoch)
        yield at(
            "Lipschitz constant", 3, measured=seen["lipschitz"], bound=seen["lipschitz_from_norm"]
        )
        if not frozen:
            yield at(
                "explaining away",
                9,
                measured=seen["gradient_at_worst"],
                bound=seen["bound_at_worst"],
                note=f"mean ratio {seen['gradient_ratio_mean']:.1e}",
            )
            yield at("closed form", 4, measured=seen["closed_form_error"], bound=IDENTITY)
            yield at(
                "lower bound",
                6,
                measured=seen["lower_bound_ratio_max"],
                bound=1.0,
                note=f"positive, so that it says something, for {seen['lower_bound_useful']:.0%}",
            )
            yield at(
                "squared-norm identity",
                7,
                measured=seen["squared_identity_error"],
                bound=IDENTITY,
            )
            if softmax and seen["weakest_min"] > 0:
                yield at(
                    "prior's gradient", 11, measured=seen["prior_gradient_error"], bound=IDENTITY
                )
            yield at("pair difference", 5, measured=seen["pair_difference_ratio_max"], bound=1.0)
            if seen["pairs_told_apart"] > 0:
                yield at(
                    "pair necessity",
                    5,
                    measured=seen["necessity_ratio_max"],
                    bound=1.0,
                    note=f"{seen['pairs_told_apart']:.0%} of the sampled pairs are told apart; the "
                    f"median one needs {seen['necessity_ratio_median']:.1%} of the mass it has",
                )
            yield at(
                "logit variance",
                14,
                measured=seen["variance_at_worst"],
                bound=seen["variance_bound_at_worst"],
            )
        if softmax or seen["weakest_min"] > 0:
            yield at(
                "divergence",
                8,
                measured=seen["divergence_at_worst"],
                bound=seen["divergence_allowed_at_worst"],
            )
        if run.spec.model.heads > 1 and seen["pairs_told_apart"] > 0:
            least = (
                f"least mass over all inputs: {seen['best_head_mass_min']:.3f} in the best head, "
                f"{seen['pooled_mass_min']:.3f} in all together"
            )
            # Pooled mass is necessary; that one head has enough is not, and may well fail.
            yield at("pooled mass", 15, measured=seen["necessity_ratio_max"], bound=1.0, note=least)
            yield at(
                "mass of the best head",
                15,
                measured=seen["single_head_ratio_max"],
                bound=1.0,
                note="not demanded: it fails where several heads share the work",
            )


def structure_checks(threshold: float, curve: dict[str, np.ndarray]) -> Iterator[Certificate]:
    """B_tau at the run's tau (half of the oracle's share unless set): a condition, not a law."""
    for epoch, share, weakest in zip(
        curve["epoch"], curve["structure_share"], curve["weakest_min"], strict=True
    ):
        ratio = threshold / max(float(weakest), 1e-12)
        note = f"tau {threshold:g}; at the end {share:.0%} of inputs satisfy it"
        yield Certificate(
            "structural condition",
            2,
            int(epoch),
            float(weakest),
            threshold,
            ratio,
            ratio <= 1,
            note,
        )


def update_bound(spec: RunSpec, weights: dict[str, np.ndarray]) -> float:
    """B of statement 1 for the MLP under the optimiser that was used, over all its arrays."""
    optimiser = spec.optimiser
    total = 0.0
    if optimiser.kind == "sgd":
        if optimiser.clip == 0:
            return math.inf
        return float(theory.sgd_update_bound(optimiser.clip, optimiser.beta1))
    for name, array in weights.items():
        if role(name) not in MLP:
            continue
        shape = array.shape
        if optimiser.kind == "lion":
            bound = theory.lion_update_bound(shape)
        elif optimiser.kind == "muon" and role(name) in MATRICES:
            bound = theory.muon_update_bound(shape)
        else:
            bound = theory.adamw_update_bound(shape, optimiser.beta1, optimiser.beta2)
        total += float(bound) ** 2
    return math.sqrt(total)


def contraction_checks(
    spec: RunSpec, curve: dict[str, np.ndarray], weights: dict[str, np.ndarray]
) -> Iterator[Certificate]:
    """|W| at a row against what the norm one row earlier allows."""
    optimiser = spec.optimiser
    if optimiser.weight_decay == 0 or spec.interventions.mlp_norm > 0:
        return
    updates = update_bound(spec, weights)
    if not math.isfinite(updates):
        return
    floor = float(theory.norm_floor(optimiser.weight_decay, updates))
    epochs, norms = curve["epoch"], curve["mlp_norm"]
    rows = np.flatnonzero(epochs[:-1] >= optimiser.warmup)
    # The triangle inequality is sharper than the squared form of eq. (1), and implies it.
    bounds = theory.norm_bound(
        norms[rows].astype(float),
        optimiser.lr,
        optimiser.weight_decay,
        updates,
        np.diff(epochs)[rows],
    )
    note = f"the bound contracts only above a norm of {floor:.0f}"
    for row, bound in zip(rows, bounds, strict=True):
        epoch, norm = int(epochs[row + 1]), float(norms[row + 1])
        yield upper_check("norm contraction", 1, epoch, norm, float(bound), note)


def plateau_checks(
    run: Run, optimiser: OptimiserSpec, curve: dict[str, np.ndarray]
) -> Iterator[Certificate]:
    """Eq. 5 over the plateau that was found: decay alone needs so long for its fall of the norm."""
    plateau = next(phase for phase in run.outcome["phases"] if phase["name"] == "plateau")
    if plateau["start"] is None or plateau["end"] is None or optimiser.weight_decay == 0:
        return
    start, end = (_at(curve, "mlp_norm", plateau[name]) for name in ("start", "end"))
    predicted = float(theory.plateau_lower_bound(start, end, optimiser.lr, optimiser.weight_decay))
    measured = float(plateau["end"] - plateau["start"])
    note = f"MLP norm {start:.1f} at its start, {end:.1f} at its end"
    if predicted == 0:
        note += "; it did not shrink, so eq. (5) predicts no wait at all"
    # A lower bound on the length: predicted / measured is to be at most 1.
    ratio = predicted / measured
    holds = bool(ratio <= 1 + ROUNDING)
    yield Certificate("plateau length", 10, plateau["end"], measured, predicted, ratio, holds, note)


def _prior_decay(
    spec: RunSpec, curve: dict[str, np.ndarray], attention: np.ndarray
) -> Iterator[Certificate]:  # attention (rows, T), the mean over inputs
    """D under a constant oracle prior against both laws.

    The paper's effective strength (learning rate, embedding geometry, optimiser) is not known
    beforehand. It is read off the first interval after warm-up, through
    -dD/dt = strength * |alpha - alpha*|^2 (eq. 48), and then predicts the curve, up to where D
    reaches the floor that weight decay sets (twice its median over the last quarter of the run).
    A run whose D never comes down to a tenth of its start has no such floor: it is judged to its
    end, and its delay counts as the time it was watched if that is longer than allowed.
    The laws are about one softmax head and fixed positions, and the interval must be short: D may
    fall by at most half in it, else nothing is said.
    """
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
    latest = float(
        theory.delay_bound(divergence[0], tenth, mass, informative, distractors, strength)
    )
    note = f"from {divergence[0]:.2f} to a tenth of it "
    note += f"in {time[reached[0]]:.0f} epochs" if len(reached) else f"not in {time[-1]:.0f} epochs"
    if not len(reached):
        floor = 0.0
    end = int(reached[0]) if len(reached) else len(time) - 1
    at = int(curve["epoch"][first + end])
    if len(reached) or time[end] > latest:  # else the run was watched too briefly to tell
        yield upper_check("prior's delay", 13, at, float(time[end]), latest, note)
    exponential = theory.exponential_envelope(divergence[0], constant, strength, time)
    hyperbolic = theory.hyperbolic_envelope(
        divergence[0], mass, informative, distractors, strength, time
    )
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
    outcome = run.outcome
    plateau = next(phase for phase in outcome["phases"] if phase["name"] == "plateau")
    if plateau["start"] is None or optimiser.weight_decay == 0:
        return
    end = plateau["end"] if plateau["end"] is not None else outcome["epochs"]
    first, last = (_at(curve, "logit_variance", epoch) for epoch in (plateau["start"], end))
    decay = float(
        theory.variance_contraction(
            optimiser.lr, optimiser.weight_decay, end - plateau["start"], decayed_factors=4
        )
    )
    note = f"{first:.3g} to {last:.3g}; decay alone would leave {first * decay:.2g}"
    # The conjecture is that it contracts at all; the bound is therefore the value at the start.
    yield upper_check("variance contraction", 14, int(end), last, first, note=note)


def _at(curve: dict[str, np.ndarray], name: str, epoch: int) -> float:
    return float(curve[name][np.searchsorted(curve["epoch"], epoch)])
