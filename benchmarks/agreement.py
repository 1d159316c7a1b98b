"""Do all contenders train the same network? Their losses, epoch by epoch, against the textbook loop
in double precision. No clock is involved, so it may be asked on a busy machine."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison import (
    CONTENDERS,
    EPOCHS,
    GENERAL,
    GENERAL_CONTENDERS,
    SCALES,
    Contender,
    Teams,
    export_problems,
    find_missing,
)
from grokscope.spec import RunSpec, find_recipe

TOLERANCE = 0.01  # largest relative difference between two curves of the training loss
EXACT = ("plain", "general")  # kinds against whose double precision losses are held
KEPT = 5  # of so many epochs one is kept, to be drawn


def agree(epochs: int, general: int, scales: Mapping[str, str] = SCALES) -> dict[str, Any]:
    """The first `epochs` epochs at each scale, and `general` ones of the general transformer, whose
    epoch takes ten times as long."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        missing, path = find_missing(CONTENDERS, Path(folder))
        for scale, recipe in scales.items():
            spec = find_recipe(recipe)
            rows += _agree_at(scale, spec, CONTENDERS, missing, epochs, Path(folder), path)
        rows += _agree_at(
            "general", GENERAL, GENERAL_CONTENDERS, missing, general, Path(folder), path
        )
    return {"tolerance": TOLERANCE, "curves": rows}


def _agree_at(
    scale: str,
    spec: RunSpec,
    contenders: Sequence[Contender],
    missing: Mapping[str, str],
    epochs: int,
    folder: Path,
    path: str,
) -> list[dict[str, Any]]:
    """One row a contender; none where there is no PyTorch to hold anything against."""
    here = [c for c in contenders if c.name not in missing and _has_losses(c)]
    reference = next((c for c in here if c.kind in EXACT), None)
    if reference is None:
        return []
    problems = export_problems(spec, 1, folder / scale)
    rows = []
    with contextlib.ExitStack() as stack:
        teams = Teams(stack, folder / f"compiled-{scale}", path)

        def losses(contender: Contender, **order: Any) -> list[float]:
            team = teams.get(contender.module, "one process")
            team.prepare(contender.kind, problems)
            return team.children[0].ask("losses", kind=contender.kind, epochs=epochs, **order)

        exact = losses(reference, double=True)
        for contender in here:
            row = hold(exact, losses(contender))
            rows.append({"scale": scale, "contender": contender.name, **row})
            print(f"  loss of {contender.name:<36}{row['difference']:.1e}", flush=True)
    return rows


def _has_losses(contender: Contender) -> bool:
    """The floor trains nothing, and epochs without measures are the lab's own."""
    return contender.trains and contender.kind != "unmeasured" and 1 in contender.members


def hold(exact: Sequence[float], seen: Sequence[float]) -> dict[str, Any]:
    """A curve beside the exact one, and how far it ever is from it."""
    apart = relative_differences(exact, seen)
    return {
        "epochs": len(seen),
        "early": max(apart[:EPOCHS]),
        "difference": max(apart),
        "every": KEPT,
        "losses": list(seen[::KEPT]),
        "differences": apart[::KEPT],
    }


def relative_differences(exact: Sequence[float], seen: Sequence[float]) -> list[float]:
    """|seen - exact| / exact at each epoch; infinite where a loss is no number."""
    apart = (abs(b - a) / a for a, b in zip(exact, seen, strict=True))
    return [difference if math.isfinite(difference) else math.inf for difference in apart]
