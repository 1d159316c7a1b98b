"""Numbers that the studies read off a run's curve and off its kept weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import jax
import numpy as np
import polars as pl

from grokscope.engine.program import (
    Form,
    Member,
    State,
    keys_of,
    make_member,
    make_program,
    train_step,
    tree_norm,
)
from grokscope.papers.inductive_bias.probes import (
    attention_entropy,
    compressibility,
    kernel_drift,
    scale_removed,
)
from grokscope.probes import take
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
    waiting = wait_rows(curve, fitted, generalised)
    training = run.spec.training
    window = max(EARLY * training.epochs, training.log_every)
    early = (curve["epoch"] > 0) & (curve["epoch"] <= window)
    concentration = curve["fourier_concentration"]
    return {
        "generalised": generalised,
        "low_loss": low,
        "fitted": fitted,
        "begun": begun(curve),
        "fourier": first(curve, concentration >= PERIODIC),
        "fourier_most": float(np.nanmax(concentration)),
        "peak_test_loss": float(curve["test_loss"].max()),
        "relapse": _mean(curve["test_loss"] > LOW_LOSS, later),
        "wait_entropy": _mean(curve["attention_entropy"], waiting),
        "wait_divergence": _mean(curve["divergence"], waiting),
        "wait_mirrored": _mean(curve["test_accuracy_mirrored"], waiting),
        "wait_unmirrored": _mean(curve["test_accuracy_unmirrored"], waiting),
        "wait_mirror_gain": _mean(
            curve["test_accuracy_mirrored"] - curve["test_accuracy_unmirrored"], waiting
        ),
        "early_update": _mean(curve["update_norm"], early),
        "early_gradient": _mean(curve["gradient_norm"], early),
    }


def times_of(curve: Curve) -> tuple[int | None, int | None]:
    """Generalised (test accuracy 0.995), fitted (training loss 0.01)."""
    return (
        first(curve, curve["test_accuracy"] >= HIGH_ACCURACY),
        first(curve, curve["train_loss"] <= LOW_LOSS),
    )


def begun(curve: Curve) -> int | None:
    """First row at which 3 % of the training loss is gone."""
    return first(curve, curve["train_loss"] <= (1 - BEGUN) * curve["train_loss"][0])


def wait_rows(curve: Curve, fitted: int | None, generalised: int | None) -> np.ndarray:
    """Rows from the fit of the training examples to generalisation, or to the end."""
    begin = np.inf if fitted is None else fitted
    return (curve["epoch"] >= begin) & (
        curve["epoch"] <= (np.inf if generalised is None else generalised)
    )


def _mean(values: np.ndarray, rows: np.ndarray) -> float | None:
    return float(values[rows].mean()) if rows.any() else None


# Of kept weights


def trace_scale(run: Run) -> pl.DataFrame:
    return take(run, scale_removed).with_columns(pl.col("epoch").cast(pl.Int32))


def trace_rank(run: Run) -> pl.DataFrame:
    return take(run, compressibility).with_columns(pl.col("epoch").cast(pl.Int32))


def trace_entropy(run: Run) -> pl.DataFrame:
    return take(run, attention_entropy).with_columns(pl.col("epoch").cast(pl.Int32))


def summarise_scale(run: Run) -> dict[str, float | None]:
    """The loss of each perturbed network minus that of the network itself: at its largest while it
    waits, at the first look after the fit, and at the end."""
    table, curve = trace_scale(run), read_curve(run)
    epochs = table["epoch"].to_numpy()
    generalised, fitted = times_of(curve)
    waiting = wait_rows({"epoch": epochs}, fitted, generalised)
    found: dict[str, float | None] = {}
    for name in ("authors", "unit", "mean", "global"):
        loss = table[f"sr_{name}_loss"].to_numpy()
        gap = loss - table["sr_plain_loss"].to_numpy()
        found |= {
            f"gap_{name}": float(gap[waiting].max()) if waiting.any() else None,
            f"rise_{name}": float(loss[waiting].max() - loss[waiting][0])
            if waiting.any()
            else None,
            f"fall_{name}": float(loss[waiting].max() - loss[-1]) if waiting.any() else None,
            f"end_accuracy_{name}": float(table[f"sr_{name}_accuracy"][-1]),
        }
    return found


def summarise_rank(run: Run) -> dict[str, float | None]:
    """When effective rank and exponent first are within a tenth of their minimum (the first look
    does not count), where they end, and how little the rank changes in any third of the wait."""
    table, curve = trace_rank(run), read_curve(run)
    epochs = table["epoch"].to_numpy()
    rank, exponent = (table[f"{name}_test"].to_numpy() for name in ("rank", "exponent"))
    generalised, fitted = times_of(curve)
    onset = _onset(epochs, rank)
    logs = np.log(rank[wait_rows({"epoch": epochs}, fitted, generalised)])
    thirds = np.array_split(np.arange(len(logs)), 3)
    moves = [float(np.ptp(logs[part[0] : part[-1] + 2])) for part in thirds if len(part)]
    return {
        "rank_onset": onset,
        "rank_lag": None if generalised is None else (onset - generalised) / generalised,
        "rank_least": float(rank[1:].min()),
        "rank_end": float(rank[-1]),
        "rank_end_train": float(table["rank_train"][-1]),
        "exponent_onset": _onset(epochs, exponent),
        "exponent_end": float(exponent[-1]),
        "exponent_tail": float(table["tail_test"][-1]),
        "exponent_distance": float(table["distance_test"][-1]),
        "rank_move": min(moves) if len(logs) >= 6 else None,
    }


def _onset(epochs: np.ndarray, values: np.ndarray) -> float:  # (looks,), (looks,)
    """First look but the initial one at which the value is within a tenth of its minimum."""
    later = values[1:]
    return float(epochs[1:][later <= NEAR * later.min()][0])


def summarise_kernel(run: Run) -> dict[str, float | None]:
    """How far the tangent kernel has moved at the first look after 3 % of the training loss are
    gone, and at the end."""
    curve = read_curve(run)
    start = begun(curve)
    looks = [epoch for epoch in run.snapshots if start is not None and epoch >= start]
    return {
        "kernel_begun": kernel_drift(run, looks[0])["kernel_drift"] if looks else None,
        "kernel_end": kernel_drift(run, None)["kernel_drift"],
    }


def first_step(run: Run) -> dict[str, float | None]:
    """Norms of the first gradient and of the first update, from the initial weights."""
    spec = run.spec
    with jax.enable_x64(spec.model.loss_precision == "float64"):
        form, member = make_member(spec, Store(run.path.parent))
        gradient, update = _stepper(form)(make_program(form).init(member), member)
    return {"first_gradient": float(gradient), "first_update": float(update)}


@cache
def _stepper(form: Form) -> Any:
    def norms(state: State, member: Member) -> tuple[jax.Array, jax.Array]:
        key, _ = keys_of(member.clock, state.step)
        slope = jax.grad(form.problem.loss)
        gradient = slope(state.params, member.data, member.numbers, state.step, key)
        return tree_norm(gradient), train_step(form, state, member).update_norm

    return jax.jit(norms)
