"""Sequences of tokens answered through attention: the problem of arXiv 2605.15787.

A loss (cross-entropy by default), a penalty on attention, and a row that tells whether attention
has found the positions that determine the answer. Hyperparameters are data, so sweeping them
recompiles nothing.

n training and m test examples, T positions, H heads, C classes. Each example has P predictions, of
which J are judged; both are 1 except in streams, and then there is no axis for them in the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from grokscope import models, parts
from grokscope.errors import SpecError
from grokscope.interventions import apply_mask, make_mask, match_norm, query_key_penalty
from grokscope.measures import attention as on_attention
from grokscope.measures import weights as on_weights
from grokscope.models.layers import Scores, normalise
from grokscope.priors import DISTINCT, penalty_index, strength_at
from grokscope.problems.base import Kind
from grokscope.problems.targets import find_targets, finished_run
from grokscope.spec import LossKind, RunSpec
from grokscope.spec.sections import PARITIES
from grokscope.tasks import TaskData, build_task, pin_task

if TYPE_CHECKING:
    from grokscope.store import Store

RATE = 130e9  # operations per second on one core


class Side(NamedTuple):
    """The examples of one side of the split."""

    tokens: Any  # (n, T)
    labels: Any  # (n,), in a stream (n, P)
    oracle: Any  # (n, T), in a stream (n, J, T)
    frozen: Any  # like oracle, the posterior that replaces attention if `freeze` is set
    offset: Any = None  # (n, P, C), subtracted from the logits; None: nothing is


class Data(NamedTuple):
    train: Side
    test: Side
    mirrored: Any  # (m,)
    target: Any  # like train.oracle, where the prior pulls attention on the training examples
    cycle: Any  # tokens in cyclic order, or empty
    mask: dict[str, Any]


class Numbers(NamedTuple):
    model: models.ModelNumbers
    init_scale: Any
    penalty: Any  # index into the penalties
    strength: Any
    start: Any
    end: Any
    freeze: Any
    mlp_norm: Any
    initial_mlp_norm: Any  # 0: as drawn
    query_key_penalty: Any
    structure_threshold: Any


@dataclass(frozen=True)
class Routing:
    """The problem for one shape of model."""

    shape: models.Shape
    batch: int  # examples of a step; 0: all
    judged: tuple[int, ...]
    """Which of an example's predictions count for accuracy, prior and measures; the loss has
    all."""
    double: bool = False
    """Is the loss computed in 64 bits?"""
    loss_kind: LossKind = "cross_entropy"
    structured: bool = True
    """Is the oracle known?"""
    penalty: str = ""
    """Reference to a penalty of the user's own."""
    measures: tuple[str, ...] = ()
    """References to measures of the user's own."""

    finite = ("train_loss",)
    stops_on = ("test_accuracy", True)

    def init(self, key: jax.Array, data: Data, numbers: Numbers) -> models.Params:
        params = models.init(key, self.shape, numbers.init_scale)
        params = match_norm(apply_mask(params, data.mask), numbers.initial_mlp_norm)
        return match_norm(params, numbers.mlp_norm)

    def project(self, params: models.Params, data: Data, numbers: Numbers) -> models.Params:
        return match_norm(apply_mask(params, data.mask), numbers.mlp_norm)

    def loss(
        self,
        params: models.Params,
        data: Data,
        numbers: Numbers,
        step: jax.Array,
        key: jax.Array,
    ) -> Float[Array, ""]:
        """Mean loss + strength(step) * penalty + penalty on query and key weights."""
        side, target = self.draw_batch(data, key)
        response = self.respond(params, side, numbers)
        labels = side.labels.reshape(response.logits.shape[:2])
        loss = LOSSES[self.loss_kind](self._precise(response.logits), labels).mean()
        attention = self._judge(response.attention)
        wanted = target.reshape(len(attention), 1, -1)
        penalty = jax.lax.switch(numbers.penalty, self.penalties, attention, wanted).mean()
        strength = strength_at(step, numbers.strength, numbers.start, numbers.end)
        # Off means off: a penalty that is not finite must not reach the loss through 0 * inf.
        prior = jnp.where(strength > 0, strength * penalty, 0.0)
        return loss + prior + query_key_penalty(params, numbers.query_key_penalty)

    @property
    def penalties(self) -> tuple[Any, ...]:
        """The built-in penalties, and the user's own after them."""
        if not self.penalty:
            return DISTINCT
        return (*DISTINCT, parts.load_function(self.penalty, "the prior"))

    def draw_batch(
        self, data: Data, key: jax.Array
    ) -> tuple[Side, jax.Array]:  # -> batch examples, their targets
        """The examples of a step, with replacement, and the prior's target on them."""
        if self.batch == 0:
            return data.train, data.target
        index = jax.random.randint(key, (self.batch,), 0, len(data.target), jnp.int32)
        return jax.tree.map(lambda array: array[index], (data.train, data.target))

    def respond(
        self, params: models.Params, side: Side, numbers: Numbers, nudge: Any = 0.0
    ) -> models.Response:
        """What the model says of one side. `nudge` is added to the query-key logits."""

        def attend(scores: Scores) -> Scores:
            attention = normalise(scores + nudge, self.shape.attention)
            # Where attention is frozen, every head has the same posterior.
            frozen = side.frozen.reshape(len(scores), len(self.judged), 1, -1)
            if len(self.judged) < scores.shape[1]:
                frozen = attention.at[:, jnp.asarray(self.judged)].set(frozen)
            return jnp.where(numbers.freeze, frozen, attention)

        response = models.respond(params, side.tokens, self.shape, attend, numbers.model)
        if side.offset is None:
            return response
        return response._replace(logits=response.logits - side.offset)

    def _precise(self, logits: jax.Array) -> jax.Array:
        return logits.astype(jnp.float64) if self.double else logits

    def _judge(self, array: Shaped[Array, "n P *rest"]) -> Shaped[Array, " nJ *rest"]:
        """The rows of the predictions that count."""
        if len(self.judged) < array.shape[1]:
            array = array[:, jnp.asarray(self.judged)]
        return array.reshape(-1, *array.shape[2:])

    def row(self, params: models.Params, data: Data, numbers: Numbers) -> dict[str, jax.Array]:
        shape, train, test = self.shape, data.train, data.test

        def read(given, side):
            nudge, weights = given
            response = self.respond(weights, side, numbers, nudge)
            labels = side.labels.reshape(response.logits.shape[:2])
            losses = LOSSES[self.loss_kind](self._precise(response.logits), labels)
            right = self._judge(response.logits.argmax(axis=-1) == labels)
            return losses.sum(), (losses.mean(), right, response)

        # The task's gradient on each query-key logit, apart from any prior's: summing the examples'
        # losses keeps the gradients of single examples apart, since no logit is shared. That on the
        # weights comes with it where it has a column.
        n, positions = train.tokens.shape
        still = jnp.zeros((n, train.labels.size // n, shape.heads, positions), jnp.float32)
        general = shape.kind != "minimal"
        free = (still, params if general else {})
        gradients, (train_loss, train_right, on_train) = jax.grad(
            lambda given: read((given[0], {**params, **given[1]}), train), has_aux=True
        )(free)
        per_logit = self._judge(gradients[0])
        _, (test_loss, test_right, on_test) = read((0.0, params), test)
        attention = jnp.concatenate(
            [self._judge(on_train.attention), self._judge(on_test.attention)]
        )
        oracle = jnp.concatenate([side.oracle.reshape(-1, positions) for side in (train, test)])
        mirrored = jnp.repeat(data.mirrored, len(self.judged))
        frequencies, share = on_weights.key_frequencies(params["embedding"], data.cycle)
        magnitude = jnp.abs(per_logit)
        routing = on_attention.measure_attention(attention)
        if self.structured:
            routing = on_attention.measure_routing(
                attention, oracle, len(train_right), numbers.structure_threshold
            )
        more = {}
        if general:  # younger than the minimal model's runs, whose rows stay as they are
            more = {
                "entropy_by_head": on_attention.entropy(attention).mean(axis=0),
                "gradient_norm": on_weights.frobenius_norm(gradients[1]) / n,
                "fourier_concentration": on_weights.fourier_concentration(
                    params["embedding"], data.cycle
                ),
            }
        own = {
            name: parts.load_function(reference, "the measure")(params, data)
            for name, reference in zip(measure_names(self.measures), self.measures, strict=True)
        }
        return {
            "train_loss": train_loss,
            "train_accuracy": train_right.mean(),
            "test_loss": test_loss,
            "test_accuracy": test_right.mean(),
            "test_accuracy_mirrored": test_right.mean(where=mirrored),
            "test_accuracy_unmirrored": test_right.mean(where=~mirrored),
            **routing,
            "logit_variance": self._logit_variance(on_train.scores, on_test.scores),
            "interaction_gradient": _interaction_gradient(params, train.tokens, per_logit, shape),
            "logit_gradient_mean": magnitude.mean(),
            "logit_gradient_max": magnitude.max(),
            "interaction_norm": on_weights.interaction_norm(params, shape.heads),
            "mlp_norm": on_weights.mlp_norm(params),
            "lipschitz_bound": on_weights.lipschitz_bound(params),
            "frequency_share": share,
            "frequencies": frequencies,
            **more,
            **own,
        }

    def _logit_variance(self, *scores: Float[Array, "_ P H T"]) -> Float[Array, ""]:
        """(1/T) sum_t (a_t - mean a)^2 over what a query can see (conj. E.1), on average."""
        both = jnp.concatenate([self._judge(some) for some in scores])
        rows = tuple(self.shape.read[index] for index in self.judged)
        seen = models.visible(self.shape, rows, both.shape[-1])  # (J, T)
        seen = jnp.tile(seen, (len(both) // len(rows), 1))[:, None]
        return jnp.var(both, axis=-1, where=seen).mean()


def cross_entropy(logits: Float[Array, "*n C"], labels: Int[Array, "*n"]) -> Float[Array, "*n"]:
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def squared_error(logits: Float[Array, "*n C"], labels: Int[Array, "*n"]) -> Float[Array, "*n"]:
    """|f - e_y|^2 / 2."""
    wanted = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return jnp.sum((logits - wanted) ** 2, axis=-1) / 2


LOSSES: dict[LossKind, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "cross_entropy": cross_entropy,
    "squared": squared_error,
}


def _interaction_gradient(
    params: models.Params,
    tokens: Int[Array, "n T"],
    per_logit: Float[Array, "nJ H T"],
    shape: models.Shape,
) -> Float[Array, ""]:
    """|dL/dM|_F. Since a_t = e_q' M e_t / sqrt(d/H), dL/dM = e_q s' / sqrt(d/H) with
    s = mean over examples of sum_t (dL/da_t) e_t, a matrix of rank one per head. The general
    transformer has no such matrix: its rotations and norms stand between W_Q and W_K."""
    if shape.kind != "minimal":
        return jnp.float32(jnp.nan)
    n = tokens.shape[0]
    asked = params["embedding"][-1] + params["position"][-1]
    by_token = jnp.zeros((shape.vocabulary, shape.heads), jnp.float32)
    by_token = by_token.at[tokens].add(per_logit.transpose(0, 2, 1))
    by_position = per_logit.sum(axis=0).T  # (T, H)
    pulled = by_token.T @ params["embedding"] + by_position.T @ params["position"]  # (H, d)
    scale = jnp.sqrt(jnp.float32(shape.width // shape.heads))
    return jnp.linalg.norm(asked) * jnp.linalg.norm(pulled) / (n * scale)


def measure_names(references: tuple[str, ...]) -> list[str]:
    """Columns of the user's own measures: the names of their functions."""
    return [reference.partition("@")[0].rpartition(":")[2] for reference in references]


def build(spec: RunSpec, store: Store) -> tuple[Routing, Data, Numbers]:
    """Arrays of a run. Teachers and tickets are read from the store."""
    data = build_task(spec.task, spec.seed)
    _check_data(spec, data)
    shape = models.shape_of(spec.model, data)
    target, frozen = find_targets(spec, data, store)
    template = jax.eval_shape(lambda: models.init(jax.random.key(0), shape))
    mask, initial_mlp_norm = _find_mask(spec, shape, template, store)
    own_prior = spec.prior.kind == "custom"
    threshold = spec.structure_threshold
    if spec.task.kind == "data" and data.structured and not spec.training.structure_threshold:
        threshold = 0.5 * float(data.oracle[data.oracle > 0].min())
    numbers = Numbers(
        model=models.numbers_of(spec.model),
        init_scale=np.float32(spec.model.init_scale),
        penalty=np.int32(len(DISTINCT) if own_prior else penalty_index(spec.prior.kind)),
        strength=np.float32(spec.prior.strength if spec.prior.kind != "none" else 0.0),
        start=np.int32(spec.prior.start),
        end=np.int32(spec.prior.end),
        freeze=np.bool_(spec.interventions.frozen_attention != "no"),
        mlp_norm=np.float32(spec.interventions.mlp_norm),
        initial_mlp_norm=np.float32(initial_mlp_norm),
        query_key_penalty=np.float32(spec.interventions.query_key_penalty),
        structure_threshold=np.float32(threshold),
    )

    def side(index: np.ndarray) -> Side:
        return Side(data.tokens[index], data.labels[index], data.oracle[index], frozen[index])

    train, test = side(data.train), side(data.test)
    arrays = Data(
        train=train,
        test=test,
        mirrored=data.mirrored,
        target=target[data.train],
        cycle=data.cycle.astype(np.int32),
        mask=mask,
    )
    problem = Routing(
        shape,
        batch=spec.optimiser.batch,
        judged=data.determined or (0,),
        double=spec.model.loss_precision == "float64",
        loss_kind=spec.model.loss,
        structured=data.structured,
        penalty=spec.prior.rule,
        measures=spec.training.measures,
    )
    _check_parts(problem, template, arrays)
    if spec.model.initial_outputs == "subtracted":
        arrays = _subtract_initial(problem, spec, arrays, numbers)
    return problem, arrays, numbers


def _subtract_initial(problem: Routing, spec: RunSpec, data: Data, numbers: Numbers) -> Data:
    """Each side with the logits that the initial weights give."""
    made = jax.tree.map(jnp.asarray, (data, numbers))

    @jax.jit
    def respond(side: Side) -> jax.Array:
        drawn = problem.init(jax.random.key(np.uint32(spec.seed)), *made)
        return problem.respond(drawn, side, made[1]).logits

    train, test = (side._replace(offset=respond(side)) for side in (data.train, data.test))
    return data._replace(train=train, test=test)


def _check_parts(problem: Routing, template: Any, data: Data) -> None:
    """Refuse a penalty or a measure of the user's own that gives the wrong shape."""
    attention = jax.ShapeDtypeStruct(
        (2, problem.shape.heads, data.train.tokens.shape[1]), "float32"
    )
    target = jax.ShapeDtypeStruct((2, 1, attention.shape[-1]), "float32")
    if problem.penalty:
        _expect(problem.penalty, "prior", attention.shape[:2], (), attention, target)
    for reference in problem.measures:
        _expect(reference, "measure", (), (1,), template, data)


def _expect(
    reference: str, what: str, wanted: tuple[int, ...], more: tuple[int, ...], *given: Any
) -> None:
    """Call a part on shapes alone. `more` are numbers of axes that it may have instead."""
    function = parts.load_function(reference, f"the {what}")
    name = reference.partition("@")[0]
    try:
        found = jax.eval_shape(function, *given).shape
    except Exception as error:  # it is the user's code: anything may happen
        first = str(error).splitlines()[0] if str(error) else ""
        raise SpecError(f"The {what} {name} failed: {type(error).__name__}: {first}") from error
    if found != wanted and len(found) not in more:
        allowed = f"shape {wanted}" if wanted else "a number, or a few of them in one row"
        raise SpecError(f"The {what} {name} gives shape {found}; it must give {allowed}.")


def _check_data(spec: RunSpec, data: TaskData) -> None:
    """What only data of the user's own can get wrong."""
    constant = bool((data.tokens[:, -1] == data.vocabulary - 1).all())
    if spec.model.kind == "minimal" and not constant:
        raise SpecError(
            "The minimal model asks with the last token, which must be the same in every example "
            f"and the largest ({data.vocabulary - 1} here); add one, or set model.kind to "
            "transformer."
        )
    wanted = {spec.prior.kind, spec.interventions.frozen_attention} & {"oracle", "adversarial"}
    if wanted and not data.structured:
        raise SpecError(
            f"{' and '.join(sorted(wanted))} attention needs the informative positions, which the "
            "data file does not name."
        )


def _find_mask(
    spec: RunSpec, shape: models.Shape, template: dict[str, Any], store: Store
) -> tuple[dict[str, np.ndarray], float]:
    """Ones where a weight may live, and the MLP's initial norm if the mask only sets that."""
    mask_spec = spec.interventions.mask
    if mask_spec.source:
        weights = finished_run(store, mask_spec.source).weights()
    else:
        weights = {name: np.zeros(array.shape, np.float32) for name, array in template.items()}
    given = {name: array.shape for name, array in weights.items()}
    if given != {name: array.shape for name, array in template.items()}:
        raise SpecError(
            f"The mask's source {mask_spec.source} is a model of another shape than this run; they "
            "must have the same task size, width, hidden units and heads."
        )
    mask = make_mask(mask_spec, weights, spec.seed)
    if mask_spec.effect != "norm":
        return mask, 0.0
    drawn = models.init(jax.random.key(np.uint32(spec.seed)), shape, spec.model.init_scale)
    norm = float(on_weights.mlp_norm(apply_mask(drawn, mask)))
    return {name: np.ones_like(array) for name, array in mask.items()}, norm


def pin(spec: RunSpec) -> RunSpec:
    """The user's own parts are known by what they compute."""
    task, model, prior, training = spec.task, spec.model, spec.prior, spec.training
    return replace(
        spec,
        task=pin_task(task),
        model=replace(model, rule=parts.pin(model.rule, "the model")),
        prior=replace(prior, rule=parts.pin(prior.rule, "the prior")),
        training=replace(
            training, measures=tuple(parts.pin(m, "the measure") for m in training.measures)
        ),
    )


def references(spec: RunSpec) -> list[str]:
    named = (spec.task.rule, spec.model.rule, spec.prior.rule, *spec.training.measures)
    return [reference for reference in named if reference]


def estimate(spec: RunSpec) -> float:
    """Rough training time on one core: the matrix products of forward and backward pass at `RATE`
    operations per second, a quarter more for the rest (in the minimal model 2 ns for each number of
    the values that its heads mix), a fixed cost per epoch, and two passes over all that is trained
    on for each row of the curve."""
    task, model, training = spec.task, spec.model, spec.training
    if task.kind == "data":
        data = build_task(task, spec.seed)
        examples, values, length = len(data.tokens), data.classes, data.length
    else:
        drawn = {"parity": task.bits, "parity_stream": task.blocks * task.bits}
        values = task.values
        examples = task.examples or values ** drawn.get(task.kind, task.operands)
        length = task.bits + 1 if task.kind in PARITIES else task.length or 2 * task.operands + 1
    if model.kind == "minimal":
        products = 12 * model.hidden * (model.width + values) / RATE
        each = products + 2e-9 * length * model.heads * model.width
    elif model.layers == 1 and task.kind not in ("parity_stream", "data"):
        # Attention of a single block is looked up; the rest runs at a quarter of the rate.
        sizes = model.width + 2 * model.hidden + values
        each = 4 * 6 * model.width * sizes / RATE
    else:
        # Small products and elementwise work at every position run at a fifth of the rate.
        if task.kind == "parity_stream":
            length *= task.blocks
        block = model.width * (4 * model.width + 2 * model.hidden) + 2 * length * model.width
        each = 1.25 * 12 * 5 * length * model.layers * block / RATE
    trained = examples * task.train_fraction
    seen = (spec.optimiser.batch or trained) + 2 * trained / training.log_every
    return training.epochs * (seen * each + 3e-4)  # `each`: seconds per example


ROUTING = Kind(build, estimate, pin, references)
