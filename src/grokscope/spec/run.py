"""What a run is: the protocol that every kind of run shares, and the lab's own kind, `RunSpec`.

A run is named by the hash of the canonical JSON of what differs from the defaults. Nothing about
the machine, the time or the outcome is part of the identity.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from grokscope.errors import SpecError, suggest
from grokscope.notebook import html_table
from grokscope.spec import fields, sections


class EventRule(NamedTuple):
    """An event happens at the first row from which `measure` stays on the right side of
    `threshold` for `persistence` rows."""

    name: str
    measure: str
    threshold: float
    persistence: int
    rising: bool = True
    """Does the measure have to reach the threshold from below?"""


class Spec:
    """Base of every kind of run. A kind is a frozen dataclass with `training`, `seed` and sections
    of its own, entered in `KINDS` under its name."""

    kind_name: ClassVar[str]
    """The key in `KINDS`, written to spec.json and hashed."""
    problem: ClassVar[str] = ""
    """`module:function` that builds the learning problem: see `grokscope.problems`. Empty for runs
    that the lab does not train."""
    unit: ClassVar[str] = "epoch"
    """What time is counted in."""
    optimiser: Any
    training: sections.TrainingSpec
    seed: int

    def __post_init__(self) -> None:
        for name, hint in fields.field_types(type(self)).items():
            object.__setattr__(self, name, fields.plain_numbers(getattr(self, name), hint))
        fields.check(self, type(self), "")
        events = ("never", *(rule.name for rule in self.events()))
        fields.require(
            self.training.stop in events,
            f"training.stop is {self.training.stop!r}; it must be one of {', '.join(events)}.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Every field, as it is written to spec.json; `read_spec` takes it back."""
        return {"kind": self.kind_name, **fields.to_dict(self)}

    @property
    def id(self) -> str:
        """The name of the run: 16 hexadecimal digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()[:16]

    def canonical_json(self) -> str:
        """The text that is hashed."""
        return json.dumps(self.identity(), sort_keys=True, separators=(",", ":"))

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind_name, **fields.differences(self)}

    def changed(self) -> dict[str, Any]:
        """Dotted name and value of every field that differs from its default."""
        return dict(fields.flatten(fields.differences(self)))

    def without_effect(self) -> dict[str, str]:
        """Dotted names of the fields that change nothing in this run, such as the strength of no
        prior, and why."""
        return fields.idle_fields(self)

    def effective(self) -> dict[str, Any]:
        """Dotted name and value of every field; None where it changes nothing."""
        idle = self.without_effect()
        return {n: None if n in idle else v for n, v in fields.flatten(self.to_dict())}

    def replace(self, **changes: Any) -> Self:
        """A copy with fields replaced by dotted name, `spec.replace(**{"prior.strength": 3.0})`, or
        by section, `spec.replace(prior={"strength": 3.0})`."""
        return fields.build(type(self), fields.nest(changes), self)

    def _repr_html_(self) -> str:
        default = fields.default_of(type(self)).to_dict() if self.problem else {}
        standard = dict(fields.flatten(default))
        rows = [(name, value, standard.get(name)) for name, value in self.changed().items()]
        return html_table(f"{type(self).__name__} {self.id}", rows, ("field", "value", "default"))

    def events(self) -> tuple[EventRule, ...]:
        """What is looked for in the curve. `training.stop` may name one of them."""
        return ()

    def needs(self) -> list[str]:
        """Names of the runs that must have finished before this one."""
        return []

    def family(self) -> str:
        """Equal for runs that may share a compiled program: what is neither a number with a
        fraction nor about seed and training decides shapes."""
        shaping = {
            name: value
            for name, value in self.changed().items()
            if not isinstance(value, float) and name.partition(".")[0] not in ("seed", "training")
        }
        return json.dumps([self.kind_name, shaping], sort_keys=True)

    @property
    def structure_threshold(self) -> float:
        """tau of the structural condition; 0 where the run has none."""
        return 0.0


def grokking_events(training: sections.TrainingSpec) -> tuple[EventRule, ...]:
    """Memorised, then grokked: accuracy on the training and on unseen examples."""
    return (
        EventRule("memorised", "train_accuracy", training.train_threshold, training.persistence),
        EventRule("grokked", "test_accuracy", training.test_threshold, training.persistence),
    )


@dataclass(frozen=True)
class RunSpec(Spec):
    """One run of the lab on a task of tokens. Two runs with equal specs are the same run."""

    kind_name: ClassVar[str] = "routing"
    problem: ClassVar[str] = "grokscope.problems.routing:ROUTING"
    task: sections.TaskSpec = field(default_factory=sections.TaskSpec)
    model: sections.ModelSpec = field(default_factory=sections.ModelSpec)
    optimiser: sections.OptimiserSpec = field(default_factory=sections.OptimiserSpec)
    prior: sections.PriorSpec = field(default_factory=sections.PriorSpec)
    interventions: sections.InterventionSpec = field(default_factory=sections.InterventionSpec)
    training: sections.TrainingSpec = field(default_factory=sections.TrainingSpec)
    fork: sections.ForkSpec = field(default_factory=sections.ForkSpec)
    seed: int = fields.number(0, least=0)
    """Seed of the initial weights and, unless `task.seed` is set, of the data."""

    def check(self) -> Iterator[str]:
        prior, frozen = self.prior, self.interventions.frozen_attention
        stream, operands = self.task.kind == "parity_stream", self.task.operands
        if stream and self.model.kind == "minimal":
            yield (
                "A stream is predicted token by token, which the minimal model cannot; set "
                "model.kind to transformer."
            )
        if stream and self.model.masking != "causal":
            yield "A stream is predicted from what stands before: model.masking must be causal."
        if stream and prior.kind == "inferred":
            yield (
                "An inferred prior looks for what determines one label, and a stream has many; use "
                "another prior."
            )
        if bool(prior.teacher) != (prior.kind == "teacher" or frozen == "teacher"):
            yield (
                "A teacher prior (or attention frozen at a teacher's) names its run in "
                "prior.teacher; other priors leave it empty."
            )
        if (threshold := self.training.structure_threshold) > 1 / operands:
            yield (
                f"training.structure_threshold is {threshold}; no attention can give each of "
                f"{operands} positions more than {1 / operands:.3g}."
            )
        if self.fork.epoch > self.training.epochs:
            last = f"the end of training at {self.training.epochs}"
            yield f"fork.epoch is {self.fork.epoch}, after {last}."

    def without_effect(self) -> dict[str, str]:
        found = super().without_effect()
        if self.interventions.frozen_attention == "teacher":  # it has a teacher without a prior
            found = {n: why for n, why in found.items() if not n.startswith("prior.teacher")}
        return found

    def to_dict(self) -> dict[str, Any]:
        return fields.to_dict(self)  # the oldest kind is written without its name

    def identity(self) -> dict[str, Any]:
        """Equal runs share a name: a prior without strength is no prior, and parts of the user's
        own are known by what they compute, not by where their files lie."""
        spec = self
        if spec.prior.kind == "none" or spec.prior.strength == 0:
            prior, kept = spec.prior, sections.PriorSpec()
            if spec.interventions.frozen_attention == "teacher":  # then the teacher still matters
                kept = sections.PriorSpec(teacher=prior.teacher, teacher_view=prior.teacher_view)
            spec = dataclasses.replace(spec, prior=kept) if spec.prior != kept else spec
        result = fields.differences(spec)
        for section, name in (("task", "rule"), ("task", "source"), *OWN_PARTS):
            part = result.get(section, {})
            if part.get(name):
                part[name] = _without_place(part[name])
        return result

    def replace(self, **changes: Any) -> Self:
        """As `Spec.replace`. A fingerprint is dropped with what it was taken of; training takes a
        new one."""
        data = fields.nest(changes)
        task, old = data.get("task"), self.task
        if (
            isinstance(task, Mapping)
            and any(task.get(n, getattr(old, n)) != getattr(old, n) for n in sections.FINGERPRINTED)
            and task.get("fingerprint", old.fingerprint) == old.fingerprint
        ):
            data["task"] = {**task, "fingerprint": ""}
        return fields.build(type(self), data, self)

    def events(self) -> tuple[EventRule, ...]:
        return grokking_events(self.training)

    def needs(self) -> list[str]:
        fork = (self.fork.parent, self.fork.donor)
        named = (self.prior.teacher, self.interventions.mask.source, *fork)
        return [name for name in named if name]

    @property
    def structure_threshold(self) -> float:
        """As given, or half of the oracle's share on each informative position."""
        return self.training.structure_threshold or 0.5 / self.task.operands


# Fields that name a part of the user's own, as `file.py:name@fingerprint` once they are pinned.
OWN_PARTS = (("model", "rule"), ("prior", "rule"), ("training", "measures"))


def _without_place(reference: str | tuple[str, ...]) -> Any:
    """ ":name@fingerprint" of "folder/file.py:name@fingerprint"; nothing of a data file's path."""
    if isinstance(reference, tuple):
        return tuple(map(_without_place, reference))
    return f":{reference.rpartition(':')[2]}" if ":" in reference else ""


KINDS: dict[str, type[Spec]] = {"routing": RunSpec}
"""Every kind of run by name. Users add their own: `gs.KINDS["mine"] = MySpec`."""


def read_spec(data: Mapping[str, Any]) -> Spec:
    """The spec of a run as it stands in its file, of whichever kind it is."""
    data = dict(data)
    name = data.pop("kind", "routing")
    if name not in KINDS:
        raise SpecError(f"This run is of the unknown kind {name!r}.{suggest(str(name), KINDS)}")
    cls = KINDS[name]
    if hasattr(cls, "read"):
        return cls.read(data)
    return fields.build(cls, data, fields.default_of(cls))


def from_dict(data: Mapping[str, Any], base: RunSpec | None = None) -> RunSpec:
    """A lab run from nested dictionaries (TOML, JSON); what is missing comes from `base`."""
    return fields.build(RunSpec, data, base or fields.default_of(RunSpec))


def explain_idle(specs: Sequence[Spec], names: Iterable[str] | None = None) -> list[str]:
    """A sentence for each of these fields (None: those that some spec changes) that has no effect
    in any of the specs."""
    idle = [spec.without_effect() for spec in specs]
    changed = dict.fromkeys(name for spec in specs for name in spec.changed())
    return [
        f"{name} has no effect: {idle[0][name]}."
        for name in (changed if names is None else names)
        if idle and all(name in found for found in idle)
    ]


def field_type(name: str, kind: Any = RunSpec) -> Any:
    """The type of a field by its dotted name; None if there is none."""
    for part in name.split("."):
        kind = fields.field_types(kind).get(part) if dataclasses.is_dataclass(kind) else None
    return kind
