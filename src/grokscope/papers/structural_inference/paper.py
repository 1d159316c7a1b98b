"""Grokking as Structural Inference (arXiv 2605.15787) as studies."""

from __future__ import annotations

from grokscope.claims.studies import Paper
from grokscope.papers.structural_inference import (
    acceleration,
    explaining_away,
    four_phases,
    frozen_attention,
    heads,
    lengths,
    norm_structure,
    optimisers,
    priors,
    random_positions,
    regime_map,
    streams,
    tasks,
    theory_page,
    tickets,
    width,
)
from grokscope.papers.structural_inference.quantities import summarise
from grokscope.papers.structural_inference.settings import REGIMES

# In the order of the page.
MAIN = (four_phases, norm_structure, acceleration, tickets, regime_map)
APPENDIX = (explaining_away, priors, random_positions, lengths, width, heads, tasks)
ASSUMPTIONS = (frozen_attention, optimisers, streams)

PAPER = Paper(
    name="structural-inference",
    title="Grokking as Structural Inference",
    reference="arXiv 2605.15787",
    summary="A small transformer can memorise its training examples and get unseen ones right only "
    "thousands of steps later: it groks. The paper explains the wait by attention. The answer "
    "depends on a few positions of the sequence; attention has to find them, as if it inferred the "
    "task's dependency graph. Once the MLP behind it has memorised, hardly any gradient reaches "
    "attention, and it stays wrong until weight decay has shrunk the MLP. A penalty that pulls "
    "attention towards the right positions should therefore end the wait.",
    studies=tuple(module.STUDY for module in (*MAIN, *APPENDIX, *ASSUMPTIONS)),
    regimes=REGIMES,
    deviations=(
        "The paper does not say what its distractors are. We study constant, few-token and noise "
        "distractors, and judge the claims of the main figures in each, except for the ticket's "
        "controls in noise, where no network groks that a ticket could be cut from. Paper scale "
        "has no noise: in trial runs nothing recovered there without a prior, so every question "
        "about waiting would go unanswered. Figures of the appendix say where they are judged.",
        "The learning rate, the grok threshold and the order of the sequence are not given; ours "
        "are 0.001, test accuracy 0.95 for three logged rows in a row, and operands at positions 0 "
        "and 2 of 5.",
        "Laptop scale is addition modulo 43 with 60 % of the pairs trained on, learning rate 0.002 "
        "and 5,000 epochs; paper scale is addition modulo 113, 30 %, 10,000 epochs.",
        "Runs with an intervention end 500 epochs after they have grokked, when their question is "
        "settled. Runs without one continue to the end.",
        "Norm matching projects the MLP, biases included, to the norm measured in generalising "
        "runs; the paper's target is not given.",
        "The strengths of the penalty are 0.01 to 10 on a log grid (four of them at paper scale "
        "with constant distractors); the paper's values were lost.",
        "The lottery ticket keeps two fifths of the MLP's weights; the paper's sparsity is not "
        "given. “With its attention” means that attention is replaced, on every example, by that "
        "of the trained network. The Bayesian ticket starts from the same seeds as the network "
        "that the ticket was cut from, so that the arms can be compared seed by seed; no weights "
        "are passed on. Gradients are clipped together with those of the weights that were cut.",
        "Figures 1 to 4 have five seeds, the map three. At paper scale figures 2 and 4 are run "
        "where routing is the bottleneck, figure 2 with its main arms.",
        "Figure 5 takes the bound with the distance |v - z| as it is. The paper has 2 in its "
        "place, which is right only for values of norm at most 1, and nothing ensures that.",
        "Figures 6 and 7: entropy and sparsity are judged at a strength of 0.1, since at 1, the "
        "oracle's, they leave attention a single position and nothing is memorised. The L1 norm of "
        "attention is always 1, so Σ √α stands for sparsity. The paper does not say who its "
        "teacher is, nor when the penalty fades or sets in; ours are named there.",
        "Figures 9 and 10 are run at laptop scale only. The paper gives no sizes for its other "
        "tasks; ours are stated with the figure, and were chosen on short trial runs so that a run "
        "without help memorises. Composing permutations depends on the order of the operands, "
        "which evenly spread attention cannot see: there the oracle as the paper defines it is not "
        "what the task needs.",
        "With four heads the penalty is the mean over heads, so it pulls every head to the oracle. "
        "The paper's pooled condition is about the sum over heads; ours is about their mean, so "
        "that a position needs the same share of all attention as with one head. How often the sum "
        "suffices is stated under the figure.",
        "Figure 11 is run at laptop scale. Neither the batch sizes and momenta nor the rates and "
        "decays of SGD, Lion and Muon are given; ours are listed with the figure. A batch is drawn "
        "with replacement, and an epoch then means a step. “Fast” and “survives” are judged by the "
        "thresholds of figures 3 and 1.",
        "Figure 8: the paper gives neither the layout of random positions nor its position "
        "encoding. Distractors have tokens of their own, or the label would not be determined; "
        "longer sequences are read by the general transformer, with rotary positions or none.",
        "Appendix G: the paper's sizes were lost. The loss counts every next token; accuracy, "
        "prior and divergence count only the parities, since nothing else can be known. A batch of "
        "512 is drawn, with replacement, from 400 streams.",
    ),
    revisions=(
        "Before the laptop runs had ended: an exponent counts as no number where even the weakest "
        "penalty hardly delays anything. With constant distractors the inverse law would otherwise "
        "have had the exponent 0.05 (0.05 to 2.2): inconclusive as well.",
        "After the laptop runs, a mistake in the fit of the law: a strength at which no run "
        "grokked was treated as if its time had to be close to the budget. In noise the exponent "
        "went from 1.4 to 3.6; both contradict the claim.",
        "After the laptop runs, on review: intervals of few seeds were too short and were widened; "
        "“hardly depends” became two-sided; claims that an arm fails, or that a ticket is matched, "
        "need a control arm that succeeds; the lead of the divergence is no number where attention "
        "was never right. This turned ten laptop verdicts into inconclusive (“matched norm needs "
        "structure” three times, “query-key control” twice, “Bayesian matches lottery” twice, "
        "“lottery ticket wins” once, two of the map), and none into supported or contradicted.",
        "Before the runs of the appendix, on trial runs of one seed: the comparison of the two "
        "conditions of four heads at their threshold was added.",
        "After the runs of the appendix, on review: whether grokking carries over to streams is "
        "asked only if half of the runs memorise, which turned contradicted into inconclusive. The "
        "sentence of the first claim on four heads now says what its test counts; the test is the "
        "same.",
        "The sentences under the figures that compare arms beyond the claims were written after "
        "the runs: they are observations, not tests.",
    ),
    glossary={
        "prior, penalty": "A term λ KL(oracle ‖ attention) that is added to the loss; λ is its "
        "strength.",
        "oracle": "Attention spread evenly over exactly the positions that determine the answer. "
        "An adversarial prior pulls towards the other positions instead.",
        "divergence D": "KL(oracle ‖ attention): 0 where attention is right.",
        "memorised, grokked": "99 % of the training examples, or 95 % of the unseen ones, are "
        "right and stay so.",
        "plateau": "The time after memorisation in which neither test accuracy nor the divergence "
        "moves. A run that moves at once, or never memorises, has none.",
        "contraction in units of the decay": "How fast the norm shrinks, over how fast weight "
        "decay alone would shrink it: 1 is decay alone, 0 a constant norm, below 0 a growing one.",
        "fixed (frozen) attention": "Attention weights that are set, not learned; the rest of the "
        "network learns around them.",
        "shell": "The norms of the MLP at which, according to the paper, a network can generalise.",
        "query-key penalty": "0.5 (|W_Q|² + |W_K|²) added to the loss, which keeps attention close "
        "to uniform.",
        "teacher": "Another trained network whose attention takes the oracle's place.",
        "inferred prior": "The oracle's place is taken by the smallest set of positions that no "
        "two training examples contradict: none agree there and differ in their label.",
        "explaining away": "Once the MLP fits an example by whatever it attends to, its loss no "
        "longer says where attention should be.",
        "attention is right": "99 % of the inputs satisfy the structural condition: every "
        "informative position has at least half of the weight that the oracle gives it.",
        "pooled weight": "What a position gets from all heads together, here as the mean over "
        "heads.",
        "area under the ROC curve": "The chance that, of one run that groks and one that does not, "
        "the first has the larger number: 0.5 is guessing, 1 is perfect.",
        "mirror image": "a + b = b + a: a test pair whose mirror image was trained on can be right "
        "without any understanding.",
    },
    summarise=summarise,
    annexes=(theory_page.ANNEX,),
)
