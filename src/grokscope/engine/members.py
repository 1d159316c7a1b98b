"""A run as arrays. All that may differ between the runs of one compiled program is in a Member:
hyperparameters are data, so sweeping them recompiles nothing.

n training and m test examples, T positions. In a stream each example has P predictions, of which J
are judged; elsewhere it has one, and there is no axis for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope import models
from grokscope.errors import SpecError
from grokscope.interventions import apply_mask, make_mask
from grokscope.measures.weights import mlp_norm
from grokscope.models.layers import normalise
from grokscope.optim import OptimiserNumbers
from grokscope.priors import penalty_index
from grokscope.spec import OptimiserKind, RunSpec
from grokscope.tasks import TaskData, build_task, infer_posterior

if TYPE_CHECKING:
    from grokscope.store import Run, Store


class Form(NamedTuple):
    """What a program is compiled for. Runs of equal form and equal array shapes share one."""

    shape: models.Shape
    optimiser: OptimiserKind
    double_loss: bool
    batch: int  # examples of a step; 0: all
    judged: tuple[int, ...]
    """Which of an example's predictions count for accuracy, prior and measures; the loss has
    all."""


class Side(NamedTuple):
    """The examples of one side of the split."""

    tokens: Any  # (n, T)
    labels: Any  # (n,), in a stream (n, P)
    oracle: Any  # (n, T), in a stream (n, J, T)
    frozen: Any  # like oracle, the posterior that replaces attention if `freeze` is set


class Numbers(NamedTuple):
    """Scalars of a run beside the optimiser's."""

    seed: Any
    init_scale: Any
    penalty: Any  # index into priors.DISTINCT
    strength: Any
    start: Any
    end: Any
    freeze: Any
    mlp_norm: Any
    initial_mlp_norm: Any  # 0: as drawn
    query_key_penalty: Any
    epochs: Any
    log_every: Any
    test_threshold: Any
    persistence: Any
    structure_threshold: Any
    stop: Any
    stop_after: Any


class Member(NamedTuple):
    train: Side
    test: Side
    mirrored: Any  # (m,)
    target: Any  # like train.oracle, where the prior pulls attention on the training examples
    cycle: Any  # tokens in cyclic order, or empty
    mask: dict[str, Any]
    model: models.ModelNumbers
    optimiser: OptimiserNumbers
    numbers: Numbers


def make_member(spec: RunSpec, store: Store) -> tuple[Form, Member]:
    """Arrays of a run. Teachers and tickets are read from the store."""
    data = build_task(spec.task, spec.seed)
    shape = models.shape_of(spec.model, data)
    target, frozen = find_targets(spec, data, store)
    template = jax.eval_shape(lambda: models.init(jax.random.key(0), shape))
    mask_spec = spec.interventions.mask
    if mask_spec.source:
        weights = _finished(store, mask_spec.source).weights()
    else:
        weights = {name: np.zeros(array.shape, np.float32) for name, array in template.items()}
    _check_weights(weights, template, mask_spec.source)
    mask = make_mask(mask_spec, weights, spec.seed)
    initial_mlp_norm = 0.0
    if mask_spec.effect == "norm":
        drawn = models.init(jax.random.key(np.uint32(spec.seed)), shape, spec.model.init_scale)
        initial_mlp_norm = float(mlp_norm(apply_mask(drawn, mask)))
        mask = {name: np.ones_like(array) for name, array in mask.items()}
    training = spec.training
    numbers = Numbers(
        seed=np.uint32(spec.seed),
        init_scale=np.float32(spec.model.init_scale),
        penalty=np.int32(penalty_index(spec.prior.kind)),
        strength=np.float32(spec.prior.strength if spec.prior.kind != "none" else 0.0),
        start=np.int32(spec.prior.start),
        end=np.int32(spec.prior.end),
        freeze=np.bool_(spec.interventions.frozen_attention != "no"),
        mlp_norm=np.float32(spec.interventions.mlp_norm),
        initial_mlp_norm=np.float32(initial_mlp_norm),
        query_key_penalty=np.float32(spec.interventions.query_key_penalty),
        epochs=np.int32(training.epochs),
        log_every=np.int32(training.log_every),
        test_threshold=np.float32(training.test_threshold),
        persistence=np.int32(training.persistence),
        structure_threshold=np.float32(structure_threshold(spec)),
        stop=np.bool_(training.stop == "grokked"),
        stop_after=np.int32(training.stop_after),
    )
    optimiser = OptimiserNumbers(
        **{name: np.float32(getattr(spec.optimiser, name)) for name in OptimiserNumbers._fields}
    )

    def side(index: np.ndarray) -> Side:
        return Side(data.tokens[index], data.labels[index], data.oracle[index], frozen[index])

    member = Member(
        train=side(data.train),
        test=side(data.test),
        mirrored=data.mirrored,
        target=target[data.train],
        cycle=data.cycle.astype(np.int32),
        mask=mask,
        model=models.numbers_of(spec.model),
        optimiser=optimiser,
        numbers=numbers,
    )
    form = Form(
        shape,
        spec.optimiser.kind,
        double_loss=spec.model.loss_precision == "float64",
        batch=spec.optimiser.batch,
        judged=data.determined or (0,),
    )
    return form, jax.tree.map(jnp.asarray, member)


def structure_threshold(spec: RunSpec) -> float:
    """tau of B_tau: as given, or half of the oracle's share on each informative position."""
    return spec.training.structure_threshold or 0.5 / spec.task.operands


def find_targets(
    spec: RunSpec, data: TaskData, store: Store
) -> tuple[np.ndarray, np.ndarray]:  # both like data.oracle
    """Where the prior pulls attention, and where attention is frozen."""
    wanted = {spec.prior.kind, spec.interventions.frozen_attention}
    if "adversarial" in wanted and not data.adversarial.any(axis=-1).all():
        raise SpecError("An adversarial posterior needs a distractor position; raise task.length.")
    posteriors = {"oracle": data.oracle, "adversarial": data.adversarial}
    if "teacher" in wanted:
        posteriors["teacher"] = _teacher_attention(spec, data, store)
    if "inferred" in wanted:
        seen = infer_posterior(data.tokens[data.train], data.labels[data.train])
        posteriors["inferred"] = np.broadcast_to(seen, data.oracle.shape)
    target = posteriors.get(spec.prior.kind, data.uniform)
    return target, posteriors.get(spec.interventions.frozen_attention, data.uniform)


def _teacher_attention(spec: RunSpec, data: TaskData, store: Store) -> np.ndarray:
    """Final attention of another run, averaged over its heads, like data.oracle."""
    run = _finished(store, spec.prior.teacher)
    params = own_weights(run)
    theirs = build_task(run.spec.task, run.spec.seed)
    if theirs.length != data.length:
        raise SpecError(
            f"The teacher {run.id} reads {theirs.length} positions, this run {data.length}."
        )
    by_position = spec.prior.teacher_view == "position"
    if not by_position and theirs.vocabulary != data.vocabulary:
        raise SpecError(
            f"The teacher {run.id} knows {theirs.vocabulary} tokens, this run "
            f"{data.vocabulary}; set prior.teacher_view to position."
        )
    tokens = theirs.tokens if by_position else data.tokens
    shape = models.shape_of(run.spec.model, theirs if by_position else data)
    attend = partial(normalise, kind=shape.attention)
    numbers = models.numbers_of(run.spec.model)
    attention = models.respond(params, jnp.asarray(tokens), shape, attend, numbers).attention
    judged = attention[:, jnp.asarray(theirs.determined or (0,))]  # (examples, J, H, T)
    posterior = np.asarray(judged.mean(axis=2)).reshape(len(tokens), *theirs.oracle.shape[1:])
    if posterior.shape[1:] != data.oracle.shape[1:]:
        raise SpecError(f"The teacher {run.id} does not answer where this run does.")
    if by_position:
        posterior = np.broadcast_to(posterior.mean(axis=0), data.oracle.shape)
    return posterior


def own_weights(run: Run) -> dict[str, jax.Array]:
    """Weights that answer any tokens by themselves. Those of frozen attention were never used, and
    what took their place is known for the run's own examples only."""
    if run.spec.interventions.frozen_attention != "no":
        raise SpecError(
            f"The attention of run {run.id} is frozen for its own examples; it cannot answer or "
            "teach others. Take a run with interventions.frozen_attention no."
        )
    return {name: jnp.asarray(array) for name, array in run.weights().items()}


def _finished(store: Store, name: str) -> Run:
    run = store.get(name)
    if run.status != "finished":
        raise SpecError(f"Run {name} is {run.status}; a teacher or ticket must be a finished run.")
    return run


def _check_weights(weights: dict[str, Any], template: dict[str, Any], source: str) -> None:
    given = {name: array.shape for name, array in weights.items()}
    needed = {name: array.shape for name, array in template.items()}
    if given != needed:
        raise SpecError(
            f"The mask's source {source} is a model of another shape than this run; they must "
            "have the same task size, width, hidden units and heads."
        )
