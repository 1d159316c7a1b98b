"""Figures 6 and 7: other priors than the oracle's, other teachers, other times.

Chosen on pilot runs of one seed, before any claim was looked at: entropy and sparsity at 0.1, the
largest of 1, 0.1, 0.01 at which a run with few-token distractors memorised; modulus 47 for the
teacher of another modulus, because it groks by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grokscope.claims.evidence import Evidence, Sample
from grokscope.claims.judgements import Faster, GainKept
from grokscope.claims.studies import Setting
from grokscope.claims.verdicts import median_time, state_time
from grokscope.measures.attention import structural_divergence
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import PROSE, only, settings, study, within
from grokscope.problems.targets import find_targets
from grokscope.spec import RunSpec
from grokscope.store import Run, Store
from grokscope.tasks import build_task

BASELINE, PRIOR, INFERRED = "no prior", "oracle", "inferred from the training examples"
JUDGED = 0.1  # strength of the penalties that name no positions
WEAK, STRONG = 0.01, 1.0

TEACHER = "teacher, same seed"
OTHER_SEED = "teacher, another seed"
OTHER_MODULUS = "teacher, another modulus"
OTHER_WIDTH = "teacher, half the width"
CLEAN = "teacher, from constant distractors"
UNRIPE = "teacher that has only memorised"
MODULUS, SEEDS = 47, 5
PATIENCE = 20_000  # epochs that a teacher without help may take to grok

FADING, BRIEF = "oracle, fading until epoch 500", "oracle, fading until memorisation"
EARLY, AT = "oracle, from epoch 50", "oracle, from memorisation"
LATE, LATER = "oracle, from 500 epochs later", "oracle, from 1,500 epochs later"
# Median epoch at which runs without a prior have memorised.
MEMORISED = {"constant": 125, "bottleneck": 150, "noise": 300}


def undirected(kind: str, strength: float) -> str:
    return f"{kind}, strength {strength:g}"


UNDIRECTED = tuple(undirected(k, s) for k in ("entropy", "sparsity") for s in (JUDGED, WEAK))


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    def pulled(kind: str, **fields: Any) -> RunSpec:
        return setting.variant(seed, within("prior", kind=kind, **fields))

    memorised = MEMORISED[setting.regime]
    strengths = (STRONG, JUDGED, WEAK) if setting.regime == "bottleneck" else (JUDGED, WEAK)
    result = {
        BASELINE: setting.baseline(seed),
        PRIOR: pulled("oracle"),
        INFERRED: pulled("inferred"),
        **{
            undirected(kind, strength): pulled(kind, strength=strength)
            for kind in ("entropy", "sparsity")
            for strength in strengths
        },
        FADING: pulled("oracle", end=500),
        BRIEF: pulled("oracle", end=memorised),
    }
    if setting.regime != "constant":  # there the wait ends by itself before a late start helps
        result |= {
            EARLY: pulled("oracle", start=50),
            AT: pulled("oracle", start=memorised),
            LATE: pulled("oracle", start=memorised + 500),
            LATER: pulled("oracle", start=memorised + 1500),
        }
    for name, (teacher, view) in teachers(setting, seed).items():
        result[name] = pulled("teacher", teacher=teacher.id, teacher_view=view)
        result[f"{figures.TEACHING}{name}"] = teacher
    return result


def teachers(setting: Setting, seed: int) -> dict[str, tuple[RunSpec, str]]:
    """Runs without any prior that have grokked (except for one, the control), and whether their
    attention is taken example by example or as its mean at each position."""

    def alone(**changes: Any) -> tuple[RunSpec, str]:
        view = "position" if "task.modulus" in changes else "example"
        return setting.variant(seed, {"training.epochs": PATIENCE, **changes}), view

    (clean,) = settings(setting.scale, ["constant"])
    if setting.regime == "constant":
        return {TEACHER: (setting.baseline(seed), "example")}
    from_clean = (clean.baseline(seed), "position")
    unripe = (setting.baseline(seed).replace(**{"training.epochs": 500}), "example")
    if setting.regime == "noise":  # no run without help groks: it has to learn elsewhere
        return {CLEAN: from_clean, UNRIPE: unripe}
    return {
        TEACHER: alone(),
        OTHER_SEED: alone(seed=(seed + 1) % SEEDS),
        OTHER_MODULUS: alone(**{"task.modulus": MODULUS}),
        OTHER_WIDTH: alone(**{"model.width": setting.baseline(seed).model.width // 2}),
        CLEAN: from_clean,
        UNRIPE: unripe,
    }


def summarise(run: Run) -> dict[str, float | None]:
    """Mean KL(oracle || target) over the training examples, for targets that have to be found."""
    if run.spec.prior.kind not in ("teacher", "inferred"):
        return {}
    data = build_task(run.spec.task, run.spec.seed)
    target, _ = find_targets(run.spec, data, Store(run.path.parent))
    error = structural_divergence(target[data.train], data.oracle[data.train])
    return {"target_error": float(np.mean(error))}


def read(evidence: Evidence) -> str:
    """Were the teachers any good, what was inferred, and how long a late start takes."""
    words, sentences = PROSE.reading("priors"), []
    for regime, sample in evidence.samples.items():
        parts = []
        if teachers := _describe_teachers(sample):
            parts.append(words["teachers"].format(found=", ".join(teachers)))
        if (inferred := sample.arms[INFERRED]).sound:
            right = (np.abs(inferred.values("target_error")) < 1e-6).sum()
            parts.append(words["inferred"].format(right=right, all=len(inferred.rows)))
        if waits := _describe_late(sample):
            parts.append(words["late"].format(found=", ".join(waits)))
        if parts:
            sentences.append(f"{regime.capitalize()}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _describe_teachers(sample: Sample) -> list[str]:
    parts = []
    for name, arm in sample.arms.items():
        teaching = sample.arms.get(f"{figures.TEACHING}{name}")
        if teaching is not None and arm.sound and teaching.sound:
            grokked = np.isfinite(teaching.times()).sum()
            error = float(np.median(arm.values("target_error")))
            who = name.removeprefix("teacher").lstrip(", ")
            parts.append(f"{who} {grokked} of {len(teaching.rows)} (D {error:.2g})")
    return parts


def _describe_late(sample: Sample) -> list[str]:
    waits = []
    for arm in (sample.arms[name] for name in (EARLY, AT, LATE, LATER) if name in sample.arms):
        if arm.sound:
            start = arm.spec.prior.start
            middle = median_time(arm.times()) - start
            waits.append(f"{state_time(middle)} (from {start:,})")
    return waits


def beats_decay(arm: str) -> Faster:
    return Faster(arm, BASELINE, least=1.25)


def keeps(arm: str, least: float = 0.5) -> GainKept:
    return GainKept(arm, PRIOR, BASELINE, least)


STUDY = study(
    "priors",
    tests={
        "entropy beats decay": beats_decay(undirected("entropy", JUDGED)),
        "sparsity beats decay": beats_decay(undirected("sparsity", JUDGED)),
        "teacher beats decay": beats_decay(TEACHER),
        "fading prior beats decay": beats_decay(FADING),
        "late start works": beats_decay(LATE),
        "directed is strongest": Faster(PRIOR, UNDIRECTED, least=0.9),
        "oracle matches teacher": Faster(PRIOR, TEACHER, least=0.9, control=TEACHER),
        "teacher keeps the gain": keeps(TEACHER),
        "teacher of another seed": keeps(OTHER_SEED),
        "teacher of another modulus": keeps(OTHER_MODULUS),
        "teacher of another width": keeps(OTHER_WIDTH),
        "teacher from constant distractors": keeps(CLEAN),
        "the teacher must have grokked": Faster(TEACHER, UNRIPE, least=1.25),
        "very late start works": beats_decay(LATER),
        "inferred prior keeps the gain": keeps(INFERRED, 0.9),
    },
    numbers={"PATIENCE": PATIENCE, "MODULUS": MODULUS},
    settings=only(),
    arms=arms,
    draw=figures.draw_priors,
    read=read,
    summarise=summarise,
)
