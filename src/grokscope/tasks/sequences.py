"""From operands to sequences: where the operands stand, what stands between them, who is tested.

n examples, T positions, k operands.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

from grokscope.errors import SpecError
from grokscope.parts import load_function
from grokscope.spec.sections import PARITIES, TaskSpec, check_space, is_prime
from grokscope.tasks.data import TaskData
from grokscope.tasks.rules import BUILT_IN, call_rule, pin_rule, primitive_root_cycle, unravel

MOST_EXAMPLES = 2_000_000


def _streams(seed: int) -> list[np.random.Generator]:
    """A stream of random numbers per choice (examples, places, distractors, and 3 is the split's),
    so that another alphabet, say, leaves the split alone."""
    return [np.random.default_rng([seed, stream]) for stream in range(3)]


def build_sequences(task: TaskSpec, seed: int) -> TaskData:
    """Operands among distractors, the query last."""
    sample, place, noise = _streams(seed)
    values = task.values
    if task.kind == "division":
        operands = _draw_fractions(task, values, sample)
    else:
        operands = _draw_examples(task, values, task.operands, sample)
    length = task.length or 2 * task.operands + 1
    positions = _place(task, len(operands), length, place)
    tokens, vocabulary = _fill(task, operands, positions, length, values, noise)
    labels = label_operands(task, operands)
    classes = int(labels.max()) + 1 if task.kind == "custom" else values
    oracle = _point_at(positions, tokens.shape)
    parts = {"oracle": oracle, "vocabulary": vocabulary, "classes": classes}
    return _assemble(task, seed, operands, tokens, labels, **parts)


def build_parity(task: TaskSpec, seed: int) -> TaskData:
    """Random bits and the query; the label is the parity of some of them."""
    sample, _, _ = _streams(seed)
    bits = _draw_examples(task, 2, task.bits, sample)
    positions = np.tile(_spread(task.operands, task.bits), (len(bits), 1))
    operands = np.take_along_axis(bits, positions, axis=1)
    tokens = np.concatenate([bits, np.full((len(bits), 1), 2)], axis=1)
    labels, oracle = label_operands(task, operands), _point_at(positions, tokens.shape)
    parts = {"oracle": oracle, "vocabulary": 3, "classes": 2}
    return _assemble(task, seed, operands, tokens, labels, **parts)


def build_stream(task: TaskSpec, seed: int) -> TaskData:
    """Streams of blocks, each some random bits and then the parity of k of them, to be predicted
    token by token. Only the parities can be known; the model sees all tokens except the last."""
    sample, _, _ = _streams(seed)
    blocks, bits, k = task.blocks, task.bits, task.operands
    drawn = _draw_examples(task, 2, blocks * bits, sample).reshape(-1, blocks, bits)
    informative = _spread(k, bits)
    operands = drawn[:, :, informative]  # (n, blocks, k)
    whole = np.concatenate([drawn, operands.sum(axis=2, keepdims=True) % 2], axis=2)
    whole = whole.reshape(len(drawn), -1)  # (n, T + 1)
    tokens, labels = whole[:, :-1], whole[:, 1:]
    begins = np.arange(blocks) * (bits + 1)
    oracle = np.zeros((len(tokens), blocks, tokens.shape[1]), np.float32)
    for block, begin in enumerate(begins):
        oracle[:, block, begin + informative] = 1 / k
    asked = tuple(int(begin) + bits - 1 for begin in begins)
    parts = {"oracle": oracle, "vocabulary": 2, "classes": 2, "determined": asked}
    return _assemble(task, seed, operands, tokens, labels, **parts)


def _point_at(positions: np.ndarray, shape: tuple[int, int]) -> np.ndarray:  # (n, k) -> (n, T)
    """1/k on the positions."""
    oracle = np.zeros(shape, np.float32)
    np.put_along_axis(oracle, positions, np.float32(1 / positions.shape[1]), axis=1)
    return oracle


def _assemble(
    task: TaskSpec,
    seed: int,
    operands: np.ndarray,  # (n, k), in a stream (n, J, k)
    tokens: np.ndarray,
    labels: np.ndarray,
    **parts: Any,
) -> TaskData:
    train, test = _split(task, operands, seed)
    return TaskData(
        tokens=tokens.astype(np.int32),
        labels=labels.astype(np.int32),
        operands=operands.reshape(len(operands), -1).astype(np.int32),
        train=train,
        test=test,
        mirrored=_find_mirrored(task, operands, train, test),
        cycle=_cycle(task),
        **parts,
    )


def _draw_examples(
    task: TaskSpec, values: int, count: int, rng: np.random.Generator
) -> np.ndarray:  # (n, count)
    check_space(values, count)
    return unravel(_draw_index(task, values**count, rng), values, count)


def _draw_fractions(task: TaskSpec, values: int, rng: np.random.Generator) -> np.ndarray:  # (n, 2)
    """Pairs whose second operand, the divisor, is not 0."""
    index = _draw_index(task, values * (values - 1), rng)
    return np.stack(np.divmod(index, values - 1), axis=1) + np.array([0, 1])


def _draw_index(task: TaskSpec, space: int, rng: np.random.Generator) -> np.ndarray:  # (n,)
    """Which of `space` examples are used."""
    wanted = task.examples or space
    if wanted > space:
        raise SpecError(f"task.examples is {wanted}, but there are only {space} examples.")
    if wanted > MOST_EXAMPLES:
        raise SpecError(
            f"This task has {space} examples; set task.examples to at most {MOST_EXAMPLES}."
        )
    if wanted == space:
        return np.arange(space)
    if space <= 4 * MOST_EXAMPLES:
        return rng.permutation(space)[:wanted]
    index = np.array([], dtype=np.int64)
    while len(index) < wanted:  # the space is far larger than the sample: few rounds
        drawn = rng.integers(0, space, size=wanted + wanted // 8 + 8)
        both = np.concatenate([index, drawn])
        index = both[np.sort(np.unique(both, return_index=True)[1])][:wanted]
    return index


def _spread(count: int, slots: int) -> np.ndarray:
    """Positions of `count` operands, evenly among `slots`: 0 and 2 for two among four."""
    return np.arange(count) * slots // count


def _place(
    task: TaskSpec, n: int, length: int, rng: np.random.Generator
) -> np.ndarray:  # (n, k), ascending
    slots = length - 1
    if task.positions == "fixed":
        return np.tile(_spread(task.operands, slots), (n, 1))
    return np.sort(rng.permuted(np.tile(np.arange(slots), (n, 1)), axis=1)[:, : task.operands], 1)


def _fill(
    task: TaskSpec,
    operands: np.ndarray,
    positions: np.ndarray,
    length: int,
    values: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Tokens 0..values-1 are operands, then come distractors of their own, last the query."""
    own = task.alphabet == 1 or task.distractors == "own"
    vocabulary = values + (task.alphabet if own else 0) + 1
    drawn = rng.integers(0, task.alphabet, size=(len(operands), length))
    tokens = drawn + (values if own else 0)
    np.put_along_axis(tokens, positions, operands, axis=1)
    tokens[:, -1] = vocabulary - 1
    return tokens, vocabulary


def label_operands(task: TaskSpec, operands: np.ndarray) -> np.ndarray:  # (n, k) -> (n,)
    """The task's rule."""
    if task.kind == "custom":
        rule = load_function(task.rule, "the rule")
        pin_rule(task, rule)
        return call_rule(rule, operands, task.modulus, task.rule)
    argument = task.symbols if task.kind == "permutation" else task.modulus
    return BUILT_IN[task.kind](operands.astype(np.int64), argument)


def _orbits(task: TaskSpec, operands: np.ndarray) -> np.ndarray:
    """A number for each example, equal for equal operands in any order.  (n,)"""
    base = task.values
    if base**task.operands >= 2**62:
        raise SpecError(f"{task.operands} operands of {base} values are too many to compare.")
    return np.sort(operands, axis=1) @ base ** np.arange(task.operands)


def _split(task: TaskSpec, operands: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    n, rng = len(operands), np.random.default_rng([seed, 3])
    wanted = int(n * task.train_fraction)
    if not 0 < wanted < n:
        raise SpecError(
            f"{n} examples with task.train_fraction {task.train_fraction} leave "
            f"{wanted} to train on and {n - wanted} to test."
        )
    if task.split == "python":
        # As arXiv 2602.06702 cuts its data: what is left after int(n * test share) is trained on.
        shuffled = list(range(n))
        random.Random(seed).shuffle(shuffled)
        first = n - int(n * (1 - task.train_fraction))
        return np.sort(shuffled[:first]), np.sort(shuffled[first:])
    order = rng.permutation(n)
    if task.split == "plain" or task.kind in PARITIES:
        return np.sort(order[:wanted]), np.sort(order[wanted:])
    orbit = _orbits(task, operands)
    _, orbit, sizes = np.unique(orbit, return_inverse=True, return_counts=True)
    chosen = np.zeros(len(sizes), dtype=bool)
    room = wanted
    for candidate in rng.permutation(len(sizes)):  # skip what no longer fits: ends exactly full
        if sizes[candidate] <= room:
            chosen[candidate] = True
            room -= sizes[candidate]
    inside = chosen[orbit]
    if not inside.any():
        raise SpecError("No group of mirrored examples fits into the training share.")
    return np.flatnonzero(inside), np.flatnonzero(~inside)


def _find_mirrored(
    task: TaskSpec, operands: np.ndarray, train: np.ndarray, test: np.ndarray
) -> np.ndarray:  # (n_test,) bool
    if task.kind in PARITIES or task.operands == 1:
        return np.zeros(len(test), dtype=bool)
    orbit = _orbits(task, operands)
    return np.isin(orbit[test], orbit[train])


def _cycle(task: TaskSpec) -> np.ndarray:
    """The tokens in the order in which the task is a cyclic group, if it is one."""
    if task.kind in ("addition", "subtraction", "custom"):
        return np.arange(task.modulus)
    if task.kind in ("multiplication", "division") and is_prime(task.modulus):
        return primitive_root_cycle(task.modulus)
    if task.kind == "multiplication":
        warnings.warn(
            f"Multiplication modulo {task.modulus} has no cyclic order, since {task.modulus} is "
            "composite: fourier_concentration and frequency_share will be nan. A prime modulus has "
            "them.",
            stacklevel=2,
        )
    return np.array([], dtype=np.int64)
