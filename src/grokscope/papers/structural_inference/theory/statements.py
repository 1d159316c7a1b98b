"""The fifteen statements of the paper in words, and the functions that compute them."""

from __future__ import annotations

import re
from types import FunctionType
from typing import NamedTuple

from grokscope.papers.structural_inference.theory import (
    conditions,
    decay,
    divergence,
    geometry,
    gradient,
)


class Statement(NamedTuple):
    """One statement."""

    number: int
    key: str
    title: str
    sentence: str  # for a newcomer
    formula: str  # LaTeX
    reference: str

    @property
    def functions(self) -> dict[str, FunctionType]:
        """By name, those whose documentation begins with the statement's number."""
        begins = re.compile(rf"Statement {self.number}\b")
        return {
            name: function
            for module in (decay, conditions, geometry, divergence, gradient)
            for name, function in vars(module).items()
            if isinstance(function, FunctionType) and begins.match(function.__doc__ or "")
        }

    @property
    def corrections(self) -> dict[str, str]:
        """Where a function differs from the paper, in the words of its documentation."""
        told = {
            n: (f.__doc__ or "").partition("Differs from the paper: ")
            for n, f in self.functions.items()
        }
        return {name: " ".join(text.split()) for name, (_, found, text) in told.items() if found}


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        number=1,
        key="norm-contraction",
        title="Norm-contractive optimiser",
        sentence="Weight decay pulls the weights towards zero, and one step of the optimiser can "
        "push them out only so far.",
        formula=r"\|W'\|_F^2 \le (1-\eta\lambda)\|W\|_F^2 + \tfrac{\eta}{\lambda}B^2",
        reference="Definition 3.2, eq. (1); propositions B.1 and B.2",
    ),
    Statement(
        number=2,
        key="structural-condition",
        title="Bayesian structural condition",
        sentence="On every input, every token that matters must receive at least a certain share "
        "of the attention.",
        formula=r"\alpha_i(x) \ge \tau \quad \forall i \in I,\ \forall x",
        reference="Definition 4.1, eq. (2)",
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
    ),
    Statement(
        number=4,
        key="closed-form-difference",
        title="Closed-form difference",
        sentence="Changing one token moves what attention passes on only through the attention on "
        "that token, before and after.",
        formula=r"z'-z = b(v'-\mu) - a(v-\mu)",
        reference="Eq. (12) to (14)",
    ),
    Statement(
        number=5,
        key="necessity",
        title="Upper bound: attention is necessary",
        sentence="If a token gets too little attention, two inputs that differ only there look the "
        "same, and no bounded classifier can tell them apart.",
        formula=r"\|z'-z\| \le (a+b)\Delta,\quad a+b \ge \tau = \frac{m}{L_f\Delta}",
        reference="Theorem 4.3, eq. (24) to (27)",
    ),
    Statement(
        number=6,
        key="sufficiency",
        title="Lower bound: when attention suffices",
        sentence="If a token gets enough attention, and about the same before and after it "
        "changes, its change remains visible.",
        formula=r"\|z'-z\| \ge \max(a,b)\,\delta - |b-a|\,\|C\|",
        reference="Eq. (17) and (18)",
    ),
    Statement(
        number=7,
        key="squared-norm-identity",
        title="Squared-norm identity",
        sentence="The distance moved splits exactly into what the change of value does and what "
        "the change of attention does.",
        formula=r"\|bB-aA\|^2 = ab\|B-A\|^2 + (b-a)(b\|B\|^2-a\|A\|^2)",
        reference="Remark A.1, eq. (19) to (21)",
    ),
    Statement(
        number=8,
        key="divergence-threshold",
        title="Divergence threshold",
        sentence="Enough attention on every token that matters means little divergence from the "
        "ideal attention.",
        formula=r"B_\tau \Rightarrow D = \mathrm{KL}(\alpha^*\|\alpha) \le \log\frac{1}{k\tau}",
        reference="Corollary 4.5, eq. (3)",
    ),
    Statement(
        number=9,
        key="explaining-away",
        title="Explaining-away bound",
        sentence="Once the training examples are memorised, attention receives almost no signal to "
        "improve.",
        formula=r"\left|\frac{\partial L}{\partial a_i}\right| "
        r"\le \sqrt{2}\,L_f\,\alpha_i\|v_i-z\|(1-e^{-L}) "
        r"\le \sqrt{2}\,L_f\,\alpha_i\|v_i-z\|\sqrt{L}",
        reference="Lemma 5.1, eq. (4), (29) to (37)",
    ),
    Statement(
        number=10,
        key="plateau",
        title="Plateau length",
        sentence="While nothing but weight decay acts, waiting for the weights to shrink takes a "
        "time inverse to the decay.",
        formula=r"T \ge \frac{\log(\|W_{\mathrm{mem}}\|/\rho_{\max})}{-\log(1-\eta\lambda)}",
        reference="Eq. (5), (39) and (40)",
    ),
    Statement(
        number=11,
        key="divergence-gradient",
        title="Divergence gradient",
        sentence="A penalty on the divergence tells every attention score how to improve, however "
        "small the training loss is.",
        formula=r"\frac{\partial D}{\partial a_i} = \alpha_i - \alpha_i^*",
        reference="Eq. (41) to (45)",
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
    ),
    Statement(
        number=15,
        key="pooled-condition",
        title="Multi-head pooled mass",
        sentence="With several heads it is their attention taken together that must cover every "
        "token that matters.",
        formula=r"\sum_h \alpha_i^h \ge \tau_{\mathrm{pool}} \quad \forall i \in I",
        reference="Conjecture E.2, eq. (54) and (55)",
    ),
)
