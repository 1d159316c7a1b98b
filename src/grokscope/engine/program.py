"""The compiled program: initialise a run, advance it by rows of the curve, measure.

Everything runs on the device; the host sees one block of rows per call. `advance` is a loop with
bounds that are data, so neither the number of epochs nor the cadence of the log is compiled in, and
the bits do not depend on how a run is cut into calls.

n examples, T positions, H heads, C classes. Each example has P predictions, of which J are judged;
both are 1 but in streams.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from grokscope import models, optim
from grokscope.engine.members import Form, Member, Side
from grokscope.interventions import apply_mask, match_norm, query_key_penalty
from grokscope.measures import attention as on_attention
from grokscope.measures import weights as on_weights
from grokscope.models.layers import normalise
from grokscope.priors import DISTINCT, strength_at

BLOCK = 64  # rows that fit into one call
BATCHES = 1  # folded into a run's key: batches share no random numbers with the initial weights


class State(NamedTuple):
    """A run in mid-flight: all that is needed to go on, bit for bit."""

    params: dict[str, jax.Array]
    optimiser: Any
    step: jax.Array  # updates done
    next_row: jax.Array  # epoch of the next row
    streak: jax.Array  # rows in a row at or above the test threshold
    settled: jax.Array  # epoch at which the streak became long enough, or -1
    update_norm: jax.Array
    finished: jax.Array
    failed: jax.Array  # epoch of the first row that was not finite, or -1


class Program(NamedTuple):
    init: Any  # member -> state
    advance: Any  # (state, member, rows) -> (state, block of rows, rows written)


@cache
def make_program(form: Form, batched: bool = False) -> Program:
    """Functions for one run, or for a batch of stacked runs (`vmap`)."""
    init, advance = partial(_init, form), partial(_advance, form)
    if batched:
        init, advance = jax.vmap(init), jax.vmap(advance, in_axes=(0, 0, None))
    return Program(jax.jit(init), jax.jit(advance, donate_argnums=0))


def _init(form: Form, member: Member) -> State:
    key = jax.random.key(member.numbers.seed)
    params = models.init(key, form.shape, member.numbers.init_scale)
    params = match_norm(apply_mask(params, member.mask), member.numbers.initial_mlp_norm)
    params = match_norm(params, member.numbers.mlp_norm)
    return State(
        params=params,
        optimiser=optim.init(form.optimiser, member.optimiser, params),
        step=jnp.int32(0),
        next_row=jnp.int32(0),
        streak=jnp.int32(0),
        settled=jnp.int32(-1),
        update_norm=jnp.float32(0),
        finished=jnp.bool_(False),
        failed=jnp.int32(-1),
    )


def _advance(
    form: Form, state: State, member: Member, rows: jax.Array
) -> tuple[State, dict[str, jax.Array], jax.Array]:
    """Go on until `rows` rows are written or the run is finished."""
    empty = jax.eval_shape(lambda: measure(form, state, member))
    block = {name: jnp.zeros((BLOCK, *row.shape), row.dtype) for name, row in empty.items()}

    def more(carry):
        state, _, written = carry
        return (written < rows) & ~state.finished

    def write_row(carry):
        state, block, written = carry
        state = jax.lax.fori_loop(
            state.step, state.next_row, lambda _, s: _train_step(form, s, member), state
        )
        row = measure(form, state, member)
        block = {name: block[name].at[written].set(row[name]) for name in block}
        return _conclude(state, row, member), block, written + 1

    return jax.lax.while_loop(more, write_row, (state, block, jnp.int32(0)))


def _conclude(state: State, row: dict[str, jax.Array], member: Member) -> State:
    """After a row: is the run over, has it failed, when comes the next row?"""
    numbers = member.numbers
    broken = ~(jnp.isfinite(row["train_loss"]) & jnp.isfinite(row["parameter_norm"]))
    streak = jnp.where(row["test_accuracy"] >= numbers.test_threshold, state.streak + 1, 0)
    settles = (state.settled < 0) & (streak >= numbers.persistence)
    settled = jnp.where(settles, state.step, state.settled)
    stops = numbers.stop & (settled >= 0) & (state.step >= settled + numbers.stop_after)
    return state._replace(
        next_row=jnp.minimum(state.step + numbers.log_every, numbers.epochs),
        streak=streak,
        settled=settled,
        finished=broken | stops | (state.step >= numbers.epochs),
        failed=jnp.where(broken, state.step, -1),
    )


def _respond(
    form: Form, params: dict[str, jax.Array], side: Side, member: Member, nudge: Any = 0.0
) -> models.Response:
    """What the model says of one side. `nudge` is added to the query-key logits."""

    def attend(scores: jax.Array) -> jax.Array:  # (n, P, H, T) -> (n, P, H, T)
        attention = normalise(scores + nudge, form.shape.attention)
        # Where attention is frozen, every head has the same posterior.
        frozen = side.frozen.reshape(len(scores), len(form.judged), 1, -1)
        if len(form.judged) < scores.shape[1]:
            frozen = attention.at[:, jnp.asarray(form.judged)].set(frozen)
        return jnp.where(member.numbers.freeze, frozen, attention)

    return models.respond(params, side.tokens, form.shape, attend, member.model)


def _judged(form: Form, array: jax.Array) -> jax.Array:  # (n, P, ...) -> (n * J, ...)
    """The rows of the predictions that count."""
    if len(form.judged) < array.shape[1]:
        array = array[:, jnp.asarray(form.judged)]
    return array.reshape(-1, *array.shape[2:])


def _cross_entropy(form: Form, logits: jax.Array, labels: jax.Array) -> jax.Array:
    """(..., C), (...) -> (...)"""
    if form.double_loss:
        logits = logits.astype(jnp.float64)
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def draw_batch(
    form: Form, step: jax.Array, member: Member
) -> tuple[Side, jax.Array]:  # -> batch examples, their targets
    """The examples of a step and the prior's target on them. Which are drawn depends on seed and
    step alone, so a resumed run draws what it would have drawn."""
    if form.batch == 0:
        return member.train, member.target
    stream = jax.random.fold_in(jax.random.key(member.numbers.seed), BATCHES)
    index = jax.random.randint(
        jax.random.fold_in(stream, step), (form.batch,), 0, len(member.target), jnp.int32
    )
    return jax.tree.map(lambda array: array[index], (member.train, member.target))


def _train_step(form: Form, state: State, member: Member) -> State:
    numbers = member.numbers
    side, target = draw_batch(form, state.step, member)

    def objective(params):
        response = _respond(form, params, side, member)
        labels = side.labels.reshape(response.logits.shape[:2])
        loss = _cross_entropy(form, response.logits, labels).mean()
        attention = _judged(form, response.attention)
        wanted = target.reshape(len(attention), 1, -1)
        penalty = jax.lax.switch(numbers.penalty, DISTINCT, attention, wanted).mean()
        strength = strength_at(state.step, numbers.strength, numbers.start, numbers.end)
        # Off means off: a penalty that is not finite must not reach the loss through 0 * inf.
        prior = jnp.where(strength > 0, strength * penalty, 0.0)
        return loss + prior + query_key_penalty(params, numbers.query_key_penalty)

    gradients = jax.grad(objective)(state.params)
    params, optimiser = optim.update(
        form.optimiser, member.optimiser, gradients, state.optimiser, state.params, state.step
    )
    params = match_norm(apply_mask(params, member.mask), numbers.mlp_norm)
    change = {name: params[name] - state.params[name] for name in params}
    return state._replace(
        params=params,
        optimiser=optimiser,
        step=state.step + 1,
        update_norm=on_weights.frobenius_norm(change),
    )


def measure(form: Form, state: State, member: Member) -> dict[str, jax.Array]:
    """One row of the curve: the weights as they are now, seen by every default measure."""
    params, shape = state.params, form.shape
    train, test = member.train, member.test

    def read(nudge, side):
        response = _respond(form, params, side, member, nudge)
        labels = side.labels.reshape(response.logits.shape[:2])
        losses = _cross_entropy(form, response.logits, labels)
        right = _judged(form, response.logits.argmax(axis=-1) == labels)
        return losses.sum(), (losses.mean(), right, response)

    # The task's gradient on each query-key logit, apart from any prior's: summing the examples'
    # losses keeps the gradients of single examples apart, since no logit is shared.
    n, positions = train.tokens.shape
    still = jnp.zeros((n, train.labels.size // n, shape.heads, positions), jnp.float32)
    gradients, (train_loss, train_right, on_train) = jax.grad(read, has_aux=True)(still, train)
    _, (test_loss, test_right, on_test) = read(0.0, test)
    attention = jnp.concatenate(
        [_judged(form, on_train.attention), _judged(form, on_test.attention)]
    )
    oracle = jnp.concatenate([side.oracle.reshape(-1, positions) for side in (train, test)])
    mirrored = jnp.repeat(member.mirrored, len(form.judged))
    per_logit = _judged(form, gradients)
    frequencies, frequency_share = on_weights.key_frequencies(params["embedding"], member.cycle)
    magnitude = jnp.abs(per_logit)
    row = {
        "epoch": state.step,
        "train_loss": train_loss,
        "train_accuracy": train_right.mean(),
        "test_loss": test_loss,
        "test_accuracy": test_right.mean(),
        "test_accuracy_mirrored": _mean_where(test_right, mirrored),
        "test_accuracy_unmirrored": _mean_where(test_right, ~mirrored),
        **on_attention.measure_routing(
            attention, oracle, len(train_right), member.numbers.structure_threshold
        ),
        "logit_variance": _logit_variance(form, on_train.scores, on_test.scores),
        "interaction_gradient": _interaction_gradient(params, train.tokens, per_logit, shape),
        "logit_gradient_mean": magnitude.mean(),
        "logit_gradient_max": magnitude.max(),
        "interaction_norm": on_weights.interaction_norm(params, shape.heads),
        "mlp_norm": on_weights.mlp_norm(params),
        "lipschitz_bound": on_weights.lipschitz_bound(params),
        "parameter_norm": on_weights.frobenius_norm(params),
        "update_norm": state.update_norm,
        "frequency_share": frequency_share,
        "frequencies": frequencies,
    }
    return {
        name: value if name == "epoch" else value.astype(jnp.float32) for name, value in row.items()
    }


def _logit_variance(form: Form, *scores: jax.Array) -> jax.Array:  # (n, P, H, T) each
    """Over what can be seen, on average."""
    both = jnp.concatenate([_judged(form, some) for some in scores])
    rows = tuple(form.shape.read[index] for index in form.judged)
    seen = models.visible(form.shape, rows, both.shape[-1])  # (J, T)
    seen = jnp.tile(seen, (len(both) // len(rows), 1))[:, None]
    return jnp.var(both, axis=-1, where=seen).mean()


def _interaction_gradient(
    params: dict[str, jax.Array], tokens: jax.Array, per_logit: jax.Array, shape: models.Shape
) -> jax.Array:  # tokens (n, T), per_logit (n, H, T)
    """|dL/dM|_F. Since a_t = e_q' M e_t / sqrt(d/H), dL/dM = e_q s' / sqrt(d/H) with
    s = mean over examples of sum_t (dL/da_t) e_t, a matrix of rank one per head. The general
    transformer has no such matrix: its rotations and norms stand between W_Q and W_K."""
    if shape.kind != "minimal":
        return jnp.float32(jnp.nan)
    n = tokens.shape[0]
    asked = params["embedding"][-1] + params["position"][-1]
    by_token = jnp.zeros((shape.vocabulary, shape.heads), jnp.float32)
    by_token = by_token.at[tokens].add(per_logit.transpose(0, 2, 1))
    by_position = per_logit.sum(axis=0).T  # (T, H)
    pulled = by_token.T @ params["embedding"] + by_position.T @ params["position"]  # (H, d)
    scale = jnp.sqrt(jnp.float32(shape.width // shape.heads))
    return jnp.linalg.norm(asked) * jnp.linalg.norm(pulled) / (n * scale)


def _mean_where(values: jax.Array, where: jax.Array) -> jax.Array:
    """Mean over a subset; NaN where it is empty."""
    return jnp.sum(values & where) / jnp.sum(where)
