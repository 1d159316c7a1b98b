"""Update bounds against real optimisers, with random and adversarial gradients."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grokscope.papers.structural_inference import theory

LEARNING_RATE, WEIGHT_DECAY, CLIP = 0.02, 1.5, 2.0
SHAPE = (3, 5)
STEPS = 150


def adam_ratio(gradients, beta1, beta2):
    """The textbook bias-corrected ratio after the last gradient."""
    first = second = 0.0
    for gradient in gradients:
        first = beta1 * first + (1 - beta1) * gradient
        second = beta2 * second + (1 - beta2) * gradient**2
    steps = len(gradients)
    return first / (1 - beta1**steps) / math.sqrt(second / (1 - beta2**steps))


def worst_gradients(beta1, beta2, steps):
    return (beta1 / beta2) ** np.arange(steps)[::-1]


@pytest.mark.parametrize("steps", [1, 2, 7, 60])
@pytest.mark.parametrize(
    ("beta1", "beta2"), [(0.9, 0.999), (0.9, 0.95), (0.5, 0.3), (0.5, 0.25), (0.9, 0.5), (0.0, 0.9)]
)
def test_adam_bound_is_attained_at_every_step(beta1, beta2, steps):
    ratio = adam_ratio(worst_gradients(beta1, beta2, steps), beta1, beta2)
    assert ratio == pytest.approx(theory.adam_ratio_bound(beta1, beta2, steps), rel=1e-9)


@given(
    gradients=hnp.arrays(
        np.float64, st.integers(1, 20), elements=st.floats(0.01, 1) | st.floats(-1, -0.01)
    ),
    beta1=st.sampled_from([0.5, 0.9]),
    beta2=st.sampled_from([0.3, 0.9, 0.999]),
)
def test_no_gradients_beat_the_adam_bound(gradients, beta1, beta2):
    ratio = abs(adam_ratio(gradients, beta1, beta2))
    assert ratio <= theory.adam_ratio_bound(beta1, beta2, len(gradients)) * (1 + 1e-9)


def test_adam_bound_rises_from_one_to_its_supremum():
    bounds = [theory.adam_ratio_bound(step=step) for step in range(1, 20_000)]
    assert bounds[0] == pytest.approx(1)
    assert np.all(np.diff(bounds) > -1e-12)
    assert bounds[-1] == pytest.approx(theory.adam_ratio_bound(), rel=1e-5)
    assert theory.adam_ratio_bound() == pytest.approx(7.2703, abs=1e-4)


def test_adam_exceeds_the_bound_in_the_paper():
    """Through optax: growing gradients pass (1 - b1) / sqrt(1 - b2), a lone spike only meets it."""
    with jax.enable_x64(True):
        adam = optax.scale_by_adam()
        growing = jnp.asarray(worst_gradients(0.9, 0.999, 2000))
        spike = jnp.zeros(2000).at[-1].set(1.0)
        gradients = jnp.stack([growing, spike], axis=1)
        step = lambda state, gradient: adam.update(gradient, state)[::-1]  # noqa: E731
        updates = np.asarray(jax.lax.scan(step, adam.init(gradients[0]), gradients)[1])
    published = 0.1 / math.sqrt(0.001)
    assert updates[-1, 0] > 2 * published
    assert updates[-1, 0] == pytest.approx(theory.adam_ratio_bound(step=2000), rel=1e-4)
    assert updates[-1, 1] < published


def sequences():
    """Gradient sequences (kind, steps, *SHAPE), each clipped to norm CLIP."""
    generator = np.random.default_rng(0)
    random = generator.normal(size=(STEPS, *SHAPE))
    direction = generator.normal(size=SHAPE)
    time = np.arange(STEPS)[:, None, None]
    kinds = [
        random,
        random * 1e-6,
        np.broadcast_to(direction, random.shape),
        -direction * (0.9 / 0.999) ** (STEPS - 1 - time),
        np.where(time == STEPS - 1, direction, 0.0) * np.ones_like(random),
        np.where(generator.random(random.shape) < 0.05, random, 0.0),
        direction * np.where(time % 2 == 0, 1.0, -1.0),
        np.zeros_like(random),
    ]
    stacked = np.stack(kinds)
    norms = np.linalg.norm(stacked, axis=(-2, -1), keepdims=True)
    return stacked * np.minimum(1, CLIP / np.maximum(norms, 1e-300))


def decoupled(transform):
    """Any update rule with decoupled decay, as optax builds its own."""
    return optax.chain(
        transform, optax.add_decayed_weights(WEIGHT_DECAY), optax.scale(-LEARNING_RATE)
    )


OPTIMISERS = {
    "sgd": (
        optax.chain(optax.add_decayed_weights(WEIGHT_DECAY), optax.sgd(LEARNING_RATE)),
        theory.sgd_update_bound(CLIP),
    ),
    "momentum": (decoupled(optax.trace(0.9)), theory.sgd_update_bound(CLIP, momentum=0.9)),
    "nesterov": (
        decoupled(optax.trace(0.9, nesterov=True)),
        theory.sgd_update_bound(CLIP, momentum=0.9),
    ),
    "adamw": (
        optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        theory.adamw_update_bound(SHAPE),
    ),
    "lion": (
        optax.lion(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        theory.lion_update_bound(SHAPE),
    ),
    "muon": (
        optax.contrib.muon(LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        theory.muon_update_bound(SHAPE),
    ),
}


@pytest.fixture(scope="module", params=OPTIMISERS)
def trajectory(request):
    """Weights (kind, steps + 1, *SHAPE) along every gradient sequence, and the update bound."""
    optimiser, bound = OPTIMISERS[request.param]
    start = np.random.default_rng(1).normal(size=SHAPE)

    def run(gradients):
        def step(carry, gradient):
            weights, state = carry
            updates, state = optimiser.update(gradient, state, weights)
            weights = optax.apply_updates(weights, updates)
            return (weights, state), weights

        initial = jnp.asarray(start)
        return jax.lax.scan(step, (initial, optimiser.init(initial)), gradients)[1]

    with jax.enable_x64(True):
        weights = np.asarray(jax.jit(jax.vmap(run))(jnp.asarray(sequences())))
    begun = np.broadcast_to(start, (len(weights), 1, *SHAPE))
    return request.param, np.concatenate([begun, weights], axis=1), bound


def test_updates_stay_within_their_bound(trajectory):
    name, weights, bound = trajectory
    updates = (
        (1 - LEARNING_RATE * WEIGHT_DECAY) * weights[:, :-1] - weights[:, 1:]
    ) / LEARNING_RATE
    largest = np.linalg.norm(updates, axis=(-2, -1)).max()
    assert largest <= bound * (1 + 1e-9)
    # Not a bound that could never fail: some sequence comes near it (Adam's needs more steps).
    nearness = {"adamw": 0.3, "muon": 0.6}.get(name, 0.99)
    assert largest >= nearness * bound


def test_every_step_is_norm_contractive(trajectory):
    _, weights, bound = trajectory
    norms = np.linalg.norm(weights, axis=(-2, -1))
    before, after = norms[:, :-1], norms[:, 1:]
    arguments = (before, LEARNING_RATE, WEIGHT_DECAY, bound)
    assert np.all(after**2 <= theory.squared_norm_bound(*arguments) * (1 + 1e-9))
    assert np.all(after <= theory.norm_bound(*arguments) * (1 + 1e-9))


def test_whole_runs_stay_within_the_iterated_bound(trajectory):
    _, weights, bound = trajectory
    norms = np.linalg.norm(weights, axis=(-2, -1))
    arguments = (norms[:, :1], LEARNING_RATE, WEIGHT_DECAY, bound, np.arange(STEPS + 1))
    assert np.all(norms**2 <= theory.squared_norm_bound(*arguments) * (1 + 1e-9))
    assert np.all(norms <= theory.norm_bound(*arguments) * (1 + 1e-9))


def test_normalised_updates_do_not_vanish_with_the_gradient(trajectory):
    """Sequences 0 and 1 differ by a factor of 1e-6: only SGD's weights are left to decay."""
    name, weights, _ = trajectory
    norms = np.linalg.norm(weights[:2, -1], axis=(-2, -1))
    decayed = np.linalg.norm(weights[0, 0]) * (1 - LEARNING_RATE * WEIGHT_DECAY) ** STEPS
    if name in {"sgd", "momentum", "nesterov"}:
        assert norms[1] == pytest.approx(decayed, rel=1e-3)
    else:
        assert norms[1] == pytest.approx(norms[0], rel=0.1)
        assert norms[1] > 5 * decayed


def test_momentum_exceeds_plain_sgd_bound():
    trace = optax.trace(0.9)
    state = trace.init(jnp.zeros(()))
    for _ in range(60):
        update, state = trace.update(jnp.ones(()), state)
    assert 9 < float(update) <= theory.sgd_update_bound(1.0, momentum=0.9)


@jax.jit
def orthogonalise(matrix):
    """One step of Muon, with the scaling of wide matrices."""
    muon = optax.contrib.muon(-1.0)
    return muon.update(matrix, muon.init(matrix), matrix)[0]


def test_muon_singular_values_are_not_one():
    """With eps = 0, as for an exact orthogonalisation, the bound is false."""
    sines = np.logspace(-4, -0.15, 1000)
    matrices = np.zeros((len(sines), 2, 2))
    matrices[:, 0, 0], matrices[:, 1, 1] = sines, np.sqrt(1 - sines**2)
    values = np.linalg.svd(jax.vmap(orthogonalise)(jnp.asarray(matrices)), compute_uv=False)
    assert 1.19 < values.max() <= 1 + theory.NEWTON_SCHULZ_ERROR
    assert values.min() < 0.8
    norms = np.linalg.norm(values, axis=-1)
    exact = theory.muon_update_bound((2, 2), orthogonality_error=0.0)
    assert norms.max() > exact
    assert norms.max() <= theory.muon_update_bound((2, 2))


def test_muon_scales_wide_matrices_up():
    gradient = jnp.asarray(np.random.default_rng(0).normal(size=(2, 18)))
    norm = np.linalg.norm(orthogonalise(gradient))
    assert norm <= theory.muon_update_bound((2, 18))
    assert norm > 2 * theory.muon_update_bound((2, 18), width_scaling=False)
    assert theory.muon_update_bound((4, 4), 0.0, rank=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.sgd_update_bound(1.0, momentum=1.0), r"momentum is 1\.0"),
        (lambda: theory.sgd_update_bound(-1.0), "must not be negative"),
        (lambda: theory.adam_ratio_bound(0.9, 0.81), "no bound that holds at every step"),
        (lambda: theory.adam_ratio_bound(1.0, 0.99), "beta1 is"),
        (lambda: theory.adam_ratio_bound(step=0), "first update is step 1"),
        (lambda: theory.muon_update_bound((2, 3), rank=3), "at most 2"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
