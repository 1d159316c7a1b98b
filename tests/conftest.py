"""Shared fixtures. Compiled programs are kept in the clone, so that a second test run is faster."""

from __future__ import annotations

import os
from pathlib import Path

import jaxtyping
import pytest

os.environ.setdefault("GROKSCOPE_CACHE", str(Path(__file__).parent.parent / ".cache"))

# Rooms in which every annotated shape is checked whenever a test runs them.
CHECKED = ["grokscope.measures", "grokscope.models", "grokscope.problems"]
jaxtyping.install_import_hook(CHECKED, "beartype.beartype")

import grokscope as gs


@pytest.fixture(scope="session")
def tiny() -> gs.RunSpec:
    """A run that takes a fraction of a second: for mechanics, not for science."""
    return gs.RunSpec().replace(
        **{
            "task.modulus": 11,
            "task.train_fraction": 0.6,
            "model.width": 8,
            "model.hidden": 16,
            "training.epochs": 100,
            "training.log_every": 10,
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> gs.Store:
    return gs.Store(tmp_path / "runs")
