"""In a Hugging Face `Trainer`: `callbacks=[GrokscopeCallback(observer, prior)]`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.observer import Observer
from grokscope.bridge.prior import StructuralPrior
from grokscope.bridge.scoring import read_output
from grokscope.errors import SpecError


class GrokscopeCallback(TrainerCallback):
    """Measures before the first step, as often as `Observer(every=)` says and at the end, on the
    batches that the observer was made with; adds the prior to the loss that the model returns."""

    def __init__(
        self, observer: Observer | None = None, prior: StructuralPrior | None = None
    ) -> None:
        if observer is None and prior is None:
            raise SpecError("GrokscopeCallback needs an observer, a prior, or both.")
        if observer is not None and observer.train is None:
            raise SpecError("A Trainer shows its callbacks no batch; use Observer(train=).")
        self.observer, self.prior = observer, prior
        if observer is not None and observer.prior is None:
            observer.prior = prior
        self._step, self._parts = 0, 1  # and batches that make up one step
        self._added = self._arrived = False  # the prior, in the loss and in the gradient
        self._hooks: list[Any] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step, self._parts = state.global_step, args.gradient_accumulation_steps
        if self.prior is not None:
            if args.label_smoothing_factor or args.torch_compile:
                raise SpecError(
                    "With label smoothing the Trainer ignores the loss that the model returns, and "
                    "in a compiled model no attention can be recorded, so the prior would be lost; "
                    "set label_smoothing_factor to 0 and torch_compile to False."
                )
            model = self.prior.model
            self._hooks = [
                model.register_forward_pre_hook(self._before),
                model.register_forward_hook(self._after, with_kwargs=True, always_call=True),
            ]
        if self.observer is not None:
            if self.observer.optimizer is None:
                self.observer.optimizer = kwargs.get("optimizer")
            if self.observer.autocast is None and (args.bf16 or args.fp16):
                self.observer.autocast = torch.bfloat16 if args.bf16 else torch.float16
            self.observer.measure(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._added and not self._arrived:
            raise SpecError(
                "The Trainer did not use the loss that the model returns, so the prior is lost; "
                "let its compute_loss return that loss, or add prior.penalty there yourself."
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._step = state.global_step
        if self.observer is not None:
            self.observer.step(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        if self.observer is not None:
            self.observer.finish_at(state.global_step)

    def _before(self, model: nn.Module, inputs: Any) -> None:
        if self.prior is not None and model.training and self.prior.strength(self._step) > 0:
            self.prior.__enter__()

    def _after(self, model: nn.Module, inputs: Any, kwargs: dict[str, Any], output: Any) -> Any:
        prior = self.prior
        if prior is None or not prior.recording:
            return None
        prior.__exit__(None, None, None)
        if output is None:  # the forward failed; its own error says why
            return None
        _, loss = read_output(output)
        if loss is None:
            raise CaptureError(
                "The model returned no loss to add the prior to; give the Trainer batches with "
                "labels, and no compute_loss_func."
            )
        penalty = prior.penalty(self._step, kwargs)
        if penalty.requires_grad:
            self._added = True
            penalty.register_hook(lambda gradient: setattr(self, "_arrived", True))
        if kwargs.get("num_items_in_batch") is not None:
            # Then the Trainer adds up the losses of a step's batches instead of averaging them.
            penalty = penalty / self._parts
        if isinstance(output, tuple):
            return (loss + penalty, *output[1:])
        output["loss"] = loss + penalty
        return output
