"""The linear theory, checked number by number, and the audit of figure 6. Needs no runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from scipy.integrate import solve_ivp

from grokscope.draw import theme
from grokscope.draw.marks import inline
from grokscope.pages.files import template
from grokscope.pages.paper import tidy
from grokscope.papers.epistemic_icl.settings import PROSE
from grokscope.papers.epistemic_icl.theory import spectrum
from grokscope.papers.epistemic_icl.theory.flow import Flow
from grokscope.papers.epistemic_icl.theory.spectrum import Regime, delay, late_delay, time_at
from grokscope.papers.epistemic_icl.theory.success import PEAK, THRESHOLD, closure

FIGURE = "epistemic-icl-delays.svg"
FLOWS = 20
DATA_SETS = 2000  # drawn from a right model
# What can be read off figure 6: n / sigma^2, 1 / tau^2, C_0 / eps.
STRENGTH, DAMPING, START = 5.12e7, 1.0, 1e4
RATIOS = tuple(np.round(np.linspace(0.01, 0.99, 50), 4))
GRID = 4000
COLUMNS = {
    "formula": "formula (13)",
    "peak_delay": "exact quadrature",
    "peak_delay_grid": f"uniform grid of {GRID:,} eigenvalues",
}


def tabulate(runs: Any, store: Any) -> dict[str, pl.DataFrame]:
    delays = audit_delays()
    return {"delays": delays, "checks": check(delays)}


def audit_delays(ratios: Sequence[float] = RATIOS, nodes: int = GRID) -> pl.DataFrame:
    """Figure 6: both delays and times for each lambda, by exact quadrature, on a uniform grid, and
    by the late-time formula."""
    on_grid = partial(spectrum.log_transient_on_grid, nodes=nodes)
    peak, right, rows = PEAK / START, THRESHOLD / START, []
    for ratio in map(float, ratios):
        regime = Regime(ratio, STRENGTH, DAMPING)
        rows.append(
            {
                "ratio": ratio,
                "formula": late_delay(regime),
                "peak_delay": delay(regime, peak),
                "accuracy_delay": delay(regime, right),
                "peak_delay_grid": delay(regime, peak, on_grid),
                "peak_time": time_at(regime, peak, "test"),
                "accuracy_time": time_at(regime, right, "test"),
                "train_peak_time": time_at(regime, peak, "train"),
                "slowest": regime.slowest,
            }
        )
    return pl.DataFrame(rows)


def random_flow(seed: int, wide: float = 1.0) -> Flow:
    """A small regression with noise in its labels."""
    rng = np.random.default_rng([seed, 5])
    inputs, truth = rng.standard_normal((30, 8)), rng.standard_normal(8)
    root = rng.standard_normal((8, 8))
    targets = inputs @ truth + 0.3 * rng.standard_normal(30)
    start = rng.standard_normal(8)
    return Flow(inputs, targets, truth, 0.5, 1.0, start, wide * (root @ root.T + 0.1 * np.eye(8)))


def average_cross_terms(count: int = DATA_SETS) -> dict[str, float]:
    """The mean of each dropped term over the mean of its size, where weights and labels are drawn
    from the very prior and likelihood of the flow, which starts at 0. Given the data, w* is then
    distributed as N(mu_inf, Sigma_inf), so that E[(mu_inf - w*)' e^{-At} d] = 0; but X'r / sigma^2
    is mu_inf / tau^2, so that the training term has the sign of mu_inf' e^{-At} mu_inf."""
    prior, noise, time = 1.0, 0.5, 0.02
    rng = np.random.default_rng(8)
    found = []
    for _ in range(count):
        inputs = rng.standard_normal((30, 8))
        truth = math.sqrt(prior) * rng.standard_normal(8)
        targets = inputs @ truth + math.sqrt(noise) * rng.standard_normal(30)
        flow = Flow(inputs, targets, truth, noise, prior, np.zeros(8), np.eye(8))
        found.append(np.subtract(flow.excess(time), flow.excess(time, cross_terms=False)))
    terms = np.array(found)  # (data sets, 2)
    train, test = terms.mean(axis=0) / np.abs(terms).mean(axis=0)
    return {"train": float(train), "test": float(test)}


def check(delays: pl.DataFrame) -> pl.DataFrame:
    """T1 to T5 as numbers: what was found, what the paper says, and whether they agree."""
    flows = [random_flow(seed) for seed in range(FLOWS)]
    late = Regime(0.6, 1e4, 1.0)
    times = np.array([600.0, 700.0]) / late.slowest
    train, test = (
        np.array([spectrum.log_transient(late, time, side) for time in times])
        for side in ("train", "test")
    )
    # What is left of log(K t^{-3/2} e^{-kappa t}) without the power is a line.
    slope = {
        side: float(np.diff(logs + 1.5 * np.log(times))[0] / (times[0] - times[1]))
        for side, logs in (("train", train), ("test", test))
    }
    gap = test[1] - train[1]
    cross = average_cross_terms()
    halves = float(np.median([_late_rate(flow) for flow in flows]))
    bends = [_bend(seed, wide) for seed in range(FLOWS) for wide in (1e-4, 1e4)]
    early = (delays["peak_time"] < delays["accuracy_time"]).mean()
    least = (delays["peak_delay"] / delays["accuracy_delay"]).min()
    rows = [
        ("T1", "closed form against a numerical solver, largest relative error",
         max(map(_solver_error, flows[:3])), 0.0, 1e-6),
        ("T2", "late rate of the test risk over kappa", slope["test"] / late.slowest, 1.0, 1e-2),
        ("T2", "late rate of the training risk over kappa", slope["train"] / late.slowest, 1.0,
         1e-2),
        ("T2", "ratio of amplitudes times (1 - sqrt(lambda))^2", math.exp(gap) * late.edge, 1.0,
         1e-2),
        ("T2", "late rate with the dropped cross terms over kappa, median of "
         f"{FLOWS} data sets", halves, 1.0, 1e-2),
        ("T2", f"mean of the dropped test term over its mean size, {DATA_SETS:,} data sets of a "
         "right model", cross["test"], 0.0, 0.1),
        ("T2", "the same for the dropped training term", cross["train"], 0.0, 0.1),
        ("T3", "share of successes at a risk of 1.0991 eps, the EU peak",
         float(closure(np.array(PEAK), 1.0)), 0.5, 1e-9),
        ("T3", "share of lambda at which the peak comes before 95 % accuracy", early, 1.0, 0.0),
        ("T4", "EU delay over accuracy delay, very late (level 1e-200)",
         delay(late, PEAK * 1e-200) / delay(late, THRESHOLD * 1e-200), 1.0, 1e-2),
        ("T4", "the same in figure 6, smallest over lambda", least, 1.0, 1e-2),
        ("T4", "exact delay over formula (13), very late", delay(late, 1e-200) / late_delay(late),
         1.0, 2e-2),
        ("T5", f"regression EU that turns round, share of {len(bends)} flows that start wide or "
         "narrow", float(np.mean(bends)), 0.0, 0.0),
    ]  # fmt: skip
    names = ("statement", "what", "found", "expected", "tolerance")
    table = pl.DataFrame(rows, names, orient="row")
    near = (pl.col("found") - pl.col("expected")).abs() <= pl.col("tolerance")
    return table.with_columns(near.alias("agrees"))


def _solver_error(flow: Flow) -> float:
    """Against SciPy's solution of both equations of the flow."""
    d = len(flow.truth)

    def move(_: float, state: np.ndarray) -> np.ndarray:  # (d + d^2,)
        spread = state[d:].reshape(d, d)
        change = 2 * np.eye(d) - flow.precision @ spread - spread @ flow.precision
        return np.concatenate([flow.pull - flow.precision @ state[:d], change.ravel()])

    start = np.concatenate([flow.mean, flow.covariance.ravel()])
    end = solve_ivp(move, (0, 0.05), start, rtol=1e-9, atol=1e-10).y[:, -1]
    exact = np.concatenate([flow.mean_at(0.05), flow.covariance_at(0.05).ravel()])
    return float(np.abs(end - exact).max() / np.abs(exact).max())


def _late_rate(flow: Flow) -> float:
    """Decay of the whole excess test risk, cross terms included, over that of the paper's part."""
    slowest = float(np.linalg.eigvalsh(flow.precision).min())
    times = (14.0 / slowest, 15.0 / slowest)
    risks = [abs(flow.excess(time)[1]) for time in times]
    return math.log(risks[0] / risks[1]) / 2


def _bend(seed: int, wide: float) -> bool:
    """Does log(1 + x'Sigma x / s^2) / 2 both rise and fall?"""
    flow = random_flow(seed, wide)
    at = np.random.default_rng([seed, 6]).standard_normal(len(flow.truth))
    values = [flow.regression_uncertainty(t, at, 0.5) for t in np.geomspace(1e-5, 2, 60)]
    steps = np.diff(values)
    return bool((steps > 1e-9).any() and (steps < -1e-9).any())


def render(tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]) -> tuple[str, dict]:
    """The page, from the template `theory.md`, and its figure."""
    delays, checks = tables["delays"], tables["checks"]
    ratio, formula, kappa = (delays[n].to_numpy() for n in ("ratio", "formula", "slowest"))
    exact, grid = (delays[n].to_numpy() / formula for n in ("peak_delay", "peak_delay_grid"))
    test_late, train_late = (kappa * delays[n].to_numpy() for n in ("peak_time", "train_peak_time"))
    text = template("theory.md", __package__).render(
        of_figure_6={"strength": STRENGTH, "damping": DAMPING, "start": START, "nodes": GRID},
        figure=FIGURE,
        checks=checks.to_dicts(),
        delays=delays[[0, 10, 20, 30, 40, 45, 47, 49]].to_dicts(),
        exact=exact,
        grid=grid,
        sound=ratio[np.abs(grid / exact - 1) < 0.01].max(initial=0.0),
        test_late=test_late,
        train_late=train_late,
        fails=ratio[train_late < 1].min(),
    )
    return tidy(text), {FIGURE: _draw_delays(delays)}


def _draw_delays(delays: pl.DataFrame) -> alt.Chart:
    rows = [
        {"ratio": row["ratio"], "delay": row[column], "computation": name}
        for row in delays.to_dicts()
        for column, name in COLUMNS.items()
    ]
    colours = alt.Scale(domain=list(COLUMNS.values()), range=list(theme.ARMS[:3]))
    y = alt.Y("delay:Q", title="Delay of the EU peak", axis=alt.Axis(format=".0e", tickCount=8))
    return (
        alt.Chart(inline(rows), width=520, height=280)
        .mark_line()
        .encode(
            x=alt.X("ratio:Q", title="λ = d / n"),
            y=y.scale(type="log"),
            color=alt.Color("computation:N", scale=colours, legend=alt.Legend(title=None)),
        )
    )


ANNEX = PROSE.annex(
    "epistemic-icl-theory",
    settings=lambda scale: [],
    arms=lambda setting, seed: {},
    tabulate=tabulate,
    render=render,
    runs=False,
)
