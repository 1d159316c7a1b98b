"""Routing measures, by hand and on several array libraries."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import entropy as scipy_entropy

from grokscope.measures import attention as measures

ATTENTION = np.array([[0.4, 0.1, 0.3, 0.2], [0.0, 1.0, 0.0, 0.0]], np.float32)
ORACLE = np.array([[0.5, 0.0, 0.5, 0.0], [0.5, 0.5, 0.0, 0.0]], np.float32)


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
def test_by_hand(convert):
    attention, oracle = convert(ATTENTION), convert(ORACLE)
    np.testing.assert_allclose(measures.informative_mass(attention, oracle), [0.7, 1.0], rtol=1e-6)
    np.testing.assert_allclose(measures.weakest_weight(attention, oracle), [0.3, 0.0], rtol=1e-6)
    divergence = measures.structural_divergence(attention, oracle)
    assert divergence[0] == pytest.approx(scipy_entropy(ORACLE[0], ATTENTION[0]), rel=1e-5)
    assert 20 < divergence[1] < np.inf  # an empty informative position: huge, but finite
    entropies = measures.entropy(attention)
    np.testing.assert_allclose(entropies, [scipy_entropy(ATTENTION[0]), 0], atol=1e-6)


def test_the_oracle_has_no_divergence():
    assert measures.structural_divergence(ORACLE, ORACLE) == pytest.approx([0, 0], abs=1e-6)
