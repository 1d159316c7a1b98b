"""Numbers of a run: its law, and every baseline's, against the truth on unseen initial conditions.

All distances are in deviations of the truth (root mean variance over points and conditions), joint
ones per point, so that the squared joint distance of a point mass at the true mean is 1.
"""

from __future__ import annotations

import timeit
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

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
SPEED_SAMPLES = 256
SHOWN = 2  # every second point of a covariance matrix is kept
TAIL = 1.645  # deviations from the mean of a Gaussian to the ends of its 90 % interval


def compare(law: Law, truth: Truth) -> dict[str, float]:
    """Distances and scores of a law, averaged over the initial conditions."""
    unit, size = truth.unit, truth.mean.shape[1]
    joint = unit * size**0.5
    directions = measures.draw_directions(size, DIRECTIONS)
    rows = []
    for mean, covariance, samples, reference, true_mean, true in zip(
        *law, truth.reference, truth.mean, truth.covariance, strict=True
    ):
        first, second = measures.wasserstein(samples, reference, 1, 2) / unit
        sliced = measures.sliced_wasserstein(samples, reference, directions) / unit
        bures = measures.bures(mean, covariance, true_mean, true) / joint
        deviation, true_deviation = (np.sqrt(np.diag(c)) for c in (covariance, true))
        few, others = samples[:FEW], reference[:FEW]
        shares = measures.coverage(samples, reference, *LEVELS)
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
            "mean_error": root_mean_square(mean - true_mean) / unit,
            "std_error": root_mean_square(deviation - true_deviation) / unit,
            "covariance_error": measures.covariance_error(covariance, true),
            "correlation_error": measures.correlation_error(covariance, true),
            **{f"coverage_{100 * v:.0f}": s for v, s in zip(LEVELS, shares, strict=True)},
        }
        rows.append(row)
    pooled = measures.wasserstein(
        law.samples.reshape(-1, size), truth.reference[:, :FEW].reshape(-1, size), 2
    )
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {**means, "pooled": float(pooled.mean()) / unit}


def root_mean_square(errors: np.ndarray) -> float:
    return np.sqrt(np.mean(errors**2))


def compare_all(found: Mapping[str, Law | None], truth: Truth) -> dict[str, float]:
    """The same of several laws, with their names before the columns."""
    return {
        f"{name}_{column}": value
        for name, law in found.items()
        if law is not None
        for column, value in compare(law, truth).items()
    }


def summarise(run: Run) -> dict[str, float | None]:
    """The run's own law without a prefix, the baselines with their names."""
    trained = laws.open_run(run)
    truth, spec = trained.truth, trained.spec
    mean, around = trained.moments(truth.given)[0], laws.residuals(trained)
    row = {
        **compare(laws.operator_law(trained), truth),
        **compare_all(laws.around_mean(mean, around, spec.operator.rank), truth),
        **shared_rows(spec.equation, pass_operations(spec)),
    }
    return {
        **row,
        **rank_limits(spec, truth, row["covariance_error"]),
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
    kurtosis = [measures.excess_kurtosis(samples).mean() for samples in truth.reference]
    middle = float(np.median(kurtosis))
    return {**compare_all(found, truth), "kurtosis": middle, "deviation": truth.unit}


def rank_limits(spec: FieldSpec, truth: Truth, error: float) -> dict[str, float | None]:
    """The least covariance error and joint W2 that a factor of this rank allows (T2), and by how
    much a covariance error exceeds the limit."""
    if not spec.operator.rank:
        return {"beyond_limit": None}
    rank, joint = spec.operator.rank, truth.unit * truth.mean.shape[1] ** 0.5
    gaps = [
        (
            rank_gap(values, rank, "frobenius") / np.linalg.norm(values),
            rank_gap(values, rank) / joint,
        )
        for values in np.linalg.eigvalsh(truth.covariance)
    ]
    least, distance = map(float, np.mean(gaps, axis=0))
    return {
        "limit_covariance_error": least,
        "limit_bures": distance,
        # In squares. It is the distance from the best factor only where that is at right angles to
        # what the best factor leaves out.
        "beyond_limit": max(error**2 - least**2, 0.0) ** 0.5,
    }


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
    wave = (np.arange(equation.points) + 1) // 2  # 0, 1, 1, 2, 2, ...: one for each eigenvalue
    first = wave[np.argsort(-gamma[wave], kind="stable")[:rank]]
    return np.bincount(first, gamma[first], minlength=len(gamma))


def compare_modes(run: Run) -> dict[str, float]:
    """On the heat equation: |P - P*| / |P*| of the variances by frequency, P* those of the best
    factor of the run's rank, and what is learned between frequencies."""
    trained = laws.open_run(run)
    best = kept_by_rank(trained.spec.equation, trained.spec.operator.rank)
    powers, leaks = zip(*map(by_frequency, trained.moments(trained.truth.given)[1]), strict=True)
    errors = [np.linalg.norm(power - best) / np.linalg.norm(best) for power in powers]
    return {"mode_error": float(np.mean(errors)), "mode_leak": float(np.mean(leaks))}


def trace_modes(run: Run) -> pl.DataFrame:
    """For the figure: the first seed's variances by frequency, in a row for each frequency."""
    if run.spec.seed:
        return pl.DataFrame()
    trained = laws.open_run(run)
    covariances = trained.moments(trained.truth.given)[1]
    power = np.mean([by_frequency(each)[0] for each in covariances], axis=0)
    true = kept_by_rank(trained.spec.equation, trained.spec.equation.points)
    columns = {"x": np.arange(len(power)), "learned": power, "truth": true}
    return as_trace(run, pl.DataFrame({"kind": "mode", **columns}))


def as_trace(run: Run, *frames: pl.DataFrame) -> pl.DataFrame:
    """Rows of several kinds as they are kept, at the run's last step."""
    numbers = pl.col(pl.Float64, pl.Int64).cast(pl.Float32)
    epoch = pl.lit(run.outcome["epochs"], pl.Int32).alias("epoch")
    whole = pl.concat(frames, how="diagonal_relaxed").with_columns(numbers)
    return whole.select(epoch, pl.all())


def trace_law(run: Run) -> pl.DataFrame:
    """For the figure of fields and covariances: the first seed's law of one initial condition, in
    rows of a kind (field or covariance), a place and values."""
    if run.spec.seed:
        return pl.DataFrame()
    trained = laws.open_run(run)
    truth, law = trained.truth, laws.operator_law(trained)
    places = np.arange(law.mean.shape[1]) / law.mean.shape[1]
    mean, true = law.mean[0], truth.mean[0]
    spread, spreads = (TAIL * np.sqrt(np.diag(each.covariance[0])) for each in (law, truth))
    bands = {"mean": mean, "low": mean - spread, "high": mean + spread}
    bands |= {"true": true, "true_low": true - spreads, "true_high": true + spreads}
    drawn = {f"sample{i}": law.samples[0, i] for i in range(3)}
    drawn |= {f"real{i}": truth.reference[0, i] for i in range(3)}
    x, y = np.meshgrid(places[::SHOWN], places[::SHOWN], indexing="ij")
    matrices = {
        name: (covariance[0, ::SHOWN, ::SHOWN] / truth.unit**2).ravel()
        for name, covariance in (("learned", law.covariance), ("truth", truth.covariance))
    }
    return as_trace(
        run,
        pl.DataFrame({"kind": "field", "x": places, **bands, **drawn}),
        pl.DataFrame({"kind": "covariance", "x": x.ravel(), "y": y.ravel(), **matrices}),
    )


def transfer(run: Run) -> dict[str, float]:
    """Errors of mean and deviation on the training grid and on grids 2 and 4 times as fine, in
    deviations there; for equations whose law is known in closed form."""
    trained = laws.open_run(run)
    own, coefficients = trained.spec.equation, trained.truth.coefficients
    row = {}
    for factor in (1, 2, 4):
        equation = replace(own, points=factor * own.points)
        known = fields.known_law(equation, coefficients)
        if known is None:
            return {}
        given = np.asarray(fields.evaluate_conditions(equation, coefficients))
        mean, deviation = trained.marginals(given.reshape(len(given), -1))
        unit = np.sqrt(np.trace(known[1]) / len(known[1]))
        off = deviation - np.sqrt(np.diag(known[1]))
        row[f"mean_error_{factor}x"] = float(root_mean_square(mean - known[0]) / unit)
        row[f"std_error_{factor}x"] = float(root_mean_square(off) / unit)
        row[f"deviation_{factor}x"] = float(unit)
    return {**row, "true_growth": row["deviation_4x"] / row["deviation_1x"]}


def measure_speed(run: Run) -> dict[str, float]:
    """Milliseconds for samples of the law of one initial condition: of one pass, and where the run
    is a flow of its steps, in turns, so that other work on the machine slows both."""
    trained = laws.open_run(run)
    given = trained.truth.given[:1]
    calls = {"law_ms": laws.pass_sampler(trained, SPEED_SAMPLES)}
    if trained.problem.flow:
        # An operator of the same shape; its weights do not matter for the time.
        spec = trained.spec.replace(**{"operator.kind": "gaussian", "objective.kind": "joint"})
        problem, data, scales, numbers = set_up(spec)
        params = problem.init(jax.random.key(0), jax.tree.map(jnp.asarray, data), numbers)
        other = Trained(spec, params, problem, data, scales, numbers)
        calls = {
            "pass_ms": laws.pass_sampler(other, SPEED_SAMPLES),
            "law_ms": laws.flow_sampler(trained, SPEED_SAMPLES, laws.STEPS),
        }
    # Of five rounds; the first call compiles, and other work can only add.
    rounds = [
        {name: timeit.timeit(partial(call, given), number=1) for name, call in calls.items()}
        for _ in range(6)
    ]
    return {name: 1e3 * min(each[name] for each in rounds[1:]) for name in calls}
