"""Figure 10: does the story hold on other tasks?

Sizes were chosen on one or two short runs per task, so that a run without help memorises within
its budget and its attention is misled at first; thresholds were not. With three operands a run
groks at once where distractors have 4 tokens, and not within 2,500 epochs where they have 8. A
parity network without help memorises 500 examples, but not 1,000. Permutations were not seen to
grok.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from grokscope.claims.evidence import ArmRuns, Evidence, Sample
from grokscope.claims.judgements import Everywhere, Faster
from grokscope.claims.studies import Setting
from grokscope.claims.verdicts import Finding
from grokscope.papers.structural_inference import figures, settings
from grokscope.papers.structural_inference.certificates import checks
from grokscope.papers.structural_inference.explaining_away import SNAPSHOTS, inspect
from grokscope.papers.structural_inference.four_phases import starves
from grokscope.papers.structural_inference.quantities import STRUCTURED
from grokscope.spec import RunSpec
from grokscope.store import Run

NONE, PRIOR = "no prior", "oracle"
ADDITION = "addition"
RATIO = "ratio of a gradient to its bound"
NO_PLATEAU = "have no plateau: they do not memorise, or something moves at once"
# Addition modulo 43 where routing is the bottleneck, and what differs from it.
USUAL = {"task.alphabet": 6, "training.snapshots": SNAPSHOTS}
TASKS = (ADDITION, "multiplication", "three operands", "parity", "permutations")


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    helped = setting.variant(seed, settings.ORACLE)
    if setting.regime == ADDITION:  # figure 5 follows it to the end: one run for both
        helped = helped.replace(**{"training.stop": "never"})
    return {NONE: setting.baseline(seed), PRIOR: helped}


def summarise(run: Run) -> dict[str, float | None]:
    """The task's largest gradient on a single attention logit over its bound (Lemma 5.1), over all
    training examples, positions and snapshots; and the share of the inputs on which attention is
    right when the run has memorised."""
    numbers: dict[str, float | None] = {}
    numbers["bound_ratio"] = float(inspect(run.path)["ratio_worst"].max())
    memorised = run.outcome["memorised"]["epoch"]
    if memorised is not None:
        row = run.curve.row(by_predicate=pl.col("epoch") == memorised, named=True)
        numbers["right_at_memorisation"] = row["structure_share"]
    return numbers


def read(evidence: Evidence) -> str:
    """Each task in a sentence: memorised, misled, grokked."""
    return " ".join(_describe(task, sample) for task, sample in evidence.finished())


def _describe(task: str, sample: Sample) -> str:
    words, without, given = settings.PROSE.reading("tasks"), sample.arms[NONE], sample.arms[PRIOR]
    memorised = np.isfinite(without.times(settings.MEMORISED)).sum()
    learnt = words["never"].format(budget=sample.budget)
    if memorised:
        share = 100 * np.nanmedian(without.values("right_at_memorisation"))
        learnt = words["learnt"].format(memorised=memorised, all=len(without.rows), share=share)
    fates = {"without": _fate(without), "given": _fate(given)}
    return words["says"].format(task=task.capitalize(), learnt=learnt, **fates)


def _fate(one: ArmRuns) -> str:
    count = f"{np.isfinite(one.times()).sum()} of {len(one.rows)} grok"
    middle = settings.median_epoch(one)
    return count if middle == "never" else f"{count} (median epoch {middle})"


class FasterWhereMisled(Faster):
    """The same, but only where attention was wrong when the run without help had memorised."""

    def describe(self) -> str:
        return (
            f"{super().describe()} Untestable where attention is right on "
            f"{100 * STRUCTURED:.0f} % of the inputs by memorisation in half of the runs without a "
            "prior or more: there is nothing to route."
        )

    def judge(self, sample: Sample) -> Finding:
        right = sample.arms[NONE].values("right_at_memorisation") >= STRUCTURED  # no number: wrong
        if right.mean() >= 0.5:
            early = f"attention of {int(right.sum())} of {len(right)} runs without a prior is right"
            remark = f"routing is not the bottleneck: {early} by memorisation"
            return Finding("untestable", remark=remark)
        return super().judge(sample)


STUDY = settings.study(
    "tasks",
    tests={
        "gradient within its bound": Everywhere("bound_ratio", RATIO, 1 + checks.ROUNDING),
        "gradient starves on every task": starves(NONE, NO_PLATEAU),
        "prior accelerates the misled": FasterWhereMisled(PRIOR, NONE, least=1.25),
        "tasks are memorised": settings.most(NONE, event=settings.MEMORISED),
    },
    numbers={"SNAPSHOTS": SNAPSHOTS},
    settings=settings.on_laptop({name: {**USUAL, **settings.FIELDS[name]} for name in TASKS}),
    arms=arms,
    draw=figures.draw_tasks,
    read=read,
    summarise=summarise,
)
