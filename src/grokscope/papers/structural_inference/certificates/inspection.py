"""What a checkpoint shows: the quantities that the paper's statements bound, and their bounds.

One compiled function looks at one set of weights; everything that needs many examples happens in
it, and a few numbers come out.

n examples, P pairs, T positions, H heads, d width.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.measures import attention as on_attention
from grokscope.measures import weights as on_weights
from grokscope.models import minimal
from grokscope.models.layers import Params, normalise
from grokscope.papers.structural_inference import theory
from grokscope.problems.routing import Numbers, Side
from grokscope.spec import RunSpec
from grokscope.tasks import TaskData, label_operands

PAIRS = 1000  # sampled for the statements about pairs


class Inspected(NamedTuple):
    train: Side
    test: Side
    numbers: Numbers


class Pairs(NamedTuple):
    """Inputs that differ in one informative position and, by the task's rule, in their label."""

    before: Any  # (P, T) tokens
    after: Any  # (P, T)
    label_before: Any  # (P,)
    label_after: Any  # (P,)
    position: Any  # (P,)


def draw_pairs(spec: RunSpec, data: TaskData, count: int = PAIRS) -> Pairs:
    """A seeded sample over all inputs, informative positions and values. The changed input need not
    be one of the task's examples: the statement is about every input."""
    rng = np.random.default_rng([0, 5])
    task = spec.task
    values = int(data.operands.max()) + 1
    index = rng.integers(0, len(data.tokens), size=2 * count)
    which = rng.integers(0, task.operands, size=len(index))
    new = rng.integers(0, values, size=len(index))
    if task.kind == "division":
        new = np.where(which == 1, np.maximum(new, 1), new)
    operands = data.operands[index].copy()
    operands[np.arange(len(index)), which] = new
    labels = label_operands(task, operands)
    keep = np.flatnonzero(labels != data.labels[index])[:count]
    index, which = index[keep], which[keep]
    places = np.nonzero(data.oracle[index])[1].reshape(len(index), task.operands)
    position = places[np.arange(len(index)), which]
    after = data.tokens[index].copy()
    after[np.arange(len(index)), position] = new[keep]
    return Pairs(
        before=data.tokens[index],
        after=after,
        label_before=data.labels[index],
        label_after=labels[keep].astype(np.int32),
        position=position.astype(np.int32),
    )


@lru_cache(maxsize=8)  # compiled programs
def make_inspector(shape: minimal.Shape) -> Any:
    """The compiled function (params, member, pairs) -> numbers, for models of this shape."""
    return jax.jit(lambda params, member, pairs: inspect(shape, params, member, pairs))


def inspect(
    shape: minimal.Shape, params: Params, member: Inspected, pairs: Pairs
) -> dict[str, jax.Array]:
    """Measured quantities and their bounds for one set of weights."""
    lipschitz = on_weights.lipschitz_bound(params)
    return {
        "lipschitz": lipschitz,
        "lipschitz_from_norm": theory.lipschitz_bound_from_norm(on_weights.mlp_norm(params)),
        **_explaining_away(shape, params, member, lipschitz),
        **_routing(shape, params, member),
        **_necessity(shape, params, pairs, lipschitz),
    }


def _attend(
    shape: minimal.Shape, scores: jax.Array, frozen: jax.Array, freeze: jax.Array
) -> jax.Array:
    attention = normalise(scores, shape.attention)
    return jnp.where(freeze, frozen[:, None, :], attention)


def _explaining_away(
    shape: minimal.Shape, params: Params, member: Inspected, lipschitz: jax.Array
) -> dict[str, jax.Array]:
    """|dL/da_i| of every training example and position against Lemma 5.1 (statement 9)."""
    side = member.train
    forward = minimal.forward_fast(params, side.tokens, shape)
    values = forward.values  # (n, H, T, d)
    attention = _attend(shape, forward.scores, side.frozen, member.numbers.freeze)
    pooled_by_head = jnp.einsum("nht,nhtd->nhd", attention, values)

    def losses(pooled):
        logits = minimal.classify(params, pooled)
        right = jnp.take_along_axis(logits, side.labels[:, None], axis=1)
        wrong = jnp.arange(logits.shape[1]) != side.labels[:, None]
        ahead = jnp.where(wrong, logits - right, -jnp.inf)
        # -log p_y = log(1 + sum of the others' odds): a loss of 1e-9 does not round to zero, which
        # would make its bound zero and its ratio meaningless.
        return jax.nn.softplus(jax.nn.logsumexp(ahead, axis=1)), -ahead.max(axis=1)

    (loss, margin), pull = jax.vjp(losses, pooled_by_head.sum(axis=1))
    (gradient,) = pull((jnp.ones_like(loss), jnp.zeros_like(margin)))  # (n, d)
    by_head = gradient[:, None, :]
    given = (values, pooled_by_head, lipschitz, loss[:, None])
    if shape.attention == "softmax":
        measured = theory.score_gradient(attention, values, pooled_by_head, by_head)
        bound = theory.explaining_away_bound(attention, *given)
        sharp = theory.sharp_explaining_away_bound(attention, *given)
    else:
        measured = theory.relu_score_gradient(forward.scores, values, pooled_by_head, by_head)
        bound = sharp = theory.relu_explaining_away_bound(forward.scores, *given)
    measured = jnp.abs(measured)
    beyond = jnp.where(measured > 0, jnp.inf, 0.0)  # where nothing is allowed
    ratio = jnp.where(bound > 0, measured / jnp.where(bound > 0, bound, 1.0), beyond)
    worst = jnp.argmax(ratio)
    return {
        "gradient_ratio_mean": ratio.mean(),
        "gradient_ratio_median": jnp.median(ratio),
        "gradient_mean": measured.mean(),
        "bound_mean": bound.mean(),
        "sharp_bound_mean": sharp.mean(),
        "gradient_at_worst": measured.ravel()[worst],
        "bound_at_worst": bound.ravel()[worst],
        "train_margin_min": margin.min(),
    }


def _routing(shape: minimal.Shape, params: Params, member: Inspected) -> dict[str, jax.Array]:
    """Corollary 4.5 (8) and pooled mass (15) over all inputs; the prior's gradient (11) and logit
    variance (14), which need every embedding, over the training inputs."""
    tokens = jnp.concatenate([member.train.tokens, member.test.tokens])
    oracle = jnp.concatenate([member.train.oracle, member.test.oracle])
    frozen = jnp.concatenate([member.train.frozen, member.test.frozen])
    scores = minimal.score(params, tokens, shape)
    by_head = _attend(shape, scores, frozen, member.numbers.freeze)
    attention = by_head.mean(axis=1)
    divergence = on_attention.structural_divergence(attention, oracle)
    weakest = on_attention.weakest_weight(attention, oracle)
    informative = (oracle > 0).sum(axis=-1)
    allowed = -jnp.log(informative * jnp.maximum(weakest, on_attention.TINY))
    ratio = jnp.where(allowed > 1e-6, divergence / jnp.maximum(allowed, 1e-6), 0.0)
    worst = jnp.argmax(ratio)
    n = len(member.train.tokens)
    scores, target = scores[:n], oracle[:n, None, :]
    embedded = params["embedding"][tokens[:n]] + params["position"]
    norm, query = on_weights.interaction_norm(params, shape.heads), embedded[0, -1]
    bounded = (norm, jnp.linalg.norm(query), theory.context_spread(embedded))
    variance_bound = theory.score_variance_bound(*bounded, shape.width // shape.heads)
    variance_ratio = theory.score_variance(scores) / variance_bound[:, None]
    at = jnp.argmax(variance_ratio.max(axis=1))
    if shape.attention == "softmax":
        by_logit = jax.grad(
            lambda s: theory.structural_divergence(jax.nn.softmax(s), target).sum()
        )(scores)
        predicted = theory.divergence_gradient(jax.nn.softmax(scores), target)
        gradient_error = jnp.abs(predicted - by_logit).max()  # of probabilities
    else:
        gradient_error = jnp.float32(jnp.nan)  # its own form, with points of no derivative
    single = on_attention.weakest_weight(by_head, oracle[:, None, :]).min(axis=0)  # (H,)
    pooled = theory.pooled_mass(by_head)
    return {
        "divergence_at_worst": divergence[worst],
        "divergence_allowed_at_worst": allowed[worst],
        "weakest_min": weakest.min(),
        "prior_gradient_error": gradient_error,
        "variance_at_worst": theory.score_variance(scores)[at].max(),
        "variance_bound_at_worst": variance_bound[at],
        "pooled_mass_min": on_attention.weakest_weight(pooled, oracle).min(),
        "best_head_mass_min": single.max(),
    }


def _necessity(
    shape: minimal.Shape, params: Params, pairs: Pairs, lipschitz: jax.Array
) -> dict[str, jax.Array]:
    """Eq. 27 on pairs (statement 5): inputs that the model tells apart by a margin need mass."""
    before = minimal.forward_fast(params, pairs.before, shape)
    after = minimal.forward_fast(params, pairs.after, shape)
    place = pairs.position[:, None, None]  # (P, 1, 1)

    def at(array):  # (P, H, T) -> (P, H)
        return jnp.take_along_axis(array, place, axis=2)[:, :, 0]

    def value_at(forward):  # (P, H, T, d) -> (P, H, d)
        return jnp.take_along_axis(forward.values, place[..., None], axis=2)[:, :, 0]

    mass_before, mass_after = at(before.attention), at(after.attention)
    position = jnp.broadcast_to(pairs.position[:, None], mass_before.shape)
    centroid = theory.distractor_centroid(before.attention, before.values, position)
    values = (value_at(before), value_at(after))
    spread = theory.value_spread(*values, centroid)  # (P, H)
    allowed = theory.multihead_upper_bound(mass_before, mass_after, spread)  # (P,)
    moved = jnp.linalg.norm(after.pooled - before.pooled, axis=-1)
    separation = jnp.linalg.norm(after.logits - before.logits, axis=-1)
    both_right = (before.logits.argmax(axis=1) == pairs.label_before) & (
        after.logits.argmax(axis=1) == pairs.label_after
    )
    # Per head, so that the identities and bounds of single-head attention apply.
    offsets = [value - centroid for value in values]  # v - mu, v' - mu
    masses = (mass_before, mass_after)
    by_head = [jnp.einsum("nht,nhtd->nhd", f.attention, f.values) for f in (before, after)]
    moved_by_head = jnp.linalg.norm(by_head[1] - by_head[0], axis=-1)  # (P, H)
    closed_form = theory.pooled_difference(*masses, *values, centroid)  # (P, H, d)
    lengths = [jnp.linalg.norm(offset, axis=-1) for offset in offsets]
    apart = jnp.linalg.norm(offsets[1] - offsets[0], axis=-1)
    least = theory.difference_lower_bound(*masses, apart, *lengths)
    identity = theory.squared_difference(*masses, *offsets)
    # Differences of pooled vectors are exact to float32 of the vectors, however small they are.
    unit = jnp.linalg.norm(before.values, axis=-1).max()
    # |f(z') - f(z)| <= L_f |z' - z| <= L_f sum_h (a + b) Delta, so the mass must at least be:
    needed = separation / (lipschitz * jnp.maximum(spread.max(axis=1), 1e-30))
    mass = (mass_before + mass_after).sum(axis=1)
    best = jnp.maximum((mass_before + mass_after).max(axis=1), 1e-30)  # of any one head
    demand = jnp.where(both_right, needed / jnp.maximum(mass, 1e-30), 0.0)
    slack = jnp.where(allowed > 0, moved / jnp.maximum(allowed, 1e-30), 0.0)
    return {
        "pairs_told_apart": both_right.mean(),
        "necessity_ratio_max": demand.max(),
        "single_head_ratio_max": jnp.where(both_right, needed / best, 0.0).max(),
        # NaN where no pair is told apart.
        "necessity_ratio_median": jnp.nanmedian(jnp.where(both_right, demand, jnp.nan)),
        "pair_difference_ratio_max": slack.max(),
        "closed_form_error": jnp.abs(closed_form - (by_head[1] - by_head[0])).max() / unit,
        "squared_identity_error": jnp.abs(identity - moved_by_head**2).max() / unit**2,
        "lower_bound_ratio_max": (least / (moved_by_head + 1e-6 * unit)).max(),
        "lower_bound_useful": (least > 0).mean(),
        "spread_max": spread.max(),
    }
