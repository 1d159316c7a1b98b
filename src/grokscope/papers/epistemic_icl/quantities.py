"""What the studies read off a run: its posterior over training, its alarms, and what context length
and noise make of it, each beside the optimal predictor.

AdamW's posterior is the Laplace approximation of the last layer, fitted at every kept snapshot;
IVON's is its own, measured at every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from grokscope.papers.epistemic_icl import posteriors
from grokscope.papers.epistemic_icl.optimal import predict_optimally
from grokscope.probes import take
from grokscope.spec import MapsSpec
from grokscope.spec.incontext import CELLS
from grokscope.store import Run
from grokscope.tasks.incontext import add_noise, build_maps, evaluation_sequences

NOISES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
"""An alarm goes off when a signal has fallen by this share of its running maximum."""
SMOOTHED = 5  # rows
SIGNALS = {
    "eu": "EU",
    "tu": "total uncertainty",
    "entropy": "entropy of a single network",
    "parameter_norm": "weight norm",
    "train_loss": "training loss",
}
QUESTION = "ood_val"


@cache
def sequences(task: MapsSpec) -> dict[str, np.ndarray]:
    return evaluation_sequences(task, 0)


def laplace_at(run: Run, epoch: int | None) -> dict[str, float]:
    """A probe: the Laplace posterior of kept weights, on every cell."""
    found: dict[str, float] = {}
    task: Any = run.about.task  # type: ignore[attr-defined]
    every = sequences(task)
    for cell in CELLS:
        logs = posteriors.laplace(run, every[cell], every["id_train"], epoch)
        measured = posteriors.measure(logs[:, :, -1], every[cell][:, -1])
        found |= {f"{cell}_posterior_{name}": value for name, value in measured.items()}
    return found


def trace(run: Run) -> pl.DataFrame:
    """The posterior over training: rows of the curve, or the probe at the snapshots."""
    kind = run.about.optimiser.kind
    if kind != "ivon":
        return take(run, laplace_at)
    curve = run.curve
    return curve.select("epoch", *(c for c in curve.columns if "_posterior_" in c))


def smooth(values: np.ndarray, width: int = SMOOTHED) -> np.ndarray:  # (rows,)
    """Running mean, with the ends repeated."""
    padded = np.pad(values, (width // 2, width - 1 - width // 2), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, width).mean(axis=-1)


def find_peak(epochs: np.ndarray, values: np.ndarray) -> tuple[float | None, float | None]:
    """When a smoothed signal is largest, and when it has then fallen to half of that. Without a
    fall there is no peak, only a rise."""
    level = smooth(values)
    top = int(level.argmax())
    after = np.flatnonzero(level[top:] <= level[top] / 2)
    if top == 0 or not len(after):
        return None, None
    return float(epochs[top]), float(epochs[top + after[0]])


def alarm_times(epochs: np.ndarray, values: np.ndarray) -> list[float | None]:
    """For each level, when the smoothed signal has first fallen that far below its maximum so far.
    No label is needed, and no knowledge of what is to come."""
    level = smooth(values)
    fallen = 1 - level / np.maximum(np.maximum.accumulate(level), 1e-12)
    hits = [np.flatnonzero(fallen >= share) for share in LEVELS]
    return [float(epochs[hit[0]]) if len(hit) else None for hit in hits]


def summarise(run: Run) -> Mapping[str, float | None]:
    rows, curve = trace(run), run.curve
    grokked = run.outcome["grokked"]["epoch"]
    epochs, eu = (rows[c].to_numpy() for c in ("epoch", f"{QUESTION}_posterior_eu_corrected"))
    peak, collapse = find_peak(epochs, eu)
    chance = 1.5 / run.about.task.modulus  # type: ignore[attr-defined]
    accuracy = np.interp(
        epochs, curve["epoch"].to_numpy(), curve[f"{QUESTION}_accuracy"].to_numpy()
    )
    before = eu[(accuracy < chance) & (epochs > 0)]
    found: dict[str, float | None] = {
        "eu_peak": peak,
        "eu_collapse": collapse,
        "peak_first": peak if peak is not None and grokked is not None and peak < grokked else None,
        "eu_lead": None if peak is None or grokked is None else grokked - peak,
        "eu_growth": float(eu[-1] / np.median(before)) if len(before) and eu[-1] > 0 else None,
        "eu_early": float(np.median(eu[1 : 1 + max(1, len(eu) // 4)])),
    }
    last = rows.row(-1, named=True)
    for cell in CELLS:
        parts = {n: last[f"{cell}_posterior_{n}"] for n in ("tu", "au", "eu_corrected", "accuracy")}
        found |= {f"{cell}_final_{name}": value for name, value in parts.items()}
        found[f"{cell}_eu_share"] = parts["eu_corrected"] / max(parts["tu"], 1e-9)
    for signal in SIGNALS:
        column = f"{QUESTION}_posterior_{signal}" if signal in ("eu", "tu") else signal
        column = f"{QUESTION}_entropy" if signal == "entropy" else column
        source = rows if column in rows.columns else curve
        times = alarm_times(source["epoch"].to_numpy(), source[column].to_numpy())
        found |= {f"alarm_{signal}_{place}": time for place, time in enumerate(times)}
    return found | read_context(run)


def draws(run: Run, tokens: np.ndarray) -> np.ndarray:  # (S, n, k, C)
    """The run's own posterior on some sequences."""
    task: Any = run.about.task  # type: ignore[attr-defined]
    if run.about.optimiser.kind == "ivon":
        return posteriors.ivon(run, tokens, draws=16)
    return posteriors.laplace(run, tokens, sequences(task)["id_train"])


def read_context(run: Run) -> dict[str, float | None]:
    """Accuracy, AU and EU of the final weights for each number of examples in context, and at the
    last question for each share of wrong labels; the optimum's beside them."""
    task: Any = run.about.task  # type: ignore[attr-defined]
    tokens = sequences(task)[QUESTION]
    logs, labels = draws(run, tokens), tokens[:, 2::3]
    found: dict[str, float | None] = {}
    for k in range(task.triples):
        measured = posteriors.measure(logs[:, :, k], labels[:, k])
        for name in ("accuracy", "au", "eu_corrected"):
            found[f"context_{k}_{name}"] = measured[name]
    uncertain, right = (
        np.array([found[f"context_{k}_{name}"] for k in range(task.triples)], float)
        for name in ("eu_corrected", "accuracy")
    )
    found["context_peak"] = float(uncertain.argmax())
    found["context_gain"] = float(right[-1] - right[1])
    for noise in NOISES:
        noisy = disturb(task, noise)
        measured = posteriors.measure(draws(run, noisy)[:, :, -1], noisy[:, -1])
        for name in ("accuracy", "au", "eu_corrected"):
            found[f"noise_{noise:g}_{name}"] = measured[name]
    for name in ("au", "eu_corrected"):
        values = [found[f"noise_{noise:g}_{name}"] for noise in NOISES]
        found[f"noise_slope_{name}"] = float(np.polyfit(NOISES, np.array(values, float), 1)[0])
    return found


def disturb(task: MapsSpec, noise: float) -> np.ndarray:
    """The measured sequences with wrong labels in their contexts, the same for all runs."""
    rng = np.random.default_rng([7, round(1000 * noise)])
    return add_noise(sequences(task)[QUESTION], noise, task.modulus, rng)


@cache
def optimum(task: MapsSpec) -> pl.DataFrame:
    """The optimal predictor on the same sequences: accuracy and TU for each number of examples and
    each share of wrong labels, for both priors."""
    maps, every = build_maps(task, 0), np.indices((task.modulus,) * 2).reshape(2, -1).T
    rows = []
    for prior, tasks in (("all tasks", every), ("seen tasks", maps.seen_tasks)):
        clean = predict_optimally(sequences(task)[QUESTION], tasks, task.modulus)
        rows += [
            {"prior": prior, "sweep": "context", "at": float(k), "accuracy": accuracy, "tu": total}
            for k, (accuracy, total) in enumerate(
                zip(clean.accuracy.mean(axis=0), clean.total.mean(axis=0), strict=True)
            )
        ]
        for noise in NOISES:
            found = predict_optimally(disturb(task, noise), tasks, task.modulus, noise)
            accuracy, total = found.accuracy[:, -1].mean(), found.total[:, -1].mean()
            at = {"prior": prior, "sweep": "noise", "at": noise}
            rows.append({**at, "accuracy": accuracy, "tu": total})
    return pl.DataFrame(rows)
