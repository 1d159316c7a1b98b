import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grokscope.papers.structural_inference import theory

from .strategies import ATTENTIONS, score_values

score_rows = hnp.arrays(np.float64, st.integers(1, 6), elements=score_values)


@pytest.mark.parametrize("kind", ATTENTIONS)
@given(scores=score_rows)
def test_attention_is_a_distribution(kind, scores):
    attention = ATTENTIONS[kind](scores)
    assert attention.sum() == pytest.approx(1)
    assert np.all(attention >= 0)


@given(scores=score_rows)
def test_attention_is_its_definition(scores):
    np.testing.assert_allclose(
        theory.softmax_attention(scores), np.exp(scores) / np.exp(scores).sum(), atol=1e-12
    )
    active = np.maximum(scores, 0)
    if active.sum() > 0:
        np.testing.assert_allclose(theory.relu_attention(scores), active / active.sum())


def test_edges():
    assert theory.relu_attention(np.zeros(4)).tolist() == [0.25] * 4
    assert theory.relu_attention(np.array([-1.0, -2.0])).tolist() == [0.5, 0.5]
    assert theory.relu_attention(np.array([-3.0])).tolist() == [1.0]
    assert theory.softmax_attention(np.array([1e4, 0.0])).tolist() == [1.0, 0.0]
