"""Scales and regimes of the structural-inference paper's studies, and what its claims share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from grokscope.claims.evidence import GROKKING, ArmRuns, Event, Evidence, Sample
from grokscope.claims.judgements import Share
from grokscope.claims.prose import Prose
from grokscope.claims.studies import ScaleName, Setting
from grokscope.claims.verdicts import median_time
from grokscope.spec import RunSpec, find_recipe

PROSE = Prose.read(__package__)
REGIMES = tuple(PROSE.paper_words["regimes"])

# Alphabet of the distractors in each regime. Paper scale has no full noise: trial runs without a
# prior never recover there, so every question about waiting would go unanswered.
ALPHABETS: dict[ScaleName, dict[str, int]] = {
    "smoke": {"constant": 1, "noise": 29},
    "laptop": {"constant": 1, "bottleneck": 6, "noise": 43},
    "paper": {"constant": 1, "bottleneck": 8},
}

# Norm of the MLP in runs that generalise, for the norm-matched arms. Measured beforehand: laptop in
# results/theory (median 29.8 of 32 generalising runs), the others on unperturbed runs.
SHELL: dict[ScaleName, float] = {"smoke": 21.0, "laptop": 30.0, "paper": 44.0}

ORACLE: dict[str, Any] = {"prior.kind": "oracle"}
MEMORISED = Event("memorised", "memorise")
GROK_EPOCHS = (
    "Grok epochs, one dot per seed, a bar at the median; triangles for runs that had not grokked "
    "when their budget ended."
)


def base(scale: ScaleName) -> RunSpec:
    """The paper's set-up, or the same made small."""
    if scale != "laptop":
        return find_recipe(scale)
    return RunSpec().replace(
        **{
            "task.modulus": 43,
            "task.train_fraction": 0.6,
            "optimiser.lr": 2e-3,
            "training.epochs": 5000,
        }
    )


def settings(scale: ScaleName, regimes: Sequence[str] = REGIMES) -> list[Setting]:
    """Those of the named regimes that the scale has."""
    alphabets = ALPHABETS[scale]
    return [
        Setting(scale, name, base(scale).replace(**{"task.alphabet": alphabets[name]}))
        for name in regimes
        if name in alphabets
    ]


def only(
    smoke: Sequence[str] = (), laptop: Sequence[str] = REGIMES, paper: Sequence[str] = ()
) -> Callable[[ScaleName], list[Setting]]:
    """Settings with the regimes named for each scale."""
    return lambda scale: settings(scale, {"smoke": smoke, "laptop": laptop, "paper": paper}[scale])


def on_laptop(settings: dict[str, dict[str, Any]]) -> Callable[[ScaleName], list[Setting]]:
    """Settings at laptop scale, by name: what differs from `base`."""
    return lambda scale: [
        Setting(scale, name, base(scale).replace(**changes))
        for name, changes in (settings if scale == "laptop" else {}).items()
    ]


def finished(evidence: Evidence, *names: str) -> Iterator[tuple[str, Sample]]:
    """The regimes in which every run of the named arms (or of all) has finished."""
    for regime, sample in evidence.samples.items():
        if all(name in sample.arms and sample.arms[name].sound for name in names or sample.arms):
            yield regime, sample


def median_epoch(arm: ArmRuns, event: Event = GROKKING) -> str:
    middle = median_time(arm.times(event))
    return "never" if math.isinf(middle) else f"{middle:,.0f}"


def _state_accuracy(arm: ArmRuns) -> str:
    n, memorised = len(arm.rows), int(np.isfinite(arm.times(MEMORISED)).sum())
    text = f", {memorised} memorise" if memorised < n else ""
    text += f"; median final test accuracy {np.median(arm.values('test_accuracy')):.2f}"
    hard = arm.values("test_accuracy_unmirrored")
    if np.isfinite([hard, arm.values("test_accuracy_mirrored")]).all():
        text += f", {np.median(hard):.2f} on pairs whose mirror image was not trained on"
    return text


most = partial(Share, expected="most", detail=_state_accuracy)
few = partial(Share, expected="few", detail=_state_accuracy)
