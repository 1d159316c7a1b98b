"""The instruments on a model of your own, in PyTorch. Nothing else of grokscope imports PyTorch.

observer = Observer(model, "my run", query=-1, informative=[0, 2], test=held_out_batch)
observer.step(step, batch)  # in the training loop; every 100th step is measured
observer.finish()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import torch as _torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "grokscope.bridge needs PyTorch. Install it with: pip install 'grokscope[torch]'"
    ) from error

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

_ON_DEMAND = {  # module and package: importing these libraries takes seconds
    "GrokscopeCallback": ("huggingface", "'grokscope[torch]'"),
    "LightningObserver": ("lightning", "pytorch-lightning"),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'grokscope.bridge' has no attribute {name!r}")
    module, package = _ON_DEMAND[name]
    try:
        return getattr(importlib.import_module(f"grokscope.bridge.{module}"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} needs {error.name}. Install it with: pip install {package}"
        ) from error
