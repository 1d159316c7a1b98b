"""Uncertainty by hand, by its limits, and against the mean over many draws."""

from __future__ import annotations

import numpy as np
import pytest

from grokscope.measures.uncertainty import calibration_error, decompose, entropy, mix, score


def test_two_certain_draws_that_disagree():
    """All uncertainty is epistemic: log 2."""
    p = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    with np.errstate(divide="ignore"):
        found = decompose(np.log(p))
    assert float(found["tu"]) == pytest.approx(np.log(2), abs=1e-6)
    assert float(found["au"]) == pytest.approx(0, abs=1e-6)
    assert float(found["eu"]) == pytest.approx(np.log(2), abs=1e-6)


def test_equal_draws_have_none():
    p = np.tile(np.array([0.2, 0.3, 0.5]), (4, 6, 1))
    found = decompose(np.log(p))
    assert float(found["eu"]) == pytest.approx(0, abs=1e-6)
    assert float(found["eu_corrected"]) == pytest.approx(0, abs=1e-6)
    assert float(found["au"]) == pytest.approx(-(p[0, 0] * np.log(p[0, 0])).sum(), abs=1e-6)


def test_the_correction_removes_the_first_term_of_the_bias():
    """Dirichlet draws, whose EU is known from many of them: eight are too few, corrected they are
    close."""
    rng = np.random.default_rng(0)

    def draw(count, questions):
        return np.log(rng.dirichlet([2.0, 1.0, 1.0], (count, questions)).astype(np.float32))

    true = float(decompose(draw(4000, 50))["eu"])
    few = decompose(draw(8, 6000))
    plain, corrected = float(few["eu"]), float(few["eu_corrected"])
    assert plain < 0.92 * true
    assert corrected == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("count", [3, 5])
def test_the_correction_of_an_odd_number_of_draws(count):
    """The halves of five draws have two each. With the weights of an even number the correction
    would overshoot, by a tenth for five draws."""
    rng = np.random.default_rng(1)
    alpha = [20.0, 15.0, 10.0]  # narrow: hardly more than the first term

    def draw(draws, questions):
        return np.log(rng.dirichlet(alpha, (draws, questions)).astype(np.float32))

    true = float(decompose(draw(2000, 200))["eu"])
    few = decompose(draw(count, 60_000))
    assert float(few["eu"]) < 0.85 * true
    assert float(few["eu_corrected"]) == pytest.approx(true, rel=0.015)


def test_calibration_by_hand():
    """Two questions at .9 (one right), two at .6 (both right): |1 - 1.8| / 4 + |2 - 1.2| / 4."""
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    labels = np.array([0, 1, 1, 1])
    assert float(calibration_error(np.log(p), labels)) == pytest.approx(0.4, abs=1e-6)
    found = score(np.log(p), labels)
    assert float(found["accuracy"]) == 0.75
    assert float(found["log_likelihood"]) == pytest.approx(np.log([0.9, 0.1, 0.6, 0.6]).mean())


def test_mixing():
    p = np.array([[[0.2, 0.8]], [[0.6, 0.4]]])
    np.testing.assert_allclose(np.exp(mix(np.log(p))), [[0.4, 0.6]], atol=1e-6)
    assert float(entropy(np.log(np.full(7, 1 / 7)))) == pytest.approx(np.log(7), abs=1e-6)
