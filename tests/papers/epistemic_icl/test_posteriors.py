"""Posteriors of a small run: against the problem's own predictions and rows."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import grokscope as gs
from grokscope.papers.epistemic_icl import posteriors
from grokscope.problems.incontext import build
from grokscope.tasks.incontext import evaluation_sequences
from small_incontext import SMALL


@pytest.fixture(scope="module")
def runs(finished):
    plain, ivon, other = finished
    return [plain, other, ivon]


@pytest.fixture(scope="module")
def sequences():
    return evaluation_sequences(SMALL.task, 0)


def test_one_network_is_the_problem_s_own_prediction(runs, sequences):
    problem, _, numbers = build(SMALL)
    tokens = sequences["ood_val"]
    expected = jax.jit(problem.predict)(posteriors.weights_of(runs[0]), tokens, numbers.model)
    posterior = posteriors.ensemble(runs[:1])
    found = posterior.answer(tokens)
    np.testing.assert_allclose(found[0], expected, atol=1e-4)
    np.testing.assert_allclose(posterior.answer(tokens, last=True), found[:, :, -1:], atol=1e-5)
    accuracy = posteriors.measure(found[:, :, -1], tokens[:, -1])["accuracy"]
    assert accuracy == pytest.approx(runs[0].outcome["final"]["ood_val_accuracy"])


def test_laplace_narrows_with_more_examples(runs, sequences):
    tokens, fitted_on = sequences["ood_val"], sequences["id_train"]

    def uncertainty(**options):
        logs = posteriors.laplace(runs[0], fitted_on, **options).answer(tokens)
        return posteriors.measure(logs[:, :, -1], tokens[:, -1])["eu"]

    few, many = uncertainty(size=10.0), uncertainty(size=1e6)
    assert 0 < many < few
    assert uncertainty(size=10.0, control=True) > 0
    heads = posteriors.laplace(runs[0], fitted_on, draws=4000, size=1e12).heads
    # The prior's variance at decay 0.1 where data say nothing, nearly none where they do.
    widest = np.linalg.eigvalsh(np.cov(heads.reshape(4000, -1).T))
    assert widest[0] < 1e-6
    assert widest[-1] == pytest.approx(10, rel=0.3)
    np.testing.assert_allclose(heads.mean(axis=0), runs[0].weights()["embedding"], atol=0.3)


def test_ivon_s_draws_have_its_variance(runs, sequences):
    tokens = sequences["id_train"]
    run = runs[2]
    logs = posteriors.ivon(run, draws=8).answer(tokens)
    found = posteriors.measure(logs[:, :, -1], tokens[:, -1])
    assert found["eu"] == pytest.approx(run.outcome["final"]["id_train_posterior_eu"], rel=0.5)
    assert posteriors.ivon(run, draws=2, control=True).answer(tokens).shape == logs[:2].shape
    with pytest.raises(gs.SpecError, match="trained by adamw, which has no posterior"):
        posteriors.ivon(runs[0])


def test_ensembles_share_a_task(runs, sequences):
    tokens = sequences["id_val"]
    logs = posteriors.ensemble(runs[:2]).answer(tokens)
    alone = posteriors.ensemble(runs[1:2]).answer(tokens)
    np.testing.assert_allclose(logs[1:], alone, atol=1e-6)
    assert posteriors.measure(logs[:, :, -1], tokens[:, -1])["eu"] > 0
