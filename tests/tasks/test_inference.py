"""Positions inferred from examples, against the oracle that the inference never sees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import grokscope as gs
from grokscope.engine.program import make_member
from grokscope.problems.targets import find_targets
from grokscope.tasks import build_task, infer_posterior, inference
from grokscope.tasks.inference import find_determining_sets

FOUND = {
    "constant": {"modulus": 29},
    "few tokens": {"modulus": 29, "alphabet": 6},
    "noise": {"modulus": 29, "alphabet": 29},
    "own noise": {"modulus": 29, "alphabet": 29, "distractors": "own"},
    "paper": {"modulus": 113, "alphabet": 113, "train_fraction": 0.3},
    "multiplication": {"kind": "multiplication", "modulus": 31, "alphabet": 31},
    "three operands": {"modulus": 11, "operands": 3, "alphabet": 11},
    "parity": {"kind": "parity", "bits": 20, "operands": 3, "examples": 1000},
    "permutation": {"kind": "permutation", "symbols": 4, "alphabet": 24},
    "mirror split": {"modulus": 29, "alphabet": 29, "split": "mirror"},
}


def training_examples(seed=0, **fields):
    data = build_task(gs.TaskSpec(**fields), seed)
    return data, data.tokens[data.train], data.labels[data.train]


@pytest.mark.parametrize("fields", FOUND.values(), ids=FOUND)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_oracle_is_found_from_training_examples(fields, seed):
    data, tokens, labels = training_examples(seed, **fields)
    np.testing.assert_allclose(infer_posterior(tokens, labels), data.oracle[0])


HIDDEN = {
    "positions of their own": {"positions": "random", "modulus": 29},
    "longer": {"positions": "random", "modulus": 29, "length": 8},
    "longer, noise": {
        "positions": "random",
        "modulus": 29,
        "length": 8,
        "distractors": "own",
        "alphabet": 29,
    },
    "too few examples to tell": {"modulus": 7, "alphabet": 7},
    "no distractor to leave out": {"modulus": 29, "length": 3},
    "more operands than a set may have": {"kind": "parity", "bits": 8, "operands": 5},
}


@pytest.mark.parametrize("fields", HIDDEN.values(), ids=HIDDEN)
def test_it_does_not_pretend(fields):
    _, tokens, labels = training_examples(**fields)
    with pytest.raises(gs.SpecError, match="No set of up to 4 positions"):
        infer_posterior(tokens, labels)


def test_wrong_labels_leave_nothing_to_find():
    _, tokens, labels = training_examples(**FOUND["parity"])
    flipped = np.random.default_rng(0).random(len(labels)) < 0.05
    with pytest.raises(gs.SpecError, match="contradicted"):
        infer_posterior(tokens[:, -8:], np.where(flipped, 1 - labels, labels))


def test_labels_by_chance_determine_nothing():
    """Of 60 samples of pure chance, some of them small, none may be believed."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, values, classes = rng.integers(5, 60), rng.integers(2, 20), rng.integers(2, 10)
        tokens = np.c_[rng.integers(values, size=(n, 5)), np.zeros(n, int)]
        with pytest.raises(gs.SpecError):
            infer_posterior(tokens, rng.integers(classes, size=n))


def test_against_comparing_every_pair():
    _, tokens, labels = training_examples(**FOUND["few tokens"])
    differs = labels[:, None] != labels
    pairs = list(itertools.combinations(range(4), 2))
    clean = []
    for positions in pairs:
        chosen = tokens[:, positions]
        agree = (chosen[:, None] == chosen).all(axis=-1)
        if not (agree & differs).any():
            clean.append(positions)
    assert find_determining_sets(tokens, labels) == clean == [(0, 2)]


def test_copies_share_the_target():
    """Either of two equal positions will do: the target is the average over both sets."""
    _, tokens, labels = training_examples(**FOUND["noise"])
    tokens = np.insert(tokens, 1, tokens[:, 0], axis=1)  # a a r b r =
    assert find_determining_sets(tokens, labels) == [(0, 3), (1, 3)]
    np.testing.assert_allclose(infer_posterior(tokens, labels), [0.25, 0.25, 0, 0.5, 0, 0])


def test_too_many_sets_are_refused(monkeypatch):
    monkeypatch.setattr(inference, "MOST_SETS", 100)
    _, tokens, labels = training_examples(**FOUND["parity"])
    with pytest.raises(gs.SpecError, match="20 positions have 210 sets of up to 2"):
        infer_posterior(tokens, labels)


def test_a_run_sees_nothing_but_its_training_examples(store):
    """Test labels that contradict the rule change nothing."""
    spec = gs.RunSpec(task=gs.TaskSpec(modulus=29, alphabet=29), prior=gs.PriorSpec("inferred"))
    data = build_task(spec.task, spec.seed)
    target, _ = find_targets(spec, data, store)
    np.testing.assert_allclose(target, data.oracle)
    data.labels[data.test] = 0
    data.tokens[data.test] = 0
    data.oracle[:] = 0.2
    np.testing.assert_array_equal(find_targets(spec, data, store)[0], target)
    hidden = spec.replace(**{"task.positions": "random", "task.alphabet": 1})
    with pytest.raises(gs.SpecError, match="Use another prior"):
        make_member(hidden, store)
