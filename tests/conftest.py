"""Shared fixtures. Compiled programs are kept in the clone, so that a second test run is faster."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

import programs

os.environ.setdefault("GROKSCOPE_CACHE", str(Path(__file__).parent.parent / ".cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("XLA_FLAGS", programs.QUICK)

# Rooms in which every annotated shape is checked whenever a test runs them.
CHECKED = ["grokscope.measures", "grokscope.models", "grokscope.problems"]
jaxtyping.install_import_hook(CHECKED, "beartype.beartype")

import grokscope as gs
from grokscope.engine import compilation

compilation.prepare()
gc.freeze()  # what is imported stays: the collector need not look through it
gc.set_threshold(20_000, 20, 20)

# What takes longest begins first, so that no worker ends with it while the other has nothing to do.
LONGEST = (
    "lab/test_browser.py",
    "test_notebooks.py",
    "test_sinks.py",
    "engine/test_execution.py",
    "engine/test_clusters.py",
    "engine/test_learning.py",
    "papers/epistemic_icl/test_posteriors.py",
    "papers/inductive_bias/test_reference.py",
    "papers/test_checks.py",
    "golden/test_golden.py",
    "models/test_transformer.py",
    "bridge/test_huggingface.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    names = {path: path.relative_to(here).as_posix() for path in {item.path for item in items}}
    items.sort(key=lambda item: (*LONGEST, names[item.path]).index(names[item.path]))


@pytest.fixture
def optimised() -> Iterator[None]:
    with programs.optimised():
        yield


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
