"""Who does the work. An executor carries out an order; clusters implement this one method."""

from typing import Protocol

from grokscope.engine.events import Sink
from grokscope.engine.executors.here import InProcess
from grokscope.engine.executors.processes import LocalProcesses
from grokscope.engine.orders import Order


class Executor(Protocol):
    def execute(self, order: Order, sink: Sink) -> None:
        """Return when there is nothing left to do. Runs that cannot be trained are told as events
        of the kind `refused`. Success is judged by the store, not by what is returned or raised."""
