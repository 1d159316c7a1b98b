import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grokscope.papers.structural_inference import theory

from .strategies import masses, swaps, vectors

LOWER_BOUNDS = [
    theory.difference_lower_bound,
    theory.aligned_lower_bound,
    theory.mismatched_lower_bound,
]


def describe(before, after, slack=1.0):
    """Arguments of the bounds after the two masses: delta, |A|, |B|."""
    return slack * np.linalg.norm(after - before), np.linalg.norm(before), np.linalg.norm(after)


@pytest.mark.parametrize("bound", LOWER_BOUNDS)
@given(a=masses, b=masses, before=vectors(2), after=vectors(2), slack=st.floats(0, 1))
def test_lower_bounds_hold(bound, a, b, before, after, slack):
    moved = np.linalg.norm(b * after - a * before)
    # Squares of differences leave rounding of the order of the root of the machine precision.
    assert bound(a, b, *describe(before, after, slack)) <= moved + 1e-6


@given(swap=swaps())
def test_lower_bound_holds_for_real_attention(swap):
    centroid = theory.distractor_centroid(swap.attention, swap.values, swap.position)[0]
    before, after = swap.value - centroid
    moved = np.linalg.norm(swap.pooled[1] - swap.pooled[0])
    assert theory.difference_lower_bound(*swap.mass, *describe(before, after)) <= moved + 1e-9
    squared = theory.squared_difference(*swap.mass, before, after)
    assert squared == pytest.approx(moved**2, abs=1e-8)


@given(a=masses, b=masses, before=vectors(3), after=vectors(3))
def test_squared_norm_identity(a, b, before, after):
    squared = theory.squared_difference(a, b, before, after)
    assert squared == pytest.approx(np.sum((b * after - a * before) ** 2), abs=1e-12)


@given(a=masses, b=masses, separation=st.floats(0, 3), length=st.floats(0, 3))
def test_mismatched_bound_never_beats_the_linear_one(a, b, separation, length):
    """The gap between their squares has a closed form, and (21) is empty wherever (18) is."""
    arguments = (a, b, separation, length, length)
    linear = theory.difference_lower_bound(*arguments)
    mismatched = theory.mismatched_lower_bound(*arguments)
    assert mismatched <= max(linear, 0) + 1e-6
    if linear > 0 and mismatched > 0:
        gap = max(a, b) * abs(b - a) * (separation - length) ** 2
        assert linear**2 - mismatched**2 == pytest.approx(gap, abs=1e-9)


@given(a=masses, b=masses, separation=st.floats(0.1, 3), ratio=st.floats(0, 2))
def test_when_the_aligned_bound_is_the_tighter_one(a, b, separation, ratio):
    if min(a, b) < 1e-6 or abs(b - a) < 1e-6:
        return
    turning = math.sqrt(max(a, b)) / (math.sqrt(a) + math.sqrt(b))
    length = ratio * separation
    linear = theory.difference_lower_bound(a, b, separation, length, length)
    root = math.sqrt(a * b) * separation
    if abs(ratio - turning) > 1e-6:
        assert (root >= linear) == (ratio > turning)


def test_aligned_bound_is_not_always_tighter():
    """Remark A.1 calls (20) strictly tighter than (18); here (18) is the truth and (20) half."""
    before, after = np.zeros(2), np.array([1.0, 0.0])
    arguments = (0.1, 0.5, *describe(before, after))
    assert theory.difference_lower_bound(*arguments) == pytest.approx(0.5)
    assert np.linalg.norm(0.5 * after - 0.1 * before) == pytest.approx(0.5)
    assert theory.aligned_lower_bound(*arguments) == pytest.approx(math.sqrt(0.05))


def test_mass_tau_does_not_separate():
    """B_tau holds with tau = 1/4, the values differ, and the representations coincide.

    So neither eq. (28) can be right, nor eq. (20) without its condition, which promises sqrt(1/8).
    """
    tokens = np.array([[2.0, 0.0], [1.0, 0.0]])  # value of the informative token, and the other
    attention = np.array([[0.25, 0.75], [0.5, 0.5]])
    oracle = np.array([[1.0, 0.0]] * 2)
    pooled = np.sum(attention * tokens, axis=1)
    assert pooled[0] == pooled[1]
    assert theory.structural_condition(attention, oracle, 0.25).all()
    arguments = (0.25, 0.5, 1.0, 2.0, 1.0)
    assert theory.difference_lower_bound(*arguments) <= 0
    assert theory.mismatched_lower_bound(*arguments) == 0
    assert theory.aligned_lower_bound(*arguments) == 0


def test_oracle_attention_cannot_tell_exchanged_operands():
    """With token plus position embeddings z is symmetric in the informative tokens."""
    generator = np.random.default_rng(0)
    tokens, positions = generator.normal(size=(7, 4)), generator.normal(size=(3, 4))
    projection = generator.normal(size=(4, 4))
    oracle = np.array([0.5, 0.0, 0.5])
    pooled = [
        oracle @ ((tokens[sequence] + positions) @ projection)
        for sequence in ([2, 6, 5], [5, 6, 2])
    ]
    np.testing.assert_allclose(pooled[0], pooled[1], atol=1e-12)


@pytest.mark.parametrize("bound", LOWER_BOUNDS)
def test_equal_masses_give_one_bound(bound):
    assert bound(0.3, 0.3, 2.0, 1.0, 1.5) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="separation is"):
        bound(0.3, 0.3, -2.0, 1.0, 1.5)
