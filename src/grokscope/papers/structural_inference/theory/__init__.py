"""The equations of "Grokking as Structural Inference" (arXiv 2605.15787) as pure functions.

Every function takes NumPy, JAX or PyTorch arrays, states its formula, equation and units, and says
under "Differs from the paper" where the published form does not hold. Nothing else of the project
is imported. Attention, oracle and scores are (..., T), values (..., T, d), pooled (..., d), and the
classifier is f(z) = W_2 relu(W_1 z + b_1) + b_2.

decay       what weight decay does to norms, plateau and scores (1, 10, 14), under each optimiser
conditions  structure, norm, and the multi-head form (2, 3, 15)
geometry    how far one changed token moves the pooled representation (4 to 7, 15)
divergence  the two attentions, the divergence, its gradient and its decay (8, 11, 12, 13)
gradient    the task's gradient on attention (9)
statements  all fifteen in words
"""

# ruff: noqa: F403
from grokscope.papers.structural_inference.theory.conditions import *
from grokscope.papers.structural_inference.theory.decay import *
from grokscope.papers.structural_inference.theory.divergence import *
from grokscope.papers.structural_inference.theory.geometry import *
from grokscope.papers.structural_inference.theory.gradient import *
from grokscope.papers.structural_inference.theory.statements import STATEMENTS, Statement
