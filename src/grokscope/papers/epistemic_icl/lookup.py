"""What can be looked up instead of inferred: z = a x + b y is linear, so a context that has a
multiple of the question also has its answer, whatever the task is.

    (x_j, y_j) = c (x_i, y_i) mod p  for some i < j   =>   z_j = c z_i mod p

The question (0, 0) is a multiple of anything, and its answer is 0. A network that looks up
multiples and guesses elsewhere has an accuracy of s + (1 - s) / p where a share s of questions has
a multiple, and a total uncertainty of (1 - s) log p. One that infers the task needs two independent
triples.

n sequences of k triples.
"""

from __future__ import annotations

import numpy as np

FROM = 3
"""Examples in context from which on nearly every context tells the task."""


def has_multiple(tokens: np.ndarray, modulus: int) -> np.ndarray:  # (n, 3k) -> (n, k) bool
    """Is the pair of each triple a multiple of one before it, or (0, 0)?"""
    pairs = np.stack([tokens[:, 0::3], tokens[:, 1::3]], axis=-1)  # (n, k, 2)
    found = (pairs == 0).all(axis=-1)
    for factor in range(1, modulus):
        multiples = factor * pairs % modulus
        equal = (pairs[:, :, None] == multiples[:, None]).all(axis=-1)  # of j to the multiple of i
        found |= np.tril(equal, -1).any(axis=-1)
    return found


def look_up(there: np.ndarray, modulus: int) -> tuple[np.ndarray, np.ndarray]:  # (n, k) -> (k,) * 2
    """Exact accuracy and total uncertainty of the rule "look it up, else guess" for each number of
    examples, on the very sequences that networks are measured on."""
    share = there.mean(axis=0)
    return share + (1 - share) / modulus, (1 - share) * np.log(modulus)


def sort_answers(
    right: np.ndarray, there: np.ndarray, modulus: int
) -> dict[str, float | None]:  # (n, k) bool each
    """Accuracy over the questions with at least three examples: where a multiple stands in context,
    where none does, and how far the latter is above chance, 1 / p. None where there is no such
    question."""
    right, there = right[:, FROM:], there[:, FROM:]

    def mean(some: np.ndarray) -> float | None:
        return float(right[some].mean()) if some.any() else None

    absent = mean(~there)
    above = None if absent is None else absent - 1 / modulus
    return {"there_accuracy": mean(there), "absent_accuracy": absent, "absent_gain": above}
