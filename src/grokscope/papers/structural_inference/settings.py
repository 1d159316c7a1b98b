"""Scales and regimes of the structural-inference paper's studies, and what its claims share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from grokscope.claims.evidence import GROKKING, ArmRuns, Event, Evidence, Sample
from grokscope.claims.judgements import Dose, Share
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

Changes = Mapping[str, Any]  # of a spec's fields, by path
ORACLE: Changes = {"prior.kind": "oracle"}
PRIORS: Mapping[str, Changes] = {
    "no prior": {},
    "oracle": ORACLE,
    "adversarial": {"prior.kind": "adversarial"},
}
MEMORISED = Event("memorised", "memorise")
RIGHT = Event("structured", "get attention right", "epoch at which attention is right")


def within(section: str, **fields: Any) -> dict[str, Any]:
    """Changes in one section of a spec: `within("task", operands=3)` is `{"task.operands": 3}`."""
    return {f"{section}.{name}": value for name, value in fields.items()}


def base(scale: ScaleName) -> RunSpec:
    """The paper's set-up, or the same made small."""
    if scale != "laptop":
        return find_recipe(scale)
    task = within("task", modulus=43, train_fraction=0.6)
    return RunSpec().replace(**task, **{"optimiser.lr": 2e-3, "training.epochs": 5000})


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


def on_laptop(settings: Mapping[str, Changes]) -> Callable[[ScaleName], list[Setting]]:
    """Settings at laptop scale, by name: what differs from `base`."""
    return lambda scale: [
        Setting(scale, name, base(scale).replace(**changes))
        for name, changes in (settings if scale == "laptop" else {}).items()
    ]


def changing(arms: Mapping[str, Changes | None]) -> Callable[[Setting, int], dict[str, RunSpec]]:
    """Arms by what each changes; None for the run without any intervention."""
    return lambda setting, seed: {
        name: setting.baseline(seed) if changes is None else setting.variant(seed, changes)
        for name, changes in arms.items()
    }


def field_of(path: str, prior: str) -> Dose:
    """A field of the specs of the arms with this prior; None for the others."""
    read = attrgetter(path)
    return lambda arm: float(read(arm.spec)) if arm.spec.prior.kind == prior else None


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
