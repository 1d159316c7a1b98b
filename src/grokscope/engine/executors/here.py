"""Everything in this process."""

from __future__ import annotations

from grokscope.engine.events import Sink
from grokscope.engine.orders import Order, carry_out
from grokscope.store.provenance import count_threads


class InProcess:
    @property
    def threads(self) -> int:
        return count_threads()

    def execute(self, order: Order, sink: Sink) -> None:
        carry_out(order, sink)
