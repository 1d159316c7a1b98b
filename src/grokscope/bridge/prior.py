"""The structural prior in a training loop of your own: a differentiable penalty on attention.

prior = StructuralPrior(model, query=-1, informative=[0, 2], layers=[0], strength=0.1)
with prior:
    loss = loss_of(model, batch)
loss = loss + prior.penalty(step, batch)

Penalties and schedules are the lab's own (`grokscope.priors`). Only queries and keys are kept from
the forward, and only the weights of the named rows are computed: the model's fast kernels stay.

B examples, H heads, Q query positions, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn

from grokscope.bridge.calls import CaptureError
from grokscope.bridge.capture import (
    ReadModule,
    Recorder,
    check_rows,
    find_device,
    is_compiled,
    unwrap,
)
from grokscope.bridge.positions import Informative, Positions, Query, check_visible
from grokscope.bridge.probe import choose_heads
from grokscope.bridge.scoring import move, run_model
from grokscope.errors import SpecError, suggest
from grokscope.priors import PENALTIES, strength_at
from grokscope.spec import PriorKind, PriorSpec

NEEDS_ORACLE = ("oracle", "adversarial", "teacher")


class StructuralPrior:
    """strength(step) * mean over layers, heads and queries of penalty(attention).

    `kind` and the schedule (`strength`, `start`, `end`, in steps) are those of the lab's
    `PriorSpec`. For `teacher`, `informative` is a function that returns the teacher's posterior.
    `layers` are attention calls in the order in which the model makes them; all by default.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        query: Query = -1,
        informative: Informative = None,
        kind: PriorKind = "oracle",
        strength: float = 1.0,
        start: int = 0,
        end: int = 0,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        attention: ReadModule | None = None,
    ) -> None:
        if kind not in get_args(PriorKind):
            raise SpecError(f"The prior {kind!r} is unknown.{suggest(kind, get_args(PriorKind))}")
        if kind == "inferred":
            raise SpecError(
                "The inferred prior belongs to lab runs, whose training examples are known. Give "
                "yours to grokscope.tasks.infer_posterior and name the positions it finds."
            )
        if kind in NEEDS_ORACLE and informative is None:
            raise SpecError(
                f"The {kind} prior needs to know where to look: name the informative positions, or "
                "choose entropy or sparsity."
            )
        if strength < 0 or (end and end <= start) or start < 0:
            raise SpecError(
                f"The prior has strength {strength}, start {start} and end {end}; strength and "
                "start must not be negative, and end must be 0 (constant) or come after start."
            )
        self.given = model
        self.model = unwrap(model)
        self.positions = Positions(query, informative)
        self.spec = PriorSpec(kind=kind, strength=float(strength), start=start, end=end)
        self.layers, self.heads, self.read = layers, heads, attention
        self.last: Tensor | None = None  # the penalty before its strength, without gradient
        self._recorder: Recorder | None = None
        self._checked = False

    def __enter__(self) -> StructuralPrior:
        if is_compiled(self.given) or is_compiled(self.model):
            raise CaptureError(
                "The model is compiled, and nothing can be recorded in compiled code. Leave the "
                "`with` block out and call prior.penalty(step, batch): it runs a forward of its "
                "own, uncompiled."
            )
        self._recorder = Recorder(self.model, "watch", self.read, verify=not self._checked)
        self._recorder.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._recorder is not None:
            self._recorder.__exit__(*error)

    @property
    def recording(self) -> bool:
        """Whether a forward was, or is being, recorded whose penalty was not asked for yet."""
        return self._recorder is not None

    def strength(self, step: int) -> float:
        """The schedule: the same function as the lab's."""
        spec = self.spec
        if spec.kind == "none":
            return 0.0
        return float(strength_at(step, spec.strength, spec.start, spec.end))

    def penalty(self, step: int, batch: Any = None) -> Tensor:  # -> ()
        """What is to be added to the loss at this step.

        Taken from the forward that was recorded; where none was, from a forward of its own on
        `batch`, in the model's present mode. Functions of the batch need it in either case."""
        strength = self.strength(step)
        recorder, self._recorder = self._recorder, None
        if strength == 0:
            self.last = None
            return torch.zeros((), device=find_device(self.model))
        if recorder is None:
            if batch is None:
                raise SpecError(
                    "No forward was recorded. Run the model within `with prior:`, or give "
                    "prior.penalty(step, batch) the batch."
                )
            recorder = self._run(batch)
        penalty = self._mean_penalty(recorder, batch)
        self.last = penalty.detach()
        return strength * penalty

    def _run(self, batch: Any) -> Recorder:
        batch = move(batch, find_device(self.model))
        recorder = Recorder(self.model, "watch", self.read, verify=not self._checked)
        with torch.compiler.set_stance("force_eager"), recorder:
            run_model(self.model, batch)
        return recorder

    def _mean_penalty(self, recorder: Recorder, batch: Any) -> Tensor:
        size, length = recorder.size(self.layers)
        device = find_device(self.model)
        rows = self.positions.rows(batch, size, length, device)
        chosen = [choose_heads(w, self.heads) for w in recorder.weights(self.layers, rows)]
        if not self._checked:
            self._check(chosen, batch, rows)
        terms = []
        for weights in chosen:
            target = self._target(weights, batch, rows)
            terms.append(PENALTIES[self.spec.kind](weights, target).flatten())
        return torch.cat(terms).mean()

    def _check(self, chosen: list[Tensor], batch: Any, rows: Tensor) -> None:
        """Once, at the first step: later a broken model shows in its loss."""
        for weights in chosen:
            check_rows(weights)
            oracle = self.positions.oracle(batch, rows, weights.shape[-1])
            if oracle is not None and self.spec.kind != "adversarial":
                check_visible(weights, oracle, rows)
            if torch.is_grad_enabled() and not weights.requires_grad:
                raise CaptureError(
                    "No gradient flows through the recorded attention: its parameters are frozen, "
                    "or the forward ran without gradients or under reentrant checkpointing."
                )
        self._checked = True

    def _target(self, weights: Tensor, batch: Any, rows: Tensor) -> Tensor:  # -> (B, 1, Q, T)
        oracle = self.positions.oracle(batch, rows, weights.shape[-1])
        if oracle is None:
            return torch.zeros_like(weights[:, :1])
        if self.spec.kind == "adversarial":
            # Uniform over the distractors that a query can see; it is none itself.
            seen = (weights.detach() > 0).any(dim=1)
            itself = torch.arange(weights.shape[-1], device=rows.device) == rows[..., None]
            wrong = ((oracle == 0) & seen & ~itself).float()
            if (wrong.sum(dim=-1) == 0).any():
                raise CaptureError("An adversarial prior needs a distractor position.")
            oracle = wrong / wrong.sum(dim=-1, keepdim=True)
        return oracle[:, None].to(weights.dtype)
