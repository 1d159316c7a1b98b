"""See why, and when, a transformer groks.

import grokscope as gs

spec = gs.RunSpec(task=gs.TaskSpec(alphabet=8))
runs = gs.train(gs.sweep(spec, {"prior.kind": ["none", "oracle"], "seed": range(3)}))

Names are imported when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grokscope.engine import Event, Executor, InProcess, LocalProcesses, train
    from grokscope.errors import GrokscopeError, SpecError, StoreError, TrainingError
    from grokscope.papers.structural_inference.certificates import certify
    from grokscope.probes.held_out import held_out_accuracy
    from grokscope.spec import (
        KINDS,
        RECIPES,
        InterventionSpec,
        MaskSpec,
        ModelSpec,
        OptimiserSpec,
        PriorSpec,
        RunSpec,
        TaskSpec,
        TrainingSpec,
        find_recipe,
        sweep,
    )
    from grokscope.store import Run, Store
    from grokscope.tasks import TaskData, build_task, custom_task, data_task

__version__ = "0.1.0"

_HOME = {
    "papers.structural_inference.certificates": ["certify"],
    "engine": ["Event", "Executor", "InProcess", "LocalProcesses", "train"],
    "probes.held_out": ["held_out_accuracy"],
    "errors": ["GrokscopeError", "SpecError", "StoreError", "TrainingError"],
    "spec": [
        "KINDS",
        "RECIPES",
        "find_recipe",
        "InterventionSpec",
        "MaskSpec",
        "ModelSpec",
        "OptimiserSpec",
        "PriorSpec",
        "RunSpec",
        "TaskSpec",
        "TrainingSpec",
        "sweep",
    ],
    "store": ["Run", "Store"],
    "tasks": ["TaskData", "build_task", "custom_task", "data_task"],
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "KINDS",
    "RECIPES",
    "Event",
    "Executor",
    "GrokscopeError",
    "InProcess",
    "InterventionSpec",
    "LocalProcesses",
    "MaskSpec",
    "ModelSpec",
    "OptimiserSpec",
    "PriorSpec",
    "Run",
    "RunSpec",
    "SpecError",
    "Store",
    "StoreError",
    "TaskData",
    "TaskSpec",
    "TrainingError",
    "TrainingSpec",
    "build_task",
    "certify",
    "custom_task",
    "data_task",
    "find_recipe",
    "held_out_accuracy",
    "sweep",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'grokscope' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"grokscope.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
