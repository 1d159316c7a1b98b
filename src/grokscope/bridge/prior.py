"""The structural prior in a training loop of your own: a differentiable penalty on attention.

    prior = StructuralPrior(model, query=-1, informative=[0, 2], layers=[0], strength=0.1)
    with prior:
        loss = loss_of(model, batch)
    loss = loss + prior.penalty(step, batch)

Penalties and schedules are the lab's own (`grokscope.priors`). Only the weights of the chosen rows
are computed, from the queries and keys of the forward: the model keeps its fast kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grokscope.bridge.calls import CaptureError, prove
from grokscope.bridge.capture import Recorder
from grokscope.bridge.layers import Layer, Layers, ReadModule, choose_layers
from grokscope.bridge.scoring import list_tensors, move, run_model
from grokscope.bridge.selection import Informative, Query, Selection, check_attention, check_reach
from grokscope.bridge.surroundings import is_compiled, unwrap
from grokscope.errors import SpecError, suggest
from grokscope.priors import PENALTIES, strength_at
from grokscope.spec import PriorKind, PriorSpec
from grokscope.spec.fields import check, plain_numbers

PROOF_EVERY = 100  # penalties between two proofs that the attention is the model's own


class StructuralPrior:
    """strength(step) * mean over layers, heads and queries of penalty(attention).

    `kind` and the schedule (`strength`, `start`, `end`, in steps) are those of the lab's
    `PriorSpec`, the other arguments those of `Observer`. For `teacher`, `informative` is a function
    that returns the teacher's posterior.
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
        layers: Layers = None,
        heads: Sequence[int] | None = None,
        attention: ReadModule | None = None,
        offset: int | None = None,
    ) -> None:
        if kind not in PENALTIES:
            raise SpecError(f"The prior {kind!r} is unknown.{suggest(kind, PENALTIES)}")
        if kind == "inferred":
            raise SpecError(
                "The inferred prior belongs to lab runs, whose training examples are known. Give "
                "yours to grokscope.tasks.infer_posterior and name the positions it finds."
            )
        if kind in ("oracle", "adversarial", "teacher") and informative is None:
            raise SpecError(
                f"The {kind} prior needs to know where to look: name the informative positions, or "
                "choose entropy or sparsity."
            )
        self.given, self.model = model, unwrap(model)
        self.selection = Selection(query, informative, layers, heads, attention, offset)
        self.spec = plain_numbers(PriorSpec(kind, strength, start, end), PriorSpec)
        check(self.spec, PriorSpec, "prior")
        self.last: Tensor | None = None  # the penalty before its strength, without gradient
        self.layers: list[str] = []  # module paths of what is read, once that is known
        self._recorder: Recorder | None = None
        self._taken = 0

    def __enter__(self) -> StructuralPrior:
        if is_compiled(self.given):
            raise CaptureError(
                "The model is compiled, and nothing can be recorded in compiled code. Leave out "
                "the `with` block: prior.penalty(step, batch) then runs a forward of its own."
            )
        self._recorder = self._new_recorder().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._recorder is not None:
            self._recorder.__exit__(*error)

    def _new_recorder(self) -> Recorder:
        return Recorder(self.model, "watch", self.selection.attention)

    @property
    def recording(self) -> bool:
        """Whether a forward has been, or is being, recorded whose penalty is still to come."""
        return self._recorder is not None

    def strength(self, step: int) -> float:
        """The schedule: the same function as the lab's."""
        strength = strength_at(step, self.spec.strength, self.spec.start, self.spec.end)
        return 0.0 if self.spec.kind == "none" else float(strength)

    def penalty(self, step: int, batch: Any = None) -> Tensor:  # -> ()
        """What to add to the loss at this step.

        It is taken from the recorded forward or, without one, from a forward of its own on `batch`
        in the model's present mode. Functions of the batch need `batch` in either case."""
        strength = self.strength(step)
        recorder, self._recorder = self._recorder, None
        if strength == 0:
            self.last = None
            return move(torch.zeros(()), self.model)
        if recorder is None:
            if batch is None:
                raise SpecError(
                    "No forward was recorded. Run the model within `with prior:`, or give "
                    "prior.penalty(step, batch) the batch."
                )
            batch, recorder = move(batch, self.model), self._new_recorder()
            with torch.compiler.set_stance("force_eager"), recorder:
                run_model(self.model, batch)
        terms = []
        for layer in self._choose(recorder):
            inputs = [*recorder.inputs, *list_tensors(batch)]
            rows = self.selection.find_rows(batch, layer, inputs)
            if layer.call is not None and layer.own is not None and self._taken % PROOF_EVERY == 0:
                prove(layer.call, layer.own, rows, layer.path)
            weights, hidden = map(self.selection.choose_heads, layer.read(rows))
            oracle = self.selection.find_oracle(batch, rows, weights.shape[-1])
            self._check(weights, hidden, oracle, rows)
            target = self._target(weights, oracle, rows)
            terms.append(PENALTIES[self.spec.kind](weights, target).flatten())
        self._taken += 1
        penalty = torch.cat(terms).mean()
        self.last = penalty.detach()
        return strength * penalty

    def _choose(self, recorder: Recorder) -> list[Layer]:
        chosen = choose_layers(recorder.layers, self.selection.layers, self.model)
        names = [layer.name for layer in chosen]
        if self.layers and names != self.layers:
            raise CaptureError(
                f"Attention was read in {', '.join(self.layers)} before, and is now found in "
                f"{', '.join(names)}; name the layers that you mean."
            )
        self.layers = names
        return chosen

    def _check(self, weights: Tensor, hidden: Tensor, oracle: Tensor | None, rows: Tensor) -> None:
        if self._taken == 0:  # later a broken model shows in its loss
            check_attention(weights)
        if self.spec.kind != "adversarial":
            check_reach(hidden.any(dim=1), oracle, rows)  # every head is given the penalty
        if torch.is_grad_enabled() and not weights.requires_grad:
            raise CaptureError(
                "No gradient flows through the recorded attention: its parameters are frozen, or "
                "the forward ran without gradients or under reentrant checkpointing."
            )

    def _target(self, weights: Tensor, oracle: Tensor | None, rows: Tensor) -> Tensor:
        """(B, H, Q, T), (B, Q, T), (B, Q) -> (B, 1, Q, T): examples, heads, queries, positions."""
        if oracle is None:
            return torch.zeros_like(weights[:, :1])
        if self.spec.kind == "adversarial":
            # Uniform over the distractors that a query can see, except its own position.
            seen = (weights.detach() > 0).any(dim=1)
            itself = torch.arange(weights.shape[-1], device=rows.device) == rows[..., None]
            wrong = ((oracle == 0) & seen & ~itself).float()
            if (wrong.sum(dim=-1) == 0).any():
                raise CaptureError("An adversarial prior needs a distractor position.")
            oracle = wrong / wrong.sum(dim=-1, keepdim=True)
        return oracle[:, None].to(weights.dtype)
