"""Figure 6 three ways: exact quadrature, a uniform grid, and the late-time formula.

What can be read off the figure pins n / sigma^2 = 5.12e7, 1 / tau^2 = 1 and C_0 / eps = 1e4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from grokscope.papers.epistemic_icl.theory.spectrum import (
    Regime,
    delay,
    late_delay,
    log_transient_on_grid,
    time_at,
)
from grokscope.papers.epistemic_icl.theory.success import PEAK, THRESHOLD

STRENGTH, DAMPING, START = 5.12e7, 1.0, 1e4
GRID = 4000
RATIOS = tuple(np.round(np.linspace(0.01, 0.99, 50), 4))


def audit_delays(ratios: Sequence[float] = RATIOS, nodes: int = GRID) -> pl.DataFrame:
    """Both delays and times for each lambda, by the three computations."""
    rows = []
    for ratio in ratios:
        regime = Regime(float(ratio), STRENGTH, DAMPING)
        grid = {"transient": log_transient_on_grid, "nodes": nodes}
        peak, right = PEAK / START, THRESHOLD / START
        rows.append(
            {
                "ratio": float(ratio),
                "formula": late_delay(regime),
                "peak_delay": delay(regime, peak),
                "accuracy_delay": delay(regime, right),
                "peak_delay_grid": delay(regime, peak, **grid),  # type: ignore[arg-type]
                "peak_time": time_at(regime, peak, "test"),
                "accuracy_time": time_at(regime, right, "test"),
                "train_peak_time": time_at(regime, peak, "train"),
                "slowest": regime.slowest,
            }
        )
    return pl.DataFrame(rows)
