"""Who learns. A model is a module of pure functions of a dictionary of weights.

    shape_of(model, data) -> Shape              what a program is compiled for; Shape.kind names it
    init(key, shape, scale) -> Params
    respond(params, tokens, shape, attend, numbers) -> Response
    visible(shape, rows, length)                which positions a prediction may look at

The functions of these names here take any shape and call its model's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grokscope.errors import SpecError
from grokscope.models import minimal, transformer
from grokscope.models.layers import Attend, ModelNumbers, Params, Response
from grokscope.spec import ModelSpec
from grokscope.tasks.data import TaskData

Shape = minimal.Shape | transformer.Shape

MODELS: dict[str, Any] = {"minimal": minimal, "transformer": transformer}


def find_model(kind: str) -> Any:
    if kind not in MODELS:
        raise SpecError(f"There is no model {kind!r}; known are {', '.join(MODELS)}.")
    return MODELS[kind]


def shape_of(model: ModelSpec, data: TaskData) -> Shape:
    return find_model(model.kind).shape_of(model, data)


def numbers_of(model: ModelSpec) -> ModelNumbers:
    return ModelNumbers(**{name: np.float32(getattr(model, name)) for name in ModelNumbers._fields})


def init(key: Any, shape: Shape, scale: Any = 1.0) -> Params:
    """Initial weights."""
    return find_model(shape.kind).init(key, shape, scale)


def respond(
    params: Params,
    tokens: Any,
    shape: Shape,
    attend: Attend,
    numbers: ModelNumbers,
) -> Response:
    """Predictions, and the attention behind them."""
    return find_model(shape.kind).respond(params, tokens, shape, attend, numbers)


def visible(shape: Shape, rows: tuple[int, ...], length: int) -> Any:  # (P, T) bool
    return find_model(shape.kind).visible(shape, rows, length)
