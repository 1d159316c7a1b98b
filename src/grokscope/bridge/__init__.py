"""The instruments on a model of your own, in PyTorch. Nothing else of grokscope imports PyTorch.

observer = Observer(model, "my run", query=-1, informative=[0, 2], test=held_out_batch)
observer.step(step, batch)  # in the training loop; every 100th step is measured
observer.finish()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grokscope.errors import name_extra

try:
    import torch as _torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"grokscope.bridge needs PyTorch. {name_extra('torch')}") from error

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.capture import read_attention
from grokscope.bridge.export import ExportedModel, export_run
from grokscope.bridge.layers import ReadModule
from grokscope.bridge.observer import Observer, watch
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
    "watch",
]

_ON_DEMAND = {  # module and how to install what it needs: importing these libraries takes seconds
    "GrokscopeCallback": ("huggingface", name_extra("torch")),
    "LightningObserver": ("lightning", "Install it: pip install pytorch-lightning"),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'grokscope.bridge' has no attribute {name!r}")
    module, remedy = _ON_DEMAND[name]
    try:
        return getattr(importlib.import_module(f"grokscope.bridge.{module}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} needs {error.name}. {remedy}") from error
