"""Arms of an experiment: runs that differ only in their seed, and a name for what they share."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grokscope.spec import (
    ObservedSpec,
    RunSpec,
    Spec,
    TaskSpec,
    flatten,
    to_dict,
)
from grokscope.store import Run, shorten


@dataclass(frozen=True)
class Arm:
    """Runs that answer the same question with different seeds."""

    label: str
    runs: tuple[Run, ...]


def group_runs(runs: Iterable[Run]) -> list[Arm]:
    """Arms in the order in which they first occur, their runs in the given order.

    Runs whose specs differ only in `seed` and `task.seed` share an arm; a run that is given twice
    counts once. The label says what sets the arm apart from the others; a single arm is named
    after its task.
    """
    groups: dict[str, dict[str, Run]] = {}
    for run in runs:
        groups.setdefault(_without_seeds(run.about).id, {}).setdefault(run.id, run)
    members = [tuple(group.values()) for group in groups.values()]
    labels = label_specs([_without_seeds(group[0].about) for group in members])
    return [Arm(label, group) for label, group in zip(labels, members, strict=True)]


def label_specs(specs: Sequence[Spec]) -> list[str]:
    """What sets each of these specs apart from the others, in a few words."""
    if len(specs) == 1:
        return [describe_subject(specs[0])]
    if any(isinstance(spec, ObservedSpec) for spec in specs):
        return _label_observed(specs)
    standard = dict(flatten(to_dict(RunSpec())))
    fields = [{**standard, **_effective(spec)} for spec in specs if isinstance(spec, RunSpec)]
    varying = [name for name in standard if len({repr(f[name]) for f in fields}) > 1]
    if "task.rule" in varying:
        varying = [name for name in varying if name != "task.fingerprint"]
    return [", ".join(_phrases(field, varying)) for field in fields]


def _label_observed(specs: Sequence[Spec]) -> list[str]:
    """Arms among which some are models of the user's: by name, then by what else differs."""
    changes = [
        {**spec.changed(), "name": describe_subject(spec), "prior": _prior_phrase(spec)}
        for spec in specs
    ]
    keys = dict.fromkeys(key for change in changes for key in change)
    varying = [k for k in keys if len({str(change.get(k)) for change in changes}) > 1]
    varying = [k for k in varying if not k.startswith(("prior.", "training.", "optimiser."))]
    labels = []
    for change in changes:
        parts = [
            str(change[k]) if k in ("name", "prior") else f"{k}={shorten(change[k])}"
            for k in varying
            if k in change
        ]
        labels.append(", ".join(parts) or str(change["name"]))
    return labels


def _prior_phrase(spec: Spec) -> str:
    prior = spec.prior
    fields = {f"prior.{name}": value for name, value in vars(prior).items()}
    return _describe_prior({**fields, "prior.kind": prior.kind if prior.strength else "none"})


def describe_subject(spec: Spec) -> str:
    """What a run is about: its task, or what the user calls it."""
    return spec.name if isinstance(spec, ObservedSpec) else describe_task(spec.task)


def describe_task(task: TaskSpec) -> str:
    """The task as a person would name it: "addition modulo 59, distractors from 4 tokens"."""
    if task.kind == "parity":
        return f"parity of {task.operands} bits among {task.bits}"
    if task.kind == "parity_stream":
        return f"streams of {task.blocks} × {task.bits} bits and the parity of {task.operands}"
    if task.kind == "permutation":
        rule = f"composition of permutations of {task.symbols} symbols"
    elif task.kind == "custom":
        rule = f"{task.rule.rpartition(':')[2]} modulo {task.modulus}"
    else:
        rule = f"{task.kind} modulo {task.modulus}"
    if task.operands != 2:
        rule += f" of {task.operands} operands"
    if task.positions == "random":
        rule += ", operands at random positions"
    return f"{rule}, distractors from {task.alphabet} tokens" if task.alphabet > 1 else rule


def _without_seeds(spec: Spec) -> Spec:
    if isinstance(spec, ObservedSpec):
        return dataclasses.replace(spec, seed=0)
    return spec.replace(**{"seed": 0, "task.seed": -1})


def _effective(spec: RunSpec) -> dict[str, Any]:
    """Fields that matter and differ from the defaults: a prior without strength is no prior."""
    return dict(flatten(json.loads(spec.canonical_json())))


def _phrases(fields: Mapping[str, Any], varying: list[str]) -> list[str]:
    phrases = []
    for name in varying:
        section = name.partition(".")[0]
        if section == "prior":
            # The prior's fields make one phrase: its strength means nothing without its kind.
            phrase = _describe_prior(fields)
        elif name in PHRASES:
            phrase = PHRASES[name](fields[name])
        else:
            phrase = f"{name}={shorten(fields[name])}"
        if phrase not in phrases:
            phrases.append(phrase)
    return phrases


def _describe_prior(fields: Mapping[str, Any]) -> str:
    if fields["prior.kind"] == "none":
        # Without a prior a teacher can still be what attention is frozen at.
        return f"teacher {fields['prior.teacher'][:8]}" if fields["prior.teacher"] else "no prior"
    phrase = f"{fields['prior.kind']} prior, strength {shorten(fields['prior.strength'])}"
    if fields["prior.teacher"]:
        phrase += f", teacher {fields['prior.teacher'][:8]}"
        if fields["prior.teacher_view"] == "position":
            phrase += " by position"
    if fields["prior.start"]:
        phrase += f", from epoch {fields['prior.start']}"
    if fields["prior.end"]:
        phrase += f", fading out by epoch {fields['prior.end']}"
    return phrase


PHRASES: dict[str, Callable[[Any], str]] = {
    "task.kind": str,
    "task.modulus": lambda value: f"modulus {value}",
    "task.operands": lambda value: f"{value} operands",
    "task.bits": lambda value: f"{value} bits",
    "task.blocks": lambda value: f"{value} blocks",
    "task.symbols": lambda value: f"{value} symbols",
    "task.rule": lambda value: f"rule {value.rpartition(':')[2] or 'none'}",
    "task.length": lambda value: f"length {value}" if value else "shortest length",
    "task.alphabet": lambda value: f"alphabet {value}",
    "task.distractors": lambda value: (
        "own distractor tokens" if value == "own" else "operand noise"
    ),
    "task.positions": lambda value: f"{value} positions",
    "task.train_fraction": lambda value: f"{100 * value:g} % trained on",
    "task.split": lambda value: f"{value} split",
    "model.kind": str,
    "model.layers": lambda value: f"{value} layer{'s' * (value != 1)}",
    "model.positions": lambda value: f"{value} positions" if value != "none" else "no positions",
    "model.masking": lambda value: "causal" if value == "causal" else "not causal",
    "model.residual": lambda value: "residuals" if value == "yes" else "no residuals",
    "model.norm": lambda value: f"norm at {value}" if value else "no norm",
    "model.norm_kind": lambda value: f"{value} norm",
    "model.activation": str,
    "model.norm_gain": lambda value: "norms with gains" if value == "yes" else "plain norms",
    "model.norm_epsilon": lambda value: f"norm epsilon {value:g}",
    "model.readout_scale": lambda value: f"readout scale {value:g}",
    "model.attention": lambda value: f"{value.replace('_', '-')} attention",
    "model.heads": lambda value: f"{value} head{'s' * (value != 1)}",
    "model.width": lambda value: f"width {value}",
    "model.hidden": lambda value: f"{value} hidden units",
    "model.init_scale": lambda value: f"initial scale {value:g}",
    "model.loss_precision": lambda value: f"{value} loss",
    "optimiser.kind": str,
    "optimiser.lr": lambda value: f"learning rate {value:g}",
    "optimiser.weight_decay": lambda value: f"weight decay {value:g}",
    "optimiser.batch": lambda value: f"batch of {value}" if value else "full batch",
    "interventions.mlp_norm": lambda value: f"MLP norm held at {value:g}" if value else "free norm",
    "interventions.query_key_penalty": lambda value: f"query-key penalty {value:g}",
    "interventions.frozen_attention": lambda value: (
        "free attention" if value == "no" else f"{value} attention, frozen"
    ),
    "training.epochs": lambda value: f"{value:,} epochs",
}
