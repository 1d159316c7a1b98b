"""Specs in words: what a run is about, what sets arms apart, what its positions hold."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grokscope.observed import PER_EXAMPLE, AnySpec, ObservedSpec
from grokscope.spec import PriorSpec, RunSpec, TaskSpec, canonical_json, flatten, to_dict
from grokscope.store import shorten

Positions = tuple[tuple[str, bool], ...]  # names, and whether they are informative for every input


def label_specs(specs: Sequence[AnySpec]) -> list[str]:
    """What sets each of these specs apart from the others, in a few words."""
    if len(specs) == 1:
        return [describe_subject(specs[0])]
    if not all(isinstance(spec, RunSpec) for spec in specs):
        return _label_by_changes(specs)
    standard = dict(flatten(to_dict(RunSpec())))
    fields = [{**standard, **_effective(spec)} for spec in specs if isinstance(spec, RunSpec)]
    varying = [name for name in standard if len({repr(f[name]) for f in fields}) > 1]
    if "task.rule" in varying:
        varying = [name for name in varying if name != "task.fingerprint"]
    return [", ".join(_phrases(field, varying)) for field in fields]


def _label_by_changes(specs: Sequence[AnySpec]) -> list[str]:
    """Arms of which some are no runs of the lab's tasks: by name, then by what else differs."""
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


def _prior_phrase(spec: AnySpec) -> str:
    prior = getattr(spec, "prior", None) or PriorSpec()
    fields = {f"prior.{name}": value for name, value in vars(prior).items()}
    return _describe_prior({**fields, "prior.kind": prior.kind if prior.strength else "none"})


def describe_subject(spec: AnySpec) -> str:
    """What a run is about: its task, or what the user calls it."""
    task = getattr(spec, "task", None)
    if isinstance(task, TaskSpec):
        return describe_task(task)
    return str(getattr(spec, "name", type(spec).__name__))


def describe_mean(spec: AnySpec) -> str:
    """What attention is a mean over, besides inputs and seeds."""
    if isinstance(spec, ObservedSpec):
        return "watched layers and heads"
    heads = getattr(getattr(spec, "model", None), "heads", 1)
    return "heads" if heads > 1 else ""


def name_positions(spec: AnySpec, width: int) -> Positions:
    """Names of the positions of attention. In a stream, and where operands stand at random, no
    position is informative for every input."""
    if isinstance(spec, ObservedSpec):
        query, informative = (
            set()
            if text in ("", PER_EXAMPLE)
            else {int(p) % width for p in text.split(", ") if width}
            for text in (spec.watch.query, spec.watch.informative)
        )
        return tuple(
            (f"{p}{' informative' * (p in informative)}{' query' * (p in query)}", p in informative)
            for p in range(width)
        )
    task = getattr(spec, "task", None)
    if not isinstance(task, TaskSpec):
        return ()
    if task.kind == "parity_stream":
        return tuple((str(place), False) for place in range(task.blocks * (task.bits + 1) - 1))
    slots = task.bits if task.kind == "parity" else (task.length or 2 * task.operands + 1) - 1
    informative = {i * slots // task.operands for i in range(task.operands)}
    if task.positions == "random":
        names: list[tuple[str, bool]] = [(str(place), False) for place in range(slots)]
    else:
        names = [
            (f"{place} {'operand' if place in informative else 'distractor'}", place in informative)
            for place in range(slots)
        ]
    return (*names, (f"{slots} query", False))


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


def without_seeds(spec: AnySpec) -> AnySpec:
    """What all runs of an arm share."""
    if isinstance(spec, RunSpec) and isinstance(spec.task, TaskSpec):
        return spec.replace(**{"seed": 0, "task.seed": -1})
    return dataclasses.replace(spec, seed=0)


def _effective(spec: RunSpec) -> dict[str, Any]:
    """Fields that have an effect and differ from the defaults."""
    return dict(flatten(json.loads(canonical_json(spec))))


def _phrases(fields: Mapping[str, Any], varying: list[str]) -> list[str]:
    phrases = []
    for name in varying:
        section = name.partition(".")[0]
        if section == "prior":
            # The prior's fields make one phrase, since a strength needs its kind.
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
