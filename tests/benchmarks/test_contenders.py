"""Every contender trains the same network: losses against the textbook loop in double precision."""

from __future__ import annotations

import math
from functools import partial

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from benchmarks.agreement import hold
from benchmarks.comparison import BLOCK, GENERAL, SCALES, export_problems, list_products
from benchmarks.textbook import Bagged, Everywhere, General, GeneralAtLast, Shortcut, Textbook

from benchmarks import lab, pytorch
from grokscope.engine.compilation import prepare
from grokscope.models import init, numbers_of, respond, shape_of
from grokscope.models.layers import normalise
from grokscope.spec import find_recipe, to_dict
from grokscope.tasks import build_task

EPOCHS = 30


@pytest.fixture(scope="module")
def problems(tiny, tmp_path_factory):
    prepare()  # programs that other tests have compiled are on disk
    return export_problems(tiny, 2, tmp_path_factory.mktemp("bench") / "problems")


@pytest.fixture(scope="module")
def exact(problems):
    return pytorch.Plain(problems).losses(EPOCHS, double=True)


def test_the_lab_agrees(problems, exact):
    contender = lab.Lab(problems)
    assert hold(exact, contender.losses(EPOCHS))["difference"] < 1e-3
    assert exact[-1] < 0.99 * exact[0]


@pytest.mark.parametrize("kind", ["plain", "all positions", "by hand", "by hand, bagged"])
def test_pytorch_agrees(problems, exact, kind):
    seen = pytorch.KINDS[kind](problems).losses(EPOCHS)
    assert hold(exact, seen)["difference"] < 1e-3


def test_the_short_cut_is_the_same_function(problems):
    data = pytorch.read(problems[0])
    plain, *others = (
        model(data["weights"]).double()(data["tokens"]).detach()
        for model in (Textbook, Everywhere, Shortcut, Bagged)
    )
    for logits in others:
        assert torch.allclose(plain, logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", [GENERAL, BLOCK], ids=["general", "block"])
def test_the_general_transformer_is_the_same_function(spec):
    spec = spec.replace(**{"task.modulus": 5, "task.alphabet": 5, "model.width": 8})
    data = build_task(spec.task)
    shape = shape_of(spec.model, data)
    template = jax.eval_shape(lambda: init(jax.random.key(0), shape))
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(0, 0.5, array.shape).astype(np.float32) for name, array in template.items()
    }
    tokens = torch.tensor(data.tokens).long()
    theirs, pruned = (
        model(weights, to_dict(spec.model))(tokens).detach().numpy()
        for model in (General, GeneralAtLast)
    )
    np.testing.assert_allclose(theirs, pruned, rtol=1e-3, atol=1e-4)
    attend, numbers = partial(normalise, kind="softmax"), numbers_of(spec.model)
    ours = jax.jit(lambda params, tokens: respond(params, tokens, shape, attend, numbers).logits)
    np.testing.assert_allclose(theirs, ours(weights, data.tokens)[:, 0], rtol=1e-3, atol=1e-4)


def test_the_floor_multiplies_numbers(problems):
    """They neither vanish nor explode, whatever the number of rounds."""
    floor = lab.Floor(problems)
    for rounds in (1, 25, 200):
        for arrays in floor.loop(floor.start, floor.weights, rounds):
            for array in arrays:
                assert 0.01 < float(abs(array).mean()) < 100


def test_products_of_the_floor():
    """Ten examples of five positions: the first of two layers works at all of them, the second
    reads keys and values there and does the rest at one."""
    small = {"task.modulus": 5, "task.alphabet": 5}

    def products(spec):
        spec = spec.replace(**small)
        return list_products(10, shape_of(spec.model, build_task(spec.task)))

    assert products(find_recipe(SCALES["laptop"])) == [(10, 64, 256), (10, 256, 5)]
    block = [(10, 128, 128), (10, 128, 512), (10, 512, 128), (10, 128, 5)]
    assert products(BLOCK) == block
    first = [(50, 64, 64), (50, 64, 256), (50, 256, 64)]
    second = [(10, 64, 64), (10, 64, 256), (10, 256, 64)]
    routing = [(10, 64, 64), (50, 64, 64), (50, 64, 64)]
    assert products(GENERAL) == [*first, *second, *routing, (10, 64, 5)]


def test_members_differ_and_all_advance(problems):
    contender = pytorch.Plain(problems)
    contender.warm_up()
    first, second = (member.model.hidden.weight for member in contender.members)
    assert not torch.equal(first, second)
    before = [first.clone(), second.clone()]
    contender.advance(1)
    assert not torch.equal(first, before[0])
    assert not torch.equal(second, before[1])


def test_unmeasured_epochs_are_the_labs(problems):
    measured, unmeasured = lab.Lab(problems), lab.Unmeasured(problems)
    measured.warm_up()
    measured.advance(measured.every)
    unmeasured.warm_up()  # one epoch
    unmeasured.advance(measured.every - 1)
    for one, other in zip(measured.states, unmeasured.states, strict=True):
        assert one.step == other.step
        for name, weight in one.params.items():
            assert float(abs(weight - other.params[name]).max()) < 1e-6, name


def test_turns_are_whole_rows(problems):
    with pytest.raises(ValueError, match="rows of 10"):
        lab.Lab(problems).advance(15)


def test_a_curve_is_held_against_the_exact_one():
    row = hold([4.0, 2.0] * 15, [4.0, 2.0] * 13 + [4.0, 1.0, 5.0, 2.0])
    assert (row["early"], row["difference"]) == (0.0, 0.5)
    assert row["losses"] == [4.0, 2.0, 4.0, 2.0, 4.0, 2.0]
    assert len(row["differences"]) == 6
    broken = hold([1.0, 1.0, 1.0], [1.0, math.nan, 1.0])
    assert broken["difference"] == math.inf
