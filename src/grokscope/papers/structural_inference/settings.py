"""Scales and regimes of the structural-inference paper's studies."""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.claims.studies import ScaleName, Setting
from grokscope.spec import RunSpec, find_recipe

REGIMES = {
    "constant": "The distractor positions always hold the same token, as in classic grokking "
    "set-ups.",
    "bottleneck": "Distractors are drawn from a few operand tokens (8 at paper scale, 6 at laptop "
    "scale): attention is misled at first, and a run without help recovers late or not in time.",
    "noise": "Distractors are drawn from all operand tokens: the network can memorise through the "
    "wrong positions for good.",
}

# Alphabet of the distractors in each regime. At paper scale full noise is left out: trial runs
# without a prior never recover there, so every question about waiting would go unanswered.
ALPHABETS: dict[ScaleName, dict[str, int]] = {
    "smoke": {"constant": 1, "noise": 29},
    "laptop": {"constant": 1, "bottleneck": 6, "noise": 43},
    "paper": {"constant": 1, "bottleneck": 8},
}

# Norm of the MLP in runs that generalise, for the norm-matched arms. Measured beforehand: laptop in
# results/theory (median 29.8 of 32 generalising runs), the others on unperturbed runs.
SHELL: dict[ScaleName, float] = {"smoke": 21.0, "laptop": 30.0, "paper": 44.0}


def base(scale: ScaleName) -> RunSpec:
    """The paper's set-up, or the same made small."""
    if scale != "laptop":
        return find_recipe(scale)
    return RunSpec().replace(
        **{
            "task.modulus": 43,
            "task.train_fraction": 0.6,
            "optimiser.lr": 2e-3,
            "training.epochs": 5000,
        }
    )


def settings(scale: ScaleName, regimes: Sequence[str] = tuple(REGIMES)) -> list[Setting]:
    """Those of the named regimes that the scale has."""
    alphabets = ALPHABETS[scale]
    return [
        Setting(scale, name, base(scale).replace(**{"task.alphabet": alphabets[name]}))
        for name in regimes
        if name in alphabets
    ]
