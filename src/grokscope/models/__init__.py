"""Who learns. Models are pure functions of a dictionary of weights; each module has `init` and
`respond`, and a Shape that says which of them a program is compiled for."""

from grokscope.models import minimal, transformer
from grokscope.models.minimal import Params, Response

Shape = minimal.Shape | transformer.Shape

__all__ = ["Params", "Response", "Shape", "init", "minimal", "respond", "transformer"]


def init(key, shape: Shape, scale=1.0) -> Params:
    """Initial weights of the model that the shape belongs to."""
    if isinstance(shape, minimal.Shape):
        return minimal.init(key, shape, scale)
    return transformer.init(key, shape, scale)


def respond(params: Params, tokens, shape: Shape, attend) -> Response:
    """Predictions of the model that the shape belongs to, and the attention behind them."""
    if isinstance(shape, minimal.Shape):
        return minimal.respond(params, tokens, shape, attend)
    return transformer.respond(params, tokens, shape, attend)
