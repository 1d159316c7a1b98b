"""The parts of a run's specification: task, model, optimiser, prior, interventions, training.

Defaults may never change, and a new field's default must mean "no effect": the name of a run is
the hash of what differs from the defaults, and a test pins some.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from grokscope.spec.fields import number, require

FieldOperation = Literal["addition", "subtraction", "multiplication", "division"]
TaskKind = Literal[FieldOperation, "parity", "permutation", "custom", "parity_stream", "data"]
ModelKind = Literal["minimal", "transformer", "custom"]
AttentionKind = Literal["softmax", "linear_relu"]
PositionKind = Literal["learned", "rotary", "none"]
NormKind = Literal["layer", "rms"]
ActivationKind = Literal["relu", "gelu", "gelu_exact"]
InitKind = Literal["gaussian", "pytorch", "lecun", "kaiming"]
LossKind = Literal["cross_entropy", "squared"]
OptimiserKind = Literal["sgd", "adamw", "lion", "muon", "ivon"]
PriorKind = Literal[
    "none", "oracle", "adversarial", "entropy", "sparsity", "teacher", "inferred", "custom"
]
FrozenKind = Literal["no", "oracle", "adversarial", "uniform", "teacher"]
MaskKind = Literal["none", "magnitude", "random", "shuffled"]

FINGERPRINTED = ("kind", "rule", "modulus", "operands", "source")  # what the labels depend on
ARITHMETIC = ("addition", "subtraction", "multiplication", "division", "custom")
SEQUENCES = (*ARITHMETIC, "permutation")  # operands among distractors
PARITIES = ("parity", "parity_stream")
GENERAL = ("transformer", "custom")
NORM_PLACES = ("attention", "query_key", "value", "mlp", "post", "final")


@dataclass(frozen=True)
class TaskSpec:
    """What is asked: a rule over operands that are hidden among distractors, the query last."""

    kind: TaskKind = "addition"
    """The rule. `custom` takes the label from a function of yours (see `rule`)."""
    modulus: int = number(59, only=ARITHMETIC, least=2)
    """Operand values run from 0 to modulus - 1 (arithmetic, custom). Prime for division; with a
    composite one multiplication has no C_Fourier and no key frequencies."""
    operands: int = number(2, least=1)
    """How many positions determine the label: k. For parity, the number of informative bits."""
    bits: int = number(20, only=PARITIES)
    """Parity: how many bits the sequence carries; in a stream, how many each block does."""
    blocks: int = number(2, only=("parity_stream",))
    """Parity stream only: bits and their parity, this many times after one another."""
    symbols: int = number(5, only=("permutation",))
    """Permutation only: compose permutations of this many symbols."""
    rule: str = number("", only=("custom",))
    """Custom only: `file.py:function` or `module:function`, called with (operands, modulus)."""
    fingerprint: str = number("", only=("custom", "data"))
    """Hash of the labels that a rule gives, or of a data file: an edited one is another run."""
    source: str = number("", only=("data",))
    """Data only: a Parquet or CSV file of examples (docs/own-parts.md)."""
    length: int = 0
    """Sequence length T with the query. 0: as short as it can be with as many distractors."""
    alphabet: int = number(1, least=1)
    """Distractors are drawn from this many tokens; 1 is a constant token, `modulus` full noise."""
    distractors: Literal["operand", "own"] = "operand"
    """Are the drawn distractors operand tokens (they can mislead) or tokens of their own?"""
    positions: Literal["fixed", "random"] = "fixed"
    """Operand positions: the same for every example, or drawn per example (order is kept)."""
    train_fraction: float = number(0.5, above=0, below=1)
    """Share of the examples that is trained on."""
    split: Literal["plain", "mirror", "python"] = "plain"
    """`mirror` keeps examples with the same operands in another order on the same side; `python` is
    plain with the order of Python's `random.shuffle`, to match data made by others."""
    examples: int = number(0, least=0)
    """Use this many examples, drawn at random. 0: all there are."""
    seed: int = number(-1, least=-1)
    """Seed of distractors and split. -1: the run's own seed."""

    @property
    def values(self) -> int:
        """How many values an operand can take."""
        if self.kind in PARITIES:
            return 2
        return math.factorial(self.symbols) if self.kind == "permutation" else self.modulus

    def idle(self) -> dict[str, str]:
        constant = self.kind in SEQUENCES and self.alphabet == 1
        return {"distractors": "alphabet is 1, a constant token of its own"} if constant else {}

    def check(self) -> Iterator[str]:
        if self.kind == "data":
            return self._check_data()
        return self._check_parity() if self.kind in PARITIES else self._check_sequence()

    def _check_data(self) -> Iterator[str]:
        if not self.source.endswith((".parquet", ".csv")):
            wanted = "a task of your own data names a .parquet or .csv file"
            yield f"task.source is {self.source!r}; {wanted}."
        for name in ("operands", "length", "alphabet", "distractors", "positions", "split"):
            if getattr(self, name) != getattr(TaskSpec, name):
                yield f"task.{name} has no effect on data of your own; leave it out."

    def _check_parity(self) -> Iterator[str]:
        if self.operands > self.bits:
            most = f"more informative bits than the {self.bits} bits there are"
            yield f"task.operands is {self.operands}, {most}."
        if self.kind == "parity":
            if self.length not in (0, self.bits + 1):
                wanted = f"task.length must be 0 or {self.bits + 1}, not {self.length}"
                yield f"A parity sequence is its bits and the query: {wanted}."
            check_space(2, self.bits)
        else:
            if self.blocks < 1 or self.blocks * self.bits > 62:
                given = f"task.blocks is {self.blocks} and task.bits {self.bits}"
                yield f"A stream has 1 to 62 bits in all; {given}."
            if self.length != 0:
                yield "The length of a stream follows from its blocks: leave task.length at 0."
        if self.alphabet > 2 or self.positions != "fixed" or self.distractors != "operand":
            yield (
                "In parity the distractors are the other bits: leave task.alphabet, "
                "task.distractors and task.positions at their defaults."
            )
        if self.split != "plain":
            ask = "leave task.split at plain"
            yield f"Parity is split without regard to the order of its bits: {ask}."

    def _check_sequence(self) -> Iterator[str]:
        if self.kind == "division" and not is_prime(self.modulus):
            yield (
                "Division needs a prime modulus, since only then has every divisor an inverse; "
                f"{self.modulus} is composite."
            )
        if self.kind in ("subtraction", "division", "permutation") and self.operands != 2:
            yield f"{self.kind} takes 2 operands; task.operands is {self.operands}."
        if self.kind == "permutation" and not 2 <= self.symbols <= 6:
            allowed = "2 to 6 are possible (6 already has 720 elements)"
            yield f"task.symbols is {self.symbols}; {allowed}."
        if self.kind == "custom" and ":" not in self.rule:
            wanted = "a custom task needs `file.py:function` or `module:function`"
            yield f"task.rule is {self.rule!r}; {wanted}."
        if self.length and self.length <= self.operands:
            least = f"the query need at least {self.operands + 1} positions"
            yield f"task.length is {self.length}; {self.operands} operands and {least}."
        check_space(self.values, self.operands)
        if self.alphabet > self.values:
            most = f"larger than the vocabulary of {self.values} operand values"
            yield f"task.alphabet is {self.alphabet}, {most}."
        if self.positions == "random" and self.alphabet > 1 and self.distractors == "operand":
            yield (
                "With random positions and distractors that look like operands the label is not "
                "determined by the sequence; set task.distractors to own, or task.alphabet to 1."
            )


@dataclass(frozen=True)
class ModelSpec:
    """Who learns: the paper's minimal transformer (one attention layer that reads the sequence from
    the query, and a ReLU MLP), or a general one."""

    kind: ModelKind = "minimal"
    """`transformer` is the general one, with the fields from `layers` on."""
    attention: AttentionKind = "softmax"
    """How query-key logits become weights: exp or relu, normalised."""
    heads: int = number(1, least=1)
    """Attention heads; `width` must be a multiple."""
    width: int = number(64, least=1)
    """Embedding width d."""
    hidden: int = number(256, least=1)
    """Hidden units of the MLP."""
    init_scale: float = number(1.0, above=0)
    """Multiplies every initial weight except those of norms."""
    loss_precision: Literal["float32", "float64"] = "float32"
    """Precision of the loss; the weights stay in float32."""
    loss: LossKind = "cross_entropy"
    """What is minimised: cross-entropy, or half the squared distance to the one-hot label."""
    layers: int = number(1, only=GENERAL, least=1)
    """Blocks of attention and MLP."""
    positions: PositionKind = number("learned", only=GENERAL)
    """How the transformer knows where a token stands: an embedding for each position, rotary
    angles, or only what causal attention gives away."""
    masking: Literal["causal", "none"] = number("causal", only=GENERAL)
    """Does a position see only itself and what stands before it?"""
    residual: Literal["yes", "no"] = number("yes", only=GENERAL)
    """Add each sublayer's input to its output?"""
    norm: str = number("", only=GENERAL)
    """Where norms stand, joined by +: attention (one for queries, keys and values), query_key,
    value, mlp (each before its sublayer), post (after each sublayer's sum), final (before the
    unembedding). `attention+mlp+final` is the usual pre-norm transformer. Empty: nowhere."""
    norm_kind: NormKind = number("layer", only=GENERAL)
    """LayerNorm, or RMSNorm (no centring, no bias)."""
    activation: ActivationKind = number("relu", only=GENERAL)
    """Of the MLP. `gelu` is the tanh approximation (GPT-2's), `gelu_exact` is x times the normal
    distribution function (PyTorch's default)."""
    readout_scale: float = number(1.0, only=GENERAL)
    """Multiplies the outputs."""
    norm_gain: Literal["yes", "no"] = number("yes", only=GENERAL)
    """Do norms learn a gain and, LayerNorm, a bias for each dimension?"""
    norm_epsilon: float = number(1e-5, only=GENERAL, least=0)
    """Added to the variance (RMSNorm: the mean square) before its root is taken."""
    init: InitKind = number("gaussian", only=("minimal", "transformer"))
    """Rule of the initial weights: variance 1/fan_in throughout and zero biases; what PyTorch's
    layers draw (unit normal embeddings and positions, the rest uniform up to 1/sqrt(fan_in),
    biases included); or embeddings of variance 1/width, queries, keys and values uniform as one
    packed block, positions 0.02, with truncated LeCun or Kaiming normal matrices."""
    outputs: int = number(0, only=GENERAL, least=0)
    """Outputs, if there are more than classes; the others are never right. 0: as many."""
    initial_outputs: Literal["kept", "subtracted"] = number("kept", only=GENERAL)
    """Are the outputs of the initial weights subtracted from all later ones?"""
    rule: str = number("", only=("custom",))
    """Custom only: `file.py:object`, with functions `init` and `respond` (docs/own-parts.md)."""

    def idle(self) -> dict[str, str]:
        names = () if self.norm else ("norm_kind", "norm_gain", "norm_epsilon")
        return dict.fromkeys(names, "norm is empty")

    def check(self) -> Iterator[str]:
        if self.width % self.heads:
            yield f"model.width is {self.width}, not a multiple of the {self.heads} heads."
        if (self.kind == "custom") != (":" in self.rule):
            yield f"model.rule is {self.rule!r}; a custom model names its `file.py:object`."
        if self.readout_scale == 0:
            yield "model.readout_scale is 0; every output would be 0, and nothing could be learned."
        if self.readout_scale < 0:
            yield (
                f"model.readout_scale is {self.readout_scale:g}; it must be above 0. A "
                "negative one would only turn the signs of the last weights."
            )
        places = self.norm.split("+") if self.norm else []
        if not set(places) <= set(NORM_PLACES):
            yield f"model.norm is {self.norm!r}; it joins some of {', '.join(NORM_PLACES)} by +."
        parts = {"query_key", "value"} & set(places)
        if len(set(places)) < len(places) or ("attention" in places and parts):
            yield (
                f"model.norm is {self.norm!r}; it names a place twice (attention is query_key and "
                "value with one norm)."
            )
        for name in ("norm_gain", "norm_epsilon"):
            if not places and getattr(self, name) != getattr(ModelSpec, name):
                yield f"model.{name} has no effect without a norm; model.norm is empty."
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            given = f"must be even, not {self.width} / {self.heads}"
            yield f"Rotary positions turn pairs: model.width / model.heads {given}."


@dataclass(frozen=True)
class OptimiserSpec:
    """How the weights move. Weight decay is decoupled: w <- (1 - lr*decay) w - lr*update, for every
    array, biases and norms included."""

    kind: OptimiserKind = "adamw"
    """sgd (with momentum beta1), adamw, lion, muon (adamw for embeddings and biases), or ivon: a
    Gaussian posterior over the weights, of which each step draws one."""
    lr: float = number(1e-3, above=0)
    """Learning rate after warm-up."""
    weight_decay: float = 1.0
    """Decoupled decay, multiplied by the learning rate."""
    beta1: float = number(0.9, least=0, below=1)
    """Momentum, or decay of the first moment."""
    beta2: float = number(0.999, least=0, below=1)
    """Decay of the second moment (adamw, muon's adamw part) or of lion's momentum."""
    epsilon: float = number(1e-8, least=0)
    """Added to the root of the second moment."""
    warmup: int = number(10, least=0)
    """Epochs of linear warm-up."""
    clip: float = number(1.0, least=0)
    """Gradients are scaled to at most this global norm. 0: no clipping."""
    batch: int = number(0, least=0)
    """Training examples drawn, with replacement, for each step. 0: all of them, once each."""
    warmup_from: float = number(0.0, least=0, below=1)
    """Warm-up starts at this share of the learning rate."""
    schedule: Literal["constant", "cosine"] = "constant"
    """After warm-up the rate stays, or falls along half a cosine until training ends."""
    schedule_floor: float = number(0.0, least=0, below=1)
    """The share of the learning rate at which the cosine ends."""
    vector_decay: float = number(1.0, least=0, most=1)
    """Multiplies the weight decay of arrays with one axis (norms, biases)."""
    sample_size: float = number(0.0, only=("ivon",), least=0)
    """ivon: the number of examples N in the posterior's variance 1 / (N (h + decay))."""
    hessian: float = number(1.0, only=("ivon",), above=0)
    """ivon: the initial value of its estimate h of the Hessian's diagonal."""
    clip_radius: float = number(0.0, only=("ivon",), least=0)
    """ivon: no element of a step is larger, before the rate. 0: no limit."""

    def idle(self) -> dict[str, str]:
        unused = {
            "sgd": ("beta2", "epsilon"),
            "lion": ("epsilon",),
            "ivon": ("epsilon", "clip", "vector_decay"),
        }
        found = dict.fromkeys(unused.get(self.kind, ()), f"kind is {self.kind}")
        if self.weight_decay == 0:
            found["vector_decay"] = "weight_decay is 0"
        if self.schedule == "constant":
            found["schedule_floor"] = "schedule is constant"
        if self.warmup == 0:
            found["warmup_from"] = "warmup is 0"
        return found

    def check(self) -> Iterator[str]:
        if self.schedule != "cosine" and self.schedule_floor != 0:
            ask = "set optimiser.schedule to cosine"
            yield f"optimiser.schedule_floor has no effect on a constant rate; {ask}."
        if self.warmup == 0 and self.warmup_from != 0:
            yield "optimiser.warmup_from has no effect without optimiser.warmup."
        if (self.kind == "ivon") != (self.sample_size > 0):
            needed = "ivon needs the number of training examples, and nothing else does"
            yield f"optimiser.sample_size is {self.sample_size:g}; {needed}."
        shrink = self.lr * self.weight_decay
        if not 0 <= shrink < 1:
            allowed = "it must be at least 0 and below 1"
            yield f"optimiser.lr * optimiser.weight_decay is {shrink}; {allowed}."


@dataclass(frozen=True)
class PriorSpec:
    """A penalty on attention, added to the loss: strength(epoch) * penalty(attention)."""

    kind: PriorKind = "none"
    """Pull attention to the oracle, onto the distractors, to low entropy, to sparsity, to a
    teacher's attention, or to the positions that the training examples show to determine the label;
    add a penalty of your own (custom); or leave it alone."""
    strength: float = number(1.0, least=0)
    """Multiplies the penalty: lambda."""
    start: int = number(0, least=0)
    """First epoch with the penalty (late start)."""
    end: int = 0
    """The strength falls linearly from `start` to zero at this epoch. 0: it stays constant."""
    teacher: str = number("", run=True)
    """Teacher only: the run (in the same store) whose final attention is the target."""
    teacher_view: Literal["example", "position"] = "example"
    """Teacher only: its attention on each example, or its average at each position."""
    rule: str = number("", only=("custom",))
    """Custom only: `file.py:function` of attention and oracle (docs/own-parts.md)."""

    def idle(self) -> dict[str, str]:
        taught = () if self.kind == "teacher" else ("teacher", "teacher_view")
        found = dict.fromkeys(taught, f"kind is {self.kind}")
        if self.kind == "none":
            return found | dict.fromkeys(("strength", "start", "end"), "kind is none")
        return found | ({} if self.strength else dict.fromkeys(("start", "end"), "strength is 0"))

    def check(self) -> Iterator[str]:
        if self.end != 0 and self.end <= self.start:
            allowed = f"it must be 0 (constant) or later than prior.start, {self.start}"
            yield f"prior.end is {self.end}; {allowed}."
        if (self.kind == "custom") != (":" in self.rule):
            yield f"prior.rule is {self.rule!r}; a custom prior names its `file.py:function`."


@dataclass(frozen=True)
class MaskSpec:
    """Which weights may be nonzero, for tickets. Masked weights are zero at every step."""

    kind: MaskKind = "none"
    """`magnitude` keeps the largest weights of `source`; `shuffled` permutes that mask within
    each matrix; `random` needs no source."""
    source: str = number("", run=True)
    """The run (in the same store) whose final weights are ranked."""
    keep: float = number(0.2, above=0, most=1)
    """Share of weights that is kept, over all matrices in scope together."""
    scope: Literal["mlp", "all"] = "mlp"
    """Mask the MLP's two matrices, or every matrix."""
    effect: Literal["prune", "norm"] = "prune"
    """`norm` prunes nothing: it scales the MLP's initial weights to the norm they would have under
    the mask, which tells a ticket from its small norm."""

    def idle(self) -> dict[str, str]:
        if self.kind == "none":
            return dict.fromkeys(("source", "keep", "scope", "effect"), "kind is none")
        return {"source": "kind is random"} if self.kind == "random" else {}

    def check(self) -> Iterator[str]:
        if bool(self.source) != (self.kind in ("magnitude", "shuffled")):
            verb = "takes no" if self.source else "needs"
            yield f"A {self.kind} mask {verb} interventions.mask.source."
        if self.effect == "norm" and self.kind == "none":
            yield 'interventions.mask.effect "norm" needs a mask whose norm it takes; set its kind.'


@dataclass(frozen=True)
class InterventionSpec:
    """What is forced on a run in addition to loss and prior."""

    mlp_norm: float = number(0.0, least=0)
    """Project the MLP's weights to this Frobenius norm after each step. 0: do not."""
    query_key_penalty: float = number(0.0, least=0)
    """Adds this times (|W_Q|^2 + |W_K|^2) to the loss."""
    frozen_attention: FrozenKind = "no"
    """Replace attention by a fixed posterior; `teacher` takes it from `prior.teacher`. In the
    transformer this is the last layer's, in a stream where a parity is asked for."""
    mask: MaskSpec = field(default_factory=MaskSpec)


@dataclass(frozen=True)
class ForkSpec:
    """Another future of a run: up to `epoch` it is its parent, from there on it follows this spec.
    Its rows up to there are the parent's, and it continues from the parent's weights and the
    optimiser's state, bit for bit."""

    parent: str = number("", run=True)
    """The run (in the same store) that is forked. Empty: this run is no fork."""
    epoch: int = number(0, least=0)
    """Where it is forked: the epoch of one of the parent's rows."""
    transplant: Literal["none", "mlp", "attention"] = "none"
    """Weights that are taken from `donor` at that epoch, with the optimiser's memory of them.
    Attention comes with the embeddings and positions it reads: query and key mean nothing without
    them. To fix what it looks at instead, set interventions.frozen_attention to teacher."""
    donor: str = number("", run=True)
    """The run (in the same store) that gives them."""

    def idle(self) -> dict[str, str]:
        if not self.parent:
            return dict.fromkeys(("epoch", "transplant", "donor"), "parent is empty")
        return {"donor": "transplant is none"} if self.transplant == "none" else {}

    def check(self) -> Iterator[str]:
        if not self.parent and (self.epoch or self.transplant != "none"):
            yield "fork.epoch and fork.transplant have no effect without fork.parent."
        if bool(self.donor) != (self.transplant != "none"):
            yield (
                f"fork.transplant is {self.transplant} and fork.donor is {self.donor!r}; a "
                "transplant names its donor, and nothing else does."
            )


@dataclass(frozen=True)
class TrainingSpec:
    """How long, what is written down, and when a question counts as settled."""

    epochs: int = number(6000, least=1)
    """Steps: passes over the training examples, or draws of `optimiser.batch` of them."""
    log_every: int = number(25, least=1)
    """Epochs between two rows of the curve."""
    snapshots: int = number(0, least=0)
    """Keep the weights at this many evenly spaced rows, besides the final ones."""
    train_threshold: float = number(0.99, above=0, most=1)
    """Memorised: training accuracy reaches this."""
    test_threshold: float = number(0.95, above=0, most=1)
    """Grokked: test accuracy reaches this."""
    persistence: int = number(3, least=1)
    """... and stays there for this many rows in a row."""
    structure_threshold: float = number(0.0, least=0)
    """tau of the structural condition. 0: half of the oracle's share, 1/(2k)."""
    stop: str = "never"
    """End the run early once this event has happened: grokked. Recorded in the outcome."""
    stop_after: int = number(500, least=0)
    """Epochs to train on after that."""
    measures: tuple[str, ...] = ()
    """Measures of your own, each a `file.py:function` of weights and data (docs/own-parts.md)."""

    def idle(self) -> dict[str, str]:
        return {"stop_after": "stop is never"} if self.stop == "never" else {}

    def snapshot_rows(self) -> Iterator[int]:
        """Rows (0 is the initial one) after which the weights are kept, ascending."""
        total = -(-self.epochs // self.log_every)
        count = min(self.snapshots, total)
        return (i * total // count for i in range(count))

    def snapshot_epochs(self) -> Iterator[int]:
        return (row * self.log_every for row in self.snapshot_rows())


def check_space(values: int, count: int) -> None:
    """Examples are drawn by their number, which must fit into 64 bits."""
    require(
        count <= 63 and values**count <= 2**63,
        f"This task has {values}^{count} examples, and a sample can be drawn from at most 2^63; "
        "take fewer operands, values or bits.",
    )


def is_prime(number: int) -> bool:
    return number > 1 and all(number % i for i in range(2, math.isqrt(number) + 1))
