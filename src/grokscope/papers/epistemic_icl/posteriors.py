"""Posteriors over networks, as log-probabilities of their draws on given sequences.

    IVON       draws from the Gaussian that the optimiser kept with the weights
    Laplace    draws of the unembedding alone; the input embedding, which training ties to it, stays
    noise      the control of either: Gaussian noise of the same total variance in all directions
    ensemble   the same weights' place in runs that differ in nothing but their seed

n sequences of k triples (one where only the last question is asked), S draws, C = p classes, d
width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.errors import SpecError
from grokscope.measures.uncertainty import decompose, mix, score
from grokscope.models import transformer
from grokscope.models.layers import ModelNumbers, normalise
from grokscope.optim.ivon import draw_gaussian
from grokscope.papers.epistemic_icl.settings import SAMPLE_SIZE
from grokscope.probes.laplace import fit_last_layer
from grokscope.problems.incontext import ask_at, shape_of
from grokscope.store import Run

DRAWS = 64
Weights = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of networks of one shape."""

    spec: Any
    bodies: Sequence[Weights]  # one for all draws, or one for each
    heads: np.ndarray  # (S, C, d) unembeddings

    def answer(self, tokens: np.ndarray, last: bool = False) -> np.ndarray:  # (S, n, k, C)
        """Log-probabilities of every z, or of the last one alone (k = 1)."""
        read = partial(features_of, self.spec, tokens=tokens, last=last)
        if len(self.bodies) == 1:
            return answers(read(self.bodies[0]), self.heads)
        each = zip(self.bodies, self.heads, strict=True)
        return np.concatenate([answers(read(body), head[None]) for body, head in each])

    def measure_last(self, tokens: np.ndarray) -> dict[str, float]:
        """The answers to the last question of each sequence."""
        return measure(self.answer(tokens, last=True)[:, :, 0], tokens[:, -1])


@lru_cache(maxsize=8)  # compiled programs
def _reader(shape: transformer.Shape, epsilon: float) -> Any:
    """Compiled: weights and tokens (n, 3k) -> what the unembedding reads (n, k, d)."""
    attend = partial(normalise, kind="softmax")
    numbers = ModelNumbers(norm_epsilon=jnp.float32(epsilon))
    return jax.jit(
        lambda params, tokens: transformer.encode(params, tokens, shape, attend, numbers)[0]
    )


def features_of(spec: Any, params: Weights, tokens: np.ndarray, last: bool = False) -> np.ndarray:
    """What the unembedding reads at each question.  (n, 3k) -> (n, k, d)"""
    shape = ask_at(shape_of(spec), tokens.shape[1], last)
    return np.asarray(_reader(shape, spec.model.norm_epsilon)(params, jnp.asarray(tokens)))


def weights_of(run: Run, epoch: int | None = None) -> dict[str, np.ndarray]:
    """The weights without what the optimiser kept with them."""
    return {n: a for n, a in run.weights(epoch).items() if not n.startswith("hessian.")}


def answers(features: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Log-probabilities.  (n, k, d), (S, C, d) -> (S, n, k, C)"""
    n, k, d = features.shape
    logits = features.reshape(-1, d) @ heads.reshape(-1, d).T.astype(features.dtype)
    logits = np.moveaxis(logits.reshape(n, k, *heads.shape[:2]), 2, 0)
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def laplace(
    run: Run,
    fitted_on: np.ndarray,
    epoch: int | None = None,
    draws: int = DRAWS,
    size: float = SAMPLE_SIZE,
    control: bool = False,
) -> Posterior:
    """Draws of the last layer; with `control`, of isotropic noise of the same total variance. The
    layer's posterior is fitted to the features of clean sequences of seen tasks and pairs. `size`
    is N, by default IVON's. The prior precision is the run's weight decay, as in the paper; 1 for
    a run without decay."""
    params, spec = weights_of(run, epoch), run.about
    features = features_of(spec, params, fitted_on).reshape(-1, params["embedding"].shape[1])
    weights, precision = params["embedding"].astype(float), spec.optimiser.weight_decay or 1.0
    layer = fit_last_layer(weights, features.astype(float), size, precision)
    layer = layer.isotropic() if control else layer
    drawn = layer.draw(draws, np.random.default_rng([spec.seed, 11]))
    return Posterior(spec, [params], drawn)


def ivon(run: Run, draws: int = DRAWS, control: bool = False) -> Posterior:
    """Draws of all weights; with `control`, of isotropic noise with the posterior's mean
    variance."""
    spec: Any = run.about
    if (kind := spec.optimiser.kind) != "ivon":
        raise SpecError(f"Run {run.id} was trained by {kind}, which has no posterior.")
    kept, params = run.weights(), weights_of(run)
    hessian = {name: kept[f"hessian.{name}"] for name in params}
    size, decay = spec.optimiser.sample_size, spec.optimiser.weight_decay
    if control:
        flat = np.concatenate([h.ravel() for h in hessian.values()])
        even = 1 / np.mean(1 / (flat + decay)) - decay
        hessian = {name: np.full_like(h, even) for name, h in hessian.items()}
    keys = jax.random.split(jax.random.key(spec.seed + 11), draws)
    return _of_networks(spec, [draw_gaussian(params, hessian, size, decay, key) for key in keys])


def check_ensemble(runs: Sequence[Run]) -> None:
    tasks = {run.about.task for run in runs}  # type: ignore[attr-defined]
    if len(tasks) > 1 or next(iter(tasks)).seed < 0:
        raise SpecError("The runs of an ensemble must share their task: set task.seed.")


def ensemble(runs: Sequence[Run], epoch: int | None = None) -> Posterior:
    """One draw per run; they must have the same task."""
    check_ensemble(runs)
    return _of_networks(runs[0].about, [weights_of(run, epoch) for run in runs])


def _of_networks(spec: Any, bodies: Sequence[Weights]) -> Posterior:
    return Posterior(spec, bodies, np.stack([np.asarray(body["embedding"]) for body in bodies]))


def measure(logs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """TU, AU, EU and the scores of the mixture.  (S, n, C), (n,)"""
    every = jnp.asarray(logs, jnp.float32)
    spread = decompose(every) if len(logs) > 1 else {}
    found = spread | score(mix(every), jnp.asarray(labels))
    return {name: float(value) for name, value in found.items()}
