"""What a formula requires of its numbers, checked where they are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grokscope.papers.structural_inference.theory._arrays import Array, is_known


def _require(fits: Callable[[Any], bool], words: str) -> Callable[[str, Array], None]:
    def check(name: str, value: Array) -> None:
        if is_known(value) and not fits(value):
            raise ValueError(f"{name} is {value}, but it must {words}.")

    return check


positive = _require(lambda value: value > 0, "be positive")
non_negative = _require(lambda value: value >= 0, "not be negative")
fraction = _require(lambda value: 0 < value < 1, "lie strictly between 0 and 1")
momentum = _require(lambda value: 0 <= value < 1, "lie in [0, 1)")


def decay(learning_rate: Array, weight_decay: Array) -> None:
    if is_known(learning_rate, weight_decay):
        step = f"The decay of one step, learning rate {learning_rate} times decay {weight_decay},"
        fraction(step, learning_rate * weight_decay)
