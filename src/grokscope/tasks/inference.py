"""Which positions determine the label? Inferred from examples alone, without oracle or teacher.

A set S of positions determines the label if no two examples agree on S and differ in their label
(a functional dependency, as in databases). Smaller sets are tried first; the smallest size with a
set that can be believed ends the search.

"No contradiction" is evidence only where there could have been one:

- S repeats: r examples have tokens on S that came before. If the label had nothing to do with S,
  all of them would agree by chance with a probability of at most p^r, p the share of the commonest
  label.
- S does not repeat, though it should: were its positions drawn independently, e pairs of examples
  would agree on S, and none of them would differ in the label with a probability of about
  exp(-e (1 - q)), q the chance that two examples share a label. This is how tables of operands
  look: every pair of operands occurs once. What is known then is that every other set of this size
  is contradicted, or could not have been. A key that has nothing to do with the label (a serial
  number in two parts) looks the same.

A set is believed if the smaller of the two probabilities, times the number of sets tried, is at
most 0.001. Labels with errors in them, or positions that differ between examples, contradict every
small set: then nothing is found, and it says so.

n examples, T positions, the query last.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from grokscope.errors import SpecError

MOST_POSITIONS = 4  # of a set
MOST_SETS = 20_000  # that are tried
CHANCE = 1e-3
GLANCE = 1000  # examples that refute most sets already


def infer_posterior(tokens: np.ndarray, labels: np.ndarray) -> np.ndarray:  # (n, T), (n,) -> (T,)
    """Attention spread evenly over the positions that determine the label; over several such sets
    of the same size, their average."""
    found = find_determining_sets(tokens, labels)
    posterior = np.zeros(tokens.shape[1], np.float32)
    for positions in found:
        posterior[list(positions)] += 1 / (len(positions) * len(found))
    return posterior


def find_determining_sets(
    tokens: np.ndarray, labels: np.ndarray
) -> list[tuple[int, ...]]:  # (n, T), (n,)
    """The smallest sets of positions that can be believed to determine the label. A sentence if
    there are none, or if together they leave no position out: that says nothing."""
    columns = {
        place: np.unique(column, return_inverse=True)[1]
        for place, column in enumerate(tokens.T)
        if (column != column[0]).any()  # what never changes determines nothing
    }
    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    commonest = float(counts.max() / len(labels))
    same_label = _chance_of_agreement(labels)
    pairs = len(labels) * (len(labels) - 1) / 2
    alike = {place: _chance_of_agreement(column) for place, column in columns.items()}
    tried = 0
    for size in range(1, min(MOST_POSITIONS, len(columns)) + 1):
        tried += math.comb(len(columns), size)
        if tried > MOST_SETS:
            raise SpecError(
                f"{len(columns)} positions have {tried:,} sets of up to {size}, and none of fewer "
                f"determines the label; at most {MOST_SETS:,} sets are tried. Name the positions "
                "yourself, or shorten the sequence."
            )
        believed = []
        for positions in itertools.combinations(columns, size):
            chosen = [columns[place] for place in positions]
            repeats = _count_repeats([c[:GLANCE] for c in chosen], labels[:GLANCE])
            if repeats is not None:
                repeats = _count_repeats(chosen, labels)
            if repeats is None:
                continue
            expected = pairs * math.prod(alike[place] for place in positions)
            evidence = max(-repeats * math.log(commonest), expected * (1 - same_label))
            if evidence >= math.log(tried / CHANCE):
                believed.append(positions)
        if believed:
            if len(set().union(*believed)) == tokens.shape[1] - 1:
                break
            return believed
    raise SpecError(
        f"No set of up to {MOST_POSITIONS} positions that leaves others out can be seen to "
        f"determine the label in {len(labels):,} examples: every one is contradicted, or its "
        "tokens repeat too rarely to tell. Use another prior than inferred."
    )


def _chance_of_agreement(values: np.ndarray) -> float:  # (n,) of 0, 1, ...
    """That two different examples have the same value."""
    counts, n = np.bincount(values), len(values)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


def _count_repeats(columns: list[np.ndarray], labels: np.ndarray) -> int | None:  # (n,) each
    """How many examples agree with an earlier one on all columns; None if two that agree there
    differ in their label."""
    codes = columns[0]
    for column in columns[1:]:  # small numbers again after each step: no overflow
        codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)[1]
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    if (labels != labels[first][group]).any():
        return None
    return len(labels) - len(first)
