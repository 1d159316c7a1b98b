"""What a run's kept weights say at one moment of training: attention on chosen examples, the
embedding in its Fourier plane, and which examples are right.

n examples, T positions, H heads, p operand values, d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from grokscope.errors import SpecError
from grokscope.problems import find_kind
from grokscope.spec import RunSpec
from grokscope.store import Run, Store
from grokscope.tasks import TaskData, build_task

SHOWN = 8  # examples that are shown unless some are chosen
MOST_VALUES = 200  # operand values of a grid that still fits on a screen


def look(run: Run, epoch: int | None, store: Store, chosen: Sequence[int] = ()) -> dict[str, Any]:
    """Everything that can be said of a run's weights at a snapshot (None: the final ones). What
    does not apply to the task is None."""
    spec = run.about
    if not isinstance(spec, RunSpec):
        raise SpecError(f"Run {run.id} is of the kind {spec.kind_name}, which has no such picture.")
    data = examples_of(spec)
    weights = run.weights(epoch)
    right, guesses, attention = answers(run.id, epoch, run, store)
    return {
        "epoch": epoch,
        "grid": grid_of(data, right),
        "plane": plane_of(weights["embedding"], data.cycle),
        "examples": examples_at(data, chosen, guesses, right, attention),
    }


@lru_cache(maxsize=8)
def examples_of(spec: RunSpec) -> TaskData:
    return build_task(spec.task, spec.seed)


@lru_cache(maxsize=256)
def answers(
    name: str, epoch: int | None, run: Run, store: Store
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (n,) bool, (n,), (n, H, T)
    """Is each example right, what is answered, and where the answer looks. In a stream the last
    answer that can be known stands for all."""
    import jax

    from grokscope.engine.compilation import prepare

    prepare()
    problem, arrays, numbers = _built(run.spec, store)
    data = examples_of(run.spec)
    params = jax.tree.map(jax.numpy.asarray, run.weights(epoch))
    n, last = len(data.tokens), problem.judged[-1]
    heads, length = problem.shape.heads, data.length
    right, guesses = np.zeros(n, bool), np.zeros(n, int)
    attention = np.zeros((n, heads, length), np.float32)
    for index, side in ((data.train, arrays.train), (data.test, arrays.test)):
        response = problem.respond(params, jax.tree.map(jax.numpy.asarray, side), numbers)
        guess = np.asarray(response.logits.argmax(axis=-1))[:, last]
        labels = np.asarray(side.labels).reshape(len(guess), -1)[:, last]
        right[index], guesses[index] = guess == labels, guess
        attention[index] = np.asarray(response.attention)[:, last]
    return right, guesses, attention


@lru_cache(maxsize=4)
def _built(spec: RunSpec, store: Store) -> Any:
    return find_kind(spec).build(spec, store)


def grid_of(data: TaskData, right: np.ndarray) -> dict[str, Any] | None:  # right (n,)
    """Which pairs of operands are right: a text with a digit per pair, row by row. 0: there is no
    such example; 1, trained on and right; 2, trained on and wrong; 3 and 4, tested; 5 and 6, tested
    when the mirror image was trained on, since a + b = b + a gives it away."""
    if data.operands.ndim != 2 or data.operands.shape[1] != 2 or data.determined:
        return None
    values = int(data.operands.max()) + 1
    if values > MOST_VALUES:
        return None
    cells = np.zeros((values, values), int)
    indices = np.full((values, values), -1)
    digits = np.where(right, 1, 2)
    digits[data.test] += 2 + 2 * data.mirrored
    first, second = data.operands.T
    cells[first, second] = digits
    indices[first, second] = np.arange(len(right))
    text = "".join(map(str, cells.ravel()))
    return {"values": values, "cells": text, "examples": indices.ravel().tolist()}


def plane_of(embedding: np.ndarray, cycle: np.ndarray) -> dict[str, Any] | None:  # (V, d), (p,)
    """The embedding of each operand value t, seen in the planes of its strongest frequencies: with
    E_t the embeddings and c_k = (2/p) sum_t cos(2 pi k t / p) E_t, s_k likewise with the sine, the
    point of t is (E_t . c_k, E_t . s_k) / |(c_k, s_k)|. A network that adds on a circle shows a
    circle (after Nanda et al. 2023). None where the task has no cyclic order, and where a run has
    failed and its weights are no numbers."""
    p = len(cycle)
    if p < 5:
        return None
    rows = embedding[cycle].astype(float)
    if not np.isfinite(rows).all():
        return None
    rows = rows - rows.mean(axis=0)
    spectrum = np.fft.rfft(rows, axis=0)[1:]  # (p//2, d)
    power = (np.abs(spectrum) ** 2).sum(axis=1)
    strongest = np.argsort(power)[::-1][:3]
    planes = []
    for index in strongest:
        axes = np.stack([spectrum[index].real, -spectrum[index].imag]) * 2 / p  # (2, d)
        scale = np.sqrt((axes**2).sum() / 2) or 1.0
        points = rows @ axes.T / scale
        planes.append(
            {
                "frequency": int(index) + 1,
                "share": round(float(power[index] / max(power.sum(), 1e-30)), 4),
                "points": np.round(points, 4).tolist(),
            }
        )
    return {"values": p, "planes": planes}


def examples_at(
    data: TaskData,
    chosen: Sequence[int],
    guesses: np.ndarray,  # (n,)
    right: np.ndarray,  # (n,)
    attention: np.ndarray,  # (n, H, T)
) -> list[dict[str, Any]]:
    """The chosen examples, or a few of each side: tokens, answer, attention by head."""
    half = SHOWN // 2
    default = [*data.test[:half], *data.train[:half]]
    picked = [int(i) for i in (chosen or default) if 0 <= i < len(data.tokens)]
    tested = set(map(int, data.test))
    last = data.determined[-1] if data.determined else None
    return [
        {
            "example": i,
            "tokens": data.tokens[i].tolist(),
            "operands": data.operands[i].tolist(),
            "label": int(data.labels[i] if last is None else data.labels[i][last]),
            "answer": int(guesses[i]),
            "right": bool(right[i]),
            "trained": i not in tested,
            "attention": np.round(attention[i], 4).tolist(),
        }
        for i in picked
    ]
