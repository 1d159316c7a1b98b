"""Figure 9, first part: does a wider network find the routing earlier, and does it grok earlier?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.claims.evidence import Event, Evidence
from grokscope.claims.judgements import Everywhere, Faster, Trend, field_of
from grokscope.claims.studies import Setting
from grokscope.models import minimal, shape_of
from grokscope.papers.structural_inference import figures, settings
from grokscope.papers.structural_inference.certificates import checks
from grokscope.spec import RunSpec
from grokscope.store import Run
from grokscope.tasks import build_task

Forward = Callable[[minimal.Params, jax.Array, minimal.Shape], minimal.Forward]
WIDTHS = (16, 32, 64, 128, 256)
BY_WIDTH = "the width d"
ALONE, HELPED = (field_of("model.width", {"prior.kind": prior}) for prior in ("none", "oracle"))
ROUTING = Event("structured", "route", "epoch from which attention is right")


def arm(width: int, prior: bool = False) -> str:
    return f"d = {width}, oracle" if prior else f"d = {width}"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    result = {}
    for width in WIDTHS:
        wide, usual = {"model.width": width}, width == setting.baseline(seed).model.width
        result[arm(width)] = setting.baseline(seed) if usual else setting.variant(seed, wide)
        if setting.regime == "bottleneck":  # with constant distractors a prior gains nothing
            result[arm(width, prior=True)] = setting.variant(seed, {**wide, **settings.ORACLE})
    return result


def summarise(run: Run, shortcut: Forward = minimal.forward_fast) -> dict[str, float | None]:
    """How far the shortcut through tables (`forward_fast`) is from the textbook forward on the
    final weights and all examples, each relative to the textbook's largest number: the logits in
    single precision, as they are trained, and the gradient of the mean loss in double precision.
    (In single precision the gradient of a loss near zero is mostly rounding, in both.)"""
    data = build_task(run.spec.task, run.spec.seed)
    shape, weights = shape_of(run.spec.model, data), run.weights()
    forwards = (minimal.forward, shortcut)
    logits = [_logits(shape, forward, weights, data.tokens) for forward in forwards]
    with jax.enable_x64(True):
        double = {name: array.astype(np.float64) for name, array in weights.items()}
        gradients = [_gradient(shape, f, double, data.tokens, data.labels) for f in forwards]
    return {
        "shortcut_error": _difference(*logits),
        "shortcut_gradient_error": _difference(*gradients),
    }


@partial(jax.jit, static_argnums=(0, 1))
def _logits(shape: minimal.Shape, forward: Forward, params: Any, tokens: Any) -> jax.Array:
    return forward(params, tokens, shape).logits


@partial(jax.jit, static_argnums=(0, 1))
def _gradient(
    shape: minimal.Shape, forward: Forward, params: Any, tokens: Any, labels: Any
) -> minimal.Params:
    """Of the mean cross-entropy."""

    def loss(params: minimal.Params) -> jax.Array:
        logits = forward(params, tokens, shape).logits
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()

    return jax.grad(loss)(params)


def _difference(one: Any, other: Any) -> float:
    """Largest difference between two trees of arrays, over the largest number of the first."""
    first, second = (np.concatenate([*map(np.ravel, jax.tree.leaves(t))]) for t in (one, other))
    return float(np.abs(first - second).max() / np.abs(first).max())


def read(evidence: Evidence) -> str:
    """Medians by width, and how exact the shortcut was."""
    sentences = []
    for regime, sample in evidence.samples.items():
        for prior, words in ((False, "without a prior"), (True, "with it")):
            found = [
                f"{width}: {settings.median_epoch(sample.arms[name], ROUTING)} / "
                f"{settings.median_epoch(sample.arms[name])}"
                for width in WIDTHS
                if (name := arm(width, prior)) in sample.arms and sample.arms[name].sound
            ]
            if found:
                sentences.append(f"{regime.capitalize()}, {words}: {'; '.join(found)}.")
    head = "Median epochs by width d: attention right on 99 % of the inputs / grokked."
    return " ".join([head, *sentences]) if sentences else ""


def exact(column: str, what: str) -> Everywhere:
    return Everywhere(column, f"relative difference of the {what}", checks.IDENTITY)


STUDY = settings.study(
    "width",
    tests={
        "wider routes earlier": Trend(ALONE, BY_WIDTH, ROUTING, high=-0.3),
        "wider groks earlier": Trend(ALONE, BY_WIDTH, high=-0.3),
        "wider groks earlier with the prior": Trend(HELPED, BY_WIDTH, high=-0.3),
        "prior helps the narrow": Faster(arm(16, prior=True), arm(16), least=1.25),
        "prior helps the wide": Faster(arm(256, prior=True), arm(256), least=1.25),
        "shortcut is exact": exact("shortcut_error", "logits"),
        "shortcut's gradient is exact": exact("shortcut_gradient_error", "gradients"),
    },
    settings=settings.only(laptop=("constant", "bottleneck")),
    arms=arms,
    draw=figures.draw_widths,
    read=read,
    summarise=summarise,
)
