"""Optimisers whose hyperparameters are data: sweeping a rate or a decay recompiles nothing."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from grokscope.errors import SpecError, suggest
from grokscope.optim.decoupled import Decoupled, adam, lion, momentum, muon
from grokscope.optim.ivon import Ivon


class OptimiserNumbers(NamedTuple):
    """Hyperparameters as arrays; a batch of runs stacks them."""

    lr: Any
    weight_decay: Any
    beta1: Any
    beta2: Any
    epsilon: Any
    warmup: Any
    clip: Any
    warmup_from: Any = 0.0
    horizon: Any = 0.0  # the step by which the rate has fallen along half a cosine; 0: it stays
    schedule_floor: Any = 0.0
    vector_decay: Any = 1.0
    sample_size: Any = 0.0
    hessian: Any = 1.0
    clip_radius: Any = 0.0


class Optimiser(Protocol):
    """How weights move. Hashable: a program is compiled for it."""

    def init(self, params: Any, numbers: Any) -> Any:
        """State before the first step."""

    def draw(self, params: Any, state: Any, numbers: Any, key: Any) -> Any:
        """The weights at which the gradient is taken: `params` themselves, or a sample around them
        if the optimiser keeps a posterior."""

    def update(
        self, gradients: Any, drawn: Any, params: Any, state: Any, numbers: Any, step: Any
    ) -> tuple[Any, Any]:
        """One step from `step` (0 for the first): new weights and new state."""

    def keep(self, state: Any) -> dict[str, Any]:
        """What is kept with the weights, so that its posterior can be drawn from later."""


OPTIMISERS: dict[str, Optimiser] = {
    "sgd": Decoupled(momentum),
    "adamw": Decoupled(adam),
    "lion": Decoupled(lion),
    "muon": Decoupled(muon),
    "ivon": Ivon(),
}


def find_optimiser(kind: str) -> Optimiser:
    if kind not in OPTIMISERS:
        raise SpecError(f"There is no optimiser {kind!r}.{suggest(kind, OPTIMISERS)}")
    return OPTIMISERS[kind]
