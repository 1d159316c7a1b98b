"""What a run of the user's own model is. The training loop is the user's, so its identity is what
they say of it: a name, settings, a seed, and what was watched.

The hash that names the run covers these fields as it does for a lab run, and can never be that of
a lab run. It does not cover the user's code: training the same thing again replaces the former
entry, which is set aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from grokscope.errors import SpecError, suggest
from grokscope.spec import fields
from grokscope.spec.run import EventRule, Spec, grokking_events
from grokscope.spec.sections import OptimiserSpec, PriorSpec, TrainingSpec

PER_EXAMPLE = "per example"  # where a function of the batch gives positions
Setting = str | int | float | bool | None


@dataclass(frozen=True)
class WatchSpec:
    """Where attention is read, and where it ought to be."""

    query: str = "-1"
    """Positions that ask, from the end if negative; `per example` where a function gives them."""
    informative: str = ""
    """Positions that determine the answer, `per example`, or empty where no oracle was named."""
    layers: str = "all"
    """Attention calls that are read: numbers, in the order in which the model makes them, or parts
    of their module paths."""
    heads: str = "all"
    offset: int = 0
    """Keys before position 0 that are no positions of the sequence (memory, a prefix)."""


OLDEST = ("kind", "lr", "weight_decay", "beta1", "beta2", "epsilon", "warmup", "clip")
"""Fields of the optimiser that name a run even if they have their defaults; younger ones do not."""


@dataclass(frozen=True)
class ObservedSpec(Spec):
    """A run of a model that was trained elsewhere and watched."""

    kind_name: ClassVar[str] = "observed"
    unit: ClassVar[str] = "step"

    name: str
    """What the user calls it; runs that share everything but the seed are one arm."""
    kind: Literal["observed"] = "observed"
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Whatever the user wants to tell runs apart by: {"weight decay": 0.1}."""
    watch: WatchSpec = field(default_factory=WatchSpec)
    prior: PriorSpec = field(default_factory=PriorSpec)
    optimiser: OptimiserSpec | None = None
    """Where the optimiser is one the lab knows too (SGD, AdamW); else None."""
    training: TrainingSpec = field(default_factory=lambda: TrainingSpec(epochs=0))
    """Thresholds, and the steps between two rows. `epochs` is 0: the loop decides how long."""
    seed: int = 0
    derived_threshold: float = 0.0
    """The structural threshold where positions differ by example: found on the first batch, and so
    not part of the identity."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SpecError(f"The name of an observed run is {self.name!r}; give it some text.")
        fields.check(self.seed, int, "seed")
        if not isinstance(self.settings, Mapping):
            given = fields.show(self.settings)
            raise SpecError(f"settings are {given}; they must be values by name.")
        for key, value in self.settings.items():
            large = isinstance(value, int) and abs(value) >= 2**63
            if large or not isinstance(key, str) or not isinstance(value, Setting):
                raise SpecError(
                    f"The setting {key!r} is {fields.show(value)}; settings are numbers, text or "
                    "truth values by name."
                )

    def to_dict(self) -> dict[str, Any]:
        return fields.to_dict(self)

    def identity(self) -> dict[str, Any]:
        return {"observed": self._parts()}

    def events(self) -> tuple[EventRule, ...]:
        return grokking_events(self.training)

    @property
    def structure_threshold(self) -> float:
        """0 where no oracle was named."""
        return self.training.structure_threshold or self.derived_threshold

    def changed(self) -> dict[str, Any]:
        """Name and value of every field that says something. How long it is trained is not known
        beforehand, and a threshold that follows from the positions says nothing new."""
        identity = self._parts()
        training = identity.pop("training", {})
        kept = {k: v for k, v in training.items() if k not in ("epochs", "structure_threshold")}
        identity |= {"training": kept} if kept else {}
        named = {"name": identity.pop("name"), **identity.pop("settings", {})}
        return {**named, **dict(fields.flatten(identity))}

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"name": self.name, "seed": self.seed}
        if self.settings:
            parts["settings"] = dict(self.settings)
        sections: tuple[tuple[str, Any], ...] = (("watch", self.watch), ("training", self.training))
        if self.prior.kind != "none" and self.prior.strength != 0:
            sections += (("prior", self.prior),)
        for section, value in sections:
            if inner := fields.differences(value):
                parts[section] = inner
        if self.optimiser is not None:
            always = {name: getattr(self.optimiser, name) for name in OLDEST}
            parts["optimiser"] = {**always, **fields.differences(self.optimiser)}
        return parts

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> ObservedSpec:
        """The spec from its file."""
        hints = fields.field_types(cls) | {"optimiser": OptimiserSpec}
        if "name" not in data:
            raise SpecError("An observed run has no name.")
        values: dict[str, Any] = {}
        for name, value in data.items():
            if name not in hints:
                raise SpecError(f"Unknown field {name}.{suggest(name, hints)}")
            section = hints[name]
            if fields.is_section(section) and value is not None:
                value = fields.build(section, value, fields.default_of(section), f"{name}.")
                if isinstance(getattr(value, "measures", None), list):  # JSON has no tuples
                    value = replace(value, measures=tuple(value.measures))
                for key, hint in fields.field_types(section).items():
                    given = getattr(value, key)
                    # Whole numbers stay: as floats they would give the run another name.
                    if hint is not float or type(given) is not int or abs(given) >= 2**53:
                        fields.check(given, hint, f"{name}.{key}")
            values[name] = value
        return cls(**values)
