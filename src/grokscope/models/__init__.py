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

from grokscope import parts
from grokscope.errors import SpecError, suggest
from grokscope.models import minimal, transformer
from grokscope.models.layers import Attend, ModelNumbers, Params, Response, draw
from grokscope.spec import ModelSpec
from grokscope.tasks.data import TaskData

Shape = minimal.Shape | transformer.Shape

MODELS: dict[str, Any] = {"minimal": minimal, "transformer": transformer}


def find_model(kind: str) -> Any:
    """A built-in model, or one of the user's own by its reference."""
    if ":" in kind:
        return parts.load(kind, "the model")
    if kind not in MODELS:
        raise SpecError(f"There is no model {kind!r}.{suggest(kind, MODELS)}")
    return MODELS[kind]


def shape_of(model: ModelSpec, data: TaskData) -> Shape:
    """A model of the user's own has the fields of the general transformer."""
    if model.kind == "custom":
        return transformer.shape_of(model, data)._replace(kind=model.rule)
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
    see: Any = getattr(find_model(shape.kind), "visible", transformer.visible)
    return see(shape, rows, length)
