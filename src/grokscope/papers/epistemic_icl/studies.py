"""The questions of the paper's figures 1 to 5 and 7, and those that it leaves open. The same few
runs answer most of them: AdamW and IVON, with many and with few seen tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level, Separation, Share, Trend
from grokscope.claims.studies import Claim, Comparison, Setting, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.judgements import AlarmLead, OverTheMap
from grokscope.papers.epistemic_icl.quantities import QUESTION, trace
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    FEW_ADAMW,
    FEW_IVON,
    GENERALISE,
    IVON,
    LESS,
    MEMORISE,
    PILOTS,
    SOME,
    ask,
    by_ivon,
    main_arms,
    settings,
    with_tasks,
)
from grokscope.spec import InContextSpec
from grokscope.store import Run

METHODS = {ADAMW: "Laplace after AdamW", IVON: "IVON"}
FEWER = {ADAMW: FEW_ADAMW, IVON: FEW_IVON}
KINDS = {ADAMW: "adamw", IVON: "ivon"}
SEEDS: dict[str, Any] = {
    "seeds": {"smoke": 1, "laptop": 5, "paper": 5},
    "most_seeds": {"smoke": 1, "laptop": 10, "paper": 5},
    "pilots": PILOTS,
}
PEAK = Event("eu_peak", "have an EU peak", "step of the EU peak")
NOT_GENERALISED = "do not generalise to unseen tasks"


def trace_with_accuracy(run: Run) -> pl.DataFrame:
    return trace(run).select("epoch", *figures.ACCURACIES, "parameter_norm", *figures.UNCERTAINTY)


def _state_peaks(evidence: Evidence) -> str:
    """EU before and after, and how many peaks there are, arm by arm."""
    return " ".join(
        f"{arm.name}: {np.isfinite(arm.times(GENERALISE)).sum()} of {len(arm.rows)} generalise, "
        f"{np.isfinite(arm.times(PEAK)).sum()} have an EU peak; median EU "
        f"{np.nanmedian(arm.values('eu_early')):.2g} nats in the first quarter, "
        f"{np.nanmedian(arm.values(f'{QUESTION}_final_eu_corrected')):.2g} at the end."
        for sample in evidence.samples.values()
        for arm in sample.arms.values()
        if np.isfinite(arm.values("eu_early")).any()
    )


TRAJECTORIES = Study(
    name="trajectories",
    source="Figures 1 and 7",
    title="Uncertainty over training",
    paper_says="Epistemic uncertainty on unseen tasks rises, peaks before accuracy crosses its "
    "threshold, and collapses when the network generalises.",
    how="AdamW with a last-layer Laplace, and IVON with its own posterior, at the same snapshots; "
    "with many seen tasks, and with so few that unseen ones cannot be reached. The four cells are "
    "shown, so that memorising and waiting can be seen (the paper shows one cell). A peak counts "
    "only if EU, smoothed over five snapshots, falls to half of it later, and if it is at least "
    "0.005 nats and three times the median while accuracy is at chance. “Before” is judged at one "
    "half of the runs, not at the four fifths of our plan: with five seeds no interval is that "
    "narrow.",
    settings=settings(),
    arms=main_arms,
    claims=(
        *(
            Claim(
                f"peak {when}, {arm}",
                f"{words}: in runs that generalise, EU peaks before accuracy on unseen tasks and "
                f"pairs {meaning}.",
                Level(
                    arm,
                    column,
                    "part of the wait that is left at the EU peak (-1 without a peak)",
                    low=0.01,
                    absent=NOT_GENERALISED,
                ),
            )
            for arm, words in METHODS.items()
            for when, column, meaning in (
                ("first", "eu_lead", "is 80 %"),
                ("before the half", "eu_lead_half", "has half of its final value"),
            )
        ),
        *(
            ask(
                f"peak first on seen pairs, {arm}",
                f"{words}: on unseen tasks with seen pairs, EU peaks before accuracy has half of "
                "its final value (asked since unseen pairs may not be reached at all).",
                Level(
                    arm,
                    "eu_lead_seen_pairs",
                    "part of the wait that is left at the EU peak (-1 without a peak)",
                    low=0.01,
                    absent="do not leave chance on unseen tasks",
                ),
            )
            for arm, words in METHODS.items()
        ),
        *(
            ask(
                f"no peak without generalisation, {few}",
                f"{METHODS[arm]}: runs with few tasks that never generalise have no EU peak "
                "(falsifier i).",
                Level(few, "peak_in_vain", "number of peaks", high=0.5, absent="do generalise"),
            )
            for arm, few in FEWER.items()
        ),
        *(
            ask(
                f"EU is lower before, {arm}",
                f"{words}: in runs that generalise, EU while accuracy is at chance is below EU at "
                "the end (so that a low level alone does not tell that a network generalises).",
                Level(
                    arm,
                    "eu_growth",
                    "ratio of EU, end over chance",
                    low=1.0,
                    logarithmic=True,
                    absent="do not generalise, or have no EU at chance",
                ),
            )
            for arm, words in METHODS.items()
        ),
        ask(
            "the wait exists",
            "AdamW: seen tasks and pairs are right in most runs (without which there is nothing to "
            "wait for).",
            Share(ADAMW, "most", event=MEMORISE),
        ),
    ),
    draw=figures.draw_trajectories,
    read=_state_peaks,
    caption="Accuracy in the four cells (the line across is the optimal predictor on new tasks and "
    "pairs), EU and AU on new tasks and pairs, and the weight norm. Medians and ranges over seeds.",
    curve_arms=(ADAMW, IVON, FEW_ADAMW, FEW_IVON),
    trace=trace_with_accuracy,
    **SEEDS,
)


def map_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    """A cross: three numbers of tasks at the share of the main runs, and many tasks at a smaller
    share."""
    many = setting.baseline(seed)
    some = with_tasks(many, SOME[setting.scale])
    less = many.replace(**{"task.train_fraction": LESS[setting.scale]})
    return {
        **main_arms(setting, seed),
        f"{ADAMW}, some tasks": some,
        f"{IVON}, some tasks": by_ivon(some),
        f"{ADAMW}, fewer pairs": less,
        f"{IVON}, fewer pairs": by_ivon(less),
    }


def _along_tasks(kind: str, column: str, **bounds: Any) -> Trend:
    """How a final number goes with the number of seen tasks, by one method."""

    def tasks(arm: ArmRuns) -> float | None:
        chosen = arm.spec.optimiser.kind == kind and not arm.name.endswith("fewer pairs")
        return float(arm.spec.task.tasks) if chosen else None

    final = Event(column, "have a number", column.replace("_", " "))  # in the place of a time
    return Trend(tasks, "seen tasks", final, censored=False, **bounds)


DIVERSITY_MAP = Study(
    name="diversity",
    source="Figures 2 and 3",
    title="How many tasks, how many pairs",
    paper_says="Unseen tasks are reached once enough tasks are seen, at every share of pairs; "
    "unseen tasks with unseen pairs need both. Final EU falls sharply between few and many tasks, "
    "while AU stays high.",
    how="Final accuracy, EU and AU by both methods over a cross: few, some and many seen tasks at "
    "one share of pairs, and many tasks at a smaller share.",
    settings=settings(),
    arms=map_arms,
    claims=(
        *(
            claim
            for arm, words in METHODS.items()
            for claim in (
                Claim(
                    f"high at many tasks, {arm}",
                    f"{words}: with many tasks, unseen tasks with seen pairs are right more than "
                    "half of the time.",
                    Level(arm, "ood_train_final_accuracy", "accuracy", low=0.5),
                ),
                Claim(
                    f"low at few tasks, {arm}",
                    f"{words}: with few tasks, unseen tasks with seen pairs are right less than "
                    "half of the time.",
                    Level(FEWER[arm], "ood_train_final_accuracy", "accuracy", high=0.5),
                ),
                Claim(
                    f"tasks help, {arm}",
                    f"{words}: the more tasks are seen, the better are unseen tasks with seen "
                    "pairs.",
                    _along_tasks(KINDS[arm], "ood_train_final_accuracy", low=0.2),
                ),
                Claim(
                    f"a large share is needed, {arm}",
                    f"{words}: with fewer pairs, unseen tasks with unseen pairs are right less "
                    "often.",
                    Level(
                        arm,
                        f"{QUESTION}_final_accuracy",
                        "accuracy",
                        low=0.1,
                        reference=f"{arm}, fewer pairs",
                    ),
                ),
                Claim(
                    f"EU falls with tasks, {arm}",
                    f"{words}: the more tasks are seen, the lower is final EU on unseen pairs.",
                    _along_tasks(KINDS[arm], "id_val_final_eu_corrected", high=-0.2),
                ),
                Claim(
                    f"AU does not fall with tasks, {arm}",
                    f"{words}: final AU on unseen pairs does not fall with the number of tasks.",
                    _along_tasks(KINDS[arm], "id_val_final_au", low=-0.2),
                ),
                Claim(
                    f"most is EU at few tasks, {arm}",
                    f"{words}: with few tasks, more than half of total uncertainty on unseen pairs "
                    "is epistemic.",
                    Level(FEWER[arm], "id_val_eu_share", "share of EU", low=0.5),
                ),
            )
        ),
        Claim(
            "AdamW reaches further than IVON",
            "Laplace after AdamW is right about unseen tasks with unseen pairs in a wider region "
            "than IVON.",
            OverTheMap(
                f"{QUESTION}_final_accuracy", "accuracy on unseen tasks and pairs", low=0.02
            ),
        ),
    ),
    draw=figures.draw_map,
    caption="Medians over seeds at the end of training; behind “of”, the accuracy of the optimal "
    "predictor that knows all tasks.",
    **SEEDS,
)


CONTEXT = Study(
    name="context",
    source="Figure 4",
    title="How many examples in context",
    paper_says="With more examples in context accuracy rises, AU falls to a floor, and EU first "
    "rises for two or three examples and then falls.",
    how="The final weights answer every question of the measured sequences of new tasks and pairs: "
    "the question after k triples has k examples. The optimal predictor answers the same "
    "questions. What cannot be known in context counts as aleatoric for a network whose weights "
    "are certain: the optimum's total uncertainty stands beside the networks' AU. Claims are "
    "about runs that generalise.",
    settings=settings(),
    arms=main_arms,
    claims=(
        *(
            Claim(
                f"EU peaks at two or three, {arm}",
                f"{words}: EU is largest with two or three examples.",
                Level(
                    arm,
                    "context_peak",
                    "number of examples with the largest EU",
                    1.5,
                    3.5,
                    absent=NOT_GENERALISED,
                ),
            )
            for arm, words in METHODS.items()
        ),
        *(
            Claim(
                f"{name}, {arm}",
                f"{words}: {says}.",
                Level(arm, column, effect, low=0.05, absent=NOT_GENERALISED),
            )
            for arm, words in METHODS.items()
            for name, says, column, effect in (
                (
                    "accuracy rises",
                    "accuracy with all examples is above that with one",
                    "context_gain",
                    "gain in accuracy",
                ),
                (
                    "AU falls",
                    "AU with all examples is below that with one",
                    "context_fall_au",
                    "fall of AU, nats",
                ),
            )
        ),
    ),
    draw=figures.draw_context,
    caption="Medians over seeds; dashed, the optimal predictor with all tasks and with the seen "
    "tasks for its prior.",
    **SEEDS,
)

NOISE = Study(
    name="noise",
    source="Figure 5",
    title="Wrong labels in context",
    paper_says="With more wrong labels accuracy falls, AU rises about in proportion, and EU rises "
    "too, more so for Laplace than for IVON.",
    how="Each label of the context is replaced by a uniform token with some probability; the "
    "question stays clean. The optimal predictor knows that probability. It is not even close to "
    "linear, so “in proportion” is judged as a rise. Both posteriors count the same number of "
    "examples, so that their EU can be compared. Claims are about runs that generalise.",
    settings=settings(),
    arms=main_arms,
    claims=(
        *(
            Claim(
                f"{name} rises with noise, {arm}",
                f"{words}: {name} rises with the share of wrong labels.",
                Level(
                    arm,
                    f"noise_slope_{column}",
                    f"slope of {name}, nats",
                    low=0.0,
                    absent=NOT_GENERALISED,
                ),
            )
            for arm, words in METHODS.items()
            for name, column in (("AU", "au"), ("EU", "eu_corrected"))
        ),
        *(
            Claim(
                f"accuracy falls with noise, {arm}",
                f"{words}: accuracy falls with the share of wrong labels.",
                Level(
                    arm,
                    "noise_slope_accuracy",
                    "slope of accuracy",
                    high=-0.1,
                    absent=NOT_GENERALISED,
                ),
            )
            for arm, words in METHODS.items()
        ),
        Claim(
            "EU rises more for Laplace",
            "EU rises more with wrong labels for Laplace after AdamW than for IVON.",
            Level(
                ADAMW,
                "noise_slope_eu_corrected",
                "slope of EU, nats",
                low=0.0,
                reference=IVON,
                absent=NOT_GENERALISED,
            ),
        ),
    ),
    draw=figures.draw_noise,
    caption="Medians over seeds; dashed, the optimal predictor.",
    **SEEDS,
)


SHRUNK = "IVON, AdamW's decay"
KEPT = "AdamW, no decay"


def decay_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    """The paper's methods differ a millionfold in decay: here each is tried with the other's. Per
    step AdamW's weights shrink by lr decay, IVON's by lr_ivon (h0 + delta) delta / (h + delta),
    which is lr_ivon delta while h stays near h0 = 1."""
    plain = setting.baseline(seed)
    ivon = by_ivon(plain)
    delta = plain.optimiser.lr * plain.optimiser.weight_decay / ivon.optimiser.lr
    return {
        ADAMW: plain,
        KEPT: plain.replace(**{"optimiser.weight_decay": 0.0}),
        IVON: ivon,
        SHRUNK: by_ivon(plain, **{"optimiser.weight_decay": delta}),
    }


def _list_decays(evidence: Evidence) -> Comparison:
    return Comparison(
        ("arm", "decay", "generalise", "accuracy, new tasks", "accuracy, both new"),
        tuple(
            (
                arm.name,
                f"{arm.spec.optimiser.weight_decay:g}",
                f"{np.isfinite(arm.times(GENERALISE)).sum()} of {len(arm.rows)}",
                *(
                    f"{figures.median(arm, f'{cell}_final_accuracy'):.2f}"
                    for cell in ("ood_train", "ood_val")
                ),
            )
            for sample in evidence.samples.values()
            for arm in sample.arms.values()
        ),
    )


DECAY = Study(
    name="decay",
    source="Beyond the paper",
    title="Is it the method or the decay?",
    paper_says="Laplace after AdamW generalises over a wider region than IVON. (AdamW has decay 1, "
    "IVON 1e-6.)",
    how="AdamW without decay, and IVON with a decay that shrinks its weights as fast as AdamW's.",
    settings=settings(),
    arms=decay_arms,
    claims=(
        ask(
            "AdamW needs no decay",
            "AdamW without decay generalises, too.",
            Share(KEPT, "most"),
        ),
        *(
            ask(
                f"AdamW is ahead {how}",
                f"AdamW is right about unseen tasks with unseen pairs more often than IVON {how}.",
                Level(arm, f"{QUESTION}_final_accuracy", "accuracy", low=0.02, reference=reference),
            )
            for how, arm, reference in (
                ("at equal decay", ADAMW, SHRUNK),
                ("where neither decays", KEPT, IVON),
            )
        ),
    ),
    table=_list_decays,
    **SEEDS,
)

ALARM = Study(
    name="alarm",
    source="Section 6",
    title="EU as an alarm",
    paper_says="EU is a label-free diagnostic of generalisation. (No threshold and no comparison.)",
    how="An alarm that needs no label: a signal has fallen below its maximum, or risen above its "
    "minimum so far, by some share (mean of the last five snapshots, the same for all signals). "
    "An alarm in a run that never generalises, or before it has memorised, is false. Each signal "
    "gets the rule that is best on the other seeds with at most a fifth of false alarms, and is "
    "judged by how much of the wait is left when it goes off. Disagreement between seeds, which "
    "is no number of one run, is in docs/epistemic-icl-posteriors.md.",
    settings=settings(),
    arms=main_arms,
    claims=(
        ask(
            "EU is early",
            "EU's alarm leads by a tenth of the wait or more.",
            AlarmLead("eu", least=0.1),
        ),
        *(
            ask(
                f"EU beats {rival}",
                f"EU's alarm leads by more than that of {words}.",
                AlarmLead("eu", rival),
            )
            for rival, words in (
                ("tu", "total uncertainty"),
                ("entropy", "the entropy of a single network"),
                ("parameter_norm", "the weight norm"),
                ("train_loss", "the training loss"),
            )
        ),
        *(
            ask(
                f"low EU tells, {arm}",
                f"{words}: low EU in the first quarter tells runs that will generalise from those "
                "that will not (falsifier ii: expected not to).",
                Separation(
                    "certainty_early",
                    "minus EU",
                    0.75,
                    lambda each, kind=KINDS[arm]: each.spec.optimiser.kind == kind,  # type: ignore[misc]
                ),
            )
            for arm, words in METHODS.items()
        ),
    ),
    draw=figures.draw_alarms,
    caption="Share of runs in which a signal falls below its maximum so far, or rises above its "
    "minimum, by so much.",
    **SEEDS,
)

STUDIES = (TRAJECTORIES, DIVERSITY_MAP, CONTEXT, NOISE, DECAY, ALARM)
