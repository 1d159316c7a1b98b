"""Epistemic uncertainty and delayed generalisation in context (arXiv 2604.12434) as studies."""

from __future__ import annotations

from grokscope.claims.studies import Paper
from grokscope.papers.epistemic_icl import comparison, theory_page
from grokscope.papers.epistemic_icl.quantities import summarise
from grokscope.papers.epistemic_icl.settings import REGIMES
from grokscope.papers.epistemic_icl.studies import STUDIES

PAPER = Paper(
    name="epistemic-icl",
    title="Epistemic Uncertainty and Delayed Generalisation in In-Context Learning",
    reference="arXiv 2604.12434",
    summary="A transformer reads triples (x, y, z) with z = a x + b y mod p and must infer the "
    "hidden (a, b). It first gets the tasks right that it was trained on, and unseen ones much "
    "later. The paper measures how unsure an approximate posterior over its weights is, and says "
    "that epistemic uncertainty (EU) peaks before unseen tasks are reached and collapses when they "
    "are: a signal that needs no labels. Here every network stands beside the optimal predictor, "
    "which enumerates all tasks. The linear theory and the audit of figure 6 have a page of their "
    "own, docs/epistemic-icl-theory.md.",
    studies=STUDIES,
    regimes=REGIMES,
    deviations=(
        "Laptop scale is p = 7 with 40 of 49 tasks, 80 % of the pairs, 8 triples, two layers of "
        "width 64, batches of 80 and 30,000 steps, in place of p = 29, 512 of 841 tasks, 32 "
        "triples, six layers of width 512, batches of 1,024 and 200,000 steps. The pilots, failed "
        "ones too, are in `results/epistemic-icl-pilots.csv`.",
        "No pair occurs twice in a sequence. The last parallelogram of tasks is cut short so that "
        "the number of seen tasks is exact.",
        "AdamW has decay 0.1 and learning rate 0.002 at laptop scale (the paper: 1 and 0.00015): "
        "with more decay the pilots learned nothing. Arrays with one axis are not decayed.",
        "IVON keeps the paper's 344,576 examples. By the paper's rule, seen pairs times seen "
        "tasks, there would be some 1,600 here, and the noise of its draws would be as large as "
        "the "
        "weights; an arm of the study on decay has it. Of the two decays that the paper gives, "
        "1e-6 is used, and the other is an arm.",
        "Laplace: only the unembedding is drawn, the input embedding stays at its trained value. N "
        "is seen pairs times seen tasks, the prior precision 1; features come from every question "
        "of clean sequences of seen tasks and pairs.",
        "EU from S draws is too small by a term in 1/S, which is removed by Richardson's rule from "
        "S and S/2 draws (S = 64 for Laplace, 16 for IVON).",
        "The grok time, which the paper defines only for its linear model, is the first of three "
        "rows at 80 % accuracy on unseen tasks with unseen pairs.",
        "All seeds share tasks, split and measured sequences, so that they can be an ensemble: "
        "intervals are over initial weights and batches, not over splits.",
    ),
    revisions=("None so far: no laptop run has been judged.",),
    glossary={
        "seen, unseen": "Tasks (a, b) and pairs (x, y) that were or were not trained on; a "
        "sequence has all its pairs from one side.",
        "EU, AU, TU": "Epistemic uncertainty, the mutual information between answer and weights; "
        "aleatoric, the mean entropy of single draws; total, their sum, the entropy of the mean "
        "prediction. In nats.",
        "generalise": "80 % of the last questions on unseen tasks and unseen pairs are right, for "
        "three rows in a row.",
        "optimal predictor": "Bayes' rule over an enumeration of all tasks (or of the seen ones) "
        "that the context may come from.",
    },
    summarise=summarise,
    annexes=(theory_page.ANNEX, comparison.ANNEX),
    marks="Dashed lines are the optimal predictor.",
)
