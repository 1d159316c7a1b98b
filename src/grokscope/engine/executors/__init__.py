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
from grokscope.engine.executors.processes import InProcess, LocalProcesses
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
    known = signature(CLUSTERS[name]).parameters
    options: dict[str, str | int | float] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise SpecError(f"--on takes {name}:option=value,..., not {item!r}.")
        if key not in known:
            raise SpecError(f"{name} takes the options {', '.join(known)}, not {key!r}.")
        kind, what = {"int": (int, "whole number"), "float": (float, "number")}.get(
            known[key].annotation, (str, "text")
        )
        try:
            options[key] = kind(value)
            if kind is not str and not abs(kind(value)) < 1e9:
                raise ValueError
        except ValueError as error:
            raise SpecError(f"{name}'s {key} is {value[:40]!r}; it must be a {what}.") from error
    return CLUSTERS[name](**options)
