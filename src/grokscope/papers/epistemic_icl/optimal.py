"""The Bayes-optimal predictor in context, by enumeration of all tasks: the reference that any
network can at best reach.

A label of the context is right with probability 1 - q and uniform otherwise, so that a task has the
likelihood prod_i ((1 - q) [z_i = a x_i + b y_i] + q / p). What a network with certain weights
cannot know in context counts as *its* aleatoric uncertainty: compare its AU with the reference's
total uncertainty.

n sequences of k triples, M tasks of the prior, C = p classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Optimal(NamedTuple):
    """Prediction of each z from the triples before it."""

    probabilities: np.ndarray  # (n, k, C)
    accuracy: np.ndarray  # (n, k) chance that a most probable answer, drawn among equals, is right
    total: np.ndarray  # (n, k) H of the prediction, nats
    aleatoric: np.ndarray  # (n, k) mean over tasks of H given the task
    tasks_left: np.ndarray  # (n, k) exp of the entropy of the posterior over tasks

    @property
    def epistemic(self) -> np.ndarray:  # (n, k)
        """I(label; task | context)."""
        return self.total - self.aleatoric


def predict_optimally(
    tokens: np.ndarray,
    tasks: np.ndarray,
    modulus: int,
    noise: float = 0.0,
    question_noise: float = 0.0,
    truth: np.ndarray | None = None,
) -> Optimal:
    """`tokens` (n, 3k), `tasks` (M, 2) with equal prior weight. `noise` is q of the context,
    `question_noise` that of the label asked for. `truth` (n, k) are the answers if the labels in
    `tokens` were tampered with.

    Without noise a context may fit no task of the prior. Then the tasks that fit most of it count,
    the limit of q -> 0.
    """
    x, y, z = (tokens[:, place::3] for place in range(3))  # (n, k) each
    answers = (tasks[:, 0] * x[..., None] + tasks[:, 1] * y[..., None]) % modulus  # (n, k, M)
    fits = (answers == z[..., None]).astype(float)
    before = np.cumsum(fits, axis=1) - fits  # triples before this one that the task explains
    if noise == 0:
        weight = (before == before.max(axis=-1, keepdims=True)).astype(float)
    else:
        seen = np.arange(z.shape[1])[None, :, None]
        hit, miss = np.log(1 - noise + noise / modulus), np.log(noise / modulus)
        logs = before * hit + (seen - before) * miss
        weight = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    clean = np.stack(
        [np.where(answers == label, weight, 0).sum(axis=-1) for label in range(modulus)], axis=-1
    )
    predicted = (1 - question_noise) * clean + question_noise / modulus
    given = np.full(modulus, question_noise / modulus)
    given[0] += 1 - question_noise
    asked = z if truth is None else truth
    best = np.isclose(predicted, predicted.max(axis=-1, keepdims=True), rtol=1e-9)
    hits = np.take_along_axis(best, asked[..., None], axis=-1)[..., 0]
    return Optimal(
        predicted,
        hits / best.sum(axis=-1),
        _entropy(predicted),
        np.full(z.shape, _entropy(given)),
        np.exp(_entropy(weight)),
    )


def _entropy(p: np.ndarray) -> np.ndarray:  # over the last axis, nats
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(axis=-1)
