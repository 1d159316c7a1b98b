"""What is asked: sequences whose dependency graph is known, or data of the user's own."""

from collections.abc import Callable

from grokscope.errors import SpecError, suggest
from grokscope.spec.sections import SEQUENCES, TaskSpec
from grokscope.tasks.data import TaskData
from grokscope.tasks.inference import infer_posterior
from grokscope.tasks.own import build_own, data_task, pin_data
from grokscope.tasks.rules import custom_task, pin_rule
from grokscope.tasks.sequences import (
    build_parity,
    build_sequences,
    build_stream,
    label_operands,
)

TASKS: dict[str, Callable[[TaskSpec, int], TaskData]] = {
    **dict.fromkeys(SEQUENCES, build_sequences),
    "parity": build_parity,
    "parity_stream": build_stream,
    "data": build_own,
}


def build_task(task: TaskSpec, seed: int = 0) -> TaskData:
    """The examples of a task. Pure: the same spec and seed give the same arrays, everywhere."""
    if task.kind not in TASKS:
        raise SpecError(f"There is no task {task.kind!r}.{suggest(task.kind, TASKS)}")
    return TASKS[task.kind](task, task.seed if task.seed >= 0 else seed)


def pin_task(task: TaskSpec) -> TaskSpec:
    """A task of the user's own with its fingerprint; others as they are."""
    pins = {"custom": pin_rule, "data": pin_data}
    return pins[task.kind](task) if task.kind in pins else task
