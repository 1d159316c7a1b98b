"""Posteriors over networks, as log-probabilities of their draws on given sequences.

    IVON       draws from the Gaussian that the optimiser kept with the weights
    Laplace    draws of the unembedding alone; the input embedding, which training ties to it, stays
    noise      the control of either: Gaussian noise of the same total variance in all directions
    ensemble   the same weights' place in runs that differ in nothing but their seed

n sequences of k triples, S draws, C = p classes, d width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.errors import SpecError
from grokscope.measures.uncertainty import decompose, mix, score
from grokscope.models import Params, transformer
from grokscope.models.layers import ModelNumbers, normalise
from grokscope.optim.ivon import draw_gaussian
from grokscope.probes.laplace import LastLayer, fit_last_layer
from grokscope.problems.incontext import question_places, shape_of
from grokscope.spec import InContextSpec
from grokscope.store import Run

DRAWS = 64


@cache
def _reader(spec: InContextSpec, length: int) -> Any:
    """Compiled: weights and tokens (n, 3k) -> what the unembedding reads (n, k, d)."""
    shape = shape_of(spec)._replace(length=length, read=question_places(length), tied=False)
    attend = partial(normalise, kind="softmax")
    numbers = ModelNumbers(norm_epsilon=jnp.float32(spec.model.norm_epsilon))

    def features(params: Params, tokens: jax.Array) -> jax.Array:  # (n, k, d)
        """With the identity for an unembedding, logits are the features themselves."""
        bare = {**params, "unembedding": jnp.eye(shape.width)}
        return transformer.respond(bare, tokens, shape, attend, numbers).logits

    return jax.jit(features)


def features_of(run: Run, tokens: np.ndarray, epoch: int | None = None) -> np.ndarray:
    """What the unembedding reads at each question.  (n, 3k) -> (n, k, d)"""
    return np.asarray(_features(run.about, weights_of(run, epoch), tokens))


def _features(spec: Any, params: Any, tokens: np.ndarray) -> jax.Array:
    bare = spec.replace(seed=0, training={"epochs": 1})  # one program for all runs of a shape
    return _reader(bare, tokens.shape[1])(params, jnp.asarray(tokens))


def weights_of(run: Run, epoch: int | None = None) -> dict[str, np.ndarray]:
    """The weights without what the optimiser kept with them."""
    return {n: a for n, a in run.weights(epoch).items() if not n.startswith("hessian.")}


def answers(
    features: Any, unembedding: Any
) -> np.ndarray:  # (n, k, d), (..., C, d) -> (..., n, k, C)
    """Log-probabilities."""
    logits = np.einsum("nkd,...cd->...nkc", np.asarray(features), np.asarray(unembedding))
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def single(run: Run, tokens: np.ndarray, epoch: int | None = None) -> np.ndarray:
    """The network as it is.  -> (1, n, k, C)"""
    return answers(features_of(run, tokens, epoch), weights_of(run, epoch)["embedding"])[None]


def fit_laplace(
    run: Run, fitted_on: np.ndarray, epoch: int | None = None, size: float = 0.0
) -> LastLayer:
    """The last layer's posterior, from the features of clean sequences of seen tasks and pairs.
    `size` is N; 0: seen pairs times seen tasks. The prior precision is 1, as in the paper."""
    spec: Any = run.about
    features = features_of(run, fitted_on, epoch)
    return fit_last_layer(
        np.asarray(weights_of(run, epoch)["embedding"], float),
        features.reshape(-1, features.shape[-1]).astype(float),
        size or spec.task.sample_size,
        1.0,
    )


def laplace(
    run: Run,
    tokens: np.ndarray,
    fitted_on: np.ndarray,
    epoch: int | None = None,
    draws: int = DRAWS,
    size: float = 0.0,
    control: bool = False,
) -> np.ndarray:  # (S, n, k, C)
    """Draws of the last layer; with `control`, of isotropic noise of the same total variance."""
    layer = fit_laplace(run, fitted_on, epoch, size)
    layer = layer.isotropic() if control else layer
    drawn = layer.draw(draws, np.random.default_rng([run.about.seed, 11]))
    return answers(features_of(run, tokens, epoch), drawn)


def ivon(
    run: Run,
    tokens: np.ndarray,
    epoch: int | None = None,
    draws: int = DRAWS,
    control: bool = False,
) -> np.ndarray:  # (S, n, k, C)
    """Draws of all weights; with `control`, of isotropic noise with the posterior's mean
    variance."""
    spec: Any = run.about
    if spec.optimiser.kind != "ivon":
        raise SpecError(
            f"Run {run.id} was trained by {spec.optimiser.kind}, which has no posterior."
        )
    kept, params = run.weights(epoch), weights_of(run, epoch)
    hessian = {name: kept[f"hessian.{name}"] for name in params}
    size, decay = spec.optimiser.sample_size, spec.optimiser.weight_decay
    if control:
        flat = np.concatenate([h.ravel() for h in hessian.values()])
        even = 1 / np.mean(1 / (flat + decay)) - decay
        hessian = {name: np.full_like(h, even) for name, h in hessian.items()}
    found = []
    for key in jax.random.split(jax.random.key(spec.seed + 11), draws):
        drawn = draw_gaussian(params, hessian, size, decay, key)
        found.append(answers(_features(spec, drawn, tokens), drawn["embedding"]))
    return np.stack(found)


def ensemble(runs: Sequence[Run], tokens: np.ndarray, epoch: int | None = None) -> np.ndarray:
    """One draw per run; they must have the same task.  -> (S, n, k, C)"""
    tasks = {(run.about.task, run.about.task.seed) for run in runs}  # type: ignore[attr-defined]
    if len(tasks) > 1 or next(iter(tasks))[1] < 0:
        raise SpecError("The runs of an ensemble must share their task: set task.seed.")
    return np.concatenate([single(run, tokens, epoch) for run in runs])


def measure(logs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """TU, AU, EU and the scores of the mixture.  (S, n, C), (n,)"""
    every = jnp.asarray(logs, jnp.float32)
    spread = decompose(every) if len(logs) > 1 else {}
    found = spread | score(mix(every), jnp.asarray(labels))
    return {name: float(value) for name, value in found.items()}
