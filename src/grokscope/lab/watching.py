"""One run as the page shows it: where it stands, what has happened, and its rows as numbers."""

from __future__ import annotations

import json
import shlex
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grokscope.draw import theme
from grokscope.draw.glossary import MEASURES, measure_of
from grokscope.draw.reading import Reading
from grokscope.draw.words import count
from grokscope.lab.catalogue import defaults_of
from grokscope.pages import facts
from grokscope.pages.reading import read_run
from grokscope.spec import RECIPES, RunSpec, Spec, flatten
from grokscope.store import CURVE, Run, describe
from grokscope.store.annotations import peek_annotation
from grokscope.store.feed import Stamp, stamp_of
from grokscope.store.files import columns_of

if TYPE_CHECKING:
    import polars as pl

# Plots that are always looked for; a plot without any of its measures is left out.
PLOTS: dict[str, tuple[str, ...]] = {
    "Accuracy": ("train_accuracy", "test_accuracy"),
    "Loss": ("train_loss", "test_loss"),
    "Divergence of attention from the truth": ("divergence",),
    "Weakest weight on what matters": ("weakest_q10", "weakest_min"),
    "Gradient on attention": ("logit_gradient_mean", "interaction_gradient"),
    "Norms": ("parameter_norm", "mlp_norm"),
    "Lipschitz bound of the MLP": ("lipschitz_bound",),
}
STARVED = 10.0  # a gradient that has fallen to less than a tenth starves attention
GRADIENTS = ("interaction_gradient", "logit_gradient_mean")


def describe_plots() -> list[dict[str, Any]]:
    """What the page needs to know of each plot."""
    return [describe_plot(title, columns) for title, columns in PLOTS.items()]


def describe_others() -> dict[str, dict[str, Any]]:
    """A plot for each measure of the glossary that has no place in another, by its column."""
    plotted = {column for columns in PLOTS.values() for column in columns}
    titles = {name: m.noun[:1].upper() + m.noun[1:] for name, m in MEASURES.items()}
    return {n: describe_plot(title, (n,)) for n, title in titles.items() if n not in plotted}


def describe_plot(title: str, columns: Sequence[str]) -> dict[str, Any]:
    return {
        "title": title,
        "log": measure_of(columns[0]).scale == "log",
        "share": measure_of(columns[0]).scale == "share",
        "measures": [describe_measure(name, place) for place, name in enumerate(columns)],
    }


def describe_measure(column: str, place: int) -> dict[str, Any]:
    """Measures without a colour of their own get those of arms, so that two can be told apart."""
    measure = measure_of(column)
    plain = measure.colour == measure_of("").colour
    return {
        "column": column,
        "label": measure.label,
        "colour": theme.arm_colour(place) if plain else measure.colour,
        "help": measure.definition,
    }


def describe_run(run: Run) -> dict[str, Any]:
    """A run under way is told from its rows so far, by the rules of one that has ended."""
    reading = read_run(run)
    spec = run.about
    headline, sentences = facts.judge([reading])
    return {
        "run": run.id,
        "kind": spec.kind_name,
        "trained": bool(spec.problem),
        "subject": reading.subject,
        "label": describe(spec),
        "status": reading.status,
        "seed": spec.seed,
        "epochs": reading.epochs,
        "budget": spec.training.epochs,
        "rows": len(reading.curve),
        "unit": reading.unit,
        "seconds": round(reading.seconds, 1),
        "headline": headline,
        "sentences": sentences,
        "events": tell_events(reading),
        "times": {name: event.epoch for name, event in reading.events.items()},
        "phases": [
            {**asdict(phase), "colour": theme.kind_colour(theme.PHASES, phase.name)}
            for phase in reading.phases
            if phase.found
        ],
        "thresholds": {name: value for name, value in reading.thresholds.items() if value},
        "positions": [{"name": name, "informative": marked} for name, marked in reading.positions],
        "snapshots": run.snapshots,
        "fields": dict(flatten(spec.to_dict())),
        "changed": spec.changed(),
        "command": command_of(run),
        "annotation": peek_annotation(run.path)._asdict(),
        "best": best_of(reading.curve),
    }


def command_of(run: Run) -> str:
    """What to type to train the same run: a fork by what sets it apart from its parent, a run from
    the nearest recipe; the command line trains no other kinds, so those are told in Python."""
    spec = run.about
    if not spec.problem:
        return ""
    wanted = _typed(spec)
    if not isinstance(spec, RunSpec):
        kind = f"gs.spec.KINDS[{spec.kind_name!r}]()"
        return f"import grokscope as gs\ngs.train({kind}.replace(**{wanted!r}))"
    if (fork := spec.fork).parent:
        parent = Run(run.path.parent / fork.parent)
        base = _typed(parent.spec) if parent.path.exists() else {}
        changes = {**_changes(wanted, base), "fork.parent": None, "fork.epoch": None}
        return " ".join([f"grokscope fork {fork.parent} --at {fork.epoch}", *_flags(changes)])
    options = {name: _changes(wanted, recipe) for name, recipe in _typed_recipes().items()}
    recipe = min(options, key=lambda name: len(options[name]))
    return " ".join([f"grokscope train {recipe}", *_flags(options[recipe])])


def _typed(spec: Spec) -> dict[str, Any]:
    changed = {n: v for n, v in spec.changed().items() if n not in ("kind", "task.fingerprint")}
    return {n: list(v) if isinstance(v, tuple) else v for n, v in changed.items()}


@cache  # a run that is watched is told anew with every row
def _typed_recipes() -> dict[str, dict[str, Any]]:
    return {name: _typed(recipe) for name, (_, recipe) in RECIPES.items()}


def _changes(wanted: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that lead from one spec to another; what only the base has goes back to default."""
    back = {name: defaults_of("routing")[name] for name in base if name not in wanted}
    return {**back, **{n: v for n, v in wanted.items() if n not in base or base[n] != v}}


def _flags(changes: Mapping[str, Any]) -> list[str]:
    words = {n: v if isinstance(v, list) else [v] for n, v in changes.items() if v is not None}
    return [shlex.join([f"--{name}", *map(str, values)]) for name, values in words.items()]


def best_of(curve: pl.DataFrame) -> dict[str, float]:
    """The best value of each measure that has a better side, since the last one may not be it."""
    sides = {"test_accuracy": "max", "test_loss": "min", "divergence": "min"}
    found = {}
    for name, side in sides.items():
        values = curve[name].drop_nans().drop_nulls() if name in curve.columns else None
        if values is not None and len(values):
            found[name] = float(getattr(values, side)())
    return found


def tell_events(reading: Reading) -> list[dict[str, Any]]:
    """What has happened so far, in words, in the order in which it did."""
    events: list[tuple[int, str]] = []
    unit, curve = reading.unit, reading.curve
    times = {name: event.epoch for name, event in reading.events.items()}
    memorised, grokked = times.get("memorised"), times.get("grokked")
    for name, epoch in times.items():
        if epoch is not None:
            late = ""
            if name == "grokked" and memorised is not None and epoch > memorised:
                late = f", {count(epoch - memorised, unit)} after it had memorised"
            events.append((epoch, f"{name} at {epoch:,}{late}"))
    starved = _starved(curve, memorised, grokked)
    right = _first(curve, "structure_share", 0.99)
    if starved is not None:
        epoch, factor = starved
        settled = right is not None and right <= epoch  # then nothing is left to correct
        what = "attention has settled" if settled else "attention is starved"
        events.append((epoch, f"{what}: the task's gradient on it fell {factor:,.0f}-fold"))
    words_of = {
        "resurgence": "attention moves again: its divergence begins to fall",
        "grokking": "test accuracy begins to rise",
    }
    for phase in reading.phases:
        if phase.name in words_of and phase.start is not None:
            events.append((phase.start, f"{words_of[phase.name]} at {phase.start:,}"))
    if right is not None:
        events.append((right, f"attention is right for 99 % of the inputs from {right:,} on"))
    if reading.status == "failed":
        epoch = reading.failed_at or 0
        events.append((epoch, f"failed at {epoch:,}: its numbers are no longer finite"))
    return [{"epoch": epoch, "text": text} for epoch, text in sorted(events, key=lambda e: e[0])]


def _starved(
    curve: pl.DataFrame, memorised: int | None, grokked: int | None
) -> tuple[int, float] | None:
    """From when on, and by which factor, the gradient on attention had fallen between its peak
    before memorisation and its low after it, if the fall starves attention."""
    name = next((n for n in GRADIENTS if n in curve.columns and curve[n].is_finite().any()), None)
    if memorised is None or name is None:
        return None
    epochs, values = curve["epoch"].to_numpy(), curve[name].to_numpy().astype(float)
    end = grokked if grokked is not None else epochs[-1]
    before = values[(epochs <= memorised) & np.isfinite(values)]
    after = (epochs > memorised) & (epochs <= end) & np.isfinite(values)
    if not len(before) or not after.any():
        return None
    peak, low = before.max(), values[after].min()
    if low <= 0 or peak / low < STARVED:
        return None
    first = epochs[after & (values <= peak / STARVED)][0]
    return int(first), float(peak / low)


def _first(curve: pl.DataFrame, column: str, least: float) -> int | None:
    """First epoch from which a column stays at or above `least` up to the last row."""
    if column not in curve.columns or not len(curve):
        return None
    low = np.flatnonzero(~(curve[column].to_numpy() >= least))
    first = int(low[-1]) + 1 if len(low) else 0
    return int(curve["epoch"][first]) if first < len(curve) else None


# Rows


class Watched(Run):
    """A run whose rows are read once until they change: the page asks for them in several ways."""

    @property
    def curve(self) -> pl.DataFrame:
        stamp = stamp_of(self.path)  # before reading: what comes meanwhile has another one
        with _reading:
            return _read_curve(self.path, stamp)


_reading = threading.Lock()  # two questions at once must not both read


@lru_cache(maxsize=64)
def _read_curve(path: Path, stamp: Stamp) -> pl.DataFrame:
    return Run(path).curve


def pack_rows(run: Run, begin: int) -> bytes:
    """Every row from the `begin`-th on, as numbers: a JSON head with its length before it, `epoch`
    in 64 bits, then each measure in 32 bits, column by column."""
    curve = run.curve if (run.path / CURVE).exists() else None
    total = 0 if curve is None else len(curve)
    if begin > total:  # the run was begun again
        begin = 0
    columns: dict[str, np.ndarray] = {"epoch": np.zeros(0)}
    if curve is not None and begin < total:
        columns = columns_of(curve[begin:])
    epochs = columns.pop("epoch")
    widths = {name: array.shape[1] if array.ndim > 1 else 0 for name, array in columns.items()}
    told = [{"name": name, "width": width} for name, width in widths.items()]
    text = json.dumps({"from": begin, "rows": total - begin, "columns": told}).encode()
    text += b" " * (-(len(text) + 4) % 8)  # numbers start at a multiple of 8
    parts = [struct.pack("<I", len(text)), text, epochs.astype("<f8").tobytes()]
    return b"".join([*parts, *(array.astype("<f4").tobytes() for array in columns.values())])
