"""Everything in this process."""

from __future__ import annotations

from grokscope.engine.events import Sink
from grokscope.engine.executors.processes import LocalProcesses
from grokscope.engine.orders import Order, carry_out
from grokscope.store.provenance import count_cores, count_threads


class InProcess:
    @property
    def threads(self) -> int:
        return count_threads()

    def with_threads(self, threads: int) -> LocalProcesses:
        return LocalProcesses(max(1, count_cores() // threads), threads)

    def execute(self, order: Order, sink: Sink) -> None:
        carry_out(order, sink)
