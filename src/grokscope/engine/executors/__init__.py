"""Who does the work. An executor carries out an order; clusters implement this one method.

InProcess       here
LocalProcesses  worker processes on this machine
Slurm           jobs of a cluster that shares the store's file system
Ray             tasks of a Ray cluster, with a shared store or without
"""

from collections.abc import Callable
from inspect import signature
from typing import Protocol

from grokscope.engine.events import Sink
from grokscope.engine.executors.here import InProcess
from grokscope.engine.executors.processes import LocalProcesses
from grokscope.engine.executors.ray import Ray
from grokscope.engine.executors.slurm import Slurm
from grokscope.engine.orders import Order
from grokscope.errors import SpecError, suggest


class Executor(Protocol):
    def execute(self, order: Order, sink: Sink) -> None:
        """Return when there is nothing left to do. Runs that cannot be trained are told as events
        of the kind `refused`. Success is judged by the store, not by what is returned or raised."""


CLUSTERS: dict[str, Callable[..., Executor]] = {"slurm": Slurm, "ray": Ray}


def parse_executor(text: str) -> Executor:
    """`slurm`, or with options `slurm:workers=20,partition=long`; likewise `ray`."""
    name, _, rest = text.partition(":")
    if name not in CLUSTERS:
        raise SpecError(f"There is no executor {name!r}.{suggest(name, CLUSTERS)}")
    options: dict[str, str | int | float] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise SpecError(f"--on takes {name}:option=value,..., not {item!r}.")
        number = value.replace(".", "", 1)
        options[key] = (
            value if not number.isdecimal() else int(value) if number == value else float(value)
        )
    try:
        return CLUSTERS[name](**options)
    except TypeError as error:
        known = ", ".join(signature(CLUSTERS[name]).parameters)
        raise SpecError(
            f"{name} takes the options {known}, with fitting values, not {rest!r}."
        ) from error
