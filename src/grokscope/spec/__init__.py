"""What a run is: frozen dataclasses, each checking itself, and the hash that names the run."""

from grokscope.spec.equations import EquationSpec, FieldSpec, ObjectiveSpec, OperatorSpec
from grokscope.spec.fields import flatten, to_dict
from grokscope.spec.incontext import DecoderSpec, InContextSpec, MapsSpec
from grokscope.spec.observed import PER_EXAMPLE, ObservedSpec, Setting, WatchSpec
from grokscope.spec.reading import from_toml, load_source, sweep, to_toml
from grokscope.spec.recipes import RECIPES, find_recipe
from grokscope.spec.run import (
    KINDS,
    EventRule,
    RunSpec,
    Spec,
    explain_idle,
    field_type,
    from_dict,
    read_spec,
)
from grokscope.spec.sections import (
    ActivationKind,
    AttentionKind,
    ForkSpec,
    InitKind,
    InterventionSpec,
    LossKind,
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
KINDS["incontext"] = InContextSpec
KINDS["fields"] = FieldSpec
