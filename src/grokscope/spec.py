"""What a run is: frozen dataclasses, their canonical JSON, and the hash that names the run.

The hash covers every field that differs from its default, so a new field leaves old hashes alone
as long as its default means "no effect". Defaults may therefore never change; a test pins some.
Nothing about the machine, the time or the outcome is part of the identity.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from grokscope.errors import SpecError, suggest

TaskKind = Literal[
    "addition",
    "subtraction",
    "multiplication",
    "division",
    "parity",
    "permutation",
    "custom",
    "parity_stream",
]
ModelKind = Literal["minimal", "transformer"]
AttentionKind = Literal["softmax", "linear_relu"]
PositionKind = Literal["learned", "rotary", "none"]
NormKind = Literal["layer", "rms"]
ActivationKind = Literal["relu", "gelu", "gelu_exact"]
OptimiserKind = Literal["sgd", "adamw", "lion", "muon"]
PriorKind = Literal["none", "oracle", "adversarial", "entropy", "sparsity", "teacher", "inferred"]
FrozenKind = Literal["no", "oracle", "adversarial", "uniform", "teacher"]
MaskKind = Literal["none", "magnitude", "random", "shuffled"]

FINGERPRINTED = ("kind", "rule", "modulus", "operands")  # what the labels of a rule depend on
ARITHMETIC = ("addition", "subtraction", "multiplication", "division", "custom")


@dataclass(frozen=True)
class TaskSpec:
    """What is asked: a rule over operands that are hidden among distractors, the query last."""

    kind: TaskKind = "addition"
    """The rule. `custom` takes the label from a function of yours (see `rule`)."""
    modulus: int = 59
    """Operand values run from 0 to modulus - 1 (arithmetic, custom). Prime for division."""
    operands: int = 2
    """How many positions determine the label: k. For parity, the number of informative bits."""
    bits: int = 20
    """Parity: how many bits the sequence carries; in a stream, how many each block does."""
    blocks: int = 2
    """Parity stream only: bits and their parity, this many times after one another."""
    symbols: int = 5
    """Permutation only: compose permutations of this many symbols."""
    rule: str = ""
    """Custom only: `file.py:function` or `module:function`, called with (operands, modulus)."""
    fingerprint: str = ""
    """Custom only: hash of the labels the rule gave, so that an edited rule is another run."""
    length: int = 0
    """Sequence length T with the query. 0: as short as it can be with as many distractors."""
    alphabet: int = 1
    """Distractors are drawn from this many tokens; 1 is a constant token, `modulus` full noise."""
    distractors: Literal["operand", "own"] = "operand"
    """Are the drawn distractors operand tokens (they can mislead) or tokens of their own?"""
    positions: Literal["fixed", "random"] = "fixed"
    """Operand positions: the same for every example, or drawn per example (order is kept)."""
    train_fraction: float = 0.5
    """Share of the examples that is trained on."""
    split: Literal["plain", "mirror"] = "plain"
    """`mirror` keeps examples with the same operands in another order on the same side."""
    examples: int = 0
    """Use this many examples, drawn at random. 0: all there are."""
    seed: int = -1
    """Seed of distractors and split. -1: the run's own seed."""


@dataclass(frozen=True)
class ModelSpec:
    """Who learns: the paper's minimal transformer (one attention layer that reads the sequence from
    the query, and a ReLU MLP), or a general one."""

    kind: ModelKind = "minimal"
    """`transformer` is the general one, with the fields from `layers` on."""
    attention: AttentionKind = "softmax"
    """How query-key logits become weights: exp or relu, normalised."""
    heads: int = 1
    """Attention heads; `width` must be a multiple."""
    width: int = 64
    """Embedding width d."""
    hidden: int = 256
    """Hidden units of the MLP."""
    init_scale: float = 1.0
    """Multiplies every initial weight but those of norms."""
    loss_precision: Literal["float32", "float64"] = "float32"
    """Precision of the cross-entropy; the weights stay in float32."""
    layers: int = 1
    """Blocks of attention and MLP."""
    positions: PositionKind = "learned"
    """How the transformer knows where a token stands: an embedding for each position, rotary
    angles, or only what causal attention gives away."""
    masking: Literal["causal", "none"] = "causal"
    """Does a position see only itself and what stands before it?"""
    residual: Literal["yes", "no"] = "yes"
    """Add each sublayer's input to its output?"""
    norm: str = ""
    """Where norms stand, joined by +: attention (one for queries, keys and values), query_key,
    value, mlp (each before its sublayer), post (after each sublayer's sum), final (before the
    unembedding). `attention+mlp+final` is the usual pre-norm transformer. Empty: nowhere."""
    norm_kind: NormKind = "layer"
    """LayerNorm, or RMSNorm (no centring, no bias)."""
    activation: ActivationKind = "relu"
    """Of the MLP. `gelu` is the tanh approximation (GPT-2's), `gelu_exact` is x times the normal
    distribution function (PyTorch's default)."""
    readout_scale: float = 1.0
    """Multiplies the outputs."""
    norm_gain: Literal["yes", "no"] = "yes"
    """Do norms learn a gain and, LayerNorm, a bias for each dimension?"""
    norm_epsilon: float = 1e-5
    """Added to the variance (RMSNorm: the mean square) before its root is taken."""


@dataclass(frozen=True)
class OptimiserSpec:
    """How the weights move. Weight decay is decoupled: w <- (1 - lr*decay) w - lr*update, for every
    array, biases and norms included."""

    kind: OptimiserKind = "adamw"
    """sgd (with momentum beta1), adamw, lion or muon (adamw for embeddings and biases)."""
    lr: float = 1e-3
    """Learning rate after warm-up."""
    weight_decay: float = 1.0
    """Decoupled decay, multiplied by the learning rate."""
    beta1: float = 0.9
    """Momentum, or decay of the first moment."""
    beta2: float = 0.999
    """Decay of the second moment (adamw, muon's adamw part) or of lion's momentum."""
    epsilon: float = 1e-8
    """Added to the root of the second moment."""
    warmup: int = 10
    """Epochs of linear warm-up."""
    clip: float = 1.0
    """Gradients are scaled to at most this global norm. 0: no clipping."""
    batch: int = 0
    """Training examples drawn, with replacement, for each step. 0: all of them, once each."""


@dataclass(frozen=True)
class PriorSpec:
    """A penalty on attention, added to the loss: strength(epoch) * penalty(attention)."""

    kind: PriorKind = "none"
    """Pull attention to the oracle, onto the distractors, to low entropy, to sparsity, to a
    teacher's attention, to the positions that the training examples show to determine the label; or
    leave it alone."""
    strength: float = 1.0
    """Multiplies the penalty: lambda."""
    start: int = 0
    """First epoch with the penalty (late start)."""
    end: int = 0
    """The strength falls linearly from `start` to zero at this epoch. 0: it stays constant."""
    teacher: str = ""
    """Teacher only: the run (in the same store) whose final attention is the target."""
    teacher_view: Literal["example", "position"] = "example"
    """Teacher only: its attention on each example, or its average at each position."""


@dataclass(frozen=True)
class MaskSpec:
    """Which weights may be other than zero, for tickets. Masked weights are zero at every step."""

    kind: MaskKind = "none"
    """`magnitude` keeps the largest weights of `source`; `shuffled` permutes that mask within
    each matrix; `random` needs no source."""
    source: str = ""
    """The run (in the same store) whose final weights are ranked."""
    keep: float = 0.2
    """Share of weights that is kept, over all matrices in scope together."""
    scope: Literal["mlp", "all"] = "mlp"
    """Mask the MLP's two matrices, or every matrix."""
    effect: Literal["prune", "norm"] = "prune"
    """`norm` prunes nothing: it scales the MLP's initial weights to the norm they would have under
    the mask, which tells a ticket from its small norm."""


@dataclass(frozen=True)
class InterventionSpec:
    """Hands in the machine: what is forced on the run beside loss and prior."""

    mlp_norm: float = 0.0
    """Project the MLP's weights to this Frobenius norm after each step. 0: do not."""
    query_key_penalty: float = 0.0
    """Adds this times (|W_Q|^2 + |W_K|^2) to the loss."""
    frozen_attention: FrozenKind = "no"
    """Replace attention by a fixed posterior; `teacher` takes it from `prior.teacher`. In the
    transformer this is the last layer's, in a stream where a parity is asked for."""
    mask: MaskSpec = field(default_factory=MaskSpec)


@dataclass(frozen=True)
class TrainingSpec:
    """How long, what is written down, and when a question counts as settled."""

    epochs: int = 6000
    """Steps: passes over the training examples, or draws of `optimiser.batch` of them."""
    log_every: int = 25
    """Epochs between two rows of the curve."""
    snapshots: int = 0
    """Keep the weights at this many evenly spaced rows, besides the final ones."""
    train_threshold: float = 0.99
    """Memorised: training accuracy reaches this."""
    test_threshold: float = 0.95
    """Grokked: test accuracy reaches this."""
    persistence: int = 3
    """... and stays there for this many rows in a row."""
    structure_threshold: float = 0.0
    """tau of the structural condition. 0: half of the oracle's share, 1/(2k)."""
    stop: Literal["never", "grokked"] = "never"
    """End the run early once it has grokked (recorded in the outcome)."""
    stop_after: int = 500
    """Epochs to go on after that."""


@dataclass(frozen=True)
class RunSpec:
    """One run. Two runs with equal specs are the same run."""

    task: TaskSpec = field(default_factory=TaskSpec)
    model: ModelSpec = field(default_factory=ModelSpec)
    optimiser: OptimiserSpec = field(default_factory=OptimiserSpec)
    prior: PriorSpec = field(default_factory=PriorSpec)
    interventions: InterventionSpec = field(default_factory=InterventionSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)
    seed: int = 0
    """Seed of the initial weights and, unless `task.seed` is set, of the data."""

    def __post_init__(self) -> None:
        from grokscope import validation  # it knows these classes, so it comes after them

        for name, hint in field_types(RunSpec).items():
            object.__setattr__(self, name, _plain_numbers(getattr(self, name), hint))
        validation.check(self)

    @property
    def id(self) -> str:
        """The name of the run: 16 hexadecimal digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(canonical_json(self).encode()).hexdigest()[:16]

    def changed(self) -> dict[str, Any]:
        """Dotted name and value of every field that differs from its default."""
        return dict(flatten(differences(self)))

    def replace(self, **changes: Any) -> RunSpec:
        """A copy with fields replaced by dotted name: `spec.replace(**{"prior.strength": 3.0})`.
        A fingerprint does not outlive what it was taken of; training takes it anew."""
        data = _nest(changes)
        task, old = data.get("task"), self.task
        if (
            isinstance(task, Mapping)
            and any(task.get(n, getattr(old, n)) != getattr(old, n) for n in FINGERPRINTED)
            and task.get("fingerprint", old.fingerprint) == old.fingerprint
        ):
            data["task"] = {**task, "fingerprint": ""}
        return from_dict(data, base=self)


def differences(spec: Any) -> dict[str, Any]:
    """Nested dictionary of the fields that differ from their defaults."""
    result: dict[str, Any] = {}
    default = type(spec)()
    for item in dataclasses.fields(spec):
        value, standard = getattr(spec, item.name), getattr(default, item.name)
        if dataclasses.is_dataclass(value):
            if inner := differences(value):
                result[item.name] = inner
        elif value != standard:
            result[item.name] = value
    return result


def canonical_json(spec: RunSpec) -> str:
    """The text that is hashed.

    Equal runs share a name: a prior without strength is no prior, and a rule of the user's is
    known by what it computes, not by where its file lies.
    """
    if spec.task.rule:
        rule = spec.task.rule.rpartition(":")[2]
        spec = dataclasses.replace(spec, task=dataclasses.replace(spec.task, rule=f":{rule}"))
    if spec.prior.kind == "none" or spec.prior.strength == 0:
        kept = PriorSpec()
        if spec.interventions.frozen_attention == "teacher":  # then the teacher still matters
            kept = PriorSpec(teacher=spec.prior.teacher, teacher_view=spec.prior.teacher_view)
        spec = dataclasses.replace(spec, prior=kept)
    return json.dumps(differences(spec), sort_keys=True, separators=(",", ":"))


def to_dict(spec: Any) -> dict[str, Any]:
    """Every field, for people to read; `from_dict` takes it back."""
    return {item.name: _plain(getattr(spec, item.name)) for item in dataclasses.fields(spec)}


def _plain(value: Any) -> Any:
    """Like `dataclasses.asdict`, which copies every number and takes three times as long."""
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return dict(value) if isinstance(value, Mapping) else value


def from_dict(data: Mapping[str, Any], base: RunSpec | None = None) -> RunSpec:
    """A spec from nested dictionaries (TOML, JSON); what is missing comes from `base`."""
    return _build(RunSpec, data, base or _defaults(), "")


@cache
def _defaults() -> RunSpec:
    """Checked once, since every spec that is read starts from it."""
    return RunSpec()


def to_toml(spec: RunSpec) -> str:
    """The fields that differ from their defaults, as a TOML file that `from_toml` takes back."""
    tables: dict[str, list[str]] = {}
    for name, value in spec.changed().items():
        table, _, last = name.rpartition(".")
        tables.setdefault(table, []).append(f"{last} = {json.dumps(value)}")
    # Keys without a table must come first in TOML.
    order = sorted(tables.items(), key=lambda item: item[0] != "")
    return "\n".join("\n".join([f"[{t}]"] * bool(t) + lines) + "\n" for t, lines in order)


def from_toml(path: str | Path) -> tuple[RunSpec, dict[str, list[Any]]]:
    """The spec of a TOML file, and its optional [sweep] table (dotted name = list of values)."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"Cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not valid TOML: {error}.") from error
    table = data.pop("sweep", {})
    if not isinstance(table, dict):
        raise SpecError(f"{path}: sweep must be a table of fields and their values, not {table!r}.")
    over = dict(flatten(table))
    for name, values in over.items():
        if not isinstance(values, list) or not values:
            raise SpecError(f"{path}: sweep over {name} needs a list of values, not {values!r}.")
    base = RunSpec()
    if "recipe" in data:
        from grokscope.recipes import find_recipe

        base = find_recipe(str(data.pop("recipe")))
    return from_dict(data, base), over


def sweep(base: RunSpec, over: Mapping[str, Iterable[Any]] | None = None) -> list[RunSpec]:
    """Every combination: `sweep(spec, {"seed": range(5), "prior.strength": [0, 0.1, 1]})`."""
    over = {name: list(values) for name, values in (over or {}).items()}
    for name, values in over.items():
        if not values:
            raise SpecError(f"The sweep over {name} has no values.")
    combinations = itertools.product(*over.values())
    specs = [base.replace(**dict(zip(over, values, strict=True))) for values in combinations]
    return list({spec.id: spec for spec in specs}.values())


@cache
def field_types(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def field_type(name: str) -> Any:
    """The type of a field by its dotted name; None if there is none."""
    kind: Any = RunSpec
    for part in name.split("."):
        is_section = isinstance(kind, type) and dataclasses.is_dataclass(kind)
        kind = field_types(kind).get(part) if is_section else None
    return kind


def _build(cls: type, data: Mapping[str, Any], base: Any, where: str) -> Any:
    hints = field_types(cls)
    if not isinstance(data, Mapping):
        raise SpecError(f"{where.rstrip('.')} must be a table of fields, not {data!r}.")
    changes = {}
    for name, value in data.items():
        if name not in hints:
            raise SpecError(f"Unknown field {where + name}.{suggest(name, hints)}")
        if dataclasses.is_dataclass(hints[name]):
            value = _build(hints[name], value, getattr(base, name), f"{where}{name}.")
        changes[name] = value
    return dataclasses.replace(base, **changes)


def _plain_numbers(value: Any, hint: Any) -> Any:
    """Numbers as they are hashed, so that 1, 1.0 and NumPy's are the same run: whole ones become
    floats where the field takes any number."""
    if type(value) in (str, float):  # as most are: this stands on the way of every spec
        return value
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, hint):  # type: ignore[arg-type]
            return value  # refused later
        changes = {}
        for name, inner in field_types(hint).items():  # type: ignore[arg-type]
            given = getattr(value, name)
            plain = _plain_numbers(given, inner)
            if plain is not given:
                changes[name] = plain
        return dataclasses.replace(value, **changes) if changes else value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return float(value) if hint is float and type(value) is int else value


def flatten(data: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted name and value of every leaf."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names to nested dictionaries; a dataclass value replaces a whole section."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = result
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise SpecError(f"{name} lies within {part}, which is given as a whole as well.")
        inner[last] = dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # type: ignore[arg-type]
    return result
