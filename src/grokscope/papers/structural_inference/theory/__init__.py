"""The equations of "Grokking as Structural Inference" (arXiv 2605.15787) as pure functions.

Every function takes NumPy, JAX or PyTorch arrays, states its formula, equation and units, and says
under "Differs from the paper" where the published form does not hold. Nothing else of the project
is imported. Attention, oracle and scores are (..., T), values (..., T, d), pooled (..., d), and the
classifier is f(z) = W_2 relu(W_1 z + b_1) + b_2.

 1  Norm-contractive optimiser            `squared_norm_bound`, `norm_bound`, `norm_floor`,
                                          `sgd_update_bound`, `adam_ratio_bound`,
                                          `adamw_update_bound`, `lion_update_bound`,
                                          `muon_update_bound`
 2  Bayesian structural condition         `weakest_weight`, `structural_condition`,
                                          `structural_summary`
 3  Goldilocks norm condition             `norm_condition`, `parameter_norm`, `spectral_norm`,
                                          `lipschitz_bound`, `lipschitz_bound_from_norm`
 4  Closed-form difference                `pooled_difference`, `distractor_centroid`,
                                          `rescaling_factor`
 5  Upper bound: attention is necessary   `difference_upper_bound`, `value_spread`,
                                          `separation_from_margin`, `mass_threshold`,
                                          `pair_condition`
 6  Lower bound: when attention suffices  `difference_lower_bound`
 7  Squared-norm identity                 `squared_difference`, `aligned_lower_bound`,
                                          `mismatched_lower_bound`
 8  Divergence threshold                  `structural_divergence`, `divergence_bound`,
                                          `sufficient_divergence`
 9  Explaining-away bound                 `explaining_away_bound`, `loose_explaining_away_bound`,
                                          `sharp_explaining_away_bound`,
                                          `relu_explaining_away_bound`, `score_gradient`,
                                          `relu_score_gradient`, `output_error_bound`,
                                          `pinsker_error_bound`
10  Plateau length                        `plateau_lower_bound`, `plateau_upper_estimate`
11  Divergence gradient                   `divergence_gradient`, `relu_divergence_gradient`
12  Decay of the divergence               `squared_gap`, `polyak_lojasiewicz_ratio`,
                                          `polyak_lojasiewicz_constant`, `squared_gap_bound`,
                                          `exponential_envelope`, `hyperbolic_envelope`
13  KL delay                              `exponential_delay`, `delay_bound`, `uniform_start_delay`
14  Score variance                        `score_variance`, `score_variance_bound`,
                                          `context_spread`, `variance_contraction`,
                                          `uniformity_bound`
15  Multi-head pooled mass                `pooled_mass`, `pooled_condition`, `multihead_upper_bound`

`softmax_attention` and `relu_attention` are the two attentions the statements are about, and
`STATEMENTS` has all fifteen in words.
"""

from grokscope.papers.structural_inference.theory.attention import (
    relu_attention,
    softmax_attention,
)
from grokscope.papers.structural_inference.theory.conditions import (
    StructuralSummary,
    lipschitz_bound,
    lipschitz_bound_from_norm,
    norm_condition,
    parameter_norm,
    pooled_condition,
    pooled_mass,
    spectral_norm,
    structural_condition,
    structural_summary,
    weakest_weight,
)
from grokscope.papers.structural_inference.theory.contraction import (
    norm_bound,
    norm_floor,
    plateau_lower_bound,
    plateau_upper_estimate,
    squared_norm_bound,
)
from grokscope.papers.structural_inference.theory.convergence import (
    delay_bound,
    exponential_delay,
    exponential_envelope,
    hyperbolic_envelope,
    polyak_lojasiewicz_constant,
    polyak_lojasiewicz_ratio,
    squared_gap,
    squared_gap_bound,
    uniform_start_delay,
)
from grokscope.papers.structural_inference.theory.divergence import (
    divergence_bound,
    divergence_gradient,
    relu_divergence_gradient,
    structural_divergence,
    sufficient_divergence,
)
from grokscope.papers.structural_inference.theory.geometry import (
    difference_upper_bound,
    distractor_centroid,
    mass_threshold,
    multihead_upper_bound,
    pair_condition,
    pooled_difference,
    rescaling_factor,
    separation_from_margin,
    value_spread,
)
from grokscope.papers.structural_inference.theory.gradient import (
    explaining_away_bound,
    loose_explaining_away_bound,
    output_error_bound,
    pinsker_error_bound,
    relu_explaining_away_bound,
    relu_score_gradient,
    score_gradient,
    sharp_explaining_away_bound,
)
from grokscope.papers.structural_inference.theory.optimisers import (
    NEWTON_SCHULZ_ERROR,
    adam_ratio_bound,
    adamw_update_bound,
    lion_update_bound,
    muon_update_bound,
    sgd_update_bound,
)
from grokscope.papers.structural_inference.theory.separation import (
    aligned_lower_bound,
    difference_lower_bound,
    mismatched_lower_bound,
    squared_difference,
)
from grokscope.papers.structural_inference.theory.statements import (
    STATEMENTS,
    Statement,
)
from grokscope.papers.structural_inference.theory.variance import (
    context_spread,
    score_variance,
    score_variance_bound,
    uniformity_bound,
    variance_contraction,
)

__all__ = [
    "NEWTON_SCHULZ_ERROR",
    "STATEMENTS",
    "Statement",
    "StructuralSummary",
    "adam_ratio_bound",
    "adamw_update_bound",
    "aligned_lower_bound",
    "context_spread",
    "delay_bound",
    "difference_lower_bound",
    "difference_upper_bound",
    "distractor_centroid",
    "divergence_bound",
    "divergence_gradient",
    "explaining_away_bound",
    "exponential_delay",
    "exponential_envelope",
    "hyperbolic_envelope",
    "lion_update_bound",
    "lipschitz_bound",
    "lipschitz_bound_from_norm",
    "loose_explaining_away_bound",
    "mass_threshold",
    "mismatched_lower_bound",
    "multihead_upper_bound",
    "muon_update_bound",
    "norm_bound",
    "norm_condition",
    "norm_floor",
    "output_error_bound",
    "pair_condition",
    "parameter_norm",
    "pinsker_error_bound",
    "plateau_lower_bound",
    "plateau_upper_estimate",
    "polyak_lojasiewicz_constant",
    "polyak_lojasiewicz_ratio",
    "pooled_condition",
    "pooled_difference",
    "pooled_mass",
    "relu_attention",
    "relu_divergence_gradient",
    "relu_explaining_away_bound",
    "relu_score_gradient",
    "rescaling_factor",
    "score_gradient",
    "score_variance",
    "score_variance_bound",
    "separation_from_margin",
    "sgd_update_bound",
    "sharp_explaining_away_bound",
    "softmax_attention",
    "spectral_norm",
    "squared_difference",
    "squared_gap",
    "squared_gap_bound",
    "squared_norm_bound",
    "structural_condition",
    "structural_divergence",
    "structural_summary",
    "sufficient_divergence",
    "uniform_start_delay",
    "uniformity_bound",
    "value_spread",
    "variance_contraction",
    "weakest_weight",
]
