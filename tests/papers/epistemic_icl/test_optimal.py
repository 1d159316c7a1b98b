"""The optimal predictor against cases worked by hand and a predictor that loops."""

from __future__ import annotations

import numpy as np
import pytest

from grokscope.papers.epistemic_icl.optimal import predict_optimally
from grokscope.spec import MapsSpec
from grokscope.tasks.incontext import build_maps, draw_sequences

P = 5
EVERY = np.array([(a, b) for a in range(P) for b in range(P)])


def test_two_equations_determine_the_task():
    # a = 2, b = 3: (1, 0) -> 2, (0, 1) -> 3, (1, 1) -> 0, (2, 2) -> 0
    tokens = np.array([[1, 0, 2, 0, 1, 3, 1, 1, 0, 2, 2, 0]])
    found = predict_optimally(tokens, EVERY, P)
    np.testing.assert_allclose(found.accuracy[0], [1 / 5, 1 / 5, 1, 1])
    np.testing.assert_allclose(found.total[0], [np.log(5), np.log(5), 0, 0], atol=1e-12)
    assert found.probabilities[0, 2].argmax() == 0


def test_a_multiple_of_a_known_pair_is_known():
    # (2, 2) = 2 (1, 1): its answer follows from one example, though five tasks are left.
    tokens = np.array([[1, 1, 4, 2, 2, 3]])
    found = predict_optimally(tokens, EVERY, P)
    assert found.accuracy[0, 1] == 1
    assert found.total[0, 1] == pytest.approx(0, abs=1e-12)


def test_a_zero_pair_is_known_without_context():
    found = predict_optimally(np.array([[0, 0, 0, 1, 0, 2]]), EVERY, P)
    assert found.accuracy[0, 0] == 1


def test_a_prior_that_has_not_the_task():
    """Tasks (1, 0) and (0, 1); the context comes from (1, 1): both explain nothing of (1, 1) -> 2,
    one explains (1, 0) -> 1."""
    tasks = np.array([(1, 0), (0, 1)])
    found = predict_optimally(np.array([[1, 1, 2, 1, 0, 1, 2, 1, 3]]), tasks, P)
    assert found.probabilities[0, 2].argmax() == 2  # (1, 0) says 2; the truth is 3
    assert found.accuracy[0, 2] == 0


def test_noise_by_hand():
    """One example, two tasks: the one that fits has weight (1 - q + q/p) / (1 - q + 2q/p)."""
    q, tasks = 0.4, np.array([(1, 0), (2, 0)])
    found = predict_optimally(np.array([[1, 0, 1, 1, 1, 1]]), tasks, P, noise=q)
    hit, miss = 1 - q + q / P, q / P
    assert found.probabilities[0, 1, 1] == pytest.approx(hit / (hit + miss))
    assert found.probabilities[0, 1, 2] == pytest.approx(miss / (hit + miss))
    whole = predict_optimally(np.array([[1, 0, 1, 1, 1, 1]]), tasks, P, noise=1.0)
    np.testing.assert_allclose(whole.probabilities[0, 1, 1:3], [0.5, 0.5])


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_against_a_loop(noise):
    maps = build_maps(MapsSpec(modulus=P, tasks=12, triples=5, train_fraction=0.6), 3)
    rng = np.random.default_rng(0)
    tokens = draw_sequences(maps, "ood_val", 6, 5, rng)
    tokens[:, 2] = rng.integers(P, size=6)  # a wrong label here and there
    found = predict_optimally(tokens, maps.seen_tasks, P, noise)
    for row, sequence in enumerate(tokens):
        triples = sequence.reshape(-1, 3)
        for place in range(len(triples)):
            weights = np.ones(len(maps.seen_tasks))
            tiny = noise or 1e-9
            for x, y, z in triples[:place]:
                for index, (a, b) in enumerate(maps.seen_tasks):
                    right = (a * x + b * y) % P == z
                    weights[index] *= (1 - tiny) * right + tiny / P
            weights /= weights.sum()
            expected = np.zeros(P)
            x, y, _ = triples[place]
            for weight, (a, b) in zip(weights, maps.seen_tasks, strict=True):
                expected[(a * x + b * y) % P] += weight
            np.testing.assert_allclose(found.probabilities[row, place], expected, atol=1e-6)


def test_more_context_never_hurts_on_average():
    maps = build_maps(MapsSpec(modulus=7, tasks=28), 0)
    tokens = draw_sequences(maps, "ood_val", 400, 8, np.random.default_rng(1))
    every = np.array([(a, b) for a in range(7) for b in range(7)])
    found = predict_optimally(tokens, every, 7)
    assert (np.diff(found.accuracy.mean(axis=0)) > -0.02).all()
    assert (np.diff(found.total.mean(axis=0)) < 0.02).all()
    assert found.accuracy[:, -1].mean() > 0.999
