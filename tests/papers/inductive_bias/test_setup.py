"""The authors' set-up against what their rules say, computed here without the lab."""

from __future__ import annotations

import math
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import grokscope as gs
from grokscope import models
from grokscope.engine.program import make_member, make_program, tree_norm
from grokscope.errors import SpecError
from grokscope.papers.inductive_bias.places import with_norm
from grokscope.papers.inductive_bias.quantities import _stepper
from grokscope.papers.inductive_bias.settings import SEEDS, base
from grokscope.tasks import build_task

WIDTH, HIDDEN, TOKENS, PARAMETERS = 128, 512, 114, 226_816


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Seed 456 at paper scale: its form, its arrays, its initial state."""
    spec = base("paper", seed=SEEDS[0])
    with jax.enable_x64(True):
        form, member = make_member(spec, gs.Store(tmp_path_factory.mktemp("runs")))
        state = make_program(form).init(member)
    return form, member, state


def test_split_is_pythons_shuffle():
    task = build_task(base("paper").task, 456)
    pairs = [(a, b) for a in range(113) for b in range(113)]
    order = list(range(len(pairs)))
    random.seed(456)
    random.shuffle(order)
    held_out = int(0.7 * len(pairs))
    trained = {pairs[i] for i in order[: len(pairs) - held_out]}
    assert len(trained) == len(task.train) == 3831
    assert len(task.test) == held_out == 8938
    assert {tuple(row) for row in task.tokens[task.train][:, :2].tolist()} == trained
    assert (task.tokens[:, 2] == 113).all()
    assert (task.labels == task.tokens[:, :2].sum(axis=1) % 113).all()
    # What the plateau of the test accuracy consists of.
    assert task.mirrored.mean() == pytest.approx(0.3, abs=0.02)


def test_parameters_and_their_norm(start):
    params = start[2].params
    assert sum(array.size for array in params.values()) == PARAMETERS
    cut = float(stats.truncnorm(-2, 2).var())  # 0.774
    squares = {
        "embedding": TOKENS,
        "unembedding": TOKENS,
        "position": 3 * WIDTH * 0.02**2,
        **dict.fromkeys(("query", "key", "value"), WIDTH**2 * (6 / (4 * WIDTH)) / 3),
        "output": cut * WIDTH,
        "hidden": cut * HIDDEN,
        "readout": cut * WIDTH,
    }
    for name, expected in squares.items():
        array = params[name if name in params else f"block0.{name}"]
        assert array.dtype == jnp.float32
        # The variance of a sum of n squares is at most 2 n times their square.
        spread = 5 * expected * math.sqrt(2 / array.size)
        assert float((array**2).sum()) == pytest.approx(expected, abs=spread), name
    norm = math.sqrt(sum(squares.values()))
    assert norm == pytest.approx(31.85, abs=0.01)  # the authors' logs: 31.8
    assert float(tree_norm(params)) == pytest.approx(norm, rel=0.005)


def test_initial_distributions(start):
    params = start[2].params
    query, output = (np.asarray(params[f"block0.{n}"]).ravel() for n in ("query", "output"))
    bound, spread = math.sqrt(6 / 512), 1 / math.sqrt(128)
    assert stats.kstest(query, stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3
    assert stats.kstest(output, stats.truncnorm(-2, 2, scale=spread).cdf).pvalue > 1e-3
    assert np.abs(query).max() <= bound * (1 + 1e-6)
    assert np.abs(output).max() <= 2 * spread * (1 + 1e-5)


def test_kaiming_differs_in_the_linear_layers_alone():
    shape = models.shape_of(base("smoke").model, build_task(base("smoke").task, 0))
    draw = jax.jit(models.init, static_argnums=1)
    rules = ("gaussian", "lecun", "kaiming")
    drawn = {rule: draw(jax.random.key(1), shape._replace(init=rule)) for rule in rules}
    for name in drawn["lecun"]:
        same = np.array_equal(drawn["lecun"][name], drawn["kaiming"][name])
        linear = name.endswith((".output", ".hidden", ".readout"))
        bias = name.endswith("_bias")
        assert same is not linear or bias, name
        if linear:
            assert np.allclose(drawn["kaiming"][name], drawn["gaussian"][name] * 2**0.5, rtol=1e-6)


def test_first_loss_and_first_step(start):
    form, member, state = start
    arguments = (member.data, member.numbers, 0, jax.random.key(0))
    with jax.enable_x64(True):
        loss, slopes = jax.jit(jax.value_and_grad(form.problem.loss))(state.params, *arguments)
        gradient, update = _stepper(form)(state, member)
    assert float(loss) == pytest.approx(math.log(TOKENS), abs=0.02)
    # With its bias corrections the first step of AdamW is lr (g / (|g| + epsilon) + decay w).
    weights, slopes = (
        np.concatenate([np.ravel(tree[name]) for name in slopes]).astype(float)
        for tree in (state.params, slopes)
    )
    assert float(gradient) == pytest.approx(np.linalg.norm(slopes), rel=1e-5)
    expected = 1e-3 * np.linalg.norm(slopes / (np.abs(slopes) + 1e-8) + weights)
    assert float(update) == pytest.approx(expected, rel=1e-3)
    # Nearly every weight moves by lr, and decay knows nothing of the signs.
    most = 1e-3 * math.sqrt(PARAMETERS + np.linalg.norm(weights) ** 2)
    assert 0.95 * most < float(update) < 1.001 * most


def respond(form, member, params):
    with jax.enable_x64(True):
        return jax.jit(form.problem.respond)(params, member.data.train, member.numbers).logits[:, 0]


def start_small(tmp_path, **changes):
    with jax.enable_x64(True):
        form, member = make_member(base("smoke", **changes), gs.Store(tmp_path))
        return form, member, make_program(form).init(member).params


def loss_of(form, member, params):
    with jax.enable_x64(True):
        arguments = (member.data, member.numbers, 0, jax.random.key(0))
        return float(jax.jit(form.problem.loss)(params, *arguments))


def test_subtracted_outputs_start_at_zero(tmp_path):
    form, member, params = start_small(tmp_path, **{"model.initial_outputs": "subtracted"})
    assert loss_of(form, member, params) == pytest.approx(math.log(24), abs=1e-6)
    plain, free, same = start_small(tmp_path)
    moved = {**params, "unembedding": params["unembedding"] + 0.1}
    first, then = (respond(plain, free, weights) for weights in (same, moved))
    np.testing.assert_allclose(respond(form, member, moved), then - first, atol=1e-5)


def slopes_of(form, member, params):
    with jax.enable_x64(True):
        arguments = (member.data, member.numbers, 0, jax.random.key(0))
        return jax.jit(jax.grad(form.problem.loss))(params, *arguments)


def test_first_gradient_grows_like_alpha_example_by_example(tmp_path):
    """In the mean over all examples it grows faster: labels and probabilities nearly cancel."""
    whole, single, aside = [], [], []
    for alpha in (0.5, 1.5):
        scaled = {"model.readout_scale": alpha}
        form, member, params = start_small(tmp_path, **scaled)
        whole.append(float(tree_norm(slopes_of(form, member, params))))
        still = start_small(tmp_path, **scaled, **{"model.initial_outputs": "subtracted"})
        aside.append(float(tree_norm(slopes_of(*still))))

        def surprise(weights, index, form=form, member=member):
            logits = form.problem.respond(weights, member.data.train, member.numbers).logits
            label = member.data.train.labels[index]
            return -jax.nn.log_softmax(logits[index, 0].astype(jnp.float64))[label]

        with jax.enable_x64(True):
            norm = jax.jit(
                lambda weights, index, f=surprise: tree_norm(jax.grad(f)(weights, index))
            )
            single.append([float(norm(params, index)) for index in range(8)])
    ratios = np.divide(single[1], single[0])
    assert ratios == pytest.approx(np.full(8, 3.0), rel=0.08)
    assert aside[1] / aside[0] == pytest.approx(3.0, rel=1e-3)
    assert whole[1] / whole[0] > 4


def test_uniform_attention_makes_a_norm_of_queries_and_keys_idle(tmp_path):
    uniform = {"interventions.frozen_attention": "uniform"}
    plain, free, params = start_small(tmp_path, **uniform)
    normed = start_small(tmp_path, **uniform, **with_norm("A^qk"))
    rng = np.random.default_rng(1)
    moved = {n: a + 0.1 * rng.normal(size=a.shape).astype(a.dtype) for n, a in params.items()}
    both = {**normed[2], **moved}
    np.testing.assert_array_equal(respond(*normed[:2], both), respond(plain, free, moved))
    found, expected = slopes_of(*normed[:2], both), slopes_of(plain, free, moved)
    for name, slope in found.items():
        np.testing.assert_array_equal(slope, expected.get(name, 0 * slope), err_msg=name)
    assert len(found) > len(expected)


def test_squared_error(tmp_path):
    changes = {"model.loss": "squared", "model.readout_scale": 0.5}
    form, member, params = start_small(tmp_path, **changes)
    logits = np.asarray(respond(form, member, params), float)
    wanted = np.eye(24)[np.asarray(member.data.train.labels)]
    expected = ((logits - wanted) ** 2).sum(axis=1).mean() / 2
    assert loss_of(form, member, params) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.norm": "everywhere"}, "attention, query_key, value, mlp, post, final"),
        ({"model.readout_scale": 0.0}, "nothing could be learned"),
        ({"model.readout_scale": -1.0}, "readout_scale is -1; it must be above 0"),
        ({"model.init": "orthogonal"}, "gaussian, pytorch, lecun, kaiming"),
        ({"task.split": "sorted"}, "plain, mirror, python"),
        ({"model.loss": "hinge"}, "cross_entropy, squared"),
        ({"task.kind": "division", "task.modulus": 21, "task.alphabet": 21}, "prime"),
    ],
)
def test_bad_values_give_a_sentence(changes, words):
    with pytest.raises(SpecError, match=words):
        base("smoke", **changes)


def test_too_few_outputs_give_a_sentence(tmp_path):
    with pytest.raises(SpecError, match="the task has 23 classes"):
        make_member(base("smoke", **{"model.outputs": 20}), gs.Store(tmp_path))
