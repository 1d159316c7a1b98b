"""The compiled program: initialise a run, advance it by rows of the curve, measure.

Everything runs on the device; the host sees one block of rows per call. `advance` is a loop with
bounds that are data, so neither the number of epochs nor the cadence of the log is compiled in, and
the bits do not depend on how a run is cut into calls.

n examples, T positions, H heads, C classes.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from grokscope import optim
from grokscope.engine.members import Form, Member, Side
from grokscope.interventions import apply_mask, match_norm, query_key_penalty
from grokscope.measures import attention as on_attention
from grokscope.measures import weights as on_weights
from grokscope.models import minimal
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
    params = minimal.init(key, form.shape, member.numbers.init_scale)
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


def _attend(
    form: Form, scores: jax.Array, side: Side, member: Member
) -> jax.Array:  # (n, H, T) -> (n, H, T)
    """Attention, or the posterior that it is frozen at."""
    attention = minimal.normalise(scores, form.shape.attention)
    return jnp.where(member.numbers.freeze, side.frozen[:, None, :], attention)


def _cross_entropy(form: Form, logits: jax.Array, labels: jax.Array) -> jax.Array:  # -> (n,)
    if form.double_loss:
        logits = logits.astype(jnp.float64)
    chosen = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def draw_batch(
    form: Form, step: jax.Array, member: Member
) -> tuple[Side, jax.Array]:  # -> batch examples, and (batch, T)
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
        attention = _attend(form, minimal.score(params, side.tokens, form.shape), side, member)
        pooled = minimal.pool(params, side.tokens, attention, form.shape)
        loss = _cross_entropy(form, minimal.classify(params, pooled), side.labels).mean()
        penalty = jax.lax.switch(numbers.penalty, DISTINCT, attention, target[:, None, :]).mean()
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
    train_scores = minimal.score(params, train.tokens, shape)
    test_scores = minimal.score(params, test.tokens, shape)

    def read(scores, side):
        attention = _attend(form, scores, side, member)
        logits = minimal.classify(params, minimal.pool(params, side.tokens, attention, shape))
        losses = _cross_entropy(form, logits, side.labels)
        return losses.sum(), (losses.mean(), logits.argmax(axis=-1) == side.labels)

    # The task's gradient on each query-key logit, apart from any prior's: summing the examples'
    # losses keeps the gradients of single examples apart, since no logit is shared.
    per_logit, (train_loss, train_right) = jax.grad(read, has_aux=True)(train_scores, train)
    _, (test_loss, test_right) = read(test_scores, test)
    scores = jnp.concatenate([train_scores, test_scores])
    attention = jnp.concatenate(
        [_attend(form, train_scores, train, member), _attend(form, test_scores, test, member)]
    )
    oracle = jnp.concatenate([train.oracle, test.oracle])
    frequencies, frequency_share = on_weights.key_frequencies(params["embedding"], member.cycle)
    magnitude = jnp.abs(per_logit)
    row = {
        "epoch": state.step,
        "train_loss": train_loss,
        "train_accuracy": train_right.mean(),
        "test_loss": test_loss,
        "test_accuracy": test_right.mean(),
        "test_accuracy_mirrored": _mean_where(test_right, member.mirrored),
        "test_accuracy_unmirrored": _mean_where(test_right, ~member.mirrored),
        **on_attention.measure_routing(
            attention, oracle, len(train.tokens), member.numbers.structure_threshold
        ),
        "logit_variance": on_attention.logit_variance(scores).mean(),
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


def _interaction_gradient(
    params: dict[str, jax.Array], tokens: jax.Array, per_logit: jax.Array, shape: minimal.Shape
) -> jax.Array:  # tokens (n, T), per_logit (n, H, T)
    """|dL/dM|_F. Since a_t = e_q' M e_t / sqrt(d/H), dL/dM = e_q s' / sqrt(d/H) with
    s = mean over examples of sum_t (dL/da_t) e_t, a matrix of rank one per head."""
    n = tokens.shape[0]
    asked = params["embedding"][-1] + params["position"][-1]
    by_token = (
        jnp.zeros((shape.vocabulary, shape.heads)).at[tokens].add(per_logit.transpose(0, 2, 1))
    )
    by_position = per_logit.sum(axis=0).T  # (T, H)
    pulled = by_token.T @ params["embedding"] + by_position.T @ params["position"]  # (H, d)
    scale = jnp.sqrt(jnp.float32(shape.width // shape.heads))
    return jnp.linalg.norm(asked) * jnp.linalg.norm(pulled) / (n * scale)


def _mean_where(values: jax.Array, where: jax.Array) -> jax.Array:
    """Mean over a subset; NaN where it is empty."""
    return jnp.sum(values & where) / jnp.sum(where)
