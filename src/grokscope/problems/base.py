"""The contract between a learning problem and the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from grokscope.errors import SpecError
from grokscope.parts import load
from grokscope.spec import Spec

if TYPE_CHECKING:
    from grokscope.store import Store


class Problem(Protocol):
    """Pure functions of weights, data and numbers. Hashable: one program is compiled per problem
    and array shapes, so whatever may vary within a sweep belongs into `numbers`. Weights, data and
    numbers are pytrees that the engine does not look into.

    A problem may also measure the optimiser's posterior: with `samples` above 0, a row has
    `posterior_row(draw, keys, data, numbers)` as well, where `draw(key)` gives weights and there
    are that many keys."""

    @property
    def finite(self) -> tuple[str, ...]:
        """Columns of the row that must stay finite; the run has failed where one does not."""

    @property
    def stops_on(self) -> tuple[str, bool]:
        """The measure that may end a run early, and whether it has to rise. ("", True): none."""

    @property
    def double(self) -> bool:
        """Does any of its arithmetic need 64-bit floats?"""

    def init(self, key: Any, data: Any, numbers: Any) -> Any:
        """Initial weights."""

    def loss(self, params: Any, data: Any, numbers: Any, step: Any, key: Any) -> Any:
        """What is minimised at a step, a scalar. `key` is for drawing a batch."""

    def project(self, params: Any, data: Any, numbers: Any) -> Any:
        """What is done to the weights after each step: masks, norms; nothing by default."""

    def row(self, params: Any, data: Any, numbers: Any) -> dict[str, Any]:
        """Measures by name: scalars or small arrays."""


class Kind(NamedTuple):
    """How the specs of one kind become problems."""

    build: Callable[[Any, Store], tuple[Problem, Any, Any]]
    """(spec, store) -> problem, data, numbers. Other runs may be read from the store."""
    estimate: Callable[[Any], float]
    """Rough training time in seconds on one core."""
    pin: Callable[[Any], Any] = lambda spec: spec
    """The spec with the fingerprints of the user's own parts."""
    references: Callable[[Any], list[str]] = lambda spec: []
    """`file.py:name` of the user's own parts."""


def find_kind(spec: Spec) -> Kind:
    """How to train a spec; a sentence for runs that were only watched."""
    if not spec.problem:
        raise SpecError(
            f"Run {spec.id} is a model of your own that was watched; this needs a run that the lab "
            "has trained."
        )
    return load(spec.problem, "the problem")
