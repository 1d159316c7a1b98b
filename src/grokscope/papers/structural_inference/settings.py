"""Scales and regimes of the structural-inference paper's studies, and what its claims share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from grokscope.claims.evidence import GROKKING, ArmRuns, Event
from grokscope.claims.judgements import Share
from grokscope.claims.prose import Prose, read_settings
from grokscope.claims.studies import ScaleName, Setting, name_settings
from grokscope.claims.verdicts import median_time, state_time
from grokscope.papers.structural_inference import figures
from grokscope.spec import RunSpec, find_recipe

PROSE = Prose.read(__package__)
FIELDS = read_settings(__package__)
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
    return RunSpec().replace(**FIELDS["laptop"]) if scale == "laptop" else find_recipe(scale)


def settings(
    scale: ScaleName, regimes: Sequence[str] = REGIMES, changes: Changes | None = None
) -> list[Setting]:
    """Those of the named regimes that the scale has, with something changed."""
    common = base(scale).replace(**(changes or {}))
    return [
        Setting(scale, name, common.replace(**{"task.alphabet": alphabet}))
        for name, alphabet in ALPHABETS[scale].items()
        if name in regimes
    ]


def only(
    smoke: Sequence[str] = (), laptop: Sequence[str] = REGIMES, paper: Sequence[str] = ()
) -> Callable[[ScaleName], list[Setting]]:
    """Settings with the regimes named for each scale."""
    return lambda scale: settings(scale, {"smoke": smoke, "laptop": laptop, "paper": paper}[scale])


on_laptop = partial(name_settings, base)


def changing(arms: Mapping[str, Changes | None]) -> Callable[[Setting, int], dict[str, RunSpec]]:
    """Arms by what each changes; None for the run without any intervention."""
    return lambda setting, seed: {
        name: setting.baseline(seed) if changes is None else setting.variant(seed, changes)
        for name, changes in arms.items()
    }


def median_epoch(arm: ArmRuns, event: Event = GROKKING) -> str:
    return state_time(median_time(arm.times(event)))


def _state_accuracy(arm: ArmRuns) -> str:
    n, memorised = len(arm.rows), int(np.isfinite(arm.times(MEMORISED)).sum())
    text = f", {memorised} memorise" if memorised < n else ""
    text += f"; median final test accuracy {np.median(arm.values('test_accuracy')):.2f}"
    hard = arm.values("test_accuracy_unmirrored")
    if np.isfinite([hard, arm.values("test_accuracy_mirrored")]).all():
        text += f", {np.median(hard):.2f} on pairs whose mirror image was not trained on"
    return text


# Unless they say otherwise, studies have all regimes and a figure of grok epochs.
study = partial(PROSE.study, settings=settings, draw=figures.draw_tickets)
most = partial(Share, expected="most", detail=_state_accuracy)
few = partial(Share, expected="few", detail=_state_accuracy)
