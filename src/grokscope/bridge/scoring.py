"""From a model and a batch to losses and right answers, for the usual kinds of both.

B examples, T positions, V tokens, C classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grokscope.bridge.calls import CaptureError

Scored = tuple[Tensor | None, Tensor | None]  # losses (B,) or (), right (B,)
Score = Callable[[nn.Module, Any], Scored]

AGREEMENT = 0.01  # relative, between the model's own loss and the one computed from its logits
ANSWERS = ("labels", "targets", "label", "target")


def move(batch: Any, device: torch.device) -> Any:
    """A batch of tensors, however nested, on a device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: move(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(move(value, device) for value in batch)
    return batch


def score_batch(model: nn.Module, batch: Any) -> Scored:
    """Cross-entropy of each example, and whether it is right, where the batch has answers.

    A mapping is given to the model by name, as Hugging Face models want it; of a pair the second
    part is the answer. Logits may be (B, C) with labels (B,), (B, T, V) with labels (B, T), of
    which negative ones do not count, or (B, T, V) with labels (B,), which the last position
    answers. An example of several labels is right if all of them are. Whether position t is to
    predict label t or t + 1 is read off the loss that the model itself returns.
    """
    output, labels = run_model(model, batch)
    logits, own = read_output(output)
    if labels is None:
        return own, None
    return score_logits(logits, labels, own)


def run_model(model: nn.Module, batch: Any) -> tuple[Any, Tensor | None]:
    """The model's output for a batch, and the answers if the batch has them."""
    accepted = inspect.signature(model.forward).parameters
    if isinstance(batch, Mapping):
        answers = [batch[name] for name in ANSWERS if isinstance(batch.get(name), Tensor)]
        return model(**{n: v for n, v in batch.items() if n in accepted}), next(iter(answers), None)
    if isinstance(batch, Tensor):
        return model(batch), None
    if isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, labels = batch
        named = next((name for name in ANSWERS if name in accepted), None)
        return (model(inputs, **{named: labels}) if named else model(inputs)), labels
    raise CaptureError(
        f"A batch of type {type(batch).__name__} is not understood; give a mapping, a pair "
        "(inputs, labels), a tensor, or Observer(score=function) that knows it."
    )


def read_output(output: Any) -> tuple[Tensor | None, Tensor | None]:
    """Logits and loss among what a model returns."""
    if isinstance(output, Tensor):
        return (None, output) if output.dim() == 0 else (output, None)
    if isinstance(output, Mapping) or hasattr(output, "logits"):
        output = output if isinstance(output, Mapping) else vars(output)
        return output.get("logits"), output.get("loss")
    parts = [part for part in output if isinstance(part, Tensor)]
    logits = next((part for part in parts if part.dim() > 1), None)
    return logits, next((part for part in parts if part.dim() == 0), None)


def score_logits(logits: Tensor | None, labels: Tensor, own: Tensor | None) -> Scored:
    if logits is None or labels.dtype.is_floating_point:
        if own is None:
            raise CaptureError(
                "The model returned neither logits for whole-number labels nor a loss; tell "
                "Observer(score=function) how to get losses and right answers."
            )
        return own, None
    if logits.dim() == 3 and labels.dim() == 1:
        logits = logits[:, -1]
    if logits.shape[:-1] != labels.shape:
        raise CaptureError(
            f"Logits of shape {tuple(logits.shape)} and labels of shape {tuple(labels.shape)} do "
            "not belong together; tell Observer(score=function) what to compare."
        )
    readings = [(logits, labels)]
    if labels.dim() == 2:
        readings.append((logits[:, :-1], labels[:, 1:]))
    if own is None:
        return _compare(*readings[0])
    apart = []
    for reading in readings:
        losses = _cross_entropy(*reading)
        kept = reading[1] >= 0
        mean = losses.sum() / kept.sum().clamp(min=1)
        apart.append(abs(mean.item() - own.item()))
    best = min(range(len(readings)), key=apart.__getitem__)
    if torch.isfinite(own) and apart[best] > AGREEMENT * max(abs(own.item()), 0.1):
        raise CaptureError(
            f"The model's own loss, {own.item():.4g}, is not the cross-entropy of its logits with "
            "the labels, so it is not clear what a right answer is; tell Observer(score=function)."
        )
    return _compare(*readings[best])


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:  # (..., V), (...) -> (...)
    kept = labels.clamp(min=0)
    losses = F.cross_entropy(logits.flatten(0, -2).float(), kept.flatten(), reduction="none")
    return losses.view(labels.shape) * (labels >= 0)


def _compare(logits: Tensor, labels: Tensor) -> Scored:
    """Mean loss over the labels of each example, and whether all of them are right."""
    losses, kept = _cross_entropy(logits, labels), labels >= 0
    right = (logits.argmax(dim=-1) == labels) | ~kept
    if labels.dim() == 1:
        return losses, right
    return losses.sum(dim=1) / kept.sum(dim=1).clamp(min=1), right.all(dim=1)
