"""What the studies on martingale operators have in common: regimes, arms and scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grokscope.claims.prose import Prose
from grokscope.claims.studies import ScaleName, Setting, Study, Test
from grokscope.spec import FieldSpec, Spec

PROSE = Prose.read(__package__)
Named = Mapping[str, Mapping[str, Any]]
"""What differs from a spec's defaults, by the name of a regime or an arm."""
REGIMES: Named = {
    "heat": {},
    "φ⁴": {"equation.kind": "phi4"},
    "Burgers": {"equation.kind": "burgers"},
    "Burgers, multiplicative noise": {"equation.kind": "burgers", "equation.multiplicative": 0.5},
}
ARMS: Named = {
    "diagonal": {"objective.kind": "diagonal"},
    "joint": {"objective.kind": "joint"},
    "moments": {"objective.kind": "moments"},
    "energy": {"objective.kind": "energy"},
    "pointwise": {"operator.rank": 0},
    # The best of four rates on a seed that is not judged (docs/log.md); operators have 0.01.
    "flow": {"operator.kind": "flow", "optimiser.lr": 3e-3},
    "dropout": {"operator.dropout": 0.1, "objective.kind": "mean"},
}
SMOKE: Mapping[str, Any] = {
    "equation.points": 32,
    "equation.conditions": 64,
    "equation.noises": 8,
    "operator.width": 8,
    "operator.modes": 8,
    "training.epochs": 40,
    "training.log_every": 10,
}


def study(
    name: str,
    regimes: Named | Sequence[str],
    arms: Named | Sequence[str],
    tests: Mapping[str, Test],
    smoke: str = "",
    **parts: Any,
) -> Study:
    """A study at laptop scale; at smoke scale two of its arms, in one regime or in none. There is
    no paper scale: the paper's sizes are not known. Regimes and arms that several studies have are
    given by their names."""
    regimes, arms = _look_up(regimes, REGIMES), _look_up(arms, ARMS)

    def settings(scale: ScaleName) -> list[Setting]:
        chosen = {"smoke": [smoke] * bool(smoke), "laptop": [*regimes], "paper": []}[scale]
        sizes = SMOKE if scale == "smoke" else {}
        return [Setting(scale, r, FieldSpec().replace(**{**sizes, **regimes[r]})) for r in chosen]

    def make(setting: Setting, seed: int) -> dict[str, Spec]:
        chosen = list(arms)[: 2 if setting.scale == "smoke" else None]
        return {arm: setting.base.replace(**{"seed": seed, **arms[arm]}) for arm in chosen}

    most = {"smoke": 1, "laptop": 10, "paper": 10}  # a third look would take beyond two hours
    return PROSE.study(name, tests, settings=settings, arms=make, most_seeds=most, **parts)


def _look_up(chosen: Named | Sequence[str], known: Named) -> Named:
    return chosen if isinstance(chosen, Mapping) else {name: known[name] for name in chosen}
