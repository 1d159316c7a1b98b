"""What a run is: frozen dataclasses, each checking itself, and the hash that names the run."""

from grokscope.spec.fields import flatten, to_dict
from grokscope.spec.observed import PER_EXAMPLE, ObservedSpec, Setting, WatchSpec
from grokscope.spec.reading import from_toml, sweep, to_toml
from grokscope.spec.recipes import RECIPES, find_recipe
from grokscope.spec.run import (
    KINDS,
    EventRule,
    RunSpec,
    Spec,
    field_type,
    from_dict,
    read_spec,
)
from grokscope.spec.sections import (
    ActivationKind,
    AttentionKind,
    InterventionSpec,
    MaskSpec,
    ModelSpec,
    NormKind,
    OptimiserKind,
    OptimiserSpec,
    PositionKind,
    PriorKind,
    PriorSpec,
    TaskSpec,
    TrainingSpec,
)

KINDS["observed"] = ObservedSpec

__all__ = [
    "KINDS",
    "PER_EXAMPLE",
    "RECIPES",
    "ActivationKind",
    "AttentionKind",
    "EventRule",
    "InterventionSpec",
    "MaskSpec",
    "ModelSpec",
    "NormKind",
    "ObservedSpec",
    "OptimiserKind",
    "OptimiserSpec",
    "PositionKind",
    "PriorKind",
    "PriorSpec",
    "RunSpec",
    "Setting",
    "Spec",
    "TaskSpec",
    "TrainingSpec",
    "WatchSpec",
    "field_type",
    "find_recipe",
    "flatten",
    "from_dict",
    "from_toml",
    "read_spec",
    "sweep",
    "to_dict",
    "to_toml",
]
