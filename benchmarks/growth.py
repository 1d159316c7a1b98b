"""How the cost of an epoch, of compiling and of memory grows with the size of the problem.

Each size has a process of its own; the sizes of one axis take turns on the clock.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from benchmarks.comparison import EPOCHS, LAB, SCALES
from benchmarks.teams import Team, one_process, take_turns
from grokscope.spec import RunSpec, find_recipe, to_dict

BASE = find_recipe(SCALES["laptop"])
SHORTEST = 5  # two operands, two distractors, the query
# name: (what grows, its values, the changes that a value makes)
AXES: dict[str, tuple[str, Sequence[int], Callable[[int], dict[str, Any]]]] = {
    "modulus": (
        "modulus p (examples grow like p²)",
        (23, 37, 59, 83, 113),
        lambda p: {"task.modulus": p, "task.alphabet": p},
    ),
    "width": (
        "width d (with 4 d hidden units)",
        (16, 32, 64, 128, 256),
        lambda d: {"model.width": d, "model.hidden": 4 * d},
    ),
    "length": (
        "sequence length T",
        (SHORTEST, 9, 17, 33, 65),
        lambda length: {"task.length": length},
    ),
}
# Columns of a row that are computed together, in the order in which they are added.
GROUPS = {
    "training loss and accuracy": ["epoch", "train_loss", "train_accuracy"],
    "test loss and accuracies": [
        "test_loss",
        "test_accuracy",
        "test_accuracy_mirrored",
        "test_accuracy_unmirrored",
    ],
    "gradients on attention": ["interaction_gradient", "logit_gradient_mean", "logit_gradient_max"],
    "norms": ["interaction_norm", "mlp_norm", "parameter_norm", "update_norm"],
    "Lipschitz bound": ["lipschitz_bound"],
    "Fourier frequencies": ["frequency_share", "frequencies"],
}
REST = "attention: divergence, mass, quantiles, entropy, variance"


def grow(
    rounds: int,
    axes: Sequence[str] = tuple(AXES),
    sizes: int = 5,
    scales: Sequence[str] = tuple(SCALES),
) -> dict[str, Any]:
    """Along some axes, at their first `sizes` sizes; what measuring costs at some scales."""
    return {
        "axes": [_grow_along(axis, rounds, sizes) for axis in axes],
        "measures": [_cost_of_measures(scale, rounds) for scale in scales],
    }


def _grow_along(axis: str, rounds: int, sizes: int) -> dict[str, Any]:
    title, values, change = AXES[axis]
    values = values[:sizes]
    print(f"growth with {title}", flush=True)
    with contextlib.ExitStack() as stack:
        teams: dict[str, Team] = {}
        first = {}
        for value in values:
            team = stack.enter_context(one_process(LAB, GROKSCOPE_CACHE=""))
            first[str(value)] = team.prepare("lab", [_problem(BASE.replace(**change(value)))])
            teams[str(value)] = team
        work = {name: partial(team.turn, "lab", EPOCHS) for name, team in teams.items()}
        seconds = take_turns(work, rounds)
        points = [
            {
                "value": value,
                "seconds": [s / EPOCHS for s in seconds[str(value)]],
                "first": first[str(value)],
                "bytes": teams[str(value)].children[0].ask("peak_bytes", kind="lab"),
            }
            for value in values
        ]
    for point in points:
        print(
            f"  {point['value']:>4}  {1e3 * statistics.median(point['seconds']):8.2f} ms an epoch"
            f"  {point['first']:6.1f} s to the first row"
            f"  {point['bytes']['program'] / 1e6:6.1f} MB",
            flush=True,
        )
    return {"axis": axis, "title": title, "points": points}


def _cost_of_measures(scale: str, rounds: int) -> dict[str, Any]:
    """What a row costs as columns are added, beside an epoch."""
    print(f"measures at {scale} scale", flush=True)
    spec = find_recipe(SCALES[scale])
    with one_process(LAB) as team:
        team.prepare("lab", [_problem(spec)])
        (child,) = team.children
        names = child.ask("column_names", kind="lab")
        groups = split_columns(names)
        times = child.ask("columns", kind="lab", groups=groups, rounds=rounds)
        parts = child.ask("parts", kind="lab")
    rows = [
        {"group": group, "columns": len(groups[group]), "seconds": times[group]} for group in groups
    ]
    for row in rows:
        middle = 1e3 * statistics.median(row["seconds"])
        print(f"  up to {row['group']:<60}{middle:8.2f} ms", flush=True)
    return {
        "scale": scale,
        "log_every": spec.training.log_every,
        "epoch": parts["epoch"],
        "groups": rows,
    }


def split_columns(names: Sequence[str]) -> dict[str, list[str]]:
    """The columns of a row by group; those that no group names come last, together."""
    groups = {group: [n for n in wanted if n in names] for group, wanted in GROUPS.items()}
    known = {name for wanted in groups.values() for name in wanted}
    groups[REST] = [name for name in names if name not in known]
    return {group: columns for group, columns in groups.items() if columns}


def _problem(spec: RunSpec) -> dict[str, Any]:
    return {"spec": to_dict(spec)}


def fit_exponent(values: ArrayLike, costs: ArrayLike) -> tuple[float, float, float]:
    """Slope b of log cost = a + b log value by least squares, with its 95 % interval (Student)."""
    x, y = np.log(np.asarray(values, float)), np.log(np.asarray(costs, float))
    if len(x) < 3:
        raise ValueError(f"{len(x)} sizes give no interval; at least 3 are needed.")
    spread = ((x - x.mean()) ** 2).sum()
    slope = ((x - x.mean()) * y).sum() / spread
    residuals = y - y.mean() - slope * (x - x.mean())
    error = np.sqrt((residuals**2).sum() / (len(x) - 2) / spread)
    half = stats.t.ppf(0.975, len(x) - 2) * error
    return float(slope), float(slope - half), float(slope + half)


def middles(points: Sequence[Mapping[str, Any]]) -> list[float]:
    """Median seconds of each point."""
    return [statistics.median(point["seconds"]) for point in points]
