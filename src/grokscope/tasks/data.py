"""The examples of a task, as plain arrays.

n examples, T positions, k operands. A stream has a label after each of its T positions, and J of
them are determined by what stands before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TaskData:
    """Examples, the true posterior over positions for each of them, and the split."""

    tokens: np.ndarray  # (n, T) int32; the query token stands last (a stream has none)
    labels: np.ndarray  # (n,) int32, in a stream (n, T)
    oracle: np.ndarray  # (n, T) float32; 1/k on the informative positions, 0 elsewhere; (n, J, T)
    operands: np.ndarray  # (n, k) int32, in a stream (n, J * k)
    train: np.ndarray  # (n_train,) indices
    test: np.ndarray  # (n_test,) indices
    mirrored: np.ndarray  # (n_test,) bool; the same operands in another order are in train
    vocabulary: int
    classes: int
    cycle: np.ndarray  # operand tokens in the order in which the task is a cyclic group, or empty
    determined: tuple[int, ...] = ()  # positions of a stream whose label depends on what was seen
    structured: bool = True  # is the oracle known?

    @property
    def length(self) -> int:
        return self.tokens.shape[1]

    @property
    def uniform(self) -> np.ndarray:
        """The same weight on all that can be seen, of the shape of the oracle."""
        seen = np.broadcast_to(self._seen, self.oracle.shape).astype(np.float32)
        return seen / seen.sum(axis=-1, keepdims=True)

    @property
    def adversarial(self) -> np.ndarray:
        """The opposite of the oracle: uniform over the distractor positions, of the shape of the
        oracle."""
        wrong = ((self.oracle == 0) & self._seen).astype(np.float32)
        if not self.determined:
            wrong[:, -1] = 0  # the query carries nothing, but it is not a distractor either
        return wrong / np.maximum(wrong.sum(axis=-1, keepdims=True), 1)

    @property
    def _seen(self) -> np.ndarray:  # (T,), in a stream (J, T)
        """What stands before a question, or at it."""
        asked = np.array(self.determined)[:, None] if self.determined else self.length - 1
        return np.arange(self.length) <= asked
