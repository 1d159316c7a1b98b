"""Certificates on real (tiny) runs: bounds hold, numbers agree with independent ones, and a
violation would be seen."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope.models import minimal
from grokscope.models.roles import MLP
from grokscope.papers.structural_inference.certificates import (
    certify,
    checks,
    inapplicable,
    summarise,
)
from grokscope.papers.structural_inference.certificates.checks import (
    _prior_decay,
    inspect_run,
    update_bound,
    upper_check,
)
from grokscope.papers.structural_inference.certificates.inspection import (
    Inspected,
    draw_pairs,
    make_inspector,
)
from grokscope.papers.structural_inference.theory import spectral_norm
from grokscope.problems.routing import build

# Statements that are theorems for any weights; the others are claims about training.
THEOREMS = {
    "Lipschitz constant",
    "closed form",
    "divergence",
    "explaining away",
    "logit variance",
    "lower bound",
    "norm contraction",
    "pair difference",
    "pair necessity",
    "pooled mass",
    "prior's gradient",
    "squared-norm identity",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return gs.Store(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def base(tiny):
    changes = {"task.alphabet": 4, "optimiser.lr": 1e-2, "training.snapshots": 3}
    return tiny.replace(**changes)


SGD = {"optimiser.kind": "sgd", "optimiser.lr": 0.1, "optimiser.weight_decay": 0.01}
VARIANTS = {
    "plain": {},
    "prior, no decay": {"prior.kind": "oracle", "optimiser.weight_decay": 0.0},
    "two heads, Lion": {"model.heads": 2, "optimiser.kind": "lion", "optimiser.lr": 1e-3},
    "linear-ReLU, Muon": {"model.attention": "linear_relu", "optimiser.kind": "muon"},
    "division, SGD": {"task.kind": "division", **SGD},
    "frozen": {"interventions.frozen_attention": "oracle"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_theorems_hold_on_trained_weights(base, store, variant):
    (run,) = gs.train(base.replace(**VARIANTS[variant]), store, processes=1)
    table = certify(run, store)
    theorems = table.filter(pl.col("name").is_in(THEOREMS))
    assert theorems["holds"].all(), theorems.filter(~pl.col("holds"))
    assert theorems["ratio"].is_finite().all()
    if variant != "frozen":
        assert {"explaining away", "closed form", "pair difference"} <= set(theorems["name"])
        per_checkpoint = table.filter(pl.col("name") == "explaining away")
        assert per_checkpoint["epoch"].to_list() == [*run.snapshots, 100]
    assert ("norm contraction" in set(table["name"])) == (variant != "prior, no decay")
    assert summarise(table)["checks"].sum() == len(table)
    assert inapplicable(run) == {}
    # The largest step of the MLP between two snapshots, against eta (B + lambda |W|) per step.
    optimiser, (first, second) = run.spec.optimiser, run.snapshots[1:3]
    weights = [run.weights(epoch) for epoch in (first, second)]
    moved = np.sqrt(sum(np.sum((weights[1][n] - weights[0][n]) ** 2) for n in MLP))
    limit = update_bound(run.spec, run.weights())
    limit += optimiser.weight_decay * float(run.curve["mlp_norm"].max())
    assert moved <= (second - first) * optimiser.lr * limit


def test_an_optimiser_without_a_bound_is_not_given_another_ones(base, store, monkeypatch):
    (run,) = gs.train(base, store, processes=1)
    monkeypatch.delitem(checks.UPDATE_BOUNDS, "adamw")
    with pytest.raises(gs.SpecError, match=r"no such bound .* 'adamw'. Known: sgd, lion, muon"):
        update_bound(run.spec, run.weights())
    assert "norm contraction" not in set(certify(run, store)["name"])
    assert "no such bound for this optimiser (adamw)" in inapplicable(run)[1]


@pytest.mark.parametrize(
    "changes",
    [{"optimiser.kind": "sgd", "optimiser.clip": 0.0}, {"optimiser.beta2": 0.5}],
)
def test_nothing_bounds_these_updates(base, changes):
    weights = {"hidden": np.zeros((4, 12)), "hidden_bias": np.zeros(12)}
    assert update_bound(base.replace(**changes), weights) == np.inf


def test_a_violation_is_seen():
    assert not upper_check("x", 1, 0, 1.1, 1.0).holds
    assert upper_check("x", 1, 0, 0.9, 1.0).ratio == pytest.approx(0.9)
    assert not upper_check("x", 1, 0, 1.0, 0.0).holds
    assert not upper_check("x", 1, 0, float("nan"), 1.0).holds  # not known is not held


@pytest.mark.parametrize(("final", "holds"), [(0.001, True), (0.6, False)])
def test_a_prior_that_loses_is_judged_not_skipped(base, final, holds):
    """Attention that comes near the oracle and is pulled back refutes the laws for that run."""
    epochs = np.arange(0, 2000, 2)
    pull = np.exp(-epochs / 8.0)
    divergence = np.maximum(0.9 * pull, final * (epochs > 20))
    attention = np.tile([0.2] * 5, (len(epochs), 1))
    curve = {"epoch": epochs, "divergence_train": divergence}
    rows = list(_prior_decay(base.replace(**{"prior.kind": "oracle"}), curve, attention))
    corrected = [row.holds for row in rows if row.name == "prior's corrected decay"]
    (delay,) = [row for row in rows if row.name == "prior's delay"]
    assert corrected
    assert all(corrected) == holds
    assert delay.holds == holds
    if not holds:
        assert len(corrected) > 900  # to the end of the curve
        brief = {name: column[:100] for name, column in curve.items()}
        rows = _prior_decay(base.replace(**{"prior.kind": "oracle"}), brief, attention)
        assert "prior's delay" not in {row.name for row in rows}  # censored: nothing is claimed


def test_the_worst_gradient_agrees_with_automatic_differentiation(base, store):
    (run,) = gs.train(base, store, processes=1)
    ((_, seen),) = inspect_run(run, store, [None])
    data = gs.build_task(run.spec.task, run.spec.seed)
    params = {name: jnp.asarray(array) for name, array in run.weights().items()}
    shape = minimal.Shape(data.vocabulary, 5, data.classes, 8, 16, 1, "softmax")
    tokens, labels = jnp.asarray(data.tokens[data.train]), jnp.asarray(data.labels[data.train])
    forward = minimal.forward(params, tokens, shape)

    def losses(scores):
        attention = jax.nn.softmax(scores)
        logits = minimal.classify(params, jnp.einsum("nht,nhtd->nd", attention, forward.values))
        return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels]

    loss = losses(forward.scores)
    gradient = jnp.abs(jax.grad(lambda s: losses(s).sum())(forward.scores))[:, 0]
    slope = spectral_norm(params["hidden"]) * spectral_norm(params["readout"])
    away = jnp.linalg.norm(forward.values[:, 0] - forward.pooled[:, None, :], axis=-1)
    bound = jnp.sqrt(2.0) * slope * forward.attention[:, 0] * away * jnp.sqrt(loss)[:, None]
    worst = seen["gradient_at_worst"] / seen["bound_at_worst"]
    np.testing.assert_allclose(worst, (gradient / bound).max(), rtol=1e-2)
    sharp = bound / jnp.sqrt(loss)[:, None] * (1 - jnp.exp(-loss))[:, None]
    expected = {
        "gradient_ratio_median": jnp.median(gradient / bound),
        "gradient_mean": gradient.mean(),
        "bound_mean": bound.mean(),
        "sharp_bound_mean": sharp.mean(),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(seen[name], value, rtol=1e-2, err_msg=name)


def test_a_tiny_loss_is_not_rounded_away(base, store):
    """With logits 40 times as large most losses are below float32's rounding of the logits; the
    worst ratio must still be one of positive numbers, and below 1."""
    (run,) = gs.train(base, store, processes=1)
    problem, data, numbers = build(run.spec, store)
    inspected = Inspected(data.train, data.test, numbers)
    params = {name: jnp.asarray(array) for name, array in run.weights().items()}
    sure = {**params, **{name: 40 * params[name] for name in ("readout", "readout_bias")}}
    pairs = draw_pairs(run.spec, gs.build_task(run.spec.task, run.spec.seed))
    seen = make_inspector(problem.shape)(sure, inspected, jax.tree.map(jnp.asarray, pairs))
    assert 0 < seen["gradient_at_worst"] < seen["bound_at_worst"]
    assert 0 < seen["gradient_ratio_median"] < 1


@pytest.mark.parametrize(
    "changes",
    [{}, {"task.kind": "division"}, {"task.positions": "random", "task.distractors": "own"}],
)
def test_pairs_differ_in_one_informative_position(base, changes):
    spec = base.replace(**changes)
    data = gs.build_task(spec.task, spec.seed)
    pairs = draw_pairs(spec, data, count=500)
    differs = pairs.before != pairs.after
    assert (differs.sum(axis=1) == 1).all()
    assert np.array_equal(differs.argmax(axis=1), pairs.position)
    assert (pairs.label_before != pairs.label_after).all()
    known = {tuple(row): label for row, label in zip(data.tokens, data.labels, strict=True)}
    checked = 0
    for row, label in zip(pairs.after, pairs.label_after, strict=True):
        if tuple(row) in known:
            assert known[tuple(row)] == label
            checked += 1
    assert checked > 5 or changes


def test_only_finished_runs_are_certified(base, store):
    bad = base.replace(
        **{"optimiser.kind": "sgd", "optimiser.lr": 1e30, "optimiser.weight_decay": 0.0}
    )
    (run,) = gs.train(bad, store, processes=1)
    with pytest.raises(gs.StoreError, match="only finished runs"):
        certify(run, store)
