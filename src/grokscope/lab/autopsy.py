"""Why did this seed not grok? Its twin that did, where the two part, forks that show the cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from grokscope.draw.glossary import measure_of
from grokscope.draw.words import share
from grokscope.store import Run

# What may part two seeds, in the order in which a cause would act; test accuracy is the effect.
MEASURES = {
    "divergence": "divergence of attention",
    "weakest_min": "weakest weight on what matters",
    "mass_mean": "weight on what matters",
    "interaction_gradient": "gradient on query and key",
    "logit_gradient_mean": "gradient on attention scores",
    "mlp_norm": "norm of the MLP",
    "train_accuracy": "training accuracy",
    "test_accuracy": "test accuracy",
}
TWIN = " of the twin"  # after the names of its columns
APART = 0.1  # of the range that the twin covers: less is taken for noise


def find_twin(run: Run, arm: Sequence[Run]) -> Run | None:
    """The run of the same arm that grokked first."""
    grokked = []
    for other in arm:
        epoch = other.outcome.get("grokked", {}).get("epoch") if other.ended else None
        if epoch is not None and other.id != run.id:
            grokked.append((epoch, other.id, other))
    return min(grokked)[2] if grokked else None


def examine(run: Run, twin: Run) -> dict[str, Any]:
    """Where the measures of two runs first part for good, earliest first, and what to try."""
    ours, theirs = (each.curve.cast({"epoch": pl.Int64}) for each in (run, twin))
    both = ours.join(theirs, on="epoch", suffix=TWIN, maintain_order="left")
    found: list[dict[str, Any]] = []
    effects = {rule.measure: measure_of(rule.measure).label for rule in run.about.events()}
    for name, label in {**effects, **MEASURES}.items():
        if not {name, name + TWIN} <= set(both.columns):
            continue
        log = measure_of(name).scale == "log"
        here, there = (_values(both[each].to_numpy(), log) for each in (name, name + TWIN))
        first = part_at(here, there, run.about.training.persistence)
        if first is not None:
            values = [float(both[each][first]) for each in (name, name + TWIN)]
            epoch = int(both["epoch"][first])
            found.append({"measure": name, "label": label, "epoch": epoch, "values": values})
    found.sort(key=lambda part: part["epoch"])
    return {"twin": twin.id, "seed": twin.about.seed, "parts": found, **_tell(run, twin, found)}


def part_at(ours: np.ndarray, theirs: np.ndarray, rows: int) -> int | None:  # (n,), (n,)
    """First row from which the two stay apart by more than a tenth of the twin's range, for at
    least `rows` rows; None if they do not."""
    spread = np.nanmax(theirs) - np.nanmin(theirs) if np.isfinite(theirs).any() else 0.0
    if not spread > 0:
        return None
    apart = np.abs(ours - theirs) > APART * spread
    length = 0
    for index, there in enumerate(apart):
        length = length + 1 if there else 0
        if length == rows:
            return index - rows + 1
    return None


def _values(values: np.ndarray, log: bool) -> np.ndarray:
    values = values.astype(float)
    return np.log10(np.where(values > 0, values, np.nan)) if log else values


def _tell(run: Run, twin: Run, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The finding in a sentence, and the forks that would show what it depends on."""
    grokked = twin.outcome["grokked"]["epoch"]
    measure = next(rule.measure for rule in run.about.events() if rule.name == "grokked")
    accuracy = share(float(run.curve[measure][-1]))
    words = [
        f"Seed {twin.about.seed} of the same arm grokked at {grokked:,}; this one is at {accuracy}."
    ]
    if parts:
        first = parts[0]
        ours, theirs = first["values"]
        words.append(
            f"Their first parting is the {first['label']}, at {first['epoch']:,}: {ours:.3g} here, "
            f"{theirs:.3g} there."
        )
    rows = [epoch for epoch in run.curve["epoch"].to_list() if epoch <= grokked]
    at = max((e for e in rows if not parts or e <= parts[0]["epoch"]), default=rows[0])
    forks: dict[str, dict[str, Any]] = {
        "Transplant the twin's attention": {"fork.transplant": "attention", "fork.donor": twin.id},
        "Transplant the twin's MLP": {"fork.transplant": "mlp", "fork.donor": twin.id},
        "Freeze attention as the twin's was in the end": {
            "interventions.frozen_attention": "teacher",
            "prior.teacher": twin.id,
            "prior.teacher_view": "position",
        },
    }
    offered = forks if hasattr(run.about, "fork") else {}
    return {
        "sentence": " ".join(words),
        "at": at,
        "forks": [{"title": title, "changes": changes} for title, changes in offered.items()],
    }
