"""Trains groups of runs as compiled programs, in chunks, resumably."""

from grokscope.engine.events import Event
from grokscope.engine.execution import Executor, InProcess, LocalProcesses, train

__all__ = ["Event", "Executor", "InProcess", "LocalProcesses", "train"]
