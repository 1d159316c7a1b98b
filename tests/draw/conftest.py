"""Runs made by hand: curves of a known shape, stored as the engine stores them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grokscope.measures.outcomes import conclude
from grokscope.spec import RunSpec
from grokscope.store import Run, Store

BASE = RunSpec().replace(**{"task.modulus": 11, "training.epochs": 1000, "training.log_every": 50})
MakeRun = Callable[..., Run]


def fabricate_curve(
    spec: RunSpec, memorise: int | None, grok: int | None, until: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Accuracy steps up at `memorise` and ramps to 1 at `grok`; divergence falls before it."""
    step = spec.training.log_every
    epochs = np.arange(0, until + 1, step, dtype=np.int32)
    rows = len(epochs)
    length = spec.task.bits + 1 if spec.task.kind == "parity" else spec.task.length or 5
    train = np.full(rows, 0.5) if memorise is None else np.where(epochs >= memorise, 1.0, 0.4)
    test = np.full(rows, 0.1)
    share = np.zeros(rows)
    if grok is not None:
        start = grok - 200
        share = np.clip((epochs - start) / (grok - start), 0, 1)
        test = 0.1 + 0.9 * share
    attention = np.full((rows, length), 1 / length)
    attention[:, 0] += share * (0.5 - 1 / length)
    attention /= attention.sum(axis=1, keepdims=True)
    noise = np.exp(0.1 * rng.standard_normal(rows))
    columns = {
        "train_loss": np.where(train == 1, 0.0, 2.0),  # an exact zero, as float32 can give
        "train_accuracy": train,
        "test_loss": 3 - 2 * share,
        "test_accuracy": test,
        "test_accuracy_mirrored": test,
        "test_accuracy_unmirrored": 0.9 * test,
        "divergence": 0.9 - 0.8 * np.clip(2 * share, 0, 1),
        "mass_mean": 0.6 + 0.4 * share,
        "weakest_min": 0.01 + 0.4 * share,
        "weakest_q01": 0.02 + 0.4 * share,
        "weakest_q10": 0.1 + 0.35 * share,
        "structure_share": 0.2 + 0.7999 * share,
        "interaction_gradient": 0.1 * noise * np.exp(-epochs / 300),
        "logit_gradient_mean": np.where(epochs > 600, 0.0, 0.01),  # starved to nothing
        "mlp_norm": 30 - share,
        "lipschitz_bound": 50 * noise,
    }
    curve = {name: value.astype(np.float32) for name, value in columns.items()}
    curve["mass_by_head"] = np.tile(curve["mass_mean"][:, None], spec.model.heads)
    return {"epoch": epochs, **curve, "attention": attention.astype(np.float32)}


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """`make_run(grok=500, status="failed", **{"prior.kind": "oracle"})`: an entry of a store."""
    store = Store(tmp_path / "runs")

    def make(
        memorise: int | None = 100,
        grok: int | None = 500,
        status: str = "finished",
        until: int | None = None,
        **fields: Any,
    ) -> Run:
        spec = BASE.replace(**fields)
        run = store.begin(spec)
        if status == "empty":
            return run
        end = spec.training.epochs if until is None else until
        curve = fabricate_curve(spec, memorise, grok, end, np.random.default_rng(spec.seed))
        provenance = {
            "segments": [
                {
                    "seconds": 12.5,
                    "commit": "abc1234+",
                    "backend": "cpu",
                    "versions": {"python": "3.11.7", "jax": "0.10.2"},
                }
            ]
        }
        if status == "partial":
            store.save_progress(run, curve, {"step": np.int32(end)}, provenance)
            return run
        failed = -1
        if status == "failed":
            failed = int(curve["epoch"][-1])
            for name, column in curve.items():
                if name != "epoch":
                    column[-1] = np.nan
        outcome = conclude(spec, curve, failed)
        store.finish(run, curve, {"w": np.zeros(1, np.float32)}, outcome, provenance)
        return run

    return make


REGRESSION = {
    "measure": "test_loss",
    "threshold": 0.01,
    "persistence": 3,
    "epoch": 400,
    "observed_until": 1000,
}


@pytest.fixture
def regression(tmp_path: Path) -> Run:
    """A run of a problem without tokens: losses, a measure of its own, one event, no phases."""
    store = Store(tmp_path / "runs")
    run = store.begin(BASE.replace(seed=77))
    epochs = np.arange(0, 1001, 50, dtype=np.int32)
    loss = np.exp(-epochs / 80).astype(np.float32)
    curve = {"epoch": epochs, "train_loss": loss, "test_loss": 2 * loss, "residual_rank": 9 * loss}
    outcome = {
        "status": "finished",
        "ended_by": "budget",
        "failed_at": None,
        "epochs": 1000,
        "generalised": REGRESSION,
        "final": {name: float(column[-1]) for name, column in curve.items() if name != "epoch"},
    }
    segment = {"seconds": 1.5, "commit": "abc1234", "backend": "cpu", "versions": {"jax": "1"}}
    made = {"segments": [{**segment, "execution": "processes", "threads": 1}]}
    store.finish(run, curve, {"w": np.zeros(1, np.float32)}, outcome, made)
    return run


@pytest.fixture
def cases(make_run: MakeRun) -> dict[str, list[Run]]:
    """Every kind of input a figure may be asked to draw, few plots in all: drawing takes time."""
    random_heads = {"task.positions": "random", "task.length": 7, "model.heads": 4}
    return {
        "never memorised, random positions, several heads": [
            make_run(memorise=None, grok=None, **random_heads)
        ],
        "seeds, one failed": [
            make_run(seed=1, grok=400),
            make_run(seed=2, grok=600),
            make_run(seed=3, grok=None, status="failed", until=200),
        ],
        "arms: failed, under way": [
            make_run(grok=None, status="failed", until=200, **{"task.alphabet": 4}),
            make_run(grok=None, status="partial", until=300, **{"task.alphabet": 5}),
        ],
        "no rows": [make_run(status="empty", seed=11)],
    }
