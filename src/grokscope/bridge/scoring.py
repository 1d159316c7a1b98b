"""A model's output on a batch, as losses and right answers, whatever form both have.

B examples, T positions, V tokens, C classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.layers import Layer
from grokscope.bridge.surroundings import find_device

Scored = tuple[Tensor | None, Tensor | None]  # losses (B,) or (), right (B,)
Score = Callable[[nn.Module, Any], Scored] | None  # None: `Layout.score`

AGREEMENT = 0.01  # relative, between the model's own loss and the one computed from its logits
ANSWERS = ("labels", "targets", "label", "target")


def move(batch: Any, model: nn.Module) -> Any:
    """A batch of tensors, however nested, on the device of the model."""
    if isinstance(batch, Tensor):
        return batch.to(find_device(model))
    if isinstance(batch, Mapping):
        return {name: move(value, model) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(move(value, model) for value in batch)
    return batch


def list_tensors(batch: Any) -> list[Tensor]:
    parts = batch.values() if isinstance(batch, Mapping) else batch
    listed = [*parts] if isinstance(batch, Mapping | tuple | list) else [batch]
    return [part for part in listed if isinstance(part, Tensor)]


@dataclass
class Layout:
    """How logits and labels belong together. What the first batch shows holds for the whole run.

    Logits may be (B, C) with labels (B,); (B, T, V) with labels (B, T), of which negative ones do
    not count; or (B, T, V) with labels (B,), answered at the last position; (T, B, V) is turned. An
    example with several labels is right if all of them are. Whether position t predicts label t or
    t + 1 is inferred from the loss that the model itself returns. With `next_token`, the tokens are
    their own labels, and the share of right ones counts.
    """

    next_token: bool = False
    shifted: bool | None = None

    def score(
        self, model: nn.Module, batch: Any, output: Any, answers: Any, layer: Layer
    ) -> Scored:
        """Cross-entropy of each example that has an answer, and whether it is right, where the
        batch has answers. `layer` is one of those that attend."""
        logits, own = read_output(output)
        if self.next_token:
            answers = _find_real_tokens(batch)
        if answers is None or logits is None or answers.dtype.is_floating_point:
            if own is None and answers is not None:
                raise CaptureError(
                    "The model returned neither logits for whole-number labels nor a loss; pass "
                    "Observer(score=function) that computes losses and right answers."
                )
            return own, None
        if logits.dim() == 3:
            turned, as_tokens = self._is_time_first(model, batch, logits, layer.sizes[0])
            if turned and as_tokens and answers.shape == logits.shape[:2]:
                answers = answers.T
            logits = logits.transpose(0, 1) if turned else logits
        if logits.dim() == 3 and answers.dim() == 1:
            logits = logits[:, -1]
        if logits.shape[:-1] != answers.shape:
            raise CaptureError(
                f"Logits of shape {tuple(logits.shape)} and labels of shape "
                f"{tuple(answers.shape)} do not belong together; pass Observer(score=function) "
                "that compares them."
            )
        check_examples(layer, len(answers))
        if self.next_token:
            return _compare(logits[:, :-1], answers[:, 1:], each=True)
        if self.shifted is None:
            self.shifted = own is not None and _is_shifted(logits, answers, own)
        if self.shifted:
            logits, answers = logits[:, :-1], answers[:, 1:]
        return _compare(logits, answers)

    def _is_time_first(
        self, model: nn.Module, batch: Any, logits: Tensor, size: int
    ) -> tuple[bool, bool]:
        """Whether logits are (T, B, V), and whether tokens are (T, B), too, if their shape does not
        tell. Where T = B, one example is replaced by another, and, in case tokens are (T, B), the
        other way round: only its own logits may change."""
        first, second = logits.shape[:2]
        if first != second:
            return second == size, True
        examples, positions = (True, False), (False, True)  # where nothing else has changed
        for given in list_inputs(batch) if size > 1 else []:
            if given.shape[:2] == (size, size):
                kept = [self._what_stays(model, batch, logits, given, axis) for axis in (0, 1)]
                if kept[0] == positions:
                    return True, False
                if kept[1] == positions and kept[0] != examples:
                    return True, True
                if kept[0] == examples and kept[1] != positions:
                    return False, False
        if size == 1:
            return False, False
        raise CaptureError(
            f"Logits of shape {tuple(logits.shape)} may be examples by positions or positions by "
            "examples; measure on a batch whose size is not the length of its sequences, or pass "
            "Observer(score=function)."
        )

    @staticmethod
    def _what_stays(
        model: nn.Module, batch: Any, logits: Tensor, given: Tensor, axis: int
    ) -> tuple[bool, bool]:
        """Whether logits stay the same in all but the first row, and in all but the first column,
        if the first slice of an input is replaced by the next that differs."""
        slices = given.movedim(axis, 0).flatten(1)
        other = (slices != slices[0]).any(dim=1).nonzero()
        if not len(other):
            return True, True
        changed = given.clone()
        changed.select(axis, 0).copy_(given.select(axis, int(other[0])))
        with torch.no_grad():
            output, _ = run_model(model, _replace(batch, given, changed))
        again = read_output(output)[0]
        assert again is not None
        same = torch.isclose(again, logits, rtol=1e-4, atol=1e-5).all(dim=-1)  # (first, second)
        return bool(same[1:].all()), bool(same[:, 1:].all())


def list_inputs(batch: Any) -> list[Tensor]:
    """Tensors that go into the model, without masks and answers."""
    if isinstance(batch, Mapping):
        other = (*ANSWERS, "mask", "position")
        batch = [v for n, v in batch.items() if not any(word in n for word in other)]
    return list_tensors(batch)


def _find_tokens(batch: Any) -> Tensor | None:
    """The whole numbers (B, T) that go into the model."""
    fits = (t for t in list_inputs(batch) if t.dim() == 2 and not t.dtype.is_floating_point)
    return next(fits, None)


def _find_padding(batch: Any, tokens: Tensor) -> Tensor | None:  # (B, T), true where it is real
    """From the attention mask of a mapping, as Hugging Face has it."""
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if not isinstance(mask, Tensor) or mask.shape != tokens.shape:
        return None
    return mask.to(tokens.device).bool()


def _find_real_tokens(batch: Any) -> Tensor | None:
    """The tokens, negative where they are or follow padding, and where the batch's labels are."""
    tokens = _find_tokens(batch)
    if tokens is None:
        return None
    if (real := _find_padding(batch, tokens)) is not None:
        tokens = tokens.masked_fill(~(real & real.roll(1, 1)), -100)  # the first is never asked
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    if isinstance(labels, Tensor) and labels.shape == tokens.shape:
        counted = labels >= 0
        if (labels == tokens)[counted & (tokens >= 0)].all():  # else they are something else
            tokens = tokens.masked_fill(~counted, -100)
    return tokens


def check_examples(layer: Layer, count: int) -> None:
    if layer.sizes[0] != count:
        raise CaptureError(
            f"{layer.path} attends in {layer.sizes[0]} groups, but there are {count} examples: "
            "examples are cut into windows or merged there, so positions mean nothing."
        )


def _replace(batch: Any, old: Tensor, new: Tensor) -> Any:
    if isinstance(batch, Mapping):
        return {name: new if part is old else part for name, part in batch.items()}
    return new if batch is old else tuple(new if part is old else part for part in batch)


def _is_shifted(logits: Tensor, labels: Tensor, own: Tensor) -> bool:
    """Whether the model's own loss is that of each position's next label."""
    readings = [(logits, labels)] + [(logits[:, :-1], labels[:, 1:])] * (labels.dim() == 2)
    apart = []
    for reading in readings:
        mean = _cross_entropy(*reading).sum() / (reading[1] >= 0).sum().clamp(min=1)
        apart.append(abs(mean.item() - own.item()))
    if torch.isfinite(own) and min(apart) > AGREEMENT * max(abs(own.item()), 0.1):
        raise CaptureError(
            f"The model's own loss, {own.item():.4g}, is not the cross-entropy of its logits with "
            "the labels, so it is unclear what a right answer is; pass Observer(score=function)."
        )
    return apart.index(min(apart)) == 1


def run_model(model: nn.Module, batch: Any) -> tuple[Any, Tensor | None]:
    """The model's output for a batch, and the answers if the batch has them."""
    accepted = _accepted(model)
    if isinstance(batch, Mapping):
        answers = (batch[name] for name in ANSWERS if isinstance(batch.get(name), Tensor))
        given = {n: v for n, v in batch.items() if not accepted or n in accepted}
        if not given:
            raise CaptureError(
                f"The batch has {', '.join(batch)}, and the model takes {', '.join(accepted)}; "
                "give a pair (inputs, labels), or pass Observer(score=function)."
            )
        return model(**given), next(answers, None)
    if isinstance(batch, Tensor):
        return model(batch), None
    if isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, labels = batch
        named = [name for name in ANSWERS if name in accepted][:1]
        return model(inputs, **dict.fromkeys(named, labels)), labels
    raise CaptureError(
        f"A batch of type {type(batch).__name__} is not understood; give a mapping, a pair "
        "(inputs, labels) or a tensor, or pass Observer(score=function) for other batches."
    )


def _accepted(model: nn.Module) -> list[str]:
    """Names of the arguments of a model's forward and, where it passes on whatever else it gets
    (**kwargs), those of the module inside. Empty if no module says."""
    names: list[str] = []
    for module in model.modules():
        parameters = inspect.signature(module.forward).parameters.values()
        free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names += [p.name for p in parameters if p.kind not in free and p.name not in names]
        if names and not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
            break
    return names


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


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:  # (..., V), (...) -> (...)
    flat = logits.flatten(0, -2).float(), labels.clamp(min=0).flatten()
    return F.cross_entropy(*flat, reduction="none").view(labels.shape) * (labels >= 0)


def _compare(logits: Tensor, labels: Tensor, each: bool = False) -> Scored:
    """Mean loss over the labels of each example that has one, and whether all (or else which
    share) are right."""
    kept = (labels >= 0).view(len(labels), -1)
    if not kept.any():
        raise CaptureError("No label of the batch counts; all of them are negative.")
    answered = kept.any(dim=1)
    logits, labels, kept = logits[answered], labels[answered], kept[answered]
    right, count = (logits.argmax(dim=-1) == labels).view_as(kept), kept.sum(dim=1)
    losses = _cross_entropy(logits, labels).view_as(kept).sum(dim=1) / count
    return losses, (right & kept).sum(dim=1) / count if each else (right | ~kept).all(dim=1)


def spread_queries(batch: Any) -> Tensor:  # (B, Q)
    """Eight positions from the second to the last, for models that predict at all of them; none
    is padding."""
    tokens = _find_tokens(batch)
    if tokens is None:
        raise CaptureError("The batch has no tokens (B, T); say which positions ask: query=...")
    real = _find_padding(batch, tokens)
    real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
    last = real.sum(dim=1, keepdim=True).clamp(min=1) - 1  # (B, 1), the first is 0
    first, count = last.clamp(max=1), min(8, max(1, int(last.max())))
    steps = torch.linspace(0, 1, count, device=tokens.device)
    ranks = (first + (last - first) * steps).round().long()
    return torch.argsort(~real, dim=1, stable=True).gather(1, ranks)
