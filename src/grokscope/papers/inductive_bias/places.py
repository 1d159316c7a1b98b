"""Where a norm may stand, by the paper's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grokscope.claims.studies import Setting
from grokscope.spec import RunSpec

NO_NORM, A, MA, M, AQK, AV, MAV = "no LN", "A*", "M+A*", "M", "A^qk", "A^v", "M+A^v"
PLACES = {NO_NORM: "", A: "attention", MA: "attention+mlp", M: "mlp"}
PLACES |= {AQK: "query_key", AV: "value", MAV: "value+mlp"}  # parts of attention
WHOLE = (M, MA, A, NO_NORM)  # placements of whole blocks, in the order that the paper finds


def with_norm(name: str) -> dict[str, Any]:
    """The fields of a placement. The authors' norms have no epsilon."""
    return {"model.norm": PLACES[name], "model.norm_epsilon": 0.0} if PLACES[name] else {}


def place(setting: Setting, seed: int, names: Sequence[str] = tuple(PLACES)) -> dict[str, RunSpec]:
    """A run for each placement, to the end of the budget; at smoke scale only the extremes."""
    one = setting.baseline(seed)
    chosen = [name for name in names if setting.scale != "smoke" or name in (NO_NORM, M)]
    return {name: one.replace(**with_norm(name)) for name in chosen}
