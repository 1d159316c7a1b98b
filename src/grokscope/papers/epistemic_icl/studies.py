"""The questions of the paper's figures 1 to 5 and 7, and those that it leaves open. The same few
runs answer most of them: AdamW and IVON, with many and with few seen tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Level, Separation, Share, Trend
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.epistemic_icl import figures
from grokscope.papers.epistemic_icl.judgements import AlarmLead, OverTheMap
from grokscope.papers.epistemic_icl.quantities import QUESTION, trace
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    DIVERSITY,
    FEW_ADAMW,
    FEW_IVON,
    GENERALISE,
    IVON,
    MEMORISE,
    SHARES,
    ask,
    by_ivon,
    main_arms,
    settings,
    with_tasks,
)
from grokscope.spec import InContextSpec
from grokscope.store import Run

METHODS = {ADAMW: "Laplace after AdamW", IVON: "IVON"}
KINDS = dict(zip(("adamw", "ivon"), METHODS.values(), strict=True))
SEEDS: Mapping[ScaleName, int] = {"smoke": 1, "laptop": 5, "paper": 4}
EARLY = Event("peak_first", "have their EU peak before they generalise")
PEAK = Event("eu_peak", "have an EU peak", "step of the EU peak")


def trace_with_accuracy(run: Run) -> pl.DataFrame:
    """Uncertainty at the rows where it was measured, with the accuracies there."""
    beside = run.curve.select(pl.col("epoch").cast(int), *figures.ACCURACIES, "parameter_norm")
    rows = trace(run).select(pl.col("epoch").cast(int), *figures.UNCERTAINTY)
    return rows.join(beside, on="epoch", how="inner")


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
    how="AdamW with a last-layer Laplace at 30 snapshots, and IVON with its own posterior at every "
    "row; with many seen tasks, and with so few that unseen ones cannot be reached. The four cells "
    "are shown, so that memorising and waiting can be seen (the paper shows one cell). A peak "
    "counts only if EU, smoothed over five rows, falls to half of it later.",
    settings=settings(),
    arms=main_arms,
    claims=(
        *(
            Claim(
                f"peak first, {arm}",
                f"{words}: EU peaks before unseen tasks are reached.",
                Share(arm, "most", event=EARLY, given=GENERALISE),
            )
            for arm, words in METHODS.items()
        ),
        *(
            ask(
                f"no peak without generalisation, {arm}",
                f"{METHODS[many]}: runs that never generalise have no EU peak (falsifier i).",
                Share(arm, "few", event=PEAK, control=many),
            )
            for arm, many in ((FEW_ADAMW, ADAMW), (FEW_IVON, IVON))
        ),
        *(
            ask(
                f"EU is lower before, {arm}",
                f"{words}: EU while accuracy is at chance is below EU at the end (so that a low "
                "level alone does not tell that a network generalises).",
                Level(
                    arm,
                    "eu_growth",
                    "ratio of EU, end over chance",
                    low=1.0,
                    logarithmic=True,
                    absent="have no rows at chance",
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
    seeds=SEEDS,
)


def map_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    scale, found = setting.scale, {}
    for tasks in DIVERSITY[scale]:
        for share in SHARES[scale]:
            spec = with_tasks(
                setting.baseline(seed), scale, tasks, **{"task.train_fraction": share}
            )
            found[f"AdamW, {tasks} tasks, {share:.0%} of pairs"] = spec
            found[f"IVON, {tasks} tasks, {share:.0%} of pairs"] = by_ivon(spec)
    return found


def _along_tasks(kind: str, column: str, **bounds: Any) -> Trend:
    """How a final number goes with the number of seen tasks, by one method."""

    def tasks(arm: ArmRuns) -> float | None:
        return float(arm.spec.task.tasks) if arm.spec.optimiser.kind == kind else None

    final = Event(column, "have a number", column.replace("_", " "))  # in the place of a time
    return Trend(tasks, "seen tasks", final, censored=False, **bounds)


DIVERSITY_MAP = Study(
    name="diversity",
    source="Figures 2 and 3",
    title="How many tasks, how many pairs",
    paper_says="Unseen tasks are reached once enough tasks are seen, at every share of pairs; "
    "unseen tasks with unseen pairs need both. Final EU falls sharply between few and many tasks, "
    "while AU stays high.",
    how="Final accuracy, EU and AU over seen tasks and pairs, by both methods.",
    settings=settings(),
    arms=map_arms,
    claims=(
        *(
            Claim(
                f"tasks help, {kind}",
                f"{words}: the more tasks are seen, the better are unseen tasks with seen pairs.",
                _along_tasks(kind, "ood_train_final_accuracy", low=0.2),
            )
            for kind, words in KINDS.items()
        ),
        *(
            Claim(
                f"EU falls with tasks, {kind}",
                f"{words}: the more tasks are seen, the lower is final EU on unseen pairs.",
                _along_tasks(kind, "id_val_final_eu_corrected", high=-0.2),
            )
            for kind, words in KINDS.items()
        ),
        *(
            Claim(
                f"AU does not fall with tasks, {kind}",
                f"{words}: final AU on unseen pairs does not fall with the number of seen tasks.",
                _along_tasks(kind, "id_val_final_au", low=-0.2),
            )
            for kind, words in KINDS.items()
        ),
        Claim(
            "AdamW reaches further than IVON",
            "Laplace after AdamW is right about unseen tasks with unseen pairs in a wider region "
            "than IVON.",
            OverTheMap("ood_val_final_accuracy", "accuracy on unseen tasks and pairs", low=0.02),
        ),
    ),
    draw=figures.draw_map,
    caption="Medians over seeds at the end of training; behind “of”, the accuracy of the optimal "
    "predictor that knows all tasks.",
    seeds={"smoke": 1, "laptop": 2, "paper": 4},
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
    "are certain: "
    "the optimum's total uncertainty stands beside the networks' AU.",
    settings=settings(),
    arms=main_arms,
    claims=(
        *(
            Claim(
                f"EU peaks at two or three, {arm}",
                f"{words}: EU is largest with two or three examples.",
                Level(arm, "context_peak", "number of examples with the largest EU", 1.5, 3.5),
            )
            for arm, words in METHODS.items()
        ),
        *(
            Claim(
                f"accuracy rises, {arm}",
                f"{words}: accuracy with all examples is above that with one.",
                Level(arm, "context_gain", "gain in accuracy", low=0.05),
            )
            for arm, words in METHODS.items()
        ),
    ),
    draw=figures.draw_context,
    caption="Medians over seeds; dashed, the optimal predictor with all tasks and with the seen "
    "tasks for its prior.",
    seeds=SEEDS,
)

NOISE = Study(
    name="noise",
    source="Figure 5",
    title="Wrong labels in context",
    paper_says="With more wrong labels accuracy falls, AU rises about in proportion, and EU rises "
    "too, more so for Laplace than for IVON.",
    how="Each label of the context is replaced by a uniform token with some probability; the "
    "question stays clean. The optimal predictor knows that probability. It is not even close to "
    "linear, so “in proportion” is judged as a rise.",
    settings=settings(),
    arms=main_arms,
    claims=(
        *(
            Claim(
                f"{name} rises with noise, {arm}",
                f"{words}: {name} rises with the share of wrong labels.",
                Level(arm, f"noise_slope_{column}", f"slope of {name}, nats", low=0.0),
            )
            for arm, words in METHODS.items()
            for name, column in (("AU", "au"), ("EU", "eu_corrected"))
        ),
        Claim(
            "EU rises more for Laplace",
            "EU rises more with wrong labels for Laplace after AdamW than for IVON.",
            Level(ADAMW, "noise_slope_eu_corrected", "slope of EU, nats", low=0.0, reference=IVON),
        ),
    ),
    draw=figures.draw_noise,
    caption="Medians over seeds; dashed, the optimal predictor.",
    seeds=SEEDS,
)


def decay_arms(setting: Setting, seed: int) -> Mapping[str, InContextSpec]:
    """The paper's methods differ a millionfold in decay: here each is tried with the other's."""
    plain = setting.baseline(seed)
    decays = (0.0, 0.1, 0.3)
    found = {f"AdamW, decay {d:g}": plain.replace(**{"optimiser.weight_decay": d}) for d in decays}
    # IVON's decay enters through its prior: delta / h is the rate of shrinking.
    for delta in (1e-6, 1e-5, 1e-2):
        found[f"IVON, delta {delta:g}"] = by_ivon(plain, **{"optimiser.weight_decay": delta})
    own = float(plain.task.sample_size)
    found["IVON, own sample size"] = by_ivon(plain, **{"optimiser.sample_size": own})
    return found


DECAY = Study(
    name="decay",
    source="Beyond the paper",
    title="Is it the method or the decay?",
    paper_says="Laplace after AdamW generalises over a wider region than IVON. (AdamW has decay 1, "
    "IVON 1e-6.)",
    how="AdamW without decay and with more; IVON with the two decays that the paper states and a "
    "much larger one; IVON with its own count of examples.",
    settings=settings(),
    arms=decay_arms,
    claims=(
        ask(
            "AdamW needs no decay",
            "AdamW without decay generalises, too.",
            Share("AdamW, decay 0", "most"),
        ),
        ask(
            "delta does not matter",
            "IVON's final accuracy is the same with the two deltas that the paper states.",
            Level(
                "IVON, delta 1e-05",
                "ood_val_final_accuracy",
                "accuracy",
                -0.05,
                0.05,
                reference="IVON, delta 1e-06",
            ),
        ),
    ),
    draw=figures.draw_map,
    caption="As in the map.",
    seeds={"smoke": 1, "laptop": 3, "paper": 4},
)

ALARM = Study(
    name="alarm",
    source="Section 6",
    title="EU as an alarm",
    paper_says="EU is a label-free diagnostic of generalisation. (No threshold and no comparison.)",
    how="An alarm that needs no label: a signal has fallen by some share of its running maximum. "
    "Each signal gets the level at which at most a fifth of the runs that never generalise raise "
    "it, and is judged by how much of the wait is left when it goes off.",
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
        ask(
            "EU level separates",
            "The level of EU in the first quarter tells runs that will generalise from those that "
            "will not (falsifier ii: expected not to).",
            Separation("eu_early", "early EU", 0.75, lambda arm: True),
        ),
    ),
    draw=figures.draw_alarms,
    caption="Share of runs in which a signal falls by so much of its maximum so far.",
    seeds=SEEDS,
)

STUDIES = (TRAJECTORIES, DIVERSITY_MAP, CONTEXT, NOISE, DECAY, ALARM)
