"""In a PyTorch Lightning `Trainer`: `callbacks=[LightningObserver(observer)]`.

The loss is computed in the user's own `training_step`, so that is where a prior is added, as in a
plain loop: `with prior: ...` and `loss + prior.penalty(self.global_step, batch)`.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import Any

import torch

from grokscope.bridge.observer import Observer

# The same library has two names, and its Trainer wants callbacks of its own.
_OTHER = "lightning.pytorch" in sys.modules or not find_spec("pytorch_lightning")
Callback: Any = importlib.import_module(
    "lightning.pytorch" if _OTHER else "pytorch_lightning"
).Callback


class LightningObserver(Callback):
    """Measures before the first step, as often as `Observer(every=)` says and at the end, on the
    batch of that step unless the observer was made with one."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._batch: Any = None  # None where the observer has its own

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        self._batch = batch if self.observer.train is None else None
        if not self.observer.rows and self.observer.active:
            if self.observer.optimizer is None and trainer.optimizers:
                self.observer.optimizer = trainer.optimizers[0]
            mixed = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
            self.observer.autocast = self.observer.autocast or mixed.get(str(trainer.precision))
            self.observer.measure(trainer.global_step, self._batch)

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int
    ) -> None:
        # Batches that are accumulated belong to one step, which is measured once.
        rows = self.observer.rows
        if rows and trainer.global_step > rows[-1]["epoch"]:
            self.observer.step(trainer.global_step, self._batch)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        if self.observer.rows:
            self.observer.finish_at(trainer.global_step, self._batch)
