"""The fifteen statements of the paper in words, each with the functions that compute it.

The paper is "Grokking as Structural Inference: Transformers Need Bayesian Lottery Tickets"
(arXiv 2605.15787). A correction says where its text and the code differ, and why.
"""

from __future__ import annotations

from typing import NamedTuple


class Statement(NamedTuple):
    """One statement; `functions` are names in this package, `correction` may be empty."""

    number: int
    key: str
    title: str
    sentence: str  # for a newcomer
    formula: str  # LaTeX
    reference: str
    functions: tuple[str, ...]
    correction: str


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        number=1,
        key="norm-contraction",
        title="Norm-contractive optimiser",
        sentence="Weight decay pulls the weights towards zero, and one step of the optimiser can "
        "push them out only so far.",
        formula=r"\|W'\|_F^2 \le (1-\eta\lambda)\|W\|_F^2 + \tfrac{\eta}{\lambda}B^2",
        reference="Definition 3.2, eq. (1); propositions B.1 and B.2",
        functions=(
            "squared_norm_bound",
            "norm_bound",
            "norm_floor",
            "sgd_update_bound",
            "adam_ratio_bound",
            "adamw_update_bound",
            "lion_update_bound",
            "muon_update_bound",
        ),
        correction="AdamW's worst coordinate is (1-b1)/sqrt((1-b2)(1-b1^2/b2)), 7.27 at the usual "
        "betas and not 3.16; momentum multiplies SGD's bound by 1/(1-mu); Muon's singular values "
        "reach 1.20 and implementations scale wide matrices up; the norm is sure to shrink only "
        "above B/lambda.",
    ),
    Statement(
        number=2,
        key="structural-condition",
        title="Bayesian structural condition",
        sentence="On every input, every token that matters must receive at least a certain share "
        "of the attention.",
        formula=r"\alpha_i(x) \ge \tau \quad \forall i \in I,\ \forall x",
        reference="Definition 4.1, eq. (2)",
        functions=("weakest_weight", "structural_condition", "structural_summary"),
        correction="",
    ),
    Statement(
        number=3,
        key="norm-condition",
        title="Goldilocks norm condition",
        sentence="The weights behind attention must be large enough to express the rule and small "
        "enough not to magnify noise.",
        formula=r"\rho_{\min} \le \|\theta_{\mathrm{MLP}}\|_F \le \rho_{\max},\quad "
        r"L_f \le \|W_2\|_2\|W_1\|_2 \le \rho_{\max}^2/2",
        reference="Definition 4.2, eq. (23)",
        functions=(
            "norm_condition",
            "parameter_norm",
            "spectral_norm",
            "lipschitz_bound",
            "lipschitz_bound_from_norm",
        ),
        correction="The paper does not say how the norm bounds the Lipschitz constant: by its "
        "square, L_f <= rho^2/2.",
    ),
    Statement(
        number=4,
        key="closed-form-difference",
        title="Closed-form difference",
        sentence="Changing one token moves what attention passes on only through the attention on "
        "that token, before and after.",
        formula=r"z'-z = b(v'-\mu) - a(v-\mu)",
        reference="Eq. (12) to (14)",
        functions=("pooled_difference", "distractor_centroid", "rescaling_factor"),
        correction="The changed position must not be the query position; where it holds all of the "
        "attention, the centroid needs a convention.",
    ),
    Statement(
        number=5,
        key="necessity",
        title="Upper bound: attention is necessary",
        sentence="If a token gets too little attention, two inputs that differ only there look the "
        "same, and no bounded classifier can tell them apart.",
        formula=r"\|z'-z\| \le (a+b)\Delta,\quad a+b \ge \tau = \frac{m}{L_f\Delta}",
        reference="Theorem 4.3, eq. (24) to (27)",
        functions=(
            "difference_upper_bound",
            "value_spread",
            "separation_from_margin",
            "mass_threshold",
            "pair_condition",
        ),
        correction="Necessary is a + b >= tau for pairs, hence only tau/2 for the larger mass; "
        "theorem 4.3 claims tau for every input. In terms of a logit margin kappa, "
        "m = sqrt(2) kappa.",
    ),
    Statement(
        number=6,
        key="sufficiency",
        title="Lower bound: when attention suffices",
        sentence="If a token gets enough attention, and about the same before and after it "
        "changes, its change remains visible.",
        formula=r"\|z'-z\| \ge \max(a,b)\,\delta - |b-a|\,\|C\|",
        reference="Eq. (17) and (18)",
        functions=("difference_lower_bound",),
        correction="The structural condition does not make the representation injective, eq. (28): "
        "different values with different masses can collide, and exact oracle attention cannot "
        "tell exchanged operands apart.",
    ),
    Statement(
        number=7,
        key="squared-norm-identity",
        title="Squared-norm identity",
        sentence="The distance moved splits exactly into what the change of value does and what "
        "the change of attention does.",
        formula=r"\|bB-aA\|^2 = ab\|B-A\|^2 + (b-a)(b\|B\|^2-a\|A\|^2)",
        reference="Remark A.1, eq. (19) to (21)",
        functions=("squared_difference", "aligned_lower_bound", "mismatched_lower_bound"),
        correction="(20) needs the two orderings to align and is not always tighter than (18); "
        "(21) never is.",
    ),
    Statement(
        number=8,
        key="divergence-threshold",
        title="Divergence threshold",
        sentence="Enough attention on every token that matters means little divergence from the "
        "ideal attention.",
        formula=r"B_\tau \Rightarrow D = \mathrm{KL}(\alpha^*\|\alpha) \le \log\frac{1}{k\tau}",
        reference="Corollary 4.5, eq. (3)",
        functions=("structural_divergence", "divergence_bound", "sufficient_divergence"),
        correction="The converse, used for the KL delay, is false; a smaller divergence, given by "
        "sufficient_divergence, does imply the condition.",
    ),
    Statement(
        number=9,
        key="explaining-away",
        title="Explaining-away bound",
        sentence="Once the training examples are memorised, attention receives almost no signal "
        "to improve.",
        formula=r"\left|\frac{\partial L}{\partial a_i}\right| "
        r"\le \sqrt{2}\,L_f\,\alpha_i\|v_i-z\|(1-e^{-L}) "
        r"\le \sqrt{2}\,L_f\,\alpha_i\|v_i-z\|\sqrt{L}",
        reference="Lemma 5.1, eq. (4), (29) to (37)",
        functions=(
            "explaining_away_bound",
            "loose_explaining_away_bound",
            "sharp_explaining_away_bound",
            "relu_explaining_away_bound",
            "score_gradient",
            "relu_score_gradient",
            "output_error_bound",
            "pinsker_error_bound",
        ),
        correction="Values need not have norm 1; the gradient vanishes in proportion to the loss, "
        "not to its root; for linear-ReLU attention the factor alpha_i becomes 1/S on active "
        "positions; batch means must not be put in.",
    ),
    Statement(
        number=10,
        key="plateau",
        title="Plateau length",
        sentence="While nothing but weight decay acts, waiting for the weights to shrink takes a "
        "time inverse to the decay.",
        formula=r"T \ge \frac{\log(\|W_{\mathrm{mem}}\|/\rho_{\max})}{-\log(1-\eta\lambda)}",
        reference="Eq. (5), (39) and (40)",
        functions=("plateau_lower_bound", "plateau_upper_estimate"),
        correction="Exact decay gives the time above; the squared-norm form gives twice that, as "
        "an upper estimate. A lower bound it is only without updates, and normalised optimisers "
        "keep updating when gradients vanish.",
    ),
    Statement(
        number=11,
        key="divergence-gradient",
        title="Divergence gradient",
        sentence="A penalty on the divergence tells every attention score how to improve, however "
        "small the training loss is.",
        formula=r"\frac{\partial D}{\partial a_i} = \alpha_i - \alpha_i^*",
        reference="Eq. (41) to (45)",
        functions=("divergence_gradient", "relu_divergence_gradient"),
        correction="For softmax only. With linear-ReLU attention it is (alpha_i - alpha*_i)/a_i, "
        "and zero for an informative position that is switched off.",
    ),
    Statement(
        number=12,
        key="local-polyak-lojasiewicz",
        title="Decay of the divergence",
        sentence="The further attention is from the ideal, the harder the penalty pulls, so the "
        "divergence keeps falling.",
        formula=r"\|\alpha-\alpha^*\|^2 \ge 2\min_{i\in I}\min(\alpha_i,\alpha_i^*)\,D "
        r"\quad (\alpha = 0 \text{ off } I)",
        reference="Lemma D.1, eq. (48) to (52)",
        functions=(
            "squared_gap",
            "polyak_lojasiewicz_ratio",
            "polyak_lojasiewicz_constant",
            "squared_gap_bound",
            "exponential_envelope",
            "hyperbolic_envelope",
        ),
        correction="For a sparse oracle there is no such constant: mass on distractors makes the "
        "divergence fall like 1/t, not exponentially. Without distractors the constant is the "
        "smallest mass, and 1/k only in the limit.",
    ),
    Statement(
        number=13,
        key="divergence-delay",
        title="KL delay",
        sentence="Twice the penalty halves the bound on the time attention needs to find the "
        "structure.",
        formula=r"T_{\mathrm{KL}} \le \frac{1}{\lambda_{\mathrm{eff}}}"
        r"\int_{D_{\mathrm{target}}}^{D(0)} \frac{\mathrm{d}D}{\|\alpha-\alpha^*\|^2_{\min}(D)}",
        reference="Theorem 5.2, eq. (7) and (53)",
        functions=("exponential_delay", "delay_bound", "uniform_start_delay"),
        correction="The bound is inverse in the strength, as stated (measured times need not be: "
        "figure 3 of the reproduction); the logarithm of D(0)/log(1/(k tau)) "
        "does not hold for sparse oracles, and the target has to be sufficient_divergence.",
    ),
    Statement(
        number=14,
        key="score-variance",
        title="Score variance",
        sentence="Weight decay on the query and key matrices makes softmax attention drift towards "
        "uniform.",
        formula=r"\mathrm{Var}_t(a_t) \le \frac{\|e_q\|^2\,\|M\|_F^2}{d}\,"
        r"\frac{1}{T}\sum_t\|e_t-\bar e\|^2",
        reference="Conjecture E.1, eq. (38)",
        functions=(
            "score_variance",
            "score_variance_bound",
            "context_spread",
            "variance_contraction",
            "uniformity_bound",
        ),
        correction="The bound is a theorem, and pure decay shrinks the variance by "
        "(1-eta lambda)^4 a step; linear-ReLU attention is unmoved by decay; uniform attention is "
        "not the oracle.",
    ),
    Statement(
        number=15,
        key="pooled-condition",
        title="Multi-head pooled mass",
        sentence="With several heads it is their attention taken together that must cover every "
        "token that matters.",
        formula=r"\sum_h \alpha_i^h \ge \tau_{\mathrm{pool}} \quad \forall i \in I",
        reference="Conjecture E.2, eq. (54) and (55)",
        functions=("pooled_mass", "pooled_condition", "multihead_upper_bound"),
        correction="Necessary for pairs, with distances measured after the output projection, but "
        "not sufficient: heads with opposite projections cancel.",
    ),
)
