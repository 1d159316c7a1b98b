"""A model on a batch: losses, right answers, attention at the query, and the task's gradient on the
scores behind it.

B examples, H heads, Q query positions, T positions, k informative ones, V tokens, C classes, L
layers; n = B * Q inputs (one query each).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grokscope.bridge.capture import (
    CaptureError,
    ReadModule,
    Recorder,
    choose,
    find_device,
    take_rows,
)
from grokscope.measures.attention import measure_attention, measure_routing, structural_divergence
from grokscope.spec import PER_EXAMPLE, WatchSpec

Query = int | Iterable[int] | Callable[[Any], Tensor]
Informative = Query | None
SUM_TOLERANCE = 2e-3  # of a row of probabilities; half precision rounds to a thousandth
Scored = tuple[Tensor | None, Tensor | None]  # losses (B,) or (), right (B,)
Score = Callable[[nn.Module, Any], Scored] | None  # None: score_batch

AGREEMENT = 0.01  # relative, between the model's own loss and the one computed from its logits
ANSWERS = ("labels", "targets", "label", "target")


@dataclass(frozen=True)
class Selection:
    """Query and informative positions, and the layers and heads to read; None for all.

    A `query` function returns integers (B,) or (B, Q). An `informative` function returns integer
    positions (B, k), a mask (B, T) or (B, Q, T), or a whole posterior of that shape in floats that
    sum to one. Negative positions count from the end. Without `informative` there is no oracle.
    """

    query: Query = -1
    informative: Informative = None
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    attention: ReadModule | None = None

    def __post_init__(self) -> None:
        for name in ("query", "informative"):
            value = getattr(self, name)
            if not callable(value) and (name == "query" or value is not None):
                object.__setattr__(self, name, _check_positions(name, value))

    @property
    def spec(self) -> WatchSpec:
        """As text, for the spec of a run."""
        given = ((item.name, getattr(self, item.name)) for item in fields(WatchSpec))
        texts = {
            name: PER_EXAMPLE if callable(value) else ", ".join(map(str, value))
            for name, value in given
            if value is not None
        }
        return WatchSpec(**texts)

    def read(self, recorder: Recorder, batch: Any) -> tuple[Tensor, list[Any]]:
        """Of a forward on this batch: the query positions (B, Q), and for each layer the weights
        (B, H, Q, T) and the oracle (B, Q, T) there."""
        calls = recorder.chosen(self.layers)
        size, _, length, _ = calls[0].query.shape
        rows = self._find_rows(batch, size, length, calls[0].query.device)
        weights = [self.choose_heads(call.weights(rows)) for call in calls]
        lengths = {layer.shape[-1] for layer in weights}
        oracles = {length: self._find_oracle(batch, rows, length) for length in lengths}
        return rows, [(layer, oracles[layer.shape[-1]]) for layer in weights]

    def choose_heads(self, weights: Tensor) -> Tensor:  # (B, H, Q, T)
        if self.heads is None:
            return weights
        return torch.stack(choose(weights.unbind(dim=1), self.heads, "Head"), dim=1)

    def _find_rows(self, batch: Any, size: int, length: int, device: torch.device) -> Tensor:
        """Query positions (B, Q) of each example, counted from the front."""
        rows = _evaluate(self.query, batch, size, device).long()
        rows = rows[:, None] if rows.dim() == 1 else rows
        if rows.dim() != 2 or len(rows) != size:
            raise CaptureError(
                f"The query function returned shape {tuple(rows.shape)} for {size} examples; it "
                "must return one position, or the same number of positions, for each."
            )
        return _count_from_front(rows, length, "query")

    def _find_oracle(self, batch: Any, rows: Tensor, length: int) -> Tensor | None:
        """The posterior over positions (B, Q, T) for each query: 1/k on the informative ones."""
        if self.informative is None:
            return None
        size, asked = rows.shape
        given = _evaluate(self.informative, batch, size, rows.device)
        shape = tuple(given.shape)
        if len(given) == size and given.dtype != torch.bool and not given.dtype.is_floating_point:
            places = _count_from_front(given.reshape(size, -1).long(), length, "informative")
            empty = torch.zeros(size, length, dtype=torch.bool, device=rows.device)
            given = empty.scatter(1, places, True)  # a place named twice counts once
        given = given[:, None] if given.dim() == 2 else given
        allowed = given.dim() == 3 and len(given) == size and given.shape[1] in (1, asked)
        if not allowed or given.shape[2] > length:
            raise CaptureError(
                f"The informative function returned shape {shape}; positions must be ({size}, k), "
                f"masks and posteriors ({size}, {length}) or ({size}, {asked}, {length})."
            )
        given = F.pad(given, (0, length - given.shape[2]))
        if given.dtype == torch.bool:
            given = given / given.sum(dim=-1, keepdim=True)  # nan, if there is none
        if not torch.isfinite(given).all() or ((given.sum(dim=-1) - 1).abs() > 1e-3).any():
            raise CaptureError(
                "The informative function names no position in some example, or returned "
                "probabilities that do not sum to one; return positions as integers, a mask of "
                "truth values, or a posterior."
            )
        return given.float().expand(size, asked, length)


def _check_positions(name: str, values: Any) -> tuple[int, ...]:
    listed = tuple(values) if isinstance(values, Iterable) else (values,)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in listed)
    if not listed or not whole or len(set(listed)) < len(listed):
        raise CaptureError(
            f"{name} is {values!r}; give distinct whole numbers, or a function of the batch."
        )
    return listed


def _evaluate(positions: Any, batch: Any, size: int, device: torch.device) -> Tensor:
    if callable(positions):
        return torch.as_tensor(positions(batch), device=device)
    return torch.tensor(positions, device=device).expand(size, -1)


def _count_from_front(places: Tensor, length: int, name: str) -> Tensor:
    wrong = (places < -length) | (places >= length)
    if wrong.any():
        raise CaptureError(
            f"The {name} position {int(places[wrong][0])} is out of range: the sequences have "
            f"{length} positions, 0 to {length - 1} (or -{length} to -1 from the end)."
        )
    return places.remainder(length)


def check_attention(weights: Tensor, oracle: Tensor | None, rows: Tensor) -> None:
    """Attention (B, H, Q, T) at rows (B, Q) must be finite, not negative and sum to one. A causal
    model must be able to reach the oracle (B, Q, T), if one is given."""
    weights = weights.detach()
    total = weights.sum(dim=-1)
    worst = total.flatten()[(total - 1).abs().argmax()].item()  # nan, if there is one
    if not (abs(worst - 1) <= SUM_TOLERANCE and weights.min() >= -SUM_TOLERANCE):
        raise CaptureError(
            f"Attention at the query sums to {worst:.4g} in some row, not to one. If that is not "
            "finite, the model's weights or inputs are broken; if the query is padding, name other "
            "positions; a ReadModule must return weights after softmax and before dropout."
        )
    if oracle is None:
        return
    later = torch.arange(oracle.shape[-1], device=rows.device) > rows[..., None]
    lost = (oracle > 0) & later & (weights == 0).all(dim=1)
    if lost.any():
        example, query, place = lost.nonzero()[0].tolist()
        raise CaptureError(
            f"The informative position {place} comes after the query position "
            f"{int(rows[example, query])}, and the model never looks ahead. Name a later query."
        )


def move(batch: Any, model: nn.Module) -> Any:
    """A batch of tensors, however nested, on the device of the model."""
    if isinstance(batch, Tensor):
        return batch.to(find_device(model))
    if isinstance(batch, Mapping):
        return {name: move(value, model) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(move(value, model) for value in batch)
    return batch


def score_batch(model: nn.Module, batch: Any) -> Scored:
    """Cross-entropy of each example, and whether it is right, where the batch has answers.

    A mapping is passed to the model by name, as Hugging Face models expect; the second part of a
    pair is the answer. Logits may be (B, C) with labels (B,); (B, T, V) with labels (B, T), of
    which negative ones do not count; or (B, T, V) with labels (B,), answered at the last position.
    An example with several labels is right if all of them are. Whether position t predicts label t
    or t + 1 is inferred from the loss that the model itself returns.
    """
    output, labels = run_model(model, batch)
    logits, own = read_output(output)
    if labels is None or logits is None or labels.dtype.is_floating_point:
        if own is None and labels is not None:
            raise CaptureError(
                "The model returned neither logits for whole-number labels nor a loss; pass "
                "Observer(score=function) that computes losses and right answers."
            )
        return own, None
    if logits.dim() == 3 and labels.dim() == 1:
        logits = logits[:, -1]
    if logits.shape[:-1] != labels.shape:
        raise CaptureError(
            f"Logits of shape {tuple(logits.shape)} and labels of shape {tuple(labels.shape)} do "
            "not belong together; pass Observer(score=function) that compares them."
        )
    if own is None:
        return _compare(logits, labels)
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
    return _compare(*readings[apart.index(min(apart))])


def run_model(model: nn.Module, batch: Any) -> tuple[Any, Tensor | None]:
    """The model's output for a batch, and the answers if the batch has them."""
    accepted = inspect.signature(model.forward).parameters
    if isinstance(batch, Mapping):
        answers = (batch[name] for name in ANSWERS if isinstance(batch.get(name), Tensor))
        return model(**{n: v for n, v in batch.items() if n in accepted}), next(answers, None)
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


def _compare(logits: Tensor, labels: Tensor) -> Scored:
    """Mean loss over the labels of each example, and whether all of them are right."""
    losses, kept = _cross_entropy(logits, labels), labels >= 0
    right = (logits.argmax(dim=-1) == labels) | ~kept
    if labels.dim() == 1:
        return losses, right
    return losses.sum(dim=1) / kept.sum(dim=1).clamp(min=1), right.all(dim=1)


@dataclass(frozen=True)
class Probe:
    """The numbers of one batch, detached from the graph."""

    losses: Tensor | None  # (B,) or ()
    right: Tensor | None  # (B,)
    attention: Tensor  # (n, L*H, T)
    oracle: Tensor | None  # (n, T)
    gradient: Tensor | None  # (n, L*H, T), of each example's loss on the scores at its query


def take_probe(
    model: nn.Module, batch: Any, score: Score, selection: Selection, gradient: bool, check: bool
) -> Probe:
    """Run the model on a batch with explicit attention. With `check`, its output is compared with
    that of the model's own kernels, and the oracle with what the model can see.

    The gradient is dL_x/da_t for the loss L_x of each example x and each score a_t at its query,
    derived from that on the weights: dL/da_t = alpha_t (g_t - sum_s alpha_s g_s), g = dL/dalpha.
    As in the lab, it is the gradient of the task alone, without any prior.
    """
    batch = move(batch, model)
    recorder = Recorder(model, "explicit", selection.attention, verify=check)
    with torch.set_grad_enabled(gradient), recorder:
        losses, right = (score or score_batch)(model, batch)
    whole = recorder.weights(selection.layers)  # (B, H, T, T) each
    rows, layers = selection.read(recorder, batch)
    attention, oracle, slopes = _stack([w.detach() for w, _ in layers]), layers[0][1], None
    if losses is None or torch.isfinite(losses).all():  # else the run is about to be failed
        check_attention(attention.transpose(1, 2), oracle if check else None, rows)
    if losses is not None and losses.requires_grad and all(w.requires_grad for w in whole):
        # A mean over examples is turned back into a sum: examples share no scores.
        total = losses.sum() if losses.dim() else losses * len(rows)
        found = torch.autograd.grad(total, whole, allow_unused=True)
        # If the loss does not depend on them, the weights are a copy, and nothing is known.
        if all(part is not None for part in found):
            g = _stack([selection.choose_heads(take_rows(part, rows)) for part in found])
            slopes = (attention * (g - (attention * g).sum(dim=-1, keepdim=True))).flatten(0, 1)
    losses = None if losses is None else losses.detach()
    oracle = None if oracle is None else oracle.flatten(0, 1)
    return Probe(losses, right, attention.flatten(0, 1), oracle, slopes)


def measure_probes(probes: Sequence[Probe], threshold: float) -> dict[str, Any]:
    """Every measure of the probes of the training batch and, if there is one, the test batch."""
    row: dict[str, Any] = {}
    for side, probe in zip(("train", "test"), probes, strict=False):
        if probe.losses is not None:
            row[f"{side}_loss"] = probe.losses.float().mean()
        if probe.right is not None:
            row[f"{side}_accuracy"] = probe.right.float().mean()
    attention = _join([probe.attention for probe in probes])
    oracles = [probe.oracle for probe in probes if probe.oracle is not None]
    if oracles:
        oracle = _join(oracles)
        row |= measure_routing(attention, oracle, len(oracles[0]), threshold)
        row["divergence_max"] = structural_divergence(attention.mean(dim=1), oracle).max()
    else:
        row |= measure_attention(attention)
    row["logit_variance"] = visible_variance(attention)
    if probes[0].gradient is not None:
        size = probes[0].gradient.abs()
        row |= {"logit_gradient_mean": size.mean(), "logit_gradient_max": size.max()}
    return row


def visible_variance(attention: Tensor) -> Tensor:  # (n, H, T) -> ()
    """Variance of the scores over the positions that a query sees; the lab's `logit_variance` is
    over all positions. The softmax gives the scores up to a constant, which cancels."""
    seen = attention > 0
    count = seen.sum(dim=-1, keepdim=True)
    scores = torch.where(seen, attention, 1.0).log()
    centred = torch.where(seen, scores - scores.sum(dim=-1, keepdim=True) / count, 0.0)
    return ((centred**2).sum(dim=-1) / count[..., 0]).mean()


def _stack(layers: list[Tensor]) -> Tensor:  # L times (B, H, Q, T) -> (B, Q, L*H, T)
    shapes = {tuple(layer.shape[2:]) for layer in layers}
    if len(shapes) > 1:
        raise CaptureError(
            f"The chosen layers look at different numbers of positions, {sorted(shapes)}; choose "
            "layers that read the same sequence."
        )
    return torch.cat(layers, dim=1).transpose(1, 2)


def _join(parts: list[Tensor]) -> Tensor:  # (n, ..., T)
    """Batches together, shorter sequences padded with positions that get no attention."""
    longest = max(part.shape[-1] for part in parts)
    if len({part.shape[1:-1] for part in parts}) > 1:
        raise CaptureError("The training and test batches give different numbers of heads.")
    return torch.cat([F.pad(part, (0, longest - part.shape[-1])) for part in parts])
