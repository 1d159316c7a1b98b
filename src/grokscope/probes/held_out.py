"""A trained network on inputs it was not trained for: the same task with something changed."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grokscope import models
from grokscope.errors import SpecError, StoreError
from grokscope.models.layers import normalise
from grokscope.problems.targets import own_weights
from grokscope.store import Run
from grokscope.tasks import build_task

# Other fields would change the split: operands that were trained on would be asked for.
CHANGEABLE = ("length", "alphabet", "distractors", "positions")


def held_out_accuracy(run: Run, **changes: Any) -> float:
    """Accuracy of a finished run's weights on its test examples, with something about their
    sequences changed: `held_out_accuracy(run, length=16)` asks the same questions among more
    distractors.

    Frozen attention has no weights for new examples, and learned positions none for new lengths.
    """
    spec = run.spec
    for name in set(changes) - set(CHANGEABLE):
        raise SpecError(f"{name} cannot be changed here, only {', '.join(CHANGEABLE)}.")
    if run.status != "finished":
        raise StoreError(f"Run {run.id} is {run.status}; only finished runs can be tested.")
    if spec.model.kind != "minimal" and spec.model.initial_outputs == "subtracted":
        raise SpecError(
            f"The initial outputs that run {run.id} subtracts are known for its own examples only."
        )
    params = own_weights(run)
    trained = build_task(spec.task, spec.seed)
    asked = spec.replace(**{f"task.{name}": value for name, value in changes.items()})
    data = build_task(asked.task, spec.seed)
    if (data.vocabulary, data.classes) != (trained.vocabulary, trained.classes):
        raise SpecError("The changed task has other tokens or answers than the network knows.")
    learned = spec.model.kind == "minimal" or spec.model.positions == "learned"
    if learned and data.length != trained.length:
        raise SpecError(
            f"Run {run.id} has learned {trained.length} positions and knows no others; train with "
            "model.positions rotary or none."
        )
    tokens = jnp.asarray(data.tokens[data.test])
    guess = _guesser(models.shape_of(spec.model, data))(
        params, tokens, models.numbers_of(spec.model)
    )
    labels = data.labels[data.test].reshape(guess.shape)
    judged = list(data.determined or (0,))
    return float((np.asarray(guess) == labels)[:, judged].mean())


@lru_cache(maxsize=8)  # compiled programs
def _guesser(shape: models.Shape) -> Any:
    attend = partial(normalise, kind=shape.attention)
    return jax.jit(
        lambda params, tokens, numbers: models.respond(
            params, tokens, shape, attend, numbers
        ).logits.argmax(axis=-1)
    )
