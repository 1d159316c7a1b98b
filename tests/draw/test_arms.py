from __future__ import annotations

import pytest

from grokscope.pages.labels import describe_task, label_specs, name_positions
from grokscope.pages.reading import group_runs
from grokscope.spec import RunSpec, TaskSpec
from grokscope.tasks import build_task


def specs(*changes: dict) -> list[RunSpec]:
    return [RunSpec().replace(**change) for change in changes]


def test_seeds_form_one_arm_in_the_given_order(make_run):
    runs = [
        make_run(seed=2, **{"prior.kind": "oracle"}),
        make_run(seed=1),
        make_run(seed=0, **{"prior.kind": "oracle"}),
        make_run(seed=0, **{"prior.kind": "oracle", "task.seed": 7}),
    ]
    arms = group_runs(runs)
    assert [arm.label for arm in arms] == ["oracle prior, strength 1", "no prior"]
    assert [[reading.run_id for reading in arm.readings] for arm in arms] == [
        [runs[0].id, runs[2].id, runs[3].id],
        [runs[1].id],
    ]


def test_a_run_given_twice_counts_once(make_run):
    run = make_run()
    (arm,) = group_runs([run, run])
    assert len(arm.readings) == 1


def test_no_runs_no_arms():
    assert group_runs([]) == []


def test_a_single_arm_is_named_after_its_task(make_run):
    (arm,) = group_runs(
        [make_run(seed=0, **{"task.alphabet": 4}), make_run(seed=1, **{"task.alphabet": 4})]
    )
    assert arm.label == "addition modulo 11, distractors from 4 tokens"


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ([{"task.alphabet": 8}, {}], ["alphabet 8", "alphabet 1"]),
        ([{"optimiser.weight_decay": 0.0}, {}], ["weight decay 0", "weight decay 1"]),
        ([{"model.heads": 4}, {}], ["heads 4", "heads 1"]),
        (
            [{"prior.kind": "oracle", "prior.strength": 0.1}, {"prior.strength": 3.0}],
            ["oracle prior, strength 0.1", "no prior"],
        ),
        (
            [{"prior.kind": "oracle", "prior.start": 500}, {"prior.kind": "oracle"}],
            ["oracle prior, strength 1, from epoch 500", "oracle prior, strength 1"],
        ),
        (
            [{"task.alphabet": 8, "prior.kind": "oracle"}, {}],
            ["alphabet 8, oracle prior, strength 1", "alphabet 1, no prior"],
        ),
        ([{"optimiser.beta2": 0.98}, {}], ["beta2 0.98", "beta2 0.999"]),
        (
            [
                {"interventions.frozen_attention": "teacher", "prior.teacher": "a" * 16},
                {"interventions.frozen_attention": "teacher", "prior.teacher": "b" * 16},
            ],
            ["teacher aaaaaaaa", "teacher bbbbbbbb"],
        ),
    ],
)
def test_labels_say_what_sets_arms_apart(changes, labels):
    assert label_specs(specs(*changes)) == labels


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (TaskSpec(), "addition modulo 59"),
        (TaskSpec(kind="parity", operands=3), "parity of 3 bits among 20"),
        (TaskSpec(kind="permutation"), "composition of permutations of 5 symbols"),
        (TaskSpec(operands=3), "addition modulo 59 of 3 operands"),
        (TaskSpec(positions="random"), "addition modulo 59, operands at random positions"),
        (TaskSpec(kind="custom", rule="/home/me/r.py:twice"), "twice modulo 59"),
    ],
)
def test_tasks_have_plain_names(task, name):
    assert describe_task(task) == name


@pytest.mark.parametrize(
    "task",
    [
        TaskSpec(modulus=5),
        TaskSpec(modulus=5, length=8),
        TaskSpec(modulus=3, operands=3),
        TaskSpec(kind="parity", operands=3, bits=10),
        TaskSpec(modulus=5, positions="random", length=7),
    ],
)
def test_positions_are_named_as_the_task_lays_them_out(task):
    oracle = build_task(task).oracle
    names = name_positions(RunSpec(task=task), oracle.shape[1])
    always = (oracle > 0).all(axis=0)
    assert [informative for _, informative in names] == always.tolist()
    assert names[-1][0] == f"{oracle.shape[1] - 1} query"
    assert sum("operand" in name for name, _ in names) == (task.operands if always.any() else 0)
