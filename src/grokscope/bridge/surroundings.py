"""What a model is wrapped in and surrounded by while it trains, and how it is left as it was."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from itertools import chain

import numpy as np
import torch
from torch import nn


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside torch.compile and data parallelism."""
    if hasattr(model, "_orig_mod"):
        return unwrap(model._orig_mod)
    parallel = isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
    return unwrap(model.module) if parallel else model


def is_compiled(model: nn.Module) -> bool:
    """Whether a forward would run compiled code, in which nothing can be recorded."""
    parts = any(module._compiled_call_impl is not None for module in model.modules())
    return parts or hasattr(model, "_orig_mod")


def find_device(model: nn.Module) -> torch.device:
    return next(chain(model.parameters(), model.buffers(), [torch.empty(0)])).device


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, uncompiled and off PyTorch's fast path, which hides attention.
    Afterwards its modes and all random numbers (Python, NumPy, PyTorch) are as before, so that
    training continues as if it had not been interrupted."""
    modes = [(module, module.training) for module in model.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    with same_draws(model), torch.compiler.set_stance("force_eager"):
        model.eval()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for module, mode in modes:
                module.training = mode


@contextlib.contextmanager
def same_draws(model: nn.Module) -> Iterator[None]:
    """Afterwards Python, NumPy and PyTorch draw the random numbers that they would have drawn."""
    python, numpy, device = random.getstate(), np.random.get_state(), find_device(model)
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def is_first_process() -> bool:
    """Of a job of several processes, or the only one."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank() == 0
    return os.environ.get("RANK", "0") in ("", "0")


def is_sharded(model: nn.Module) -> bool:
    """Whether every process has a part of the parameters only (FSDP, old and new)."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    sharded = kinds & {"FullyShardedDataParallel", "FSDPModule"}
    return bool(sharded) and distributed.get_world_size() > 1
