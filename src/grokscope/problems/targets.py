"""Where attention is pulled to, or frozen at: the oracle, its opposite, a teacher, or what the
training examples show."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from grokscope import models
from grokscope.errors import SpecError
from grokscope.models.layers import normalise
from grokscope.spec import RunSpec
from grokscope.tasks import TaskData, build_task, infer_posterior

if TYPE_CHECKING:
    from grokscope.store import Run, Store

Posterior = Float[np.ndarray, "n *J T"]
"""Over T positions, for each of n examples (and J predictions, in a stream)."""


def find_targets(spec: RunSpec, data: TaskData, store: Store) -> tuple[Posterior, Posterior]:
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
    if spec.prior.kind == "custom" and data.structured:
        posteriors["custom"] = data.oracle  # what a prior of the user's own may look at
    target = posteriors.get(spec.prior.kind, data.uniform)
    return target, posteriors.get(spec.interventions.frozen_attention, data.uniform)


def _teacher_attention(spec: RunSpec, data: TaskData, store: Store) -> Posterior:
    """Final attention of another run, averaged over its heads."""
    run = finished_run(store, spec.prior.teacher)
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


def finished_run(store: Store, name: str) -> Run:
    run = store.get(name)
    if run.status != "finished":
        raise SpecError(f"Run {name} is {run.status}; a teacher or ticket must be a finished run.")
    return run
