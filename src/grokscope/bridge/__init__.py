"""The instruments on a model of your own, in PyTorch.

    from grokscope.bridge import Observer

    observer = Observer(model, "my run", query=-1, informative=[0, 2], test=held_out_batch)
    ...
    observer.step(step, batch)  # in the training loop; every 100th step is measured
    ...
    observer.finish()

Nothing else of grokscope imports PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "grokscope.bridge needs PyTorch, which is not installed. "
        "Install it with: pip install 'grokscope[torch]'"
    ) from error

from grokscope.bridge.capture import CaptureError, ReadModule, read_attention
from grokscope.bridge.export import ExportedModel, export_run
from grokscope.bridge.observer import Observer
from grokscope.bridge.prior import StructuralPrior

if TYPE_CHECKING:
    from grokscope.bridge.huggingface import GrokscopeCallback
    from grokscope.bridge.lightning import LightningObserver

__all__ = [
    "CaptureError",
    "ExportedModel",
    "GrokscopeCallback",
    "LightningObserver",
    "Observer",
    "ReadModule",
    "StructuralPrior",
    "export_run",
    "read_attention",
]


# Importing these libraries takes seconds.
_ON_DEMAND = {"GrokscopeCallback": "huggingface", "LightningObserver": "lightning"}


def __getattr__(name: str) -> Any:
    if name in _ON_DEMAND:
        return getattr(importlib.import_module(f"grokscope.bridge.{_ON_DEMAND[name]}"), name)
    raise AttributeError(f"module 'grokscope.bridge' has no attribute {name!r}")
