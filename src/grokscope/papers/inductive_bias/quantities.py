"""Numbers that the studies read off a run's curve and off its kept weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import polars as pl

from grokscope.engine import program
from grokscope.papers.inductive_bias.probes import compressibility, kernel_drift, scale_removed
from grokscope.probes import Probe, take
from grokscope.store import Run, Store

LOW_LOSS, HIGH_ACCURACY, PERIODIC = 0.01, 0.995, 1.0  # the authors' thresholds
NEAR = 1.1  # of its minimum: the authors' onset of compressibility
EARLY = 0.02  # of the budget: the steps over which early updates are averaged (200 of 10,000)
BEGUN = 0.03  # of the training loss is gone: gradient descent takes long for more
Curve = Mapping[str, np.ndarray]


def read_curve(run: Run) -> dict[str, np.ndarray]:
    return {column.name: column.to_numpy() for column in run.curve if not column.dtype.is_nested()}


def first(curve: Curve, good: np.ndarray) -> int | None:  # (rows,) bool
    """Epoch of the first such row."""
    found = curve["epoch"][good]
    return int(found[0]) if len(found) else None


def summarise(run: Run) -> dict[str, float | None]:
    """Times by the authors' rules (first rows, nothing has to last), and what happens while the
    network has fitted its training examples and does not generalise yet."""
    curve = read_curve(run)
    generalised, fitted = times_of(curve)
    low = first(curve, curve["test_loss"] <= LOW_LOSS)
    later = curve["epoch"] >= (np.inf if low is None else low)
    waiting = wait_rows(curve["epoch"], fitted, generalised)
    mirrored, others = curve["test_accuracy_mirrored"], curve["test_accuracy_unmirrored"]
    training = run.spec.training
    window = max(EARLY * training.epochs, training.log_every)
    early = (curve["epoch"] > 0) & (curve["epoch"] <= window)
    return {
        "generalised": generalised,
        "low_loss": low,
        "fitted": fitted,
        "fourier": first(curve, curve["fourier_concentration"] >= PERIODIC),
        "peak_test_loss": float(curve["test_loss"].max()),
        "relapse": _mean(curve["test_loss"] > LOW_LOSS, later),
        "wait_entropy": _mean(curve["attention_entropy"], waiting),
        "wait_divergence": _mean(curve["divergence"], waiting),
        "wait_mirrored": _mean(mirrored, waiting),
        "wait_unmirrored": _mean(others, waiting),
        "wait_mirror_gain": _mean(mirrored - others, waiting),
        "early_update": _mean(curve["update_norm"], early),
    }


def times_of(curve: Curve) -> tuple[int | None, int | None]:
    """Generalised (test accuracy 0.995), fitted (training loss 0.01)."""
    accurate, fitted = curve["test_accuracy"] >= HIGH_ACCURACY, curve["train_loss"] <= LOW_LOSS
    return first(curve, accurate), first(curve, fitted)


def wait_rows(epochs: np.ndarray, fitted: int | None, generalised: int | None) -> np.ndarray:
    """Rows from the fit of the training examples to generalisation, or to the end."""
    begin, end = (np.inf if time is None else time for time in (fitted, generalised))
    return (epochs >= begin) & (epochs <= end)


def _mean(values: np.ndarray, rows: np.ndarray) -> float | None:
    return float(values[rows].mean()) if rows.any() else None


# Of kept weights


def look(run: Run, probe: Probe) -> pl.DataFrame:
    """What a probe finds, with epochs as in the curves."""
    return take(run, probe).with_columns(pl.col("epoch").cast(pl.Int32))


def summarise_scale(run: Run) -> dict[str, float | None]:
    """The loss of each perturbed network: its largest excess over that of the network itself while
    it waits, its rise from the first look after the fit, its fall from that peak to the end, of
    runs that generalise, and how far it climbs above the first look of all."""
    table = look(run, scale_removed)
    generalised, fitted = times_of(read_curve(run))
    epochs = table["epoch"].to_numpy()
    waiting = wait_rows(epochs, fitted, generalised)
    found: dict[str, float | None] = {}
    for name in ("authors", "unit", "mean", "global"):
        loss, plain = (table[f"sr_{form}_loss"].to_numpy() for form in (name, "plain"))
        found |= dict.fromkeys((f"gap_{name}", f"rise_{name}", f"fall_{name}"))
        if waiting.any():
            peak = loss[waiting].max()
            found[f"gap_{name}"] = float((loss - plain)[waiting].max())
            found[f"rise_{name}"] = float(peak - loss[waiting][0])
            found[f"fall_{name}"] = float(peak - loss[-1]) if generalised is not None else None
        found[f"climb_{name}"] = climb_of(epochs, loss, generalised)
        found[f"end_accuracy_{name}"] = float(table[f"sr_{name}_accuracy"][-1])
    return found


def climb_of(epochs: np.ndarray, loss: np.ndarray, generalised: float | None) -> float:
    """From the first look to the largest until the run generalises, or until its end: where the
    training examples are soon fitted, most of the rise comes before.  (looks,), (looks,)"""
    until = np.inf if generalised is None else generalised
    return float(loss[epochs <= until].max() - loss[0])


def summarise_rank(run: Run) -> dict[str, float | None]:
    """When effective rank and exponent first are within a tenth of their minimum: of looks since
    the fit, in runs that generalise, and by the authors' rule (every look but the first, every
    run). Where they end, and how little the rank changes in any third of the wait."""
    table = look(run, compressibility)
    epochs = table["epoch"].to_numpy()
    rank, exponent = (table[f"{name}_test"].to_numpy() for name in ("rank", "exponent"))
    generalised, fitted = times_of(read_curve(run))
    since = epochs >= (np.inf if generalised is None or fitted is None else fitted)
    onset, later = _onset(epochs, rank, since), epochs > epochs[0]
    logs = np.log(rank[wait_rows(epochs, fitted, generalised)])
    thirds = np.array_split(np.arange(len(logs)), 3)
    moves = [float(np.ptp(logs[part[0] : part[-1] + 2])) for part in thirds if len(part)]
    return {
        "rank_onset": onset,
        "rank_onset_authors": _onset(epochs, rank, later),
        "rank_lag": (onset - generalised) / generalised if onset and generalised else None,
        "rank_least": float(rank[since].min()) if since.any() else None,
        "rank_end": float(rank[-1]),
        "rank_end_train": float(table["rank_train"][-1]),
        "exponent_onset": _onset(epochs, exponent, since),
        "exponent_onset_authors": _onset(epochs, exponent, later),
        "exponent_end": float(exponent[-1]),
        "exponent_tail": float(table["tail_test"][-1]),
        "exponent_distance": float(table["distance_test"][-1]),
        "rank_move": min(moves) if len(logs) >= 6 else None,
    }


def _onset(epochs: np.ndarray, values: np.ndarray, looks: np.ndarray) -> float | None:
    """First of these looks at which the value is within a tenth of its minimum over them.
    (looks,), (looks,), (looks,) bool"""
    if not looks.any():
        return None
    near = looks & (values <= NEAR * values[looks].min())
    return float(epochs[near][0])


def summarise_start(run: Run) -> dict[str, float | None]:
    """The first row at which 3 % of the training loss is gone, and how far the tangent kernel has
    moved there; for runs that keep their weights at every row."""
    curve = read_curve(run)
    begun = first(curve, curve["train_loss"] <= (1 - BEGUN) * curve["train_loss"][0])
    kept = begun if begun in run.snapshots else None  # None is the final row
    drift = None if begun is None else kernel_drift(run, kept)["kernel_drift"]
    return {"begun": begun, "kernel_begun": drift}


def first_step(run: Run) -> dict[str, float | None]:
    """Norms of the first gradient and of the first update, from the initial weights."""
    spec = run.spec
    with jax.enable_x64(spec.model.loss_precision == "float64"):
        form, member = program.make_member(spec, Store(run.path.parent))
        gradient, update = _stepper(form)(program.make_program(form).init(member), member)
    return {"first_gradient": float(gradient), "first_update": float(update)}


@lru_cache(maxsize=8)  # compiled programs
def _stepper(form: program.Form) -> Any:
    def norms(state: program.State, member: program.Member) -> tuple[jax.Array, jax.Array]:
        key, _ = program.keys_of(member.clock, state.step)
        slope = jax.grad(form.problem.loss)
        gradient = slope(state.params, member.data, member.numbers, state.step, key)
        return program.tree_norm(gradient), program.train_step(form, state, member).update_norm

    return jax.jit(norms)
