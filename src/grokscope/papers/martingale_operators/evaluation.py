"""Numbers of a run: its law, and every baseline's, against the truth on unseen initial conditions.

All distances are in deviations of the truth (root mean variance over points and conditions), joint
ones per point, so that the squared joint distance of a point mass at the true mean is 1.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from grokscope.measures import laws as measures
from grokscope.papers.martingale_operators import laws
from grokscope.papers.martingale_operators.laws import Law, Trained, Truth
from grokscope.papers.martingale_operators.theory import rank_gap
from grokscope.problems.fields import pass_operations, set_up
from grokscope.spec.equations import EquationSpec, FieldSpec
from grokscope.store import Run
from grokscope.tasks import fields

DEFINITIONS = {  # of "Wasserstein distance", by column
    "w1": "pointwise W1",
    "w2": "pointwise W2",
    "w2_squared": "pointwise W2, squared",
    "pooled": "pointwise W2, pooled",
    "sliced": "sliced W2",
    "sliced_squared": "sliced W2, squared",
    "bures": "joint W2 (Bures)",
    "bures_squared": "joint W2, squared",
}
LEVELS = (0.5, 0.8, 0.9, 0.95)
FEW, FEWER = 400, 60  # samples of the scores that compare all pairs
DIRECTIONS = 32


def compare(law: Law, truth: Truth) -> dict[str, float]:
    """Distances and scores of a law, averaged over the initial conditions."""
    unit, size = truth.unit, truth.mean.shape[1]
    joint = unit * size**0.5
    directions = measures.draw_directions(size, DIRECTIONS)
    rows = []
    for mean, covariance, samples, reference, true_mean, true in zip(
        law.mean, law.covariance, law.samples, truth.reference, truth.mean, truth.covariance,
        strict=True,
    ):  # fmt: skip
        first, second = measures.wasserstein(samples, reference, 1, 2) / unit
        sliced = measures.sliced_wasserstein(samples, reference, directions) / unit
        bures = measures.bures(mean, covariance, true_mean, true) / joint
        deviation, true_deviation = (np.sqrt(np.diag(c)) for c in (covariance, true))
        few, others = samples[:FEW], reference[:FEW]
        row = {
            "w1": first.mean(),
            "w2": second.mean(),
            "w2_squared": np.mean(second**2),
            "sliced": sliced,
            "sliced_squared": sliced**2,
            "bures": bures,
            "bures_squared": bures**2,
            "energy": measures.energy_score(few, others) / joint,
            "crps": measures.crps(few, others).mean() / unit,
            "variogram": measures.variogram_score(samples[:FEWER], reference[:FEWER]) / unit,
            "mean_error": np.sqrt(np.mean((mean - true_mean) ** 2)) / unit,
            "std_error": np.sqrt(np.mean((deviation - true_deviation) ** 2)) / unit,
            "covariance_error": measures.covariance_error(covariance, true),
            "correlation_error": measures.correlation_error(covariance, true),
        }
        shares = measures.coverage(samples, reference, *LEVELS)
        row |= {f"coverage_{100 * v:.0f}": s for v, s in zip(LEVELS, shares, strict=True)}
        rows.append(row)
    pooled = measures.wasserstein(
        law.samples.reshape(-1, size), truth.reference[:, :FEW].reshape(-1, size), 2
    )
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {**means, "pooled": float(pooled.mean()) / unit}


def summarise(run: Run) -> dict[str, float | None]:
    """The run's own law without a prefix, the baselines with their names."""
    trained, truth = laws.open_run(run), laws.find_truth(run.spec.equation)  # type: ignore[attr-defined]
    row = compare(laws.operator_law(trained, truth), truth)
    mean = trained.moments(truth.given)[0]
    around = laws.residuals(trained)
    for name, law in {
        "dirac": laws.dirac(mean),
        "global": laws.global_spread(mean, around),
        "constant": laws.constant_covariance(mean, around),
        "ranked": laws.constant_covariance(mean, around, trained.spec.operator.rank),
    }.items():
        row |= {f"{name}_{column}": value for column, value in compare(law, truth).items()}
    row |= shared_rows(trained.spec.equation, pass_operations(trained.spec))
    row |= rank_limits(trained.spec, truth)
    least, error = row.get("limit_covariance_error"), row["covariance_error"]
    return {
        **row,
        # What exceeds Eckart and Young's limit, in squares. It is the distance from the best factor
        # only where that is at right angles to what the best factor leaves out.
        "beyond_limit": max(error**2 - least**2, 0.0) ** 0.5 if least is not None else None,
        "gain": row["dirac_w2"] / row["w2"],
        "excess_w2": row["w2"] - row["floor_w2"],
        "gaussian_excess": row["gaussian_w2"] / row["floor_w2"],
    }


@lru_cache(maxsize=16)
def shared_rows(equation: EquationSpec, operations: float) -> Mapping[str, float]:
    """What all runs of an equation share: the sampling floor, the coarse solver with the operations
    of a forward pass, the moments of as many true samples as a training condition has, and how far
    from Gaussian the truth is."""
    truth = laws.find_truth(equation)
    found = {
        "floor": laws.from_samples(truth.fresh),
        "oracle": laws.oracle_moments(truth, equation.noises),
        "coarse": laws.coarse_solver(equation, operations, truth),
        "gaussian": laws.gaussian(truth.mean, truth.covariance),
    }
    row = {
        f"{name}_{column}": value
        for name, law in found.items()
        if law is not None
        for column, value in compare(law, truth).items()
    }
    kurtosis = [measures.excess_kurtosis(samples).mean() for samples in truth.reference]
    return {**row, "kurtosis": float(np.median(kurtosis)), "deviation": truth.unit}


def rank_limits(spec: FieldSpec, truth: Truth) -> dict[str, float]:
    """The least covariance error and joint W2 that a factor of this rank allows (T2)."""
    if not spec.operator.rank:
        return {}
    size = truth.mean.shape[1]
    gaps = []
    for covariance in truth.covariance:
        values = np.linalg.eigvalsh(covariance)
        error = rank_gap(values, spec.operator.rank, "frobenius") / np.linalg.norm(values)
        distance = rank_gap(values, spec.operator.rank) / (truth.unit * size**0.5)
        gaps.append((error, distance))
    error, distance = np.mean(gaps, axis=0)
    return {"limit_covariance_error": float(error), "limit_bures": float(distance)}


def by_frequency(covariance: np.ndarray) -> tuple[np.ndarray, float]:  # (N, N) -> (N / 2 + 1,)
    """Variance at each frequency, both signs together, which is 2 gamma_k where both exist; and how
    much of F C F* lies between different frequencies, as a share of its Frobenius norm."""
    size = len(covariance)
    spectrum = np.fft.ifft(np.fft.fft(covariance, axis=0), axis=1) / size
    wave = np.abs(np.fft.fftfreq(size, 1 / size)).astype(int)
    power = np.bincount(wave, np.diag(spectrum).real)
    between = np.where(wave[:, None] == wave, 0.0, spectrum)
    return power, float(np.linalg.norm(between) / np.linalg.norm(spectrum))


def kept_by_rank(equation: EquationSpec, rank: int) -> np.ndarray:  # (N / 2 + 1,)
    """What the best factor of a rank has of the heat equation's variance at each frequency (T2): a
    wave and its quarter turn are two rows, each with half of it."""
    gamma = fields.heat_variances(equation)[1]
    wave = np.arange(equation.points)  # 0, 1, 1, 2, 2, ...: one for each eigenvalue
    wave = (wave + 1) // 2
    first = wave[np.argsort(-gamma[wave], kind="stable")[:rank]]
    return np.bincount(first, gamma[first], minlength=len(gamma))


def compare_modes(run: Run) -> dict[str, float]:
    """On the heat equation: |P - P*| / |P*| of the variances by frequency, P* those of the best
    factor of the run's rank, and what is learned between frequencies."""
    trained, truth = laws.open_run(run), laws.find_truth(run.spec.equation)  # type: ignore[attr-defined]
    best = kept_by_rank(trained.spec.equation, trained.spec.operator.rank)
    found = [by_frequency(each) for each in trained.moments(truth.given)[1]]
    errors = [np.linalg.norm(power - best) / np.linalg.norm(best) for power, _ in found]
    return {
        "mode_error": float(np.mean(errors)),
        "mode_leak": float(np.mean([leak for _, leak in found])),
    }


def trace_modes(run: Run) -> pl.DataFrame:
    """For the figure: the first seed's variances by frequency, in a row for each frequency."""
    if run.spec.seed:
        return pl.DataFrame()
    trained, truth = laws.open_run(run), laws.find_truth(run.spec.equation)  # type: ignore[attr-defined]
    power = np.mean([by_frequency(c)[0] for c in trained.moments(truth.given)[1]], axis=0)
    true = kept_by_rank(trained.spec.equation, trained.spec.equation.points)
    frame = pl.DataFrame({"x": np.arange(len(power)), "learned": power, "truth": true})
    return frame.select(
        pl.lit(run.outcome["epochs"], pl.Int32).alias("epoch"),
        pl.lit("mode").alias("kind"),
        pl.all().cast(pl.Float32),
    )


def transfer(run: Run) -> dict[str, float]:
    """Errors of mean and deviation on the training grid and on grids 2 and 4 times as fine, in
    deviations there; for equations whose law is known in closed form."""
    trained = laws.open_run(run)
    row = {}
    for factor in (1, 2, 4):
        equation = run.spec.replace(  # type: ignore[attr-defined]
            **{"equation.points": factor * trained.spec.equation.points}
        ).equation
        coefficients = laws.find_truth(trained.spec.equation).coefficients
        known = fields.known_law(equation, coefficients)
        if known is None:
            return {}
        given = np.asarray(fields.evaluate_conditions(equation, coefficients))
        mean, deviation = marginals(trained, given.reshape(len(given), -1))
        unit = np.sqrt(np.trace(known[1]) / len(known[1]))
        row[f"mean_error_{factor}x"] = float(np.sqrt(np.mean((mean - known[0]) ** 2)) / unit)
        off = deviation - np.sqrt(np.diag(known[1]))
        row[f"std_error_{factor}x"] = float(np.sqrt(np.mean(off**2)) / unit)
        row[f"deviation_{factor}x"] = float(unit)
    return {
        **row,
        "true_growth": row["deviation_4x"] / row["deviation_1x"],
    }


def marginals(trained: Trained, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation at every point, without the whole covariance.  (u, N) -> (u, N) twice"""
    shift, scale = trained.scales.fields
    law = trained.problem.predict(trained.params, trained.scaled(given), trained.numbers)
    spread = np.sqrt(np.sum(np.asarray(law.factor) ** 2, axis=1) + np.asarray(law.diagonal))
    return np.asarray(law.mean) * scale + shift, spread * scale


SPEED_SAMPLES = 256


def measure_speed(run: Run) -> dict[str, float]:
    """Milliseconds for samples of the law of one initial condition: of one pass, and where the run
    is a flow of its steps, in turns, so that other work on the machine slows both."""
    trained = laws.open_run(run)
    given = laws.find_truth(trained.spec.equation).given[:1]
    if not trained.problem.flow:
        return _shortest({"law_ms": partial(laws.pass_sampler(trained, SPEED_SAMPLES), given)})
    # An operator of the same shape; its weights do not matter for the time.
    shape = {"operator.kind": "gaussian", "objective.kind": "joint"}
    spec: Any = trained.spec.replace(**shape)
    problem, data, scales, numbers = set_up(spec)
    params = problem.init(jax.random.key(0), jax.tree.map(jnp.asarray, data), numbers)
    other = Trained(spec, params, problem, data, scales, numbers)
    return _shortest(
        {
            "pass_ms": partial(laws.pass_sampler(other, SPEED_SAMPLES), given),
            "law_ms": partial(laws.flow_sampler(trained, SPEED_SAMPLES, laws.STEPS), given),
        }
    )


def _shortest(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Of five rounds; the first call compiles, and other work can only add."""
    rounds = [{n: timeit.timeit(call, number=1) for n, call in calls.items()} for _ in range(6)]
    return {name: 1e3 * min(each[name] for each in rounds[1:]) for name in calls}


SHOWN = 2  # every second point of a covariance matrix is kept


def trace_law(run: Run) -> pl.DataFrame:
    """For the figure of fields and covariances: the first seed's law of one initial condition, in
    rows of a kind (field or covariance), a place and values."""
    if run.spec.seed:
        return pl.DataFrame()
    trained, truth = laws.open_run(run), laws.find_truth(run.spec.equation)  # type: ignore[attr-defined]
    law = laws.operator_law(trained, truth)
    mean, deviation = law.mean[0], np.sqrt(np.diag(law.covariance[0]))
    true_deviation = np.sqrt(np.diag(truth.covariance[0]))
    size = len(mean)
    rows: list[dict[str, Any]] = [
        {
            "kind": "field",
            "x": place / size,
            "mean": mean[place],
            "low": mean[place] - 1.645 * deviation[place],
            "high": mean[place] + 1.645 * deviation[place],
            "true": truth.mean[0, place],
            "true_low": truth.mean[0, place] - 1.645 * true_deviation[place],
            "true_high": truth.mean[0, place] + 1.645 * true_deviation[place],
            **{f"sample{i}": law.samples[0, i, place] for i in range(3)},
            **{f"real{i}": truth.reference[0, i, place] for i in range(3)},
        }
        for place in range(size)
    ]
    for i in range(0, size, SHOWN):
        for j in range(0, size, SHOWN):
            pair = {"learned": law.covariance[0, i, j], "truth": truth.covariance[0, i, j]}
            scaled = {name: value / truth.unit**2 for name, value in pair.items()}
            rows.append({"kind": "covariance", "x": i / size, "y": j / size, **scaled})
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col(pl.Float64).cast(pl.Float32)
    )
    epoch = pl.lit(run.outcome["epochs"], pl.Int32).alias("epoch")
    return frame.select(epoch, pl.all())
