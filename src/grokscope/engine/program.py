"""The compiled program: initialise a run, advance it by rows of the curve.

Everything runs on the device; the host sees one block of rows per call. `advance` is a loop whose
bounds are data, so neither the number of epochs nor the cadence of the log is compiled in, and the
bits do not depend on how a run is cut into calls. What is learned is up to the problem.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.optim import Optimiser, OptimiserNumbers, find_optimiser
from grokscope.problems import Problem, find_kind
from grokscope.spec import Spec

if TYPE_CHECKING:
    from grokscope.store import Store

BLOCK = 64  # rows that fit into one call
# Folded into a run's key, so that no two purposes share random numbers.
BATCHES, SAMPLES, MEASURES = 1, 2, 3


Options = tuple[tuple[str, str], ...]


class Form(NamedTuple):
    """What a program is compiled for. Runs of equal form and equal array shapes share one."""

    problem: Problem
    optimiser: Optimiser


class Clock(NamedTuple):
    """When to write, when to stop."""

    seed: Any
    epochs: Any
    log_every: Any
    threshold: Any  # of the event that may stop the run
    persistence: Any
    stop: Any
    stop_after: Any


class Member(NamedTuple):
    """A run as arrays: all that may differ between the runs of one compiled program."""

    data: Any
    numbers: Any
    optimiser: OptimiserNumbers
    clock: Clock


class State(NamedTuple):
    """A run in mid-flight: all that is needed to resume it, bit for bit."""

    params: Any
    optimiser: Any
    step: jax.Array  # updates done
    next_row: jax.Array  # epoch of the next row
    streak: jax.Array  # rows in a row on the right side of the stopping event's threshold
    settled: jax.Array  # epoch at which the streak became long enough, or -1
    update_norm: jax.Array
    finished: jax.Array
    failed: jax.Array  # epoch of the first row that was not finite, or -1


class Program(NamedTuple):
    init: Any  # member -> state
    advance: Any  # (state, member, rows) -> (state, block of rows, rows written)


# Programs that stay in memory, about 60 MB each: a sweep over sizes must not fill it.
MOST_PROGRAMS = 8


@lru_cache(maxsize=MOST_PROGRAMS)
def make_program(form: Form, batched: bool = False, options: Options = ()) -> Program:
    """Functions for one run, or for a batch of stacked runs (`vmap`), compiled with XLA's
    `options`."""
    init, advance = partial(_init, form), partial(_advance, form)
    if batched:
        init, advance = jax.vmap(init), jax.vmap(advance, in_axes=(0, 0, None))
    compiled = partial(jax.jit, compiler_options=dict(options))
    return Program(compiled(init), compiled(advance, donate_argnums=0))


_used: dict[int, Any] = {}  # functions that may hold machine code


def forget_surplus(program: Program) -> None:
    """A function keeps machine code for each shape of its arrays, and so does JAX for whatever else
    was computed on the way. Where there are too many programs, all of it is dropped and its memory
    is given back; what is needed again comes from the cache on disk."""
    _used.update((id(function), function) for function in program)
    if sum(f._cache_size() for f in _used.values()) <= len(Program._fields) * MOST_PROGRAMS:
        return
    _used.clear()
    jax.clear_caches()
    with contextlib.suppress(OSError, AttributeError):  # not every C library has it
        ctypes.CDLL(None).malloc_trim(0)  # else it would keep the memory for itself


def make_member(spec: Spec, store: Store) -> tuple[Form, Member]:
    """What a spec compiles to, and its arrays."""
    problem, data, numbers = find_kind(spec).build(spec, store)
    given = spec.optimiser
    named = [name for name in OptimiserNumbers._fields if name != "horizon"]
    optimiser = OptimiserNumbers(
        **{name: np.float32(getattr(given, name)) for name in named},
        horizon=np.float32(spec.training.epochs if given.schedule == "cosine" else 0),
    )
    member = Member(data, numbers, optimiser, make_clock(spec))
    return Form(problem, find_optimiser(given.kind)), jax.tree.map(jnp.asarray, member)


def make_clock(spec: Spec) -> Clock:
    """The stopping event is the one that `training.stop` names, or else the last."""
    training, rules = spec.training, spec.events()
    named = [rule for rule in rules if rule.name == training.stop]
    return Clock(
        seed=np.uint32(spec.seed),
        epochs=np.int32(training.epochs),
        log_every=np.int32(training.log_every),
        threshold=np.float32((named or rules)[-1].threshold if rules else np.nan),
        persistence=np.int32(training.persistence),
        stop=np.bool_(bool(named)),
        stop_after=np.int32(training.stop_after),
    )


def _init(form: Form, member: Member) -> State:
    key = jax.random.key(member.clock.seed)
    params = form.problem.init(key, member.data, member.numbers)
    return State(
        params=params,
        optimiser=form.optimiser.init(params, member.optimiser),
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
    """Train until `rows` rows are written or the run is finished."""
    empty = jax.eval_shape(lambda: measure(form, state, member))
    block = {name: jnp.zeros((BLOCK, *row.shape), row.dtype) for name, row in empty.items()}

    def more(carry):
        state, _, written = carry
        return (written < rows) & ~state.finished

    def write_row(carry):
        state, block, written = carry
        state = jax.lax.fori_loop(
            state.step, state.next_row, lambda _, s: train_step(form, s, member), state
        )
        row = measure(form, state, member)
        block = {name: block[name].at[written].set(row[name]) for name in block}
        return _conclude(form, state, row, member.clock), block, written + 1

    return jax.lax.while_loop(more, write_row, (state, block, jnp.int32(0)))


def _conclude(form: Form, state: State, row: Mapping[str, jax.Array], clock: Clock) -> State:
    """After a row: is the run over, has it failed, when comes the next row?"""
    vital = [row[name] for name in (*form.problem.finite, "parameter_norm")]
    broken = ~jnp.all(jnp.stack([jnp.isfinite(value) for value in vital]))
    measure, rising = form.problem.stops_on
    value = row[measure] if measure else jnp.float32(jnp.nan)
    reached = value >= clock.threshold if rising else value <= clock.threshold
    streak = jnp.where(reached, state.streak + 1, 0)
    settles = (state.settled < 0) & (streak >= clock.persistence)
    settled = jnp.where(settles, state.step, state.settled)
    stops = clock.stop & (settled >= 0) & (state.step >= settled + clock.stop_after)
    return state._replace(
        next_row=jnp.minimum(state.step + clock.log_every, clock.epochs),
        streak=streak,
        settled=settled,
        finished=broken | stops | (state.step >= clock.epochs),
        failed=jnp.where(broken, state.step, -1),
    )


def keys_of(clock: Clock, step: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The random numbers of a step, for its batch and for a sample of the weights. They depend on
    seed and step alone, so a resumed run draws what it would have drawn."""
    key = jax.random.key(clock.seed)
    return tuple(  # type: ignore[return-value]
        jax.random.fold_in(jax.random.fold_in(key, purpose), step) for purpose in (BATCHES, SAMPLES)
    )


def train_step(form: Form, state: State, member: Member) -> State:
    batch_key, sample_key = keys_of(member.clock, state.step)
    optimiser, numbers = form.optimiser, member.numbers
    drawn = optimiser.draw(state.params, state.optimiser, member.optimiser, sample_key)
    gradients = jax.grad(form.problem.loss)(drawn, member.data, numbers, state.step, batch_key)
    params, memory = optimiser.update(
        gradients, drawn, state.params, state.optimiser, member.optimiser, state.step
    )
    params = form.problem.project(params, member.data, numbers)
    change = jax.tree.map(lambda new, old: new - old, params, state.params)
    return state._replace(
        params=params, optimiser=memory, step=state.step + 1, update_norm=tree_norm(change)
    )


def measure(form: Form, state: State, member: Member) -> dict[str, jax.Array]:
    """One row of the curve: the problem's measures of the weights as they are now, and their size
    and last change."""
    row = form.problem.row(state.params, member.data, member.numbers)
    samples = getattr(form.problem, "samples", 0)
    if samples:
        key = jax.random.fold_in(jax.random.key(member.clock.seed), MEASURES)
        keys = jax.random.split(jax.random.fold_in(key, state.step), samples)
        draw = partial(form.optimiser.draw, state.params, state.optimiser, member.optimiser)
        row |= form.problem.posterior_row(draw, keys, member.data, member.numbers)  # type: ignore[attr-defined]
    numbers = {**row, "parameter_norm": tree_norm(state.params), "update_norm": state.update_norm}
    floats = {name: jnp.asarray(value).astype(jnp.float32) for name, value in numbers.items()}
    return {"epoch": state.step, **floats}


def tree_norm(tree: Any) -> jax.Array:
    """Root of the sum of squares over all arrays."""
    return jnp.sqrt(sum(jnp.sum(array**2) for array in jax.tree.leaves(tree)))
