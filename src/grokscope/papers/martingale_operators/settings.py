"""What the studies on martingale operators have in common: regimes, arms and scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grokscope.claims.prose import Prose, read_settings
from grokscope.claims.studies import ScaleName, Setting, Study, Test
from grokscope.spec import FieldSpec, Spec

PROSE = Prose.read(__package__)
FIELDS = read_settings(__package__)


def study(
    name: str,
    regimes: Sequence[str],
    arms: Sequence[str] | Mapping[str, Mapping[str, Any]],
    tests: Mapping[str, Test],
    smoke: str = "",
    **parts: Any,
) -> Study:
    """A study at laptop scale; at smoke scale two of its arms, in one regime or in none. There is
    no paper scale: the paper's sizes are not known. Regimes are given by their names in
    `settings.toml`, arms as well, or by what differs in them."""
    named = arms if isinstance(arms, Mapping) else {name: FIELDS[name] for name in arms}

    def settings(scale: ScaleName) -> list[Setting]:
        chosen = {"smoke": [smoke] * bool(smoke), "laptop": regimes, "paper": []}[scale]
        sizes = FIELDS.get(scale, {})
        return [Setting(scale, r, FieldSpec().replace(**{**sizes, **FIELDS[r]})) for r in chosen]

    def make(setting: Setting, seed: int) -> dict[str, Spec]:
        chosen = list(named)[: 2 if setting.scale == "smoke" else None]
        return {arm: setting.base.replace(**{"seed": seed, **named[arm]}) for arm in chosen}

    most = {"smoke": 1, "laptop": 10, "paper": 10}  # a third look would take beyond two hours
    return PROSE.study(name, tests, settings=settings, arms=make, most_seeds=most, **parts)
