"""Labels from operands. A rule maps operands (n, k) to labels (n,)."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from grokscope.errors import SpecError
from grokscope.parts import load_function, refer
from grokscope.spec.sections import TaskSpec, check_space

Rule = Callable[[np.ndarray, int], np.ndarray]


def add(operands: np.ndarray, modulus: int) -> np.ndarray:
    return operands.sum(axis=1) % modulus


def subtract(operands: np.ndarray, modulus: int) -> np.ndarray:
    return (operands[:, 0] - operands[:, 1]) % modulus


def multiply(operands: np.ndarray, modulus: int) -> np.ndarray:
    product = np.ones(len(operands), dtype=np.int64)
    for column in operands.T:  # reduce at every step: no overflow however many operands
        product = product * column % modulus
    return product


def divide(operands: np.ndarray, modulus: int) -> np.ndarray:
    """a times the modular inverse of b; b is never 0."""
    inverse = np.array([0] + [pow(b, -1, modulus) for b in range(1, modulus)])
    return operands[:, 0] * inverse[operands[:, 1]] % modulus


def parity(operands: np.ndarray, modulus: int) -> np.ndarray:
    return operands.sum(axis=1) % 2


@cache
def permutations(symbols: int) -> np.ndarray:
    """Every permutation, in lexicographic order.  (symbols!, symbols)"""
    return np.array(list(itertools.permutations(range(symbols))))


def compose(operands: np.ndarray, symbols: int) -> np.ndarray:
    """Index of a after b: i -> a[b[i]]. Operands are indices into `permutations`."""
    table = permutations(symbols)
    composed = np.take_along_axis(table[operands[:, 0]], table[operands[:, 1]], axis=1)
    place = symbols ** np.arange(symbols)
    codes = table @ place
    order = np.argsort(codes)
    return order[np.searchsorted(codes, composed @ place, sorter=order)]


BUILT_IN: dict[str, Rule] = {
    "addition": add,
    "subtraction": subtract,
    "multiplication": multiply,
    "division": divide,
    "parity": parity,
    "permutation": compose,
}


def primitive_root_cycle(modulus: int) -> np.ndarray:
    """1, g, g^2, … for the smallest primitive root g: the order in which multiplication modulo a
    prime is a cyclic group.  (modulus - 1,)"""
    for root in range(2, modulus):
        powers = [1]
        while (following := powers[-1] * root % modulus) != 1:
            powers.append(following)
        if len(powers) == modulus - 1:
            return np.array(powers)
    return np.array([1])


def custom_task(rule: Rule, **fields: object) -> TaskSpec:
    """The TaskSpec of your own rule: a function of operands (n, k) and modulus that gives labels.

    def larger(operands, modulus):
        return operands.max(axis=1)

    spec = RunSpec(task=custom_task(larger, modulus=31))
    """
    return pin_rule(TaskSpec(kind="custom", rule=refer(rule), **fields), rule)  # type: ignore[arg-type]


def pin_rule(task: TaskSpec, rule: Rule | None = None) -> TaskSpec:
    """The task with the fingerprint of its rule. A rule that computes something else than the
    fingerprint says is refused: it would be another run under the same name."""
    rule = rule or load_function(task.rule, "the rule")
    grid = probe_operands(task)
    labels = call_rule(rule, grid, task.modulus, task.rule)
    fingerprint = hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()[:16]
    if task.fingerprint and task.fingerprint != fingerprint:
        raise SpecError(
            f"The rule {task.rule} no longer gives the labels of this run; clear "
            "task.fingerprint to make it a new run."
        )
    return replace(task, fingerprint=fingerprint)


def probe_operands(task: TaskSpec, most: int = 100_000) -> np.ndarray:
    """All operand combinations, or a fixed sample of them where they are too many."""
    check_space(task.modulus, task.operands)
    space = task.modulus**task.operands
    if space <= most:
        index = np.arange(space)
    else:
        index = np.random.default_rng(0).integers(0, space, size=most)
    return unravel(index, task.modulus, task.operands)


def unravel(index: np.ndarray, values: int, count: int) -> np.ndarray:
    """Digits of `index` in base `values`, most significant first.  (n,) -> (n, count)"""
    digits = [index // values**place % values for place in reversed(range(count))]
    return np.stack(digits, axis=1)


def call_rule(rule: Rule, operands: np.ndarray, modulus: int, name: str) -> np.ndarray:
    """Labels of a user's rule, checked."""
    try:
        labels = np.asarray(rule(operands.copy(), modulus))
    except Exception as error:  # it is the user's code: anything may happen
        raise SpecError(f"The rule {name} failed: {type(error).__name__}: {error}.") from error
    if labels.shape != (len(operands),):
        raise SpecError(
            f"The rule {name} gave labels of shape {labels.shape}; it must give one label for each "
            f"of the {len(operands)} rows of its operands."
        )
    if not np.issubdtype(labels.dtype, np.integer) and labels.dtype != bool:
        raise SpecError(f"The rule {name} gave labels of type {labels.dtype}; they must be whole.")
    if labels.min() < 0:
        raise SpecError(f"The rule {name} gave the label {labels.min()}; labels count from 0.")
    if labels.max() > 100_000:
        raise SpecError(f"The rule {name} gave the label {labels.max()}; that is too many classes.")
    return labels.astype(np.int64)
