"""Modular maps in context: by hand and by counting."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

import grokscope as gs
from grokscope.spec import InContextSpec, MapsSpec, explain_idle
from grokscope.spec.incontext import CELLS
from grokscope.tasks.incontext import (
    add_noise,
    build_maps,
    complete_parallelograms,
    draw_sequences,
    evaluation_sequences,
    join,
)


def test_tokens_by_hand():
    # z = 2x + 3y mod 5 on (1, 4) and (3, 0); z = 4y on the same pairs
    tasks = np.array([[2, 3], [0, 4]])
    pairs = np.array([[[1, 4], [3, 0]]] * 2)
    assert join(tasks, pairs, 5).tolist() == [[1, 4, 4, 3, 0, 1], [1, 4, 1, 3, 0, 0]]


def test_cells_are_disjoint_and_complete():
    task = MapsSpec(modulus=7, tasks=28, train_fraction=0.7)
    maps = build_maps(task, 3)
    for seen, unseen, count in (
        (maps.seen_tasks, maps.unseen_tasks, 28),
        (maps.seen_pairs, maps.unseen_pairs, 34),
    ):
        both = [tuple(each) for each in np.concatenate([seen, unseen])]
        assert len(seen) == count
        assert sorted(both) == [(i, j) for i in range(7) for j in range(7)]
    same = build_maps(task, 3)
    assert (same.seen_tasks == maps.seen_tasks).all()
    assert not (build_maps(task, 4).seen_pairs == maps.seen_pairs).all()
    fixed = MapsSpec(modulus=7, tasks=28, train_fraction=0.7, seed=3)
    assert (build_maps(fixed, 9).seen_pairs == maps.seen_pairs).all()


def test_parallelograms():
    """The first four tasks are (a, b), (a, b'), (a', b), (a', b') with a' not in {a, b} and b' not
    in {a, b, a'}."""
    for seed in range(30):
        tasks = complete_parallelograms(11, 4, np.random.default_rng(seed))
        (a, b), (a1, b2), (a2, b1), last = tasks.tolist()
        assert (a1, b1, last) == (a, b, [a2, b2])
        assert a2 not in (a, b)
        assert b2 not in (a, b, a2)
    many = complete_parallelograms(7, 46, np.random.default_rng(0))
    assert len({tuple(task) for task in many}) == 46


@pytest.mark.parametrize("cell", CELLS)
def test_sequences_stay_in_their_cell(cell):
    maps = build_maps(MapsSpec(modulus=7, tasks=28, train_fraction=0.7), 1)
    tasks, pairs = maps.cell(cell)
    count = 3 * len(tasks)
    tokens = draw_sequences(maps, cell, count, 8, np.random.default_rng(2))
    known = {tuple(pair) for pair in pairs}
    used = Counter()
    for sequence in tokens:
        triples = sequence.reshape(-1, 3)
        shown = [tuple(pair) for pair in triples[:, :2]]
        assert set(shown) <= known
        assert len(set(shown)) == len(shown)  # no pair twice
        fits = [
            tuple(task)
            for task in tasks
            if ((triples[:, :2] * task).sum(axis=1) % 7 == triples[:, 2]).all()
        ]
        assert len(fits) >= 1
        used.update(fits if len(fits) == 1 else [])
    assert max(used.values()) <= 3  # every task equally often
    assert sum(used.values()) > 0.95 * count


def test_evaluation_sequences_are_fixed_and_apart():
    task = MapsSpec(modulus=7, tasks=28, train_fraction=0.7, evaluated=64)
    found = evaluation_sequences(task, 5)
    again = evaluation_sequences(task, 5)
    assert list(found) == list(CELLS)
    assert all((found[cell] == again[cell]).all() for cell in CELLS)
    for one, other in combinations(CELLS, 2):
        assert not (found[one] == found[other]).all()


def test_noise_touches_context_labels_only():
    maps = build_maps(MapsSpec(modulus=7, tasks=28), 0)
    tokens = draw_sequences(maps, "id_train", 2000, 8, np.random.default_rng(0))
    noisy = add_noise(tokens, 0.5, 7, np.random.default_rng(1))
    changed = noisy != tokens
    assert not changed[:, 0::3].any()
    assert not changed[:, 1::3].any()
    assert not changed[:, -3:].any()
    assert changed[:, 2:-3:3].mean() == pytest.approx(0.5 * 6 / 7, abs=0.02)
    assert (add_noise(tokens, 0.0, 7, np.random.default_rng(1)) == tokens).all()


def test_bad_sizes_are_sentences():
    with pytest.raises(gs.SpecError, match=r"one side of the split has only 5 of the 25 pairs"):
        InContextSpec().replace(**{"task.modulus": 5, "task.tasks": 16, "optimiser.batch": 64})
    with pytest.raises(gs.SpecError, match="some of the 49 tasks must stay unseen"):
        InContextSpec().replace(**{"task.tasks": 49})
    with pytest.raises(gs.SpecError, match="must be a multiple of them"):
        InContextSpec().replace(**{"optimiser.batch": 100})
    with pytest.raises(gs.SpecError, match="rotary positions need a multiple of twice the 4 heads"):
        InContextSpec().replace(**{"model.width": 20})
    with pytest.raises(gs.SpecError, match="ivon needs the number of training examples"):
        InContextSpec().replace(**{"optimiser.kind": "ivon"})


def test_learned_positions_need_no_pairs_of_columns():
    """Five columns of a head have no rotary angles, but an embedding for each place will do."""
    learned = {"model.positions": "learned", "model.heads": 4}
    assert InContextSpec().replace(**learned, **{"model.width": 20}).model.width == 20
    with pytest.raises(gs.SpecError, match="it must be a multiple of the 4 heads"):
        InContextSpec().replace(**learned, **{"model.width": 18})


def test_what_ivon_does_not_use_is_named():
    spec = InContextSpec().replace(
        **{
            "optimiser.kind": "ivon",
            "optimiser.sample_size": 100.0,
            "optimiser.clip": 3.0,
            "optimiser.vector_decay": 0.5,
        }
    )
    told = explain_idle([spec])
    assert told == [
        "optimiser.clip has no effect: optimiser.kind is ivon.",
        "optimiser.vector_decay has no effect: optimiser.kind is ivon.",
    ]
