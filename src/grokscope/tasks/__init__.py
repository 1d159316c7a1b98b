"""What is asked: sequences whose dependency graph is known."""

from grokscope.tasks.data import TaskData
from grokscope.tasks.inference import infer_posterior
from grokscope.tasks.rules import custom_task, pin_rule
from grokscope.tasks.sequences import build_task, label_operands

__all__ = ["TaskData", "build_task", "custom_task", "infer_posterior", "label_operands", "pin_rule"]
