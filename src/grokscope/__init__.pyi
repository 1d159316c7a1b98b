from .api import extend, fork, plot, train
from .bridge import watch
from .engine import Event, Executor, InProcess, LocalProcesses, Order, Ray, Sink, Slurm
from .errors import GrokscopeError, SpecError, StoreError, TrainingError
from .papers.structural_inference.certificates import certify
from .probes.held_out import held_out_accuracy
from .spec import (
    KINDS,
    RECIPES,
    ForkSpec,
    InterventionSpec,
    MaskSpec,
    ModelSpec,
    OptimiserSpec,
    PriorSpec,
    RunSpec,
    Spec,
    TaskSpec,
    TrainingSpec,
    find_recipe,
    sweep,
)
from .store import Run, Store
from .tasks import TaskData, build_task, custom_task, data_task

__version__: str

__all__ = [
    "KINDS",
    "RECIPES",
    "Event",
    "Executor",
    "ForkSpec",
    "GrokscopeError",
    "InProcess",
    "InterventionSpec",
    "LocalProcesses",
    "MaskSpec",
    "ModelSpec",
    "OptimiserSpec",
    "Order",
    "PriorSpec",
    "Ray",
    "Run",
    "RunSpec",
    "Sink",
    "Slurm",
    "Spec",
    "SpecError",
    "Store",
    "StoreError",
    "TaskData",
    "TaskSpec",
    "TrainingError",
    "TrainingSpec",
    "build_task",
    "certify",
    "custom_task",
    "data_task",
    "extend",
    "find_recipe",
    "fork",
    "held_out_accuracy",
    "plot",
    "sweep",
    "train",
    "watch",
]
