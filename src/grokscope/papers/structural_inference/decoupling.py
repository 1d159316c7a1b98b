"""The decoupling theorem as a decision, judged on a population of runs (Theorem 4.3).

The theorem: zero test error if and only if attention satisfies B_tau with tau = m / (L_f Delta) and
the MLP's norm lies in the Goldilocks shell. From a trained run we take

- m, the separation of logits that its smallest training margin implies;
- L_f, the product of the MLP's spectral norms, and Delta, the largest |v - mu| over sampled pairs;
- the shell, which the theorem leaves open: the range of norms of the *other* runs that generalised
  (leave one out, so that a run never vouches for itself).
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from scipy.stats import binomtest

from grokscope.errors import SpecError
from grokscope.papers.structural_inference import theory
from grokscope.papers.structural_inference.certificates import checks
from grokscope.store import Run, Store

FOLDS = 8  # of a cross-validation
# Larger means more likely to generalise; the sign reverses the others.
MASSES = ("weakest_min", "weakest_q01", "weakest_q10", "weakest_mean", "mass_mean")
SIZES = ("divergence", "attention_entropy", "mlp_norm", "lipschitz_bound", "parameter_norm")
CANDIDATES = {**dict.fromkeys(MASSES, 1), **dict.fromkeys(SIZES, -1)}


def measure_population(runs: list[Run], store: Store) -> pl.DataFrame:
    """A row per run: what the theorem needs, and what became of the run."""
    rows = []
    for run in runs:
        (_, seen), *_ = checks.inspect_run(run, store, [None])
        final = run.outcome["final"]
        margin, scale = seen["train_margin_min"], (seen["lipschitz"], seen["spread_max"])
        separation = theory.separation_from_margin(max(margin, 0.0))
        threshold = float(theory.mass_threshold(separation, *scale)) if margin > 0 else math.nan
        rows.append(
            {
                "run": run.id,
                "alphabet": run.spec.task.alphabet,
                "prior": run.spec.prior.kind,
                "strength": run.spec.prior.strength if run.spec.prior.kind != "none" else 0.0,
                "weight_decay": run.spec.optimiser.weight_decay,
                "seed": run.spec.seed,
                "margin": margin,
                "lipschitz": seen["lipschitz"],
                "spread": seen["spread_max"],
                "tau": threshold,
                "generalised": final["test_accuracy"] >= run.spec.training.test_threshold,
                "test_accuracy": final["test_accuracy"],
                **{name: final[name] for name in CANDIDATES},
            }
        )
    return pl.DataFrame(rows)


def add_conditions(table: pl.DataFrame) -> pl.DataFrame:
    """The table of a population with the theorem's two conditions and its prediction."""
    norms = table["mlp_norm"].to_numpy()
    good = table["generalised"].to_numpy()
    inside = []
    for index, norm in enumerate(norms):
        others = norms[good & (np.arange(len(norms)) != index)]
        inside.append(bool(len(others)) and bool(others.min() <= norm <= others.max()))
    structural = pl.col("tau").is_not_nan() & (pl.col("weakest_min") >= pl.col("tau"))
    return table.with_columns(
        structural.alias("structural_condition"), pl.Series("norm_condition", inside)
    ).with_columns((pl.col("structural_condition") & pl.col("norm_condition")).alias("predicted"))


def confusion(predicted: np.ndarray, actual: np.ndarray) -> tuple[int, int, int, int]:
    """Predicted and did, predicted and did not, not predicted but did, neither."""
    hits, calls, happened = (int(np.sum(x)) for x in (predicted & actual, predicted, actual))
    return hits, calls - hits, happened - hits, len(actual) - calls - happened + hits


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Wilson interval of a share, 95 %."""
    if total == 0:
        return math.nan, math.nan
    interval = binomtest(count, total).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def best_threshold(values: np.ndarray, actual: np.ndarray) -> tuple[float, float]:
    """The cut `values >= t` with the best balanced accuracy, and that accuracy. Cuts lie halfway
    between neighbouring values; among equal ones the middle is taken."""
    if actual.all() or not actual.any():
        raise SpecError("A cut can only be chosen where some runs generalised and some did not.")
    order = np.unique(values)
    cuts = np.concatenate([[order[0] - 1], (order[1:] + order[:-1]) / 2, [order[-1] + 1]])
    above = values >= cuts[:, None]  # (cuts, runs)
    scores = (above[:, actual].mean(axis=1) + (~above[:, ~actual]).mean(axis=1)) / 2
    best = np.flatnonzero(scores == scores.max())
    return float(cuts[best[len(best) // 2]]), float(scores.max())


def balanced_accuracy(predicted: np.ndarray, actual: np.ndarray) -> float:
    """Mean of the shares of generalising and of other runs that are called right."""
    if actual.all() or not actual.any():
        return math.nan
    return float((predicted[actual].mean() + (~predicted[~actual]).mean()) / 2)


def cross_validate(
    candidates: np.ndarray, actual: np.ndarray, groups: np.ndarray, repeats: int = 20
) -> tuple[float, float]:  # (candidates, runs), (runs,), (runs,)
    """Balanced accuracy on held-out runs, mean and standard deviation over repeats.
    Measure and cut are both chosen on the other folds: with several candidates the choice between
    them is part of what is tested. Runs of one group (the same spec except for the seed) stay in
    one fold, so that no run is judged by its twin."""
    rng = np.random.default_rng(0)
    names, member = np.unique(groups, return_inverse=True)
    scores = []
    for _ in range(repeats):
        fold = (rng.permutation(len(names)) % FOLDS)[member]
        predicted = np.zeros(len(actual), dtype=bool)
        for held in range(FOLDS):
            rest = fold != held
            found = [best_threshold(values[rest], actual[rest]) for values in candidates]
            row = int(np.argmax([accuracy for _, accuracy in found]))
            predicted[~rest] = candidates[row][~rest] >= found[row][0]
        scores.append(balanced_accuracy(predicted, actual))
    return float(np.mean(scores)), float(np.std(scores))


def configurations(table: pl.DataFrame) -> np.ndarray:
    """A name for each run's configuration, the same for its twins with another seed."""
    fields = ("alphabet", "prior", "strength", "weight_decay")
    return table.select(pl.concat_str(fields, separator=" "))[:, 0].to_numpy()


def rank_thresholds(table: pl.DataFrame) -> pl.DataFrame:
    """Every candidate measure as a single cut, best held-out accuracy first; and, as the last row,
    the best of them when the choice is made on the training folds."""
    actual, groups = table["generalised"].to_numpy(), configurations(table)
    signed = np.array([sign * table[name].to_numpy() for name, sign in CANDIDATES.items()])
    rows = []
    for values, (name, sign) in zip(signed, CANDIDATES.items(), strict=True):
        cut, accuracy = best_threshold(values, actual)
        held_out, deviation = cross_validate(values[None], actual, groups)
        rule = f"{'>=' if sign > 0 else '<='} {sign * cut:.4g}"
        rows.append((name, rule, accuracy, held_out, deviation))
    rows.sort(key=lambda row: -row[3])
    held_out, deviation = cross_validate(signed, actual, groups)
    best = max(row[2] for row in rows)
    rows.append(("the best of these", "chosen in training", best, held_out, deviation))
    columns = ["measure", "rule", "accuracy", "held_out", "deviation"]
    return pl.DataFrame(rows, schema=columns, orient="row")
