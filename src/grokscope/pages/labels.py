"""Specs in words: what a run is about, what sets arms apart, what its positions hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grokscope.spec import (
    PER_EXAMPLE,
    ObservedSpec,
    PriorSpec,
    RunSpec,
    Spec,
    TaskSpec,
    flatten,
    to_dict,
)
from grokscope.store import shorten

Positions = tuple[tuple[str, bool], ...]  # names, and whether they are informative for every input
WORDS = {"lr": "learning rate", "hidden": "hidden units", "mlp_norm": "MLP norm"}
ZEROS = {"optimiser.batch": "full batch", "interventions.mlp_norm": "free MLP norm"}
HIDDEN = ("task.fingerprint", "prior.", "training.", "optimiser.")  # of arms that differ otherwise


def label_specs(specs: Sequence[Spec]) -> list[str]:
    """What sets each of these specs apart from the others, in a few words."""
    if len(specs) == 1:
        return [describe_subject(specs[0])]
    if not specs:
        return []
    kind = type(specs[0])
    if kind.problem and all(type(spec) is kind for spec in specs):
        standard = dict(flatten(to_dict(kind())))
        # What has no effect, such as the strength of no prior, sets nothing apart.
        fields = [{**standard, **dict(flatten(spec.identity()))} for spec in specs]
        varying = [name for name in standard if len({repr(f[name]) for f in fields}) > 1]
        if "task.rule" in varying:
            varying = [name for name in varying if name != "task.fingerprint"]
        phrases = [dict.fromkeys(_phrase(name, field) for name in varying) for field in fields]
        return [", ".join(found) for found in phrases]
    fields = [
        {**spec.changed(), "name": describe_subject(spec), "prior": _prior_phrase(spec)}
        for spec in specs
    ]
    keys = [k for k in dict.fromkeys(k for f in fields for k in f) if not k.startswith(HIDDEN)]
    varying = [k for k in keys if len({str(field.get(k)) for field in fields}) > 1]
    says = [[_assignment(k, field[k]) for k in varying if k in field] for field in fields]
    return [", ".join(words) or field["name"] for words, field in zip(says, fields, strict=True)]


def _assignment(name: str, value: Any) -> str:
    return value if name in ("name", "prior") else f"{name}={shorten(value)}"


def _phrase(name: str, fields: Mapping[str, Any]) -> str:
    """A field and its value as a person would say them: "alphabet 8", "random positions". The
    prior's fields make one phrase, since a strength needs its kind."""
    section, _, field = name.rpartition(".")
    value = fields[name]
    words = WORDS.get(field, field.replace("_", " "))
    if section == "prior" and "prior.teacher" in fields:
        return _describe_prior(fields)
    if not isinstance(value, str):
        return ZEROS[name] if not value and name in ZEROS else f"{words} {shorten(value)}"
    if value in ("", "none", "no"):
        return f"no {words}"
    value = value.rpartition(":")[2].replace("_", "-")
    return value if field == "kind" else words if value == "yes" else f"{value} {words}"


def _prior_phrase(spec: Spec) -> str:
    prior = getattr(spec, "prior", None) or PriorSpec()
    fields = {f"prior.{name}": value for name, value in vars(prior).items()}
    return _describe_prior({**fields, "prior.kind": prior.kind if prior.strength else "none"})


def _describe_prior(fields: Mapping[str, Any]) -> str:
    teacher = f"teacher {fields['prior.teacher'][:8]}" if fields["prior.teacher"] else ""
    if fields["prior.kind"] == "none":
        return teacher or "no prior"  # attention can be frozen at a teacher's without a prior
    words = [f"{fields['prior.kind']} prior, strength {shorten(fields['prior.strength'])}"]
    if teacher:
        words.append(teacher + " by position" * (fields["prior.teacher_view"] == "position"))
    words += [f"from epoch {fields['prior.start']}"] * bool(fields["prior.start"])
    words += [f"fading out by epoch {fields['prior.end']}"] * bool(fields["prior.end"])
    return ", ".join(words)


def describe_subject(spec: Spec) -> str:
    """What a run is about: its task, or what the user calls it."""
    task = getattr(spec, "task", None)
    if isinstance(task, TaskSpec):
        return describe_task(task)
    return str(getattr(spec, "name", type(spec).__name__))


def describe_task(task: TaskSpec) -> str:
    """The task as a person would name it: "addition modulo 59, distractors from 4 tokens"."""
    if task.kind == "data":
        return f"the data in {Path(task.source).name}"
    if task.kind == "parity":
        return f"parity of {task.operands} bits among {task.bits}"
    if task.kind == "parity_stream":
        return f"streams of {task.blocks} × {task.bits} bits and the parity of {task.operands}"
    name = task.rule.rpartition(":")[2] if task.kind == "custom" else task.kind
    rule = f"{name} modulo {task.modulus}"
    if task.kind == "permutation":
        rule = f"composition of permutations of {task.symbols} symbols"
    if task.operands != 2:
        rule += f" of {task.operands} operands"
    if task.positions == "random":
        rule += ", operands at random positions"
    return f"{rule}, distractors from {task.alphabet} tokens" if task.alphabet > 1 else rule


def without_seeds(spec: Spec) -> Spec:
    """What all runs of an arm share."""
    if isinstance(spec, RunSpec) and isinstance(spec.task, TaskSpec):
        return spec.replace(**{"seed": 0, "task.seed": -1})
    return spec.replace(seed=0)


def describe_mean(spec: Spec) -> str:
    """What attention is a mean over, besides inputs and seeds."""
    if isinstance(spec, ObservedSpec):
        return "watched layers and heads"
    return "heads" if getattr(getattr(spec, "model", None), "heads", 1) > 1 else ""


def name_positions(spec: Spec, width: int) -> Positions:
    """Names of the positions of attention. In a stream, and where operands stand at random, no
    position is informative for every input."""
    if isinstance(spec, ObservedSpec):
        shift = spec.watch.offset
        query, marked = (
            {int(p) % width + shift * (int(p) >= 0) for p in text.split(", ")}
            if text and text != PER_EXAMPLE
            else set()
            for text in (spec.watch.query if width else "", spec.watch.informative if width else "")
        )
        places = [f"extra {p}" for p in range(shift)] + [str(p) for p in range(width - shift)]
        return tuple(
            (f"{name}{' informative' * (p in marked)}{' query' * (p in query)}", p in marked)
            for p, name in enumerate(places)
        )
    task = getattr(spec, "task", None)
    if not isinstance(task, TaskSpec):
        return ()
    if task.kind in ("parity_stream", "data"):
        return tuple((str(place), False) for place in range(width))
    slots = task.bits if task.kind == "parity" else (task.length or 2 * task.operands + 1) - 1
    marked = {i * slots // task.operands for i in range(task.operands)}
    fixed = task.positions != "random"
    names = [
        (str(p) + (" operand" if p in marked else " distractor") * fixed, fixed and p in marked)
        for p in range(slots)
    ]
    return (*names, (f"{slots} query", False))
