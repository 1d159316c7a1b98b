"""What a run of the user's own model is. The training loop is hers, so its identity is what she
says of it: a name, settings, a seed, and what was watched.

The hash that names the run covers these fields as it does for a lab run, and can never be that of
a lab run. It does not cover her code: training the same thing anew takes the place of the former
entry, which is set aside.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grokscope.errors import SpecError, suggest
from grokscope.spec import (
    OptimiserSpec,
    PriorSpec,
    RunSpec,
    TrainingSpec,
    differences,
    flatten,
    from_dict,
)

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
    """Attention calls that are read, in the order in which the model makes them."""
    heads: str = "all"


@dataclass(frozen=True)
class ObservedSpec:
    """A run of a model that was trained elsewhere and watched."""

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
    """Thresholds, and the steps between two rows. `epochs` is 0: how long is the loop's affair."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SpecError(f"The name of an observed run is {self.name!r}; give it some text.")
        for key, value in self.settings.items():
            if not isinstance(key, str) or not isinstance(value, Setting):
                raise SpecError(
                    f"The setting {key!r} is {value!r}; settings are numbers, text or truth values "
                    "by name."
                )

    @property
    def id(self) -> str:
        """The name of the run: 16 hexadecimal digits of the SHA-256 of its canonical JSON."""
        text = json.dumps({"observed": self._identity()}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def changed(self) -> dict[str, Any]:
        """Name and value of every field that says something. How long it is trained is not known
        beforehand, and a threshold that follows from the positions says nothing new."""
        identity = self._identity()
        training = identity.pop("training", {})
        kept = {k: v for k, v in training.items() if k not in ("epochs", "structure_threshold")}
        identity |= {"training": kept} if kept else {}
        named = {"name": identity.pop("name"), **identity.pop("settings", {})}
        return {**named, **dict(flatten(identity))}

    def _identity(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"name": self.name, "seed": self.seed}
        if self.settings:
            parts["settings"] = dict(self.settings)
        sections: tuple[tuple[str, Any], ...] = (("watch", self.watch), ("training", self.training))
        if self.prior.kind != "none" and self.prior.strength != 0:
            sections += (("prior", self.prior),)
        for section, value in sections:
            if inner := differences(value):
                parts[section] = inner
        if self.optimiser is not None:
            optimiser = dataclasses.asdict(self.optimiser)
            if not self.optimiser.batch:  # younger than the first observed runs
                del optimiser["batch"]
            parts["optimiser"] = optimiser
        return parts


AnySpec = RunSpec | ObservedSpec

_SECTIONS: dict[str, Any] = {
    "watch": WatchSpec,
    "prior": PriorSpec,
    "optimiser": OptimiserSpec,
    "training": TrainingSpec,
}


def read_spec(data: Mapping[str, Any]) -> AnySpec:
    """The spec of a run as it stands in its file, of whichever kind it is."""
    if data.get("kind") != "observed":
        return from_dict(data)
    known = {item.name for item in dataclasses.fields(ObservedSpec)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            raise SpecError(f"Unknown field {name}.{suggest(name, known)}")
        if name in _SECTIONS and value is not None:
            try:
                value = _SECTIONS[name](**value)
            except TypeError as error:
                raise SpecError(f"{name} of an observed run cannot be read: {error}.") from error
        values[name] = value
    if "name" not in values:
        raise SpecError("An observed run has no name.")
    return ObservedSpec(**values)


def lab_spec(spec: AnySpec) -> RunSpec:
    """The spec of a lab run; a sentence for a run that was only watched."""
    if isinstance(spec, ObservedSpec):
        raise SpecError(
            f"Run {spec.id} is a model of your own that was watched ({spec.name}); this needs a "
            "run that the lab has trained."
        )
    return spec
