"""The examples of a task, as plain arrays.

n examples, T positions, k operands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TaskData:
    """Examples, the true posterior over positions for each of them, and the split."""

    tokens: np.ndarray  # (n, T) int32; the query token stands last
    labels: np.ndarray  # (n,) int32
    oracle: np.ndarray  # (n, T) float32; 1/k on the informative positions, 0 elsewhere
    operands: np.ndarray  # (n, k) int32
    train: np.ndarray  # (n_train,) indices
    test: np.ndarray  # (n_test,) indices
    mirrored: np.ndarray  # (n_test,) bool; the same operands in another order are in train
    vocabulary: int
    classes: int
    cycle: np.ndarray  # operand tokens in the order in which the task is a cyclic group, or empty

    @property
    def length(self) -> int:
        return self.tokens.shape[1]

    @property
    def adversarial(self) -> np.ndarray:
        """The opposite of the oracle: uniform over the distractor positions.  (n, T) float32"""
        wrong = (self.oracle == 0).astype(np.float32)
        wrong[:, -1] = 0  # the query carries nothing, but it is not a distractor either
        return wrong / np.maximum(wrong.sum(axis=1, keepdims=True), 1)
