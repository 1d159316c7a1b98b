"""What the studies read off a run: its posterior over training, its alarms, and what context length
and noise make of it, each beside the optimal predictor.

AdamW's posterior is the Laplace approximation of the last layer, fitted at every kept snapshot;
IVON's is its own. Both are read at the snapshots, so that no signal has more rows than another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from grokscope.measures.outcomes import find_event
from grokscope.papers.epistemic_icl import lookup, optimal, posteriors
from grokscope.papers.epistemic_icl.settings import QUESTIONS, kept_hessian
from grokscope.probes import take
from grokscope.spec import EventRule, MapsSpec
from grokscope.spec.incontext import CELLS
from grokscope.store import Run
from grokscope.tasks.incontext import add_noise, build_maps, evaluation_sequences, grid

NOISES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""An alarm goes off when a signal has fallen by this share of its largest value so far, or has
risen so far that its smallest value so far lies this share below it."""
RULES = tuple((way, level) for way in ("falls", "rises") for level in LEVELS)
SMOOTHED = 5  # rows
ABOVE_CHANCE = 3  # times as high as while accuracy is at chance a peak must be
SIGNALS = {
    "eu": "EU",
    "tu": "total uncertainty",
    "entropy": "entropy of a single network",
    "parameter_norm": "weight norm",
    "train_loss": "training loss",
    "disagreement": "disagreement between seeds",
}
IN_CELL = {"eu": "posterior_eu", "tu": "posterior_tu", "entropy": "entropy"}  # measured by cell
Found = dict[str, float | None]  # numbers of a run by column
OF_ONE_RUN = [signal for signal in SIGNALS if signal != "disagreement"]


@cache
def sequences(task: MapsSpec) -> dict[str, np.ndarray]:
    return evaluation_sequences(task, 0)


def laplace_at(run: Run, epoch: int | None) -> dict[str, float]:
    """A probe: the Laplace posterior of kept weights, on every cell."""
    found: dict[str, float] = {}
    every = sequences(run.about.task)  # type: ignore[attr-defined]
    posterior = posteriors.laplace(run, every["id_train"], epoch)
    logs = posterior.answer(np.concatenate([every[cell] for cell in CELLS]), last=True)[:, :, 0]
    for cell, part in zip(CELLS, np.split(logs, len(CELLS), axis=1), strict=True):
        measured = posteriors.measure(part, every[cell][:, -1])
        found |= {f"{cell}_posterior_{name}": value for name, value in measured.items()}
    return found


def answers_at(run: Run, epoch: int | None) -> dict[str, np.ndarray]:
    """A probe: log-probabilities at the last question of unseen tasks, (n * C,) by cell."""
    every = sequences(run.about.task)  # type: ignore[attr-defined]
    network = posteriors.ensemble([run], epoch)
    return {cell: network.answer(every[cell], last=True).ravel() for cell, *_ in QUESTIONS}


def trace_ensemble(runs: Sequence[Run]) -> pl.DataFrame:
    """Runs that differ in their seed alone as one posterior, at every epoch that all have kept: its
    EU is the mutual information between answer and seed. A row by epoch and cell."""
    posteriors.check_ensemble(runs)
    task: Any = runs[0].about.task  # type: ignore[attr-defined]
    kept = [{int(row["epoch"]): row for row in take(r, answers_at).to_dicts()} for r in runs]
    rows = []
    for epoch in sorted(set.intersection(*map(set, kept))):
        for cell, *_ in QUESTIONS:
            tokens = sequences(task)[cell]
            logs = np.stack([np.reshape(each[epoch][cell], (len(tokens), -1)) for each in kept])
            rows.append({"epoch": epoch, "cell": cell} | posteriors.measure(logs, tokens[:, -1]))
    return pl.DataFrame(rows)


def disagree(runs: Sequence[Run]) -> dict[str, float | None]:
    """When each alarm on the disagreement between seeds goes off: one curve for all of them."""
    found: dict[str, float | None] = {}
    for (cell,), rows in trace_ensemble(runs).group_by("cell", maintain_order=True):
        epochs, level = (rows[column].to_numpy() for column in ("epoch", "eu"))
        alarms = read_alarms(runs[0], "disagreement", epochs, level)
        found |= {f"{cell}_{name}": time for name, time in alarms.items()}
    return found


def trace(run: Run) -> pl.DataFrame:
    """The curve at the snapshots and at the end, with the posterior there."""
    kept = [*run.snapshots, int(run.outcome["epochs"])]
    curve = run.curve.with_columns(pl.col("epoch").cast(int)).filter(pl.col("epoch").is_in(kept))
    if run.about.optimiser.kind == "ivon":
        return curve
    probed = take(run, laplace_at).with_columns(pl.col("epoch").cast(int))
    return curve.join(probed, on="epoch", how="inner")


def smooth(values: np.ndarray, ahead: int = 0) -> np.ndarray:  # (rows,)
    """Running mean of five rows, of which `ahead` are still to come; the ends are repeated."""
    padded = np.pad(values, (SMOOTHED - 1 - ahead, ahead), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED).mean(axis=-1)


class Hump(NamedTuple):
    """The largest value of a smoothed signal, and the smallest after it as a share of that."""

    epoch: float
    top: float
    left: float

    @classmethod
    def find(cls, epochs: np.ndarray, values: np.ndarray) -> Hump:
        level = smooth(values, SMOOTHED // 2)
        at = int(level.argmax())
        top = float(level[at])
        return cls(float(epochs[at]), top, float(level[at:].min()) / top if top > 0 else 1.0)


def find_peak(epochs: np.ndarray, values: np.ndarray, floor: float = 0.0) -> float | None:
    """When a smoothed signal is largest. Without a later fall to half of that there is no peak,
    only a rise; nor is there one below the floor, or in the first row."""
    hump = Hump.find(epochs, values)
    falls = hump.epoch > epochs[0] and hump.left <= 0.5
    return hump.epoch if falls and hump.top >= floor else None


def usual_level(epochs: np.ndarray, values: np.ndarray, at_chance: np.ndarray) -> float:
    """The median of a signal while accuracy is at chance, 0 if it never is. The initial weights do
    not count."""
    before = values[at_chance & (epochs > 0)]
    return float(np.median(before)) if len(before) else 0.0


def chance_of(task: MapsSpec) -> float:
    """Accuracy below which a network is taken to guess: half as much again as by guessing."""
    return 1.5 / task.modulus


def alarm_times(epochs: np.ndarray, values: np.ndarray) -> list[float]:
    """When each of the `RULES` is first met by the smoothed signal, infinite if never: a time that
    is missing was not computed. No label is needed, and no knowledge of what is to come."""
    level = np.maximum(smooth(values), 1e-6)
    change = {
        "falls": 1 - level / np.maximum.accumulate(level),
        "rises": 1 - np.minimum.accumulate(level) / level,
    }
    hits = [np.flatnonzero(change[way] >= share) for way, share in RULES]
    return [float(epochs[hit[0]]) if len(hit) else math.inf for hit in hits]


def read_alarms(run: Run, signal: str, epochs: np.ndarray, values: np.ndarray) -> Found:
    """The times by name, of all rows and of those from the end of the warm-up on."""
    warm = epochs >= run.about.optimiser.warmup
    starts = {"alarm": (epochs, values), "late_alarm": (epochs[warm], values[warm])}
    return {
        f"{start}_{signal}_{place}": time
        for start, rows in starts.items()
        for place, time in enumerate(alarm_times(*rows))
    }


def summarise(run: Run) -> Mapping[str, float | None]:
    rows, posterior = trace(run), final_posterior(run)
    last = rows.row(-1, named=True)
    found: dict[str, float | None] = {}
    for cell in CELLS:
        parts = {n: last[f"{cell}_posterior_{n}"] for n in ("tu", "au", "eu_corrected", "accuracy")}
        found |= {f"{cell}_final_{name}": value for name, value in parts.items()}
        found[f"{cell}_eu_share"] = parts["eu_corrected"] / max(parts["tu"], 1e-9)
    found |= read_posterior(run)
    for cell, _, event, _ in QUESTIONS:
        then = run.outcome[event.column]["epoch"]
        read = read_wait(run, rows, cell, then) | sweep(posterior, cell, then is not None)
        found |= {f"{cell}_{name}": value for name, value in read.items()}
    return found


def read_posterior(run: Run) -> dict[str, float]:
    """What EU owes to a constant: the share of EU that Laplace finds with seen pairs times seen
    tasks for N, the paper's rule; what is left of IVON's Hessian h at the end, and what would be if
    it learned nothing (h falls by the factor beta2 in every step)."""
    spec: Any = run.about
    if spec.optimiser.kind == "ivon":
        hessian = [h.ravel() for n, h in run.weights().items() if n.startswith("hessian.")]
        left = float(np.median(np.concatenate(hessian))) / spec.optimiser.hessian
        return {"hessian_left": left, "hessian_forgotten": kept_hessian(spec)}
    every = sequences(spec.task)
    own = posteriors.laplace(run, every["id_train"], size=float(spec.task.sample_size))
    measured = own.measure_last(every["id_val"])
    return {"id_val_eu_share_own": measured["eu_corrected"] / max(measured["tu"], 1e-9)}


def read_wait(run: Run, rows: pl.DataFrame, cell: str, then: float | None) -> Found:
    """EU in a cell before and after it is generalised to (`then`), and when each alarm goes off."""
    chance = chance_of(run.about.task)  # type: ignore[attr-defined]
    columns = ("epoch", f"{cell}_posterior_eu_corrected", f"{cell}_accuracy")
    epochs, eu, accuracy = (rows[column].to_numpy() for column in columns)
    usual = usual_level(epochs, eu, accuracy < chance)
    peak = find_peak(epochs, eu, ABOVE_CHANCE * usual)
    half = find_half(run.curve, cell, chance)
    early = float(np.median(eu[1 : 1 + max(1, len(eu) // 4)]))
    found: Found = {
        "eu_peak": peak,
        "half_grokked": half,
        "eu_lead": _lead(peak, then),
        "eu_lead_half": _lead(peak, half),
        "peak_in_vain": None if then is not None else float(peak is not None),
        "eu_growth": float(eu[-1] / usual) if then is not None and usual > 0 else None,
        "eu_early": early,
        "certainty_early": -early,
        "delay": _delay(run, then),
    }
    for signal in OF_ONE_RUN:
        column = f"{cell}_{IN_CELL[signal]}" if signal in IN_CELL else signal
        found |= read_alarms(run, signal, epochs, rows[column].to_numpy())
    return found


def _lead(peak: float | None, then: float | None) -> float | None:
    """The part of the wait that is left at the peak; -1 without a peak, None without a wait."""
    if not then:
        return None
    return -1.0 if peak is None else 1 - peak / then


def _delay(run: Run, then: float | None) -> float | None:
    """How many times as late as seen tasks with seen pairs the same accuracy is reached."""
    training = run.about.training
    rule = EventRule("seen", "id_train_accuracy", training.test_threshold, training.persistence)
    columns = {name: run.curve[name].to_numpy() for name in ("epoch", rule.measure)}
    seen = find_event(columns, rule).epoch
    return then / seen if then and seen else None


def find_half(curve: pl.DataFrame, cell: str, chance: float) -> float | None:
    """The other grok time: when accuracy first has half of its final value. None where that is not
    above chance."""
    accuracy = smooth(curve[f"{cell}_accuracy"].to_numpy())
    half = accuracy[-1] / 2
    return float(curve["epoch"][int((accuracy >= half).argmax())]) if half > chance else None


def final_posterior(run: Run) -> posteriors.Posterior:
    """Of the final weights, by the method that the run was trained with."""
    if run.about.optimiser.kind == "ivon":
        return posteriors.ivon(run, draws=16)
    every = sequences(run.about.task)  # type: ignore[attr-defined]
    return posteriors.laplace(run, every["id_train"])


def sweep(posterior: posteriors.Posterior, cell: str, generalised: bool) -> dict[str, float | None]:
    """Accuracy, AU and EU for each number of examples in context, and at the last question for each
    share of wrong labels. What claims look at is None for a run that did not generalise: it answers
    at random."""
    task, clean = posterior.spec.task, sequences(posterior.spec.task)[cell]
    logs, labels = posterior.answer(clean), clean[:, 2::3]
    right = np.exp(logs).mean(axis=0).argmax(axis=-1) == labels
    sorted_out = lookup.sort_answers(right, lookup.has_multiple(clean, task.modulus), task.modulus)
    context = [posteriors.measure(logs[:, :, k], labels[:, k]) for k in range(task.triples)]
    noisy = [posterior.measure_last(disturb(task, cell, noise)) for noise in NOISES]
    places = {f"context_{k}": found for k, found in enumerate(context)}
    places |= {f"noise_{noise:g}": found for noise, found in zip(NOISES, noisy, strict=True)}
    names = ("accuracy", "au", "eu_corrected")
    claimed = {
        "context_peak": np.argmax([found["eu_corrected"] for found in context]),
        "context_gain": context[-1]["accuracy"] - context[1]["accuracy"],
        "context_fall_au": context[1]["au"] - context[-1]["au"],
        **{f"noise_slope_{n}": np.polyfit(NOISES, [f[n] for f in noisy], 1)[0] for n in names},
    }
    above = sorted_out["absent_gain"] if generalised else None
    return {
        **{f"{place}_{name}": found[name] for place, found in places.items() for name in names},
        **{name: float(value) if generalised else None for name, value in claimed.items()},
        **(sorted_out | {"absent_gain": above}),
    }


def disturb(task: MapsSpec, cell: str, noise: float) -> np.ndarray:
    """The measured sequences with wrong labels in their contexts, the same for all runs."""
    rng = np.random.default_rng([7, round(1000 * noise)])
    return add_noise(sequences(task)[cell], noise, task.modulus, rng)


@cache
def optimum(task: MapsSpec, cell: str) -> pl.DataFrame:
    """The optimal predictor on the same sequences: accuracy and TU for each number of examples and
    each share of wrong labels, for both priors; and those of the rule that looks up a multiple of
    the question, and guesses where there is none."""
    maps, every = build_maps(task, 0), grid(task.modulus)
    rows: list[tuple] = []
    for prior, tasks in (("all tasks", every), ("seen tasks", maps.seen_tasks)):
        clean = optimal.predict_optimally(sequences(task)[cell], tasks, task.modulus)
        each = zip(clean.accuracy.mean(axis=0), clean.total.mean(axis=0), strict=True)
        rows += [(prior, "context", float(k), *mean) for k, mean in enumerate(each)]
        for noise in NOISES:
            noisy = disturb(task, cell, noise)
            found = optimal.predict_optimally(noisy, tasks, task.modulus, noise)
            last = found.accuracy[:, -1].mean(), found.total[:, -1].mean()
            rows.append((prior, "noise", noise, *last))
    rule = lookup.look_up(lookup.has_multiple(sequences(task)[cell], task.modulus), task.modulus)
    means = zip(*rule, strict=True)
    rows += [("look-up", "context", float(k), *map(float, mean)) for k, mean in enumerate(means)]
    return pl.DataFrame(rows, ["prior", "sweep", "at", "accuracy", "tu"], orient="row")
