"""What a specification must satisfy. Every refusal is a sentence: given, allowed, what to do."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, get_args, get_origin

from grokscope.errors import SpecError
from grokscope.spec import ARITHMETIC, ModelSpec, RunSpec, TaskSpec, field_types

TRANSFORMER_ONLY = (
    "layers",
    "positions",
    "masking",
    "residual",
    "norm",
    "norm_kind",
    "activation",
    "readout_scale",
    "norm_gain",
    "norm_epsilon",
)
NORM_PLACES = ("attention", "query_key", "value", "mlp", "post", "final")


def check(spec: RunSpec) -> None:
    """Raise a SpecError unless the run is possible."""
    for name, hint in field_types(RunSpec).items():
        _check_types(getattr(spec, name), name, hint)
    _check_task(spec.task)
    _check_model_and_optimiser(spec)
    _check_prior_and_interventions(spec)
    _check_training(spec)


def _check_types(value: Any, where: str, hint: Any) -> None:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, hint):  # type: ignore[arg-type]
            raise SpecError(f"{where} must be a {hint.__name__}, not {value!r}.")  # type: ignore
        for name, inner in field_types(hint).items():  # type: ignore[arg-type]
            _check_types(getattr(value, name), f"{where}.{name}", inner)
    elif get_origin(hint) is Literal:
        if value not in get_args(hint):
            allowed = ", ".join(map(str, get_args(hint)))
            raise SpecError(f"{where} is {value!r}; it must be one of {allowed}.")
    elif isinstance(value, bool) or not isinstance(value, hint):
        raise SpecError(f"{where} is {value!r}; it must be {_name(hint)}.")
    elif hint is int and abs(value) >= 2**31:
        raise SpecError(f"{where} is {value}; whole numbers must stay below 2^31.")
    elif hint is float and not math.isfinite(value):
        raise SpecError(f"{where} is {value}; it must be a finite number.")


def _name(hint: Any) -> str:
    return {int: "a whole number", float: "a number", str: "text"}.get(hint, str(hint))


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise SpecError(sentence)


def _check_task(task: TaskSpec) -> None:
    _require(
        0 < task.train_fraction < 1,
        f"task.train_fraction is {task.train_fraction}; it must lie between 0 and 1, both "
        "excluded, so that something is trained on and something is tested.",
    )
    _require(task.operands >= 1, f"task.operands is {task.operands}; it must be at least 1.")
    _require(task.examples >= 0, f"task.examples is {task.examples}; it must be 0 (all) or more.")
    _require(task.seed >= -1, f"task.seed is {task.seed}; it must be -1 (the run's seed) or more.")
    for name, users in (
        ("bits", ("parity", "parity_stream")),
        ("blocks", ("parity_stream",)),
        ("symbols", ("permutation",)),
    ):
        _require(
            task.kind in users or getattr(task, name) == getattr(TaskSpec(), name),
            f"task.{name} is only used by {' and '.join(users)}; task.kind is {task.kind}.",
        )
    if task.kind in ARITHMETIC:
        _require(task.modulus >= 2, f"task.modulus is {task.modulus}; it must be at least 2.")
    else:
        _require(
            task.modulus == TaskSpec().modulus,
            f"task.modulus is only used by arithmetic tasks; task.kind is {task.kind}.",
        )
    if task.kind == "division":
        _require(
            is_prime(task.modulus),
            f"Division needs a prime modulus, since only then has every divisor an inverse; "
            f"{task.modulus} is composite.",
        )
    if task.kind in ("subtraction", "division", "permutation"):
        _require(
            task.operands == 2, f"{task.kind} takes 2 operands; task.operands is {task.operands}."
        )
    if task.kind == "permutation":
        _require(
            2 <= task.symbols <= 6,
            f"task.symbols is {task.symbols}; 2 to 6 are possible (6 already has 720 elements).",
        )
    if task.kind == "custom":
        _require(
            ":" in task.rule,
            f"task.rule is {task.rule!r}; a custom task needs `file.py:function` or "
            "`module:function`.",
        )
    else:
        _require(
            not task.rule and not task.fingerprint,
            f"task.rule is only used by custom tasks; task.kind is {task.kind}.",
        )
    if task.kind in ("parity", "parity_stream"):
        _require(
            task.operands <= task.bits,
            f"task.operands is {task.operands}, more informative bits than the {task.bits} bits "
            "there are.",
        )
        if task.kind == "parity":
            _require(
                task.length in (0, task.bits + 1),
                f"A parity sequence is its bits and the query: task.length must be 0 or "
                f"{task.bits + 1}, not {task.length}.",
            )
            check_space(2, task.bits)
        else:
            _require(
                task.blocks >= 1 and task.blocks * task.bits <= 62,
                f"A stream has 1 to 62 bits in all; task.blocks is {task.blocks} and task.bits "
                f"{task.bits}.",
            )
            _require(
                task.length == 0,
                "The length of a stream follows from its blocks: leave task.length at 0.",
            )
        _require(
            task.alphabet in (1, 2) and task.positions == "fixed" and task.distractors == "operand",
            "In parity the distractors are the other bits: leave task.alphabet, task.distractors "
            "and task.positions at their defaults.",
        )
        _require(
            task.split == "plain",
            "Parity is split without regard to the order of its bits: leave task.split at plain.",
        )
        return
    _require(
        task.length == 0 or task.length > task.operands,
        f"task.length is {task.length}; {task.operands} operands and the query need at least "
        f"{task.operands + 1} positions.",
    )
    values = operand_values(task)
    check_space(values, task.operands)
    _require(
        task.alphabet >= 1, f"task.alphabet is {task.alphabet}; it must be 1 (constant) or more."
    )
    _require(
        task.alphabet <= values,
        f"task.alphabet is {task.alphabet}, larger than the vocabulary of {values} operand values.",
    )
    _require(
        not (task.positions == "random" and task.alphabet > 1 and task.distractors == "operand"),
        "With random positions and distractors that look like operands the label is not "
        "determined by the sequence; set task.distractors to own, or task.alphabet to 1.",
    )


def check_space(values: int, count: int) -> None:
    """Examples are drawn by their number, which must fit into 64 bits."""
    _require(
        count <= 63 and values**count <= 2**63,
        f"This task has {values}^{count} examples, and a sample can be drawn from at most 2^63; "
        "take fewer operands, values or bits.",
    )


def _check_model_and_optimiser(spec: RunSpec) -> None:
    model, optimiser = spec.model, spec.optimiser
    if model.kind == "minimal":
        for name in TRANSFORMER_ONLY:
            _require(
                getattr(model, name) == getattr(ModelSpec(), name),
                f"model.{name} is only used by the transformer; model.kind is minimal.",
            )
        _require(
            spec.task.kind != "parity_stream",
            "A stream is predicted token by token, which the minimal model cannot; set model.kind "
            "to transformer.",
        )
    else:
        _check_transformer(spec)
    _require(spec.seed >= 0, f"seed is {spec.seed}; it must be 0 or more.")
    for name in ("heads", "width", "hidden"):
        value = getattr(model, name)
        _require(value >= 1, f"model.{name} is {value}; it must be at least 1.")
    _require(
        model.width % model.heads == 0,
        f"model.width is {model.width}, not a multiple of the {model.heads} heads.",
    )
    _require(model.init_scale > 0, f"model.init_scale is {model.init_scale}; it must be positive.")
    _require(optimiser.lr > 0, f"optimiser.lr is {optimiser.lr}; it must be positive.")
    _require(
        0 <= optimiser.weight_decay * optimiser.lr < 1,
        f"optimiser.lr * optimiser.weight_decay is {optimiser.lr * optimiser.weight_decay}; it "
        "must be at least 0 and below 1.",
    )
    for name in ("beta1", "beta2"):
        value = getattr(optimiser, name)
        _require(0 <= value < 1, f"optimiser.{name} is {value}; it must be in [0, 1).")
    for name in ("epsilon", "warmup", "clip", "batch"):
        value = getattr(optimiser, name)
        _require(value >= 0, f"optimiser.{name} is {value}; it must be 0 or more.")


def _check_transformer(spec: RunSpec) -> None:
    model = spec.model
    _require(model.layers >= 1, f"model.layers is {model.layers}; it must be at least 1.")
    places = model.norm.split("+") if model.norm else []
    for place in places:
        _require(
            place in NORM_PLACES,
            f"model.norm is {model.norm!r}; it joins some of {', '.join(NORM_PLACES)} by +.",
        )
    _require(
        len(set(places)) == len(places)
        and not ("attention" in places and {"query_key", "value"} & set(places)),
        f"model.norm is {model.norm!r}; it names a place twice (attention is query_key and value "
        "with one norm).",
    )
    for name in ("norm_gain", "norm_epsilon"):
        _require(
            bool(places) or getattr(model, name) == getattr(ModelSpec(), name),
            f"model.{name} has no effect without a norm; model.norm is empty.",
        )
    _require(
        model.norm_epsilon >= 0,
        f"model.norm_epsilon is {model.norm_epsilon}; it must be 0 or more.",
    )
    _require(
        model.positions != "rotary" or (model.width // max(model.heads, 1)) % 2 == 0,
        f"Rotary positions turn pairs: model.width / model.heads must be even, not "
        f"{model.width} / {model.heads}.",
    )
    _require(
        spec.task.kind != "parity_stream" or model.masking == "causal",
        "A stream is predicted from what stands before: model.masking must be causal.",
    )


def _check_prior_and_interventions(spec: RunSpec) -> None:
    prior, hands = spec.prior, spec.interventions
    _require(prior.strength >= 0, f"prior.strength is {prior.strength}; it must be 0 or more.")
    _require(prior.start >= 0, f"prior.start is {prior.start}; it must be 0 or more.")
    _require(
        prior.end == 0 or prior.end > prior.start,
        f"prior.end is {prior.end}; it must be 0 (constant) or later than prior.start, "
        f"{prior.start}.",
    )
    _require(
        prior.kind != "inferred" or spec.task.kind != "parity_stream",
        "An inferred prior looks for what determines one label, and a stream has many; use another "
        "prior.",
    )
    needs_teacher = prior.kind == "teacher" or hands.frozen_attention == "teacher"
    _require(
        bool(prior.teacher) == needs_teacher,
        "A teacher prior (or attention frozen at a teacher's) names its run in prior.teacher; "
        "other priors leave it empty.",
    )
    for name, run in (
        ("prior.teacher", prior.teacher),
        ("interventions.mask.source", hands.mask.source),
    ):
        # A shortened name could come to mean another run.
        _require(
            not run or (len(run) == 16 and set(run) <= set("0123456789abcdef")),
            f"{name} is {run!r}; give the whole name of the run, 16 hexadecimal digits.",
        )
    _require(hands.mlp_norm >= 0, f"interventions.mlp_norm is {hands.mlp_norm}; at least 0.")
    _require(
        hands.query_key_penalty >= 0,
        f"interventions.query_key_penalty is {hands.query_key_penalty}; it must be 0 or more.",
    )
    mask = hands.mask
    _require(0 < mask.keep <= 1, f"interventions.mask.keep is {mask.keep}; it must be in (0, 1].")
    _require(
        bool(mask.source) == (mask.kind in ("magnitude", "shuffled")),
        f"A {mask.kind} mask {'needs' if not mask.source else 'takes no'} "
        "interventions.mask.source.",
    )
    _require(
        mask.effect == "prune" or mask.kind != "none",
        'interventions.mask.effect "norm" needs a mask whose norm it takes; set its kind.',
    )


def _check_training(spec: RunSpec) -> None:
    training = spec.training
    for name in ("epochs", "log_every", "persistence"):
        value = getattr(training, name)
        _require(value >= 1, f"training.{name} is {value}; it must be at least 1.")
    for name in ("train_threshold", "test_threshold"):
        value = getattr(training, name)
        _require(0 < value <= 1, f"training.{name} is {value}; it must be in (0, 1].")
    for name in ("snapshots", "stop_after"):
        value = getattr(training, name)
        _require(value >= 0, f"training.{name} is {value}; it must be 0 or more.")
    _require(
        0 <= training.structure_threshold <= 1 / spec.task.operands,
        f"training.structure_threshold is {training.structure_threshold}; no attention can give "
        f"each of {spec.task.operands} positions more than {1 / spec.task.operands:.3g}.",
    )


def operand_values(task: TaskSpec) -> int:
    """How many values an operand can take."""
    if task.kind in ("parity", "parity_stream"):
        return 2
    return math.factorial(task.symbols) if task.kind == "permutation" else task.modulus


def is_prime(number: int) -> bool:
    return number > 1 and all(number % i for i in range(2, math.isqrt(number) + 1))
