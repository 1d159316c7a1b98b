"""A study the paper lacks: where does its story hold?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grokscope.claims.evidence import Event, Evidence
from grokscope.claims.judgements import Dose, Trend
from grokscope.claims.studies import ScaleName, Setting
from grokscope.claims.verdicts import median_time
from grokscope.papers.structural_inference import figures, settings
from grokscope.spec import RunSpec

ALPHABETS = {"smoke": (1, 29), "laptop": (1, 4, 6, 8, 12, 43)}
STRENGTHS = {"smoke": (1.0,), "laptop": (0.03, 0.1, 0.3, 1.0)}
DECAYS = {"smoke": (), "laptop": (0.3, 3.0)}
REGIME = "map"
TOKENS = "the number of distractor tokens"
STARVATION = Event("starved", "starve", "epochs of starvation")


def where(scale: ScaleName) -> Sequence[Setting]:
    return [Setting(scale, REGIME, settings.base(scale))] if scale in ALPHABETS else []


def arm(alphabet: int, strength: float = 0.0, decay: float = 1.0) -> str:
    return f"alphabet {alphabet}, strength {strength:g}, decay {decay:g}"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    result = {}
    for alphabet in ALPHABETS[setting.scale]:
        here = Setting(setting.scale, REGIME, setting.base.replace(**{"task.alphabet": alphabet}))
        result[arm(alphabet)] = here.baseline(seed)
        for strength in STRENGTHS[setting.scale]:
            changes = {**settings.ORACLE, "prior.strength": strength}
            result[arm(alphabet, strength)] = here.variant(seed, changes)
        for decay in DECAYS[setting.scale]:
            changes = {"optimiser.weight_decay": decay}
            result[arm(alphabet, decay=decay)] = here.variant(seed, changes)
    return result


def alphabet_of(strength: float) -> Dose:
    """The alphabets of the arms with this strength of the prior and decay 1."""
    tokens = {alphabet for each in ALPHABETS.values() for alphabet in each}
    known = {arm(alphabet, strength): float(alphabet) for alphabet in tokens}
    return lambda one: known.get(one.name)


ALONE, HELPED = alphabet_of(0.0), alphabet_of(1.0)


def read(evidence: Evidence) -> str:
    """Where the prior pays off, alphabet by alphabet."""
    sample = next(iter(evidence.samples.values()))
    parts = []
    for alphabet in ALPHABETS[evidence.scale]:
        without, given = sample.arms[arm(alphabet)], sample.arms[arm(alphabet, 1.0)]
        if not (without.sound and given.sound):
            continue
        slow, fast = median_time(without.times()), median_time(given.times())
        alone, helped = settings.median_epoch(without), settings.median_epoch(given)
        text = f"r = {alphabet}: {alone} without, {helped} with it"
        parts.append(text + f" ({slow / fast:.1f} times)" * bool(np.isfinite([slow, fast]).all()))
    return "Median grok epochs, strength 1: " + "; ".join(parts) + "." if parts else ""


STUDY = settings.study(
    "map",
    tests={
        "delay grows with noise": Trend(ALONE, TOKENS, low=0.3),
        "starvation grows with noise": Trend(ALONE, TOKENS, STARVATION, low=0.3, censored=False),
        "prior removes the dependence": Trend(HELPED, TOKENS, low=-0.3, high=0.3),
    },
    settings=where,
    arms=arms,
    draw=figures.draw_map,
    read=read,
    seeds={"smoke": 1, "laptop": 5, "paper": 3},
)
