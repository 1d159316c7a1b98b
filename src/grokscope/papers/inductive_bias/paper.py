"""Explaining grokking through the lens of inductive bias (arXiv 2602.06702) as studies."""

from __future__ import annotations

from grokscope.claims.studies import Paper
from grokscope.papers.inductive_bias import (
    compression,
    decay,
    depth,
    entropy,
    laziness,
    norm_parts,
    placement,
    rates,
    readout,
    readout_rescaled,
    rms,
    shortcut,
    symmetric_split,
)
from grokscope.papers.inductive_bias.quantities import summarise
from grokscope.papers.inductive_bias.settings import REGIMES

# In the order of the page.
MAIN = (placement, shortcut, entropy, rates, decay, readout_rescaled, readout, compression)
APPENDIX = (rms, depth, laziness, symmetric_split, norm_parts)

PAPER = Paper(
    name="inductive-bias",
    title="Grokking through the Lens of Inductive Bias",
    reference="arXiv 2602.06702",
    summary="A transformer of one block learns to add modulo a prime. It fits its training pairs "
    "at once and gets unseen ones right thousands of steps later. The paper asks what in the "
    "architecture and in the optimiser decides when: where a LayerNorm stands, and what it keeps "
    "the network from leaning on; learning rate, weight decay and the scale of the outputs. It "
    "reads the outcome off how compressible the features have become, and argues that the usual "
    "picture, from lazy to rich training, does not fit adaptive optimisers.",
    studies=tuple(module.STUDY for module in (*MAIN, *APPENDIX)),
    regimes=REGIMES,
    deviations=(
        "Paper scale is the authors' set-up: modulo 113, width 128, four heads, one block, 512 "
        "hidden units, 114 outputs, exact GELU, AdamW (0.9, 0.98), decay 1 on everything, full "
        "batch, 10,000 steps, their split (Python's shuffle) and their seeds. Initial weights "
        "follow their rules but are drawn by JAX, so that a seed shares its data with theirs and "
        "not its weights.",
        "Laptop scale is modulo 53 with 50 % of the pairs trained on, width 64, 256 hidden units, "
        "learning rate 0.002 and 3,000 steps, chosen on pilots of seeds 1 to 4 (seed 4 with 45 % "
        "only), which are not judged (`results/inductive-bias-pilots.csv`): with 50 % no LN "
        "generalises in each by step 1,025. Learning rates of the sweep are the authors', decay "
        "divided so that the product is 0.002. Three layers have half the width, as in the paper.",
        "Train and test losses are measured every 25 steps (10 at smoke scale, 1 or 5 where the "
        "start of training is timed), not at every step. A time is late by up to that, and by more "
        "where the test loss leaps: a first dip below 0.01 between two rows is not seen.",
        "Times are per seed. The main one is the first row with a test accuracy of 0.995 or more, "
        "the rule of the authors' figures 2b, 2c and 6c; their other rule, a test loss of 0.01, is "
        "in the side-by-side tables, and both are in the text under Figure 1 with ours (accuracy "
        "0.95 for three rows). The authors threshold the mean over seeds, which is close to their "
        "slowest seed; the side-by-side tables have that rule too, on curves thinned to 120 rows.",
        "The authors create two LayerNorms in every variant and count the unused one's gains in "
        "the parameter norm; ours holds only what is used.",
        "The unnamed activation is GELU, as the size of the first published updates shows; ReLU, "
        "the default of the released code's last version, is a setting of its own.",
        "Cross-entropy is computed in 64 bits, as theirs was on a GPU.",
        "SR-train keeps the variant's own attention and norms; the authors' probe, which removes "
        "them, is given beside it. Effective rank and exponents are taken on test features as in "
        "their released numbers; those of training features are in the tables.",
        "Falls of SR-train, onsets of effective rank and exponent, and the lowest rank are those "
        "of runs that generalise, onsets and lowest rank of looks since the training examples "
        "were fitted: others have no number. The authors take all; the side-by-side tables follow "
        "their rule.",
        "The tangent kernel is class-centred, on 32 training examples. Theirs is that of the sum "
        "of all outputs, the one direction that softmax ignores.",
        "On a laptop, runs that only ask for a time (learning rates, factors on the outputs, "
        "interventions on attention, RMSNorm, the symmetric split, parts of the norm) end 500 "
        "steps after their test accuracy first is 0.995.",
        "Kept weights are looked at every 200 steps (50 at laptop scale, 150 with fewer pairs).",
    ),
    revisions=(
        "After Figures 1 to 3a and 6 had been judged at laptop scale with 40 % of the pairs and a "
        "learning rate of 0.003, chosen on a single pilot: no LN generalised in one of five seeds, "
        "so that most claims could not be tested. The setting was chosen anew on other seeds, and "
        "the old one is the regime “fewer pairs” of Figure 1. In both, the last layer was by "
        "mistake computed in 64 bits until then; all runs were trained again in 32.",
        "After the first seed of Figure 1 at laptop scale had been seen: the main time was the "
        "test loss of 0.01 and became the test accuracy of 0.995. Variants with a norm before the "
        "MLP leap so often that their loss, measured every 25 steps, was never seen at 0.01 in two "
        "of seven runs (M+A*, M+A^v), although both had generalised (steps 1,125 and 225).",
        "After gradient descent had been tried on seed 456, which is judged: its learning rate of "
        "0.1 was chosen there (2 diverges), and the control of laziness times the first 3 % of the "
        "training loss, not half of it, which gradient descent does not reach in the budget.",
        "After a review, when the runs of Figures 1, 3a and 6 had been seen in both regimes: "
        "whether embeddings end periodic is judged at the end of training and for each placement, "
        "since A* reaches a C_Fourier of 1 and falls below it again; A^v has to fall less than M "
        "as well; falls, onsets and least ranks count in runs that generalise only; slingshots in "
        "three layers are compared with one layer; uniform attention has to help A^qk more than "
        "no LN. Looks at kept weights were made three times as frequent, and runs end early by "
        "the accuracy that is judged. The runs of these figures were trained again, to the same "
        "curves.",
    ),
    glossary={
        "no LN, M, A*, A^qk, A^v": "Where LayerNorms stand: nowhere, before the MLP, before "
        "attention, before its queries and keys alone, before its values alone; + joins two.",
        "generalise": "A test accuracy of 0.995 is reached. Fit: a training loss of 0.01 is.",
        "the wait": "From the fit to generalisation, or to the end of the budget.",
        "C_Fourier": "Variance over frequencies of the mean amplitude of the embeddings' Fourier "
        "transform, over the variance within frequencies: about 1/width for random embeddings, "
        "above 1 for periodic ones.",
        "SR-train": "Training loss with the input of the MLP scaled to norm one.",
        "α": "A factor on the outputs, in training and test.",
        "effective rank": "exp of the entropy of the eigenvalues of the features' z'z, as shares.",
        "power-law exponent": "Of the density of the largest eigenvalues: low means a heavy tail.",
        "tangent kernel": "Inner products of the outputs' gradients between examples; it stays put "
        "in lazy training.",
        "oracle": "Attention at “=” with one half on each operand.",
        "mirror image": "(b, a) of a test pair (a, b): if it was trained on, knowing that addition "
        "commutes is enough.",
        "slingshot": "A leap of the loss after the network has fitted or generalised.",
    },
    summarise=summarise,
    brief=True,
    picture="placement",
    story=(
        {
            "study": "placement",
            "claim": "M beats no LN",
            "says": "A LayerNorm before the MLP makes the network generalise several times sooner.",
            "why": "After 300 steps in place of 1,625 (medians of ten seeds). With another norm "
            "before attention (M+A*) it is slower than with that one alone.",
        },
        {
            "study": "placement",
            "claim": "A^qk does not generalise",
            "says": "A norm before queries and keys alone keeps it from generalising.",
            "why": "It generalised in four seeds of ten, without any norm in eight: later, but ten "
            "seeds are too few to tell whether most fail.",
        },
        {
            "study": "shortcut",
            "claim": "no LN leans on scale",
            "says": "Without a norm the network leans on how large the MLP's input is.",
            "why": "Scaled to norm one, even training examples are wrong. Whether that rises while "
            "it memorises and falls when it generalises is open.",
        },
        {
            "study": "decay",
            "claim": "higher decay is faster",
            "says": "More weight decay generalises sooner.",
            "why": "It does, and ends with features of a lower rank and a heavier tail.",
        },
        {
            "study": "readout",
            "claim": "larger α is faster",
            "says": "A larger factor on the outputs, which should make training lazy, makes it "
            "generalise sooner at a fixed learning rate.",
            "why": "With Kaiming's initial weights it does; with the authors' five seeds are too "
            "few. The first update does not depend on the factor, as the paper argues.",
        },
        {
            "study": "compression",
            "claim": "rank follows the order",
            "says": "Variants that generalise sooner compress their features sooner.",
            "why": "Open: without a norm too few seeds generalise in 3,000 steps to rank it.",
        },
    ),
    marks="In every figure a dot is a run that reached what the axis shows, a triangle one that "
    "had not when its budget ended, a cross one that failed.",
)
