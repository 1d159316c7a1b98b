"""Sequences: every registered task keeps its contract, and the splits do not leak."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grokscope as gs

TASKS = {
    "addition": {},
    "three operands": {"modulus": 7, "operands": 3},
    "subtraction": {"kind": "subtraction"},
    "multiplication": {"kind": "multiplication"},
    "division": {"kind": "division"},
    "parity": {"kind": "parity", "operands": 3, "examples": 3000},
    "permutation": {"kind": "permutation", "symbols": 4},
    "noise": {"alphabet": 59},
    "own noise": {"alphabet": 5, "distractors": "own"},
    "random positions": {"positions": "random", "length": 8},
    "random positions, own noise": {"positions": "random", "alphabet": 9, "distractors": "own"},
    "long": {"length": 12, "alphabet": 3},
    "no distractors": {"length": 3},
    "mirror": {"split": "mirror"},
    "sampled": {"modulus": 113, "operands": 4, "examples": 5000},
}


@pytest.mark.parametrize("name", TASKS)
def test_contract(name):
    task = gs.TaskSpec(**TASKS[name])
    data = gs.build_task(task, seed=3)
    n, length = data.tokens.shape
    k = task.operands
    assert data.labels.shape == (n,)
    assert data.oracle.shape == (n, length)
    assert data.tokens.min() >= 0
    assert data.tokens.max() < data.vocabulary
    assert (data.tokens[:, -1] == data.vocabulary - 1).all()  # the query, and nothing but
    assert (data.tokens[:, :-1] < data.vocabulary - 1).all()
    assert data.labels.min() >= 0
    assert data.labels.max() < data.classes
    np.testing.assert_allclose(data.oracle.sum(axis=1), 1, rtol=1e-6)
    assert (np.count_nonzero(data.oracle, axis=1) == k).all()
    assert (data.oracle[:, -1] == 0).all()
    # The oracle points at the operands, in order.
    places = np.nonzero(data.oracle)[1].reshape(n, k)
    assert np.array_equal(np.take_along_axis(data.tokens, places, axis=1), data.operands)
    # Train and test share nothing and miss nothing.
    assert np.array_equal(np.sort(np.concatenate([data.train, data.test])), np.arange(n))
    assert len(np.unique(np.concatenate([data.tokens, data.operands], axis=1), axis=0)) == n
    assert abs(len(data.train) - task.train_fraction * n) <= math.factorial(k)
    if data.adversarial.any():
        np.testing.assert_allclose(data.adversarial.sum(axis=1), 1, rtol=1e-6)
        assert not (data.adversarial * data.oracle).any()


@pytest.mark.parametrize("name", TASKS)
def test_seeded(name):
    task = gs.TaskSpec(**TASKS[name])
    one, same, other = (gs.build_task(task, seed=s) for s in (0, 0, 1))
    assert np.array_equal(one.tokens, same.tokens)
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.train, other.train)
    fixed = gs.build_task(gs.TaskSpec(**TASKS[name], seed=0), seed=1)
    assert np.array_equal(one.train, fixed.train)


def test_paper_layout():
    data = gs.build_task(gs.TaskSpec(modulus=113, train_fraction=0.3), 0)
    assert data.length == 5
    assert np.flatnonzero(data.oracle[0]).tolist() == [0, 2]
    assert len(data.train) == 3830
    assert len(data.tokens) == 113**2


def test_distractors_come_from_their_alphabet():
    constant = gs.build_task(gs.TaskSpec(), 0).tokens[:, [1, 3]]
    assert np.unique(constant).tolist() == [59]
    drawn = gs.build_task(gs.TaskSpec(alphabet=8), 0).tokens[:, [1, 3]]
    counts = np.bincount(drawn.ravel())
    assert len(counts) == 8
    assert counts.min() > 0.8 * counts.mean()  # all of them, about equally often
    own = gs.build_task(gs.TaskSpec(alphabet=8, distractors="own"), 0)
    assert np.unique(own.tokens[:, [1, 3]]).tolist() == list(range(59, 67))


def test_another_alphabet_keeps_the_split():
    one, two = (gs.build_task(gs.TaskSpec(alphabet=r), 0) for r in (1, 59))
    assert np.array_equal(one.train, two.train)


def test_random_positions_are_spread_evenly():
    data = gs.build_task(gs.TaskSpec(positions="random", length=6), 0)
    share = data.oracle[:, :-1].mean(axis=0)
    np.testing.assert_allclose(share, 1 / 5, atol=0.01)


@pytest.mark.parametrize("task", [{}, {"kind": "permutation"}, {"modulus": 9, "operands": 3}])
def test_mirrored_pairs_are_those_whose_swap_is_in_train(task):
    data = gs.build_task(gs.TaskSpec(**task), 0)
    seen = {tuple(sorted(row)) for row in data.operands[data.train].tolist()}
    expected = [tuple(sorted(row)) in seen for row in data.operands[data.test].tolist()]
    assert data.mirrored.tolist() == expected
    assert 0 < np.mean(expected) < 1


def test_the_mirror_split_keeps_pairs_together():
    data = gs.build_task(gs.TaskSpec(split="mirror"), 0)
    assert not data.mirrored.any()
    side = np.zeros((59, 59), dtype=int)
    train = data.operands[data.train]
    side[train[:, 0], train[:, 1]] = 1
    assert np.array_equal(side, side.T)
    assert len(data.train) == 59 * 59 // 2


def test_division_has_as_many_examples_as_asked_for():
    def pairs(**fields):
        drawn = gs.build_task(gs.TaskSpec(kind="division", modulus=7, **fields), 0).operands
        return [tuple(row) for row in drawn.tolist()]

    everything = [(a, b) for a in range(7) for b in range(1, 7)]
    assert pairs() == everything
    some = pairs(examples=40)
    assert len(set(some)) == len(some) == 40
    assert set(some) < set(everything)
    with pytest.raises(gs.SpecError, match="only 42 examples"):
        pairs(examples=43)


def test_parity_labels_come_from_the_informative_bits_alone():
    data = gs.build_task(gs.TaskSpec(kind="parity", bits=10, operands=3), 0)
    assert len(data.tokens) == 1024  # exhaustive
    informative = np.flatnonzero(data.oracle[0])
    assert np.array_equal(data.tokens[:, informative].sum(axis=1) % 2, data.labels)


def test_too_large_or_too_small_gets_a_sentence():
    with pytest.raises(gs.SpecError, match=r"set task\.examples"):
        gs.build_task(gs.TaskSpec(modulus=113, operands=4), 0)
    with pytest.raises(gs.SpecError, match="only 9 examples"):
        gs.build_task(gs.TaskSpec(modulus=3, examples=10), 0)
    with pytest.raises(gs.SpecError, match="leave 0 to train on"):
        gs.build_task(gs.TaskSpec(modulus=2, train_fraction=0.1), 0)


@pytest.mark.parametrize(
    ("largest", "beyond"),
    [
        ({"kind": "parity", "bits": 63}, {"kind": "parity", "bits": 64}),
        ({"modulus": 113, "operands": 9}, {"modulus": 113, "operands": 10}),
    ],
)
def test_a_space_too_large_to_draw_from_gets_a_sentence(largest, beyond):
    assert len(gs.build_task(gs.TaskSpec(**largest, examples=50), 0).tokens) == 50
    task = gs.TaskSpec(**beyond, examples=50)
    with pytest.raises(gs.SpecError, match=r"at most 2\^63"):
        gs.build_task(task, 0)
    with pytest.raises(gs.SpecError, match=r"at most 2\^63"):
        gs.RunSpec(task=task)


def test_multiplication_without_a_cyclic_order_says_so():
    with pytest.warns(UserWarning, match="15 is composite: fourier_concentration"):
        data = gs.build_task(gs.TaskSpec(kind="multiplication", modulus=15, alphabet=15), 0)
    assert data.cycle.size == 0
    assert len(gs.build_task(gs.TaskSpec(kind="multiplication", modulus=13, alphabet=13), 0).cycle)
