"""Modular maps in context: which tasks and pairs are seen, and sequences of triples.

p the modulus, T seen tasks, k triples of a sequence, n sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grokscope.spec.incontext import CELLS, MapsSpec


@dataclass(frozen=True)
class Maps:
    """The split of tasks (a, b) and of pairs (x, y)."""

    modulus: int
    seen_tasks: np.ndarray  # (T, 2) int32
    unseen_tasks: np.ndarray  # (p^2 - T, 2)
    seen_pairs: np.ndarray  # (m, 2)
    unseen_pairs: np.ndarray  # (p^2 - m, 2)

    def cell(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Tasks and pairs of one of the four cells."""
        tasks, pairs = name.split("_")
        return (
            {"id": self.seen_tasks, "ood": self.unseen_tasks}[tasks],
            {"train": self.seen_pairs, "val": self.unseen_pairs}[pairs],
        )


def build_maps(task: MapsSpec, seed: int) -> Maps:
    """Pure: the same spec and seed give the same split."""
    rng = np.random.default_rng([task.seed if task.seed >= 0 else seed, 0])
    every = grid(task.modulus)
    seen = complete_parallelograms(task.modulus, task.tasks, rng)
    known = {tuple(each) for each in seen}
    unseen = np.array([each for each in every if tuple(each) not in known], np.int32)
    shuffled = rng.permutation(every)
    cut = task.train_pairs
    return Maps(task.modulus, seen, unseen, shuffled[:cut], shuffled[cut:])


def complete_parallelograms(
    modulus: int, count: int, rng: np.random.Generator
) -> np.ndarray:  # (count, 2)
    """Tasks by He et al. (arXiv 2406.02550): for a random (a, b) draw a' other than a and b, and b'
    other than a, b and a'; add (a, b), (a, b'), (a', b), (a', b') as far as they are new. The last
    parallelogram is cut short where `count` is reached."""
    tasks: dict[tuple[int, int], None] = {}
    while len(tasks) < count:
        a, b = rng.integers(modulus, size=2)
        a2 = rng.choice([i for i in range(modulus) if i not in (a, b)])
        b2 = rng.choice([i for i in range(modulus) if i not in (a, b, a2)])
        tasks.update(dict.fromkeys((int(i), int(j)) for i in (a, a2) for j in (b, b2)))
    return np.array(list(tasks)[:count], np.int32)


def draw_sequences(
    maps: Maps, cell: str, count: int, triples: int, rng: np.random.Generator
) -> np.ndarray:  # (count, 3 triples)
    """Sequences of one cell: its tasks in turn, and for each sequence other pairs, none twice."""
    tasks, pairs = maps.cell(cell)
    chosen = tasks[np.arange(count) % len(tasks)]
    order = rng.permuted(np.tile(np.arange(len(pairs)), (count, 1)), axis=1)[:, :triples]
    return join(chosen, pairs[order], maps.modulus)


def join(tasks: Any, pairs: Any, modulus: int) -> Any:
    """Tokens x y z x y z ... of tasks (n, 2) on pairs (n, k, 2); NumPy or JAX.  -> (n, 3k)"""
    z = (tasks[:, None] * pairs).sum(axis=-1) % modulus  # (n, k)
    triples = z.__array_namespace__().stack([pairs[..., 0], pairs[..., 1], z], axis=-1)
    return triples.reshape(len(tasks), -1)


def evaluation_sequences(task: MapsSpec, seed: int) -> dict[str, np.ndarray]:
    """The fixed sequences on which rows are measured, by cell."""
    maps = build_maps(task, seed)
    place = task.seed if task.seed >= 0 else seed
    return {
        name: draw_sequences(
            maps, name, task.evaluated, task.triples, np.random.default_rng([place, 1, index])
        ).astype(np.int32)
        for index, name in enumerate(CELLS)
    }


def add_noise(
    tokens: np.ndarray, share: float, modulus: int, rng: np.random.Generator
) -> np.ndarray:  # (n, 3k) -> (n, 3k)
    """Each label of the context is replaced, with probability `share`, by a uniform token; the
    last triple, the question, stays as it is."""
    noisy = tokens.copy()
    labels = noisy[:, 2:-3:3]
    replaced = rng.random(labels.shape) < share
    noisy[:, 2:-3:3] = np.where(replaced, rng.integers(modulus, size=labels.shape), labels)
    return noisy


def grid(modulus: int) -> np.ndarray:  # (p^2, 2)
    """All tasks, or all pairs."""
    return np.stack(np.divmod(np.arange(modulus**2), modulus), axis=-1).astype(np.int32)
