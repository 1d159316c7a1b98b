"""What can be looked up in a context: by hand, by solving, and on networks that are known."""

from __future__ import annotations

import numpy as np
import pytest

from grokscope.papers.epistemic_icl.lookup import FROM, has_multiple, look_up, sort_answers
from grokscope.papers.epistemic_icl.quantities import optimum, sequences
from grokscope.tasks.incontext import grid, join
from small_incontext import SMALL


def test_by_hand():
    """p = 5: (2, 4) is twice (1, 2), (3, 1) three times; (1, 0) is new; (0, 0) needs no example."""
    pairs = np.array([[(1, 2), (2, 4), (1, 0), (3, 1)], [(0, 0), (1, 1), (1, 2), (4, 4)]])
    tokens = join(np.array([[2, 3], [1, 1]]), pairs, 5)
    assert has_multiple(tokens, 5).tolist() == [
        [False, True, False, True],
        [True, False, False, True],
    ]


def test_the_answer_follows_from_a_multiple_and_from_nothing_less():
    """For every question all tasks that fit one earlier triple are asked: they agree on the answer
    exactly if the pair of that triple has the question as a multiple."""
    p, tasks = 5, grid(5)
    rng = np.random.default_rng(0)
    pairs = rng.permuted(np.tile(np.arange(p * p), (40, 1)), axis=1)[:, :4]
    tokens = join(tasks[rng.integers(p * p, size=40)], grid(p)[pairs], p)
    for sequence, found in zip(tokens.reshape(40, 4, 3), has_multiple(tokens, p), strict=True):
        for j in range(4):
            told = [
                {
                    int((task * sequence[j, :2]).sum() % p)
                    for task in tasks
                    if (task * sequence[i, :2]).sum() % p == sequence[i, 2]
                }
                for i in range(j)
            ]
            alone = (sequence[j, :2] == 0).all()
            assert found[j] == (alone or any(len(answers) == 1 for answers in told))


def test_the_rule_is_the_optimum_with_one_example():
    """With none or one example nothing but multiples tells anything; with more the optimum knows
    more."""
    for cell in ("ood_train", "ood_val"):
        table = optimum(SMALL.task, cell).filter(sweep="context")
        rule, best = (table.filter(prior=prior) for prior in ("look-up", "all tasks"))
        for column in ("accuracy", "tu"):
            np.testing.assert_allclose(rule[column][:2], best[column][:2], atol=1e-12)
        assert rule["accuracy"][3] < best["accuracy"][3]


def test_the_rule_against_counting():
    tokens = sequences(SMALL.task)["ood_val"]
    there = has_multiple(tokens, 5)
    accuracy, total = look_up(there, 5)
    rng = np.random.default_rng(0)
    guesses = rng.integers(5, size=(4000, *there.shape))
    right = np.where(there, True, guesses == tokens[:, 2::3])
    np.testing.assert_allclose(right.mean(axis=(0, 1)), accuracy, atol=0.01)
    assert total[0] == pytest.approx((1 - there[:, 0].mean()) * np.log(5))


def test_answers_are_sorted():
    """A predictor that looks up and is else wrong: 1 and 0; questions with few examples are left
    out. Without any question of a kind there is no number."""
    there = np.array([[False] * FROM + [True, False, True], [True] * FROM + [False, False, True]])
    found = sort_answers(there, there, 4)
    assert found == {"there_accuracy": 1.0, "absent_accuracy": 0.0, "absent_gain": -0.25}
    right = there | (np.arange(6) == 4)  # and both of the fifth questions
    assert sort_answers(right, there, 4)["absent_accuracy"] == pytest.approx(2 / 3)
    assert set(sort_answers(there[:, :FROM], there[:, :FROM], 4).values()) == {None}
