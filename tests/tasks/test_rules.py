"""Labels against arithmetic done another way; several peers get division wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import grokscope as gs
from grokscope.tasks import rules


@pytest.mark.parametrize("modulus", [2, 7, 31])
def test_division_undoes_multiplication(modulus):
    pairs = np.array([(a, b) for a in range(modulus) for b in range(1, modulus)])
    quotient = rules.divide(pairs, modulus)
    assert np.array_equal(quotient * pairs[:, 1] % modulus, pairs[:, 0])


def test_hand_worked_labels():
    pair = np.array([[3, 5]])
    assert rules.add(pair, 7)[0] == 1
    assert rules.subtract(pair, 7)[0] == 5
    assert rules.multiply(pair, 7)[0] == 1
    assert rules.divide(pair, 7)[0] == 2  # 5 * 3 = 15 = 1, so 3 / 5 = 3 * 3
    assert rules.parity(np.array([[1, 0, 1], [1, 1, 1]]), 0).tolist() == [0, 1]


def test_products_do_not_overflow():
    many = np.full((1, 30), 112)
    assert rules.multiply(many, 113)[0] == 1  # (-1)^30


def test_composition_is_a_after_b():
    table = [tuple(row) for row in rules.permutations(4)]
    pairs = np.array(list(itertools.product(range(24), repeat=2)))
    composed = rules.compose(pairs, 4)
    for (a, b), label in zip(pairs[::7], composed[::7], strict=True):
        assert table[label] == tuple(table[a][table[b][i]] for i in range(4))


def test_primitive_root_cycle():
    cycle = rules.primitive_root_cycle(7)
    assert sorted(cycle) == [1, 2, 3, 4, 5, 6]
    ratios = {int(b) * pow(int(a), -1, 7) % 7 for a, b in itertools.pairwise(cycle)}
    assert len(ratios) == 1  # multiplication by one number walks the whole cycle
    assert rules.primitive_root_cycle(2).tolist() == [1]


def larger(operands, modulus):
    return operands.max(axis=1)


def test_a_users_own_rule():
    task = gs.custom_task(larger, modulus=9, alphabet=3)
    data = gs.build_task(task, seed=1)
    assert np.array_equal(data.labels, data.operands.max(axis=1))
    assert data.classes == 9
    assert np.array_equal(data.tokens[:, [0, 2]], data.operands)
    assert gs.RunSpec(task=task).id == gs.RunSpec(task=task).id


@pytest.mark.parametrize(("name", "value"), [("modulus", 5), ("operands", 3)])
def test_a_rule_of_your_own_can_be_swept(tiny, store, name, value):
    """Other operands have other labels: the fingerprint is taken anew."""
    base = tiny.replace(**{"task": gs.custom_task(larger, modulus=7), "training.epochs": 10})
    field = f"task.{name}"
    specs = gs.sweep(base, {field: [getattr(base.task, name), value]})
    assert specs[0] == base
    runs = gs.train(specs, store, processes=1)
    assert [run.status for run in runs] == ["finished"] * 2
    wanted = gs.custom_task(larger, **{"modulus": 7, name: value}).fingerprint
    assert runs[1].spec.task.fingerprint == wanted != base.task.fingerprint
    assert base.replace(**{"task.alphabet": 2}).task.fingerprint == base.task.fingerprint
    given = base.replace(**{field: value, "task.fingerprint": wanted})
    assert given.id == runs[1].id
    assert base.replace(**{"task.kind": "addition", "task.rule": ""}).task.fingerprint == ""


def test_a_rule_of_too_many_operands():
    with pytest.raises(gs.SpecError, match=r"113\^10 examples"):
        gs.custom_task(larger, modulus=113, operands=10)


def test_a_rule_is_known_by_what_it_computes(tmp_path):
    here, there = tmp_path / "here.py", tmp_path / "there.py"
    here.write_text("def rule(operands, modulus):\n    return operands[:, 0]\n")
    there.write_text("def rule(operands, modulus):\n    return operands.min(axis=1) * 0 + 1\n")
    copy = tmp_path / "copy.py"
    copy.write_text(here.read_text())
    ids = [
        gs.RunSpec(
            task=gs.tasks.pin_rule(gs.TaskSpec(kind="custom", modulus=5, rule=f"{f}:rule"))
        ).id
        for f in (here, there, copy)
    ]
    assert ids[0] != ids[1]
    assert ids[0] == ids[2]
    edited = gs.tasks.pin_rule(gs.TaskSpec(kind="custom", modulus=5, rule=f"{here}:rule"))
    here.write_text(there.read_text())
    with pytest.raises(gs.SpecError, match="no longer gives the labels"):
        gs.build_task(edited)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return operands", "one label for each"),
        ("return operands[:, 0] / 2", "must be whole"),
        ("return operands[:, 0] - 1", "count from 0"),
        ("return operands[:, 0] + 10**9", "too many classes"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("return (", "Cannot load the rule"),
    ],
)
def test_bad_rules_get_a_sentence(tmp_path, body, words):
    file = tmp_path / "bad.py"
    file.write_text(f"def rule(operands, modulus):\n    {body}\n")
    with pytest.raises(gs.SpecError, match=words):
        gs.build_task(gs.TaskSpec(kind="custom", modulus=5, rule=f"{file}:rule"))


def test_missing_rules_get_a_sentence(tmp_path):
    file = tmp_path / "empty.py"
    file.write_text("")
    for reference, words in [
        (f"{file}:rule", "has no function rule"),
        (f"{tmp_path}/none.py:rule", "there is no file"),
        ("no_such_module_here:rule", "Cannot load"),
    ]:
        with pytest.raises(gs.SpecError, match=words):
            gs.build_task(gs.TaskSpec(kind="custom", modulus=5, rule=reference))
