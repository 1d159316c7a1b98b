"""The Bayes-optimal predictor in context, by enumeration of all tasks: the reference that any
network can at best reach.

A label of the context is right with probability 1 - q and uniform otherwise, so that a task has the
likelihood prod_i ((1 - q) [z_i = a x_i + b y_i] + q / p). The label asked for is clean: given the
task nothing is uncertain, and the reference's total uncertainty is all epistemic. What a network
with certain weights cannot know in context counts as *its* aleatoric uncertainty: compare its AU
with the reference's total uncertainty.

n sequences of k triples, M tasks of the prior, C = p classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Optimal(NamedTuple):
    """Prediction of each z from the triples before it."""

    probabilities: np.ndarray  # (n, k, C)
    accuracy: np.ndarray  # (n, k) chance that a most probable answer, drawn among equals, is right
    total: np.ndarray  # (n, k) H of the prediction, nats: I(label; task | context)


def predict_optimally(
    tokens: np.ndarray, tasks: np.ndarray, modulus: int, noise: float = 0.0
) -> Optimal:
    """`tokens` (n, 3k), `tasks` (M, 2) with equal prior weight; `noise` is q of the context.

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
    predicted = np.stack(
        [np.where(answers == label, weight, 0).sum(axis=-1) for label in range(modulus)], axis=-1
    )
    best = np.isclose(predicted, predicted.max(axis=-1, keepdims=True), rtol=1e-9)
    hits = np.take_along_axis(best, z[..., None], axis=-1)[..., 0]
    entropy = -np.where(predicted > 0, predicted * np.log(np.maximum(predicted, 1e-300)), 0.0)
    return Optimal(predicted, hits / best.sum(axis=-1), entropy.sum(axis=-1))
