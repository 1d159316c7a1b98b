"""The compiled program: what it measures, what it shares, what it keeps apart."""

from __future__ import annotations

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import grokscope as gs
from grokscope.engine.compilation import default_options
from grokscope.engine.program import keys_of, make_member, make_program, measure
from grokscope.models import minimal
from grokscope.models.layers import normalise
from grokscope.problems.routing import cross_entropy
from programs import FULL


def draw_batch(form, step, member):
    """The examples of a step and their targets."""
    return form.problem.draw_batch(member.data, keys_of(member.clock, step)[0])


def advance(spec, store, rows=64, options=()):
    """The whole curve, in calls of `rows` rows, and the final state."""
    form, member = make_member(spec, store)
    with jax.enable_x64(form.problem.double):
        program = make_program(form, options=options)
        state = program.init(member)
        blocks = []
        while not state.finished:
            state, block, written = program.advance(state, member, jnp.int32(rows))
            blocks.append({name: np.asarray(column)[:written] for name, column in block.items()})
    curve = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return curve, state


forward = jax.jit(minimal.forward, static_argnums=2)


def textbook(spec, store):
    """Loss, logits and attention of a run's initial weights by the textbook forward."""
    form, member = make_member(spec, store)
    params = make_program(form).init(member).params
    return (
        form,
        member,
        params,
        forward(params, member.data.train.tokens, form.problem.shape),
    )


def test_first_row_describes_the_initial_weights(tiny, store):
    curve, _ = advance(tiny, store)
    form, member, params, first = textbook(tiny, store)
    labels = member.data.train.labels
    losses = -jax.nn.log_softmax(first.logits)[jnp.arange(len(labels)), labels]
    assert curve["epoch"].tolist() == list(range(0, 101, 10))
    np.testing.assert_allclose(curve["train_loss"][0], losses.mean(), rtol=1e-5)
    right = (first.logits.argmax(axis=1) == labels).mean()
    np.testing.assert_allclose(curve["train_accuracy"][0], right, rtol=1e-6)
    assert curve["update_norm"][0] == 0
    both = np.concatenate([member.data.train.tokens, member.data.test.tokens])
    everything = forward(params, jnp.asarray(both), form.problem.shape)
    np.testing.assert_allclose(
        curve["attention"][0], everything.attention[:, 0].mean(axis=0), rtol=1e-5
    )
    oracle = np.concatenate([member.data.train.oracle, member.data.test.oracle])
    weakest = np.where(oracle > 0, everything.attention[:, 0], 1).min(axis=1)
    np.testing.assert_allclose(curve["weakest_min"][0], weakest.min(), rtol=1e-5)
    np.testing.assert_allclose(curve["weakest_q10"][0], np.quantile(weakest, 0.1), rtol=1e-5)
    np.testing.assert_allclose(curve["structure_share"][0], (weakest >= 0.25).mean(), rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 2])
def test_gradients_on_the_routing(tiny, store, heads):
    """|dL/dM| with M as a parameter of its own, and dL_n/da one example at a time."""
    spec = tiny.replace(**{"model.heads": heads, "model.init_scale": 2.0, "task.alphabet": 11})
    form, member = make_member(spec, store)
    state = make_program(form).init(member)
    row = jax.jit(lambda state, member: measure(form, state, member))(state, member)
    params, shape = state.params, form.problem.shape
    size = shape.width // heads
    tokens, labels = member.data.train.tokens, member.data.train.labels
    embedded = params["embedding"][tokens] + params["position"]
    query = params["query"].reshape(-1, heads, size)
    key = params["key"].reshape(-1, heads, size)
    interaction = jnp.einsum("ahs,bhs->hab", query, key)
    values = forward(params, tokens, shape).values

    def losses_of(scores):
        attention = normalise(scores, "softmax")
        logits = minimal.classify(params, jnp.einsum("nht,nhtd->nd", attention, values))
        return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels]

    def loss_of_interaction(interaction):
        scores = jnp.einsum("na,hab,ntb->nht", embedded[:, -1], interaction, embedded)
        return losses_of(scores / jnp.sqrt(size)).mean()

    expected = jnp.linalg.norm(jax.jit(jax.grad(loss_of_interaction))(interaction).ravel())
    assert row["interaction_gradient"] == pytest.approx(float(expected), rel=1e-3)

    scores = minimal.score(params, tokens, shape)
    alone = jax.vmap(lambda i: jax.grad(lambda s: losses_of(scores.at[i].set(s))[i])(scores[i]))
    per_example = jax.jit(alone)(jnp.arange(0, len(tokens), 9))
    largest = jnp.abs(per_example).max()
    assert row["logit_gradient_max"] >= 0.999 * largest
    np.testing.assert_allclose(
        row["logit_gradient_mean"], jnp.abs(per_example).mean(), rtol=0.5
    )  # a sample of the examples


def test_mirrored_and_unmirrored_add_up(tiny, store):
    curve, _ = advance(tiny, store)
    _, member = make_member(tiny, store)
    share = np.asarray(member.data.mirrored).mean()
    mixed = (
        share * curve["test_accuracy_mirrored"] + (1 - share) * curve["test_accuracy_unmirrored"]
    )
    np.testing.assert_allclose(mixed, curve["test_accuracy"], atol=1e-6)
    kept, _ = advance(tiny.replace(**{"task.split": "mirror"}), store)
    assert np.isnan(kept["test_accuracy_mirrored"]).all()


@pytest.mark.parametrize(("batch", "options"), [(0, {}), (16, FULL)])
def test_bits_do_not_depend_on_the_cut(tiny, store, batch, options):
    spec = tiny.replace(**{"optimiser.batch": batch})
    options = tuple((default_options() | options).items())
    (one, first), (two, second) = (advance(spec, store, rows, options) for rows in (64, 3))
    for name in one:
        assert np.array_equal(one[name], two[name], equal_nan=True), name
    for name in first.params:
        assert (first.params[name] == second.params[name]).all(), name


def test_a_batch_step_uses_the_drawn_examples(tiny, store):
    """One step of plain gradient descent against the textbook gradient on the same examples."""
    spec = tiny.replace(
        **{
            "optimiser.kind": "sgd",
            "optimiser.batch": 24,
            "optimiser.weight_decay": 0.0,
            "optimiser.beta1": 0.0,
            "optimiser.warmup": 0,
            "optimiser.clip": 0.0,
            "prior.kind": "oracle",
            "prior.strength": 0.5,
            "training.epochs": 1,
        }
    )
    form, member = make_member(spec, store)
    before = make_program(form).init(member).params
    side, target = draw_batch(form, 0, member)
    assert side.tokens.shape == (24, form.problem.shape.length)

    def objective(params):
        forward = minimal.forward(params, side.tokens, form.problem.shape)
        losses = -jax.nn.log_softmax(forward.logits)[jnp.arange(24), side.labels]
        wanted = target > 0
        ratio = jnp.where(wanted, jnp.log(jnp.where(wanted, target, 1)), 0)
        ratio -= jnp.where(wanted, jnp.log(forward.attention[:, 0]), 0)
        return losses.mean() + 0.5 * (target * ratio).sum(axis=1).mean()

    gradient = jax.jit(jax.grad(objective))(before)
    _, state = advance(spec, store)
    for name, array in before.items():
        expected = array - spec.optimiser.lr * gradient[name]
        np.testing.assert_allclose(state.params[name], expected, rtol=1e-4, atol=1e-7)


def test_batches_are_drawn_evenly_and_anew(tiny, store):
    form, member = make_member(tiny.replace(**{"optimiser.batch": 50}), store)
    n = len(member.data.target)
    # The examples told by their number: a side whose labels are 0 to n - 1.
    train = member.data.train._replace(labels=jnp.arange(n))
    member = member._replace(data=member.data._replace(train=train))
    drawn = jax.vmap(lambda step: draw_batch(form, step, member)[0].labels)(jnp.arange(600))
    counts = np.bincount(np.asarray(drawn).ravel(), minlength=n)
    assert len(counts) == n
    expected = 600 * 50 / n
    statistic = ((counts - expected) ** 2 / expected).sum()  # chi-square with n - 1 degrees
    assert abs(statistic - (n - 1)) < 4 * np.sqrt(2 * (n - 1))
    assert len(np.unique(drawn, axis=0)) == 600
    repeats = 50 - np.mean([len(np.unique(row)) for row in np.asarray(drawn)])
    assert repeats == pytest.approx(50 - n * (1 - (1 - 1 / n) ** 50), rel=0.1)  # with replacement
    other = member._replace(clock=member.clock._replace(seed=jnp.uint32(1)))
    assert (draw_batch(form, 0, other)[0].labels != drawn[0]).any()


def test_a_sweep_compiles_once(tiny, store):
    """Seeds, rates, decay, strengths, kinds of prior, schedules, scales: all are data."""
    advance(tiny, store)
    variants = {
        "seed": 1,
        "optimiser.lr": 2e-3,
        "optimiser.weight_decay": 0.1,
        "optimiser.beta2": 0.9,
        "optimiser.warmup": 3,
        "optimiser.clip": 0.01,
        "model.init_scale": 0.5,
        "prior.kind": "oracle",
        "training.epochs": 30,
        "training.log_every": 7,
        "training.stop": "grokked",
        "interventions.mlp_norm": 2.0,
        "interventions.query_key_penalty": 0.5,
        "interventions.frozen_attention": "uniform",
        "interventions.mask.kind": "random",
    }
    specs = [tiny.replace(**{name: value}) for name, value in variants.items()]
    priors = [
        {"prior.kind": "oracle", "prior.strength": 3.0},
        {"prior.kind": "adversarial", "prior.start": 20},
        {"prior.kind": "entropy", "prior.end": 50},
        {"prior.kind": "sparsity"},
    ]
    specs += [tiny.replace(**prior) for prior in priors]
    compiled: list[str] = []

    def listen(event: str, duration: float, **details: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        curves = [advance(spec, store)[0] for spec in specs]
        assert compiled == []
        advance(tiny.replace(**{"model.width": 16}), store)
        assert compiled  # the counter counts
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    finals = [float(curve["train_loss"][-1]) for curve in curves]
    # Cadence and stop rule leave the loss alone; everything else changes it.
    assert len(set(finals)) == len(specs) - 1


@pytest.mark.parametrize("examples", [0, 16])
def test_a_batch_agrees_with_one_by_one(tiny, store, examples):
    base = tiny.replace(**{"prior.kind": "oracle", "optimiser.batch": examples})
    specs = gs.sweep(base, {"seed": range(3)})
    alone = gs.train(specs, gs.Store(store.root / "a"), execution="one-by-one", processes=1)
    batch = gs.train(specs, gs.Store(store.root / "b"), execution="vmap", processes=1)
    for one, two in zip(alone, batch, strict=True):
        assert two.provenance["segments"][0]["execution"] == "vmap of 3"
        assert one.curve["epoch"].equals(two.curve["epoch"])
        for name in ("train_loss", "divergence", "mlp_norm", "interaction_gradient"):
            np.testing.assert_allclose(one.curve[name], two.curve[name], rtol=2e-3, err_msg=name)


def test_a_failing_run_does_not_hurt_its_neighbours(tiny, store):
    bad = tiny.replace(
        **{"optimiser.kind": "sgd", "optimiser.lr": 1e30, "optimiser.weight_decay": 0}
    )
    good = tiny.replace(**{"optimiser.kind": "sgd", "seed": 1})
    for execution in ("one-by-one", "vmap"):
        here = gs.Store(store.root / execution)
        failed, fine = gs.train([bad, good], here, execution=execution, processes=1)
        assert failed.status == "failed"
        assert failed.outcome["failed_at"] == 10
        assert failed.outcome["ended_by"] == "not finite"
        assert fine.status == "finished"
        alone = gs.train(good, gs.Store(store.root / "alone"), execution="one-by-one")[0]
        np.testing.assert_allclose(fine.curve["train_loss"], alone.curve["train_loss"], rtol=1e-3)


def test_double_precision_loss(tiny, store):
    """float64 changes the loss in the last digits, and only the loss is in float64."""
    single, _ = advance(tiny, store)
    double, state = advance(tiny.replace(**{"model.loss_precision": "float64"}), store)
    assert all(array.dtype == jnp.float32 for array in state.params.values())
    np.testing.assert_allclose(single["train_loss"][0], double["train_loss"][0], rtol=1e-5)
    np.testing.assert_allclose(single["train_loss"], double["train_loss"], rtol=0.05)
    # A confident logit: in float32 the loss is exactly 0, in float64 it is e^-40.
    form, member = make_member(tiny.replace(**{"model.loss_precision": "float64"}), store)
    logits = jnp.array([[40.0, 0.0]], jnp.float32)
    label = jnp.array([0])
    with jax.enable_x64(True):
        assert float(cross_entropy(logits.astype(jnp.float64), label)[0]) == pytest.approx(
            np.exp(-40), rel=1e-3
        )
        measured = str(jax.make_jaxpr(partial(measure, form))(state, member))
    assert "= dot_general" in measured
    assert not re.search(r"f64\[[\d,]*\] = dot_general", measured)
    assert float(cross_entropy(logits, label)[0]) == 0


def test_interventions_act(tiny, store):
    matched, state = advance(tiny.replace(**{"interventions.mlp_norm": 2.5}), store)
    np.testing.assert_allclose(matched["mlp_norm"], 2.5, rtol=1e-5)
    frozen, _ = advance(tiny.replace(**{"interventions.frozen_attention": "oracle"}), store)
    np.testing.assert_allclose(frozen["divergence"], 0, atol=1e-6)
    np.testing.assert_allclose(frozen["interaction_gradient"], 0, atol=1e-12)
    uniform, _ = advance(tiny.replace(**{"interventions.frozen_attention": "uniform"}), store)
    np.testing.assert_allclose(uniform["attention"], 0.2, rtol=1e-5)
    penalised, _ = advance(tiny.replace(**{"interventions.query_key_penalty": 0.5}), store)
    free, _ = advance(tiny, store)
    assert penalised["interaction_norm"][-1] < free["interaction_norm"][-1]
    masked = tiny.replace(**{"interventions.mask.kind": "random", "interventions.mask.keep": 0.3})
    pruned, state = advance(masked, store)
    alive = np.count_nonzero(state.params["hidden"]) + np.count_nonzero(state.params["readout"])
    total = state.params["hidden"].size + state.params["readout"].size
    assert alive / total == pytest.approx(0.3, abs=0.02)
    # A dense network of the ticket's norm starts there, in its own direction, and is not held.
    scaled, state = advance(masked.replace(**{"interventions.mask.effect": "norm"}), store)
    np.testing.assert_allclose(scaled["mlp_norm"][0], pruned["mlp_norm"][0], rtol=1e-5)
    assert scaled["mlp_norm"][-1] != pytest.approx(pruned["mlp_norm"][-1], rel=1e-3)
    assert np.count_nonzero(state.params["hidden"]) == state.params["hidden"].size


def test_priors_pull_where_they_should(tiny, store):
    spec = tiny.replace(**{"training.epochs": 300, "task.alphabet": 11, "prior.strength": 3.0})
    plain, _ = advance(spec, store)
    oracle, _ = advance(spec.replace(**{"prior.kind": "oracle"}), store)
    wrong, _ = advance(spec.replace(**{"prior.kind": "adversarial"}), store)
    sharp, _ = advance(spec.replace(**{"prior.kind": "entropy"}), store)
    sparse, _ = advance(spec.replace(**{"prior.kind": "sparsity"}), store)
    assert oracle["divergence"][-1] < 0.1 < plain["divergence"][-1]
    assert wrong["mass_mean"][-1] < 0.1
    for pointed in (sharp, sparse):
        assert pointed["attention_entropy"][-1] < 0.5 * plain["attention_entropy"][-1]
    late, _ = advance(spec.replace(**{"prior.kind": "oracle", "prior.start": 150}), store)
    before = late["epoch"] < 150
    assert np.array_equal(late["divergence"][before], plain["divergence"][before])
    assert late["divergence"][-1] < 0.5 * plain["divergence"][-1]


def test_early_stop_is_recorded(tiny, store):
    spec = tiny.replace(
        **{
            "training.test_threshold": 0.01,
            "training.stop": "grokked",
            "training.stop_after": 20,
            "training.epochs": 1000,
        }
    )
    run = gs.train(spec, store)[0]
    event = run.outcome["grokked"]
    assert event["epoch"] is not None
    assert run.outcome["ended_by"] == "grokked"
    # Persistence is reached two rows after the event; then 20 epochs more.
    assert run.outcome["epochs"] == event["epoch"] + 2 * 10 + 20


def test_an_odd_budget_ends_on_its_last_epoch(tiny, store):
    curve, _ = advance(tiny.replace(**{"training.epochs": 57}), store)
    assert curve["epoch"].tolist() == [0, 10, 20, 30, 40, 50, 57]


def test_adversary_without_distractors_gets_a_sentence(tiny, store):
    spec = tiny.replace(**{"task.length": 3, "prior.kind": "adversarial"})
    with pytest.raises(gs.SpecError, match="needs a distractor position"):
        gs.train(spec, store)
