"""The in-context problem: the model against a textbook forward, batches by counting, a run all the
way through, and IVON's posterior in its rows."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import grokscope as gs
from grokscope.engine import program
from grokscope.optim.decoupled import learning_rate
from grokscope.problems.incontext import build
from grokscope.spec import read_spec
from grokscope.spec.incontext import CELLS
from small_incontext import IVON, SMALL


def textbook(params, tokens, spec):
    """A decoder as in the books, position by position and head by head, in NumPy."""
    model = spec.model
    p = {name: np.asarray(array, float) for name, array in params.items()}
    size = model.width // model.heads
    speed = 10_000.0 ** (-np.arange(size // 2) / (size // 2))

    def norm(x, gain):
        x = x - x.mean()
        return x / np.sqrt((x**2).mean() + model.norm_epsilon) * gain

    def turn(vector, position):
        first, second = vector[: size // 2], vector[size // 2 :]
        c, s = np.cos(position * speed), np.sin(position * speed)
        return np.concatenate([first * c - second * s, first * s + second * c])

    stream = [p["embedding"][token] for token in tokens]
    for layer in range(model.layers):
        at = f"block{layer}"
        normed = [norm(x, p[f"{at}.attention_gain"]) for x in stream]
        after = []
        for here, x in enumerate(stream):
            heads = []
            for head in range(model.heads):
                part = slice(head * size, (head + 1) * size)
                query = turn((normed[here] @ p[f"{at}.query"])[part], here)
                keys = [turn((normed[t] @ p[f"{at}.key"])[part], t) for t in range(here + 1)]
                scores = np.array([query @ key for key in keys]) / np.sqrt(size)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                values = [(normed[t] @ p[f"{at}.value"])[part] for t in range(here + 1)]
                heads.append(sum(w * v for w, v in zip(weights, values, strict=True)))
            x = x + np.concatenate(heads) @ p[f"{at}.output"]
            inner = np.maximum(norm(x, p[f"{at}.mlp_gain"]) @ p[f"{at}.hidden"], 0)
            after.append(x + inner @ p[f"{at}.readout"])
        stream = after
    logits = np.array([norm(x, p["final_gain"]) @ p["embedding"].T for x in stream[1::3]])
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_the_model_is_the_textbook_decoder():
    problem, data, numbers = build(SMALL)
    params = problem.init(jax.random.key(1), data, numbers)
    params = {
        name: array + 0.3 * jax.random.normal(jax.random.key(index), array.shape)
        for index, (name, array) in enumerate(params.items())
    }
    tokens = data.cells["id_train"]
    found = jax.jit(problem.predict)(params, jnp.asarray(tokens), numbers.model)
    for row in (0, 7):
        np.testing.assert_allclose(found[row], textbook(params, tokens[row], SMALL), atol=2e-4)


def test_the_future_is_not_seen():
    problem, data, numbers = build(SMALL)
    params = problem.init(jax.random.key(1), data, numbers)
    tokens = jnp.asarray(data.cells["id_train"])
    changed = tokens.at[:, 2:].set((tokens[:, 2:] + 1) % 5)
    predict = jax.jit(partial(problem.predict, params, numbers=numbers.model))
    np.testing.assert_array_equal(predict(tokens)[:, 0], predict(changed)[:, 0])
    assert not np.array_equal(predict(tokens)[:, 1], predict(changed)[:, 1])


def test_initial_weights():
    spec = SMALL.replace(**{"model.width": 64, "model.hidden": 128})
    problem, data, numbers = build(spec)
    params = problem.init(jax.random.key(0), data, numbers)
    assert not any("bias" in name or "unembedding" in name for name in params)
    for name, array in params.items():
        if array.ndim == 1:
            assert (array == 1).all()
        else:
            last = 2.0 if name.endswith("readout") else 1.0  # the root of twice two layers
            assert float(array.std()) == pytest.approx(0.02 / last, rel=0.15)


def test_a_batch_has_every_task_equally_often_with_the_same_pairs():
    problem, data, _ = build(SMALL)
    tokens = np.asarray(problem.draw_batch(jax.tree.map(jnp.asarray, data), jax.random.key(3)))
    triples = tokens.reshape(2, 8, 4, 3)  # orders, tasks, triples
    known = {tuple(pair) for pair in data.pairs}
    for order in triples:
        assert (order[:, :, :2] == order[:1, :, :2]).all()
        shown = [tuple(pair) for pair in order[0, :, :2].tolist()]
        assert len(set(shown)) == 4
        assert set(shown) <= known
        for sequence, task in zip(order, data.tasks, strict=True):
            np.testing.assert_array_equal((sequence[:, :2] * task).sum(axis=1) % 5, sequence[:, 2])
    assert not (triples[0] == triples[1]).all()


def test_a_batch_with_repeats_draws_pairs_evenly():
    problem, data, _ = build(SMALL.replace(**{"task.repeats": "yes", "optimiser.batch": 8000}))
    tokens = np.asarray(problem.draw_batch(jax.tree.map(jnp.asarray, data), jax.random.key(3)))
    triples = tokens.reshape(1000, 8, 4, 3)[:, 0]  # orders, triples
    pairs, counts = np.unique(triples[:, :, :2].reshape(-1, 2), axis=0, return_counts=True)
    assert {tuple(pair) for pair in pairs} == {tuple(pair) for pair in data.pairs}
    assert counts.max() / counts.min() < 1.6
    twice = [len(np.unique(each[:, :2], axis=0)) < 4 for each in triples]
    # None twice in four of fifteen: 14 13 12 / 15^3 = 0.647.
    assert np.mean(twice) == pytest.approx(0.353, abs=0.05)


def test_a_run_goes_the_whole_way(finished):
    for run, spec in zip(finished, (SMALL, IVON), strict=False):
        assert run.status == "finished"
        assert read_spec(spec.to_dict()) == spec
        assert {"memorised", "reached", "carried", "grokked"} <= set(run.outcome)
        curve = run.curve
        assert curve["epoch"].to_list() == [0, 10, 20, 30, 40]
        for cell in CELLS:
            assert curve[f"{cell}_accuracy"].is_between(0, 1).all()
    assert finished[0].curve["train_loss"][-1] < finished[0].curve["train_loss"][0]


def test_a_posterior_is_in_the_rows_and_with_the_weights(finished):
    plain, ivon, _ = finished
    assert not any("posterior" in name for name in plain.curve.columns)
    assert not any(name.startswith("hessian") for name in plain.weights())
    curve = ivon.curve
    for cell in CELLS:
        tu, au, eu = (curve[f"{cell}_posterior_{name}"].to_numpy() for name in ("tu", "au", "eu"))
        np.testing.assert_allclose(tu, au + eu, atol=1e-5)
        assert (eu > -1e-6).all()
    weights = ivon.weights()
    assert {f"hessian.{name}" for name in plain.weights()} <= set(weights)
    assert set(ivon.weights(0)) == set(weights)


def test_it_resumes_to_the_same_bits(finished, store, monkeypatch):
    from grokscope.engine import training

    class Stop(KeyboardInterrupt):
        pass

    def stop(event):
        if event.kind == "advanced" and event.epoch >= 20:
            raise Stop

    monkeypatch.setattr(training, "CHUNK_SECONDS", 1e-9)
    with pytest.raises(Stop):
        gs.train(IVON, store, executor=gs.InProcess(), sinks=stop)
    (run,) = gs.train(IVON, store, executor=gs.InProcess())
    for name, array in run.weights().items():
        assert array.tobytes() == finished[1].weights()[name].tobytes()
    assert run.curve.equals(finished[1].curve)


def test_schedule():
    """Warm-up from 1 %, then half a cosine down to 10 %."""
    spec = SMALL.replace(
        optimiser={
            "lr": 2.0,
            "warmup": 100,
            "warmup_from": 0.01,
            "schedule": "cosine",
            "schedule_floor": 0.1,
        },
        training={"epochs": 1100},
    )
    _, member = program.make_member(spec, None)
    steps = np.array([0, 49, 99, 550, 1100])
    rates = [float(learning_rate(member.optimiser, jnp.int32(step))) for step in steps]
    fall = 0.55 + 0.45 * np.cos(np.pi * steps / 1100)
    expected = [0.01 + 0.99 / 100, 0.01 + 0.99 / 2, 1.0, 1.0, 1.0] * fall
    np.testing.assert_allclose(rates, 2.0 * np.array(expected), rtol=1e-5)


def test_decay_spares_vectors():
    spec = SMALL.replace(**{"optimiser.weight_decay": 1.0, "optimiser.lr": 0.1})
    form, member = program.make_member(spec, None)
    params = {"matrix": jnp.ones((2, 2)), "gain": jnp.ones(2)}
    state = form.optimiser.init(params, member.optimiser)
    still = jax.tree.map(jnp.zeros_like, params)
    moved, _ = form.optimiser.update(still, params, params, state, member.optimiser, jnp.int32(100))
    np.testing.assert_allclose(moved["matrix"], 0.9, rtol=1e-6)
    np.testing.assert_array_equal(moved["gain"], 1.0)
