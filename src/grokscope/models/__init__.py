"""Who learns. Models are pure functions of a dictionary of weights."""

from grokscope.models import minimal

__all__ = ["minimal"]
