"""Figures 9 and 10: what the studies read off a run, and what their figures show."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest
from test_figures import STUDIES, evidence_of, make_up, points

import grokscope as gs
from grokscope.draw import marks
from grokscope.models import minimal, shape_of
from grokscope.papers.structural_inference import figures, heads, tasks, width
from grokscope.tasks import build_task

SMALL = gs.RunSpec().replace(**{"task.modulus": 7, "task.alphabet": 3, "model.hidden": 24})


def random_weights(shape):
    """Drawn by NumPy: compiling JAX's generator would take longer than the tests."""
    rng = np.random.default_rng(3)
    template = jax.eval_shape(lambda: minimal.init(jax.random.key(0), shape))
    return {
        name: rng.normal(0, 2 / np.sqrt(array.shape[0]), array.shape).astype(np.float32)
        for name, array in template.items()
    }


def fake_run(spec, grokked=100):
    weights = random_weights(shape_of(spec.model, build_task(spec.task, spec.seed)))
    return SimpleNamespace(
        spec=spec,
        weights=lambda: weights,
        outcome={"grokked": {"epoch": grokked}, "memorised": {"epoch": 50}},
    )


def test_mass_by_head_is_that_of_the_textbook():
    spec = SMALL.replace(**{"model.heads": 4, "model.width": 16})
    run = fake_run(spec)
    data = build_task(spec.task, spec.seed)
    textbook = jax.jit(minimal.forward, static_argnums=2)
    attention = np.asarray(
        textbook(run.weights(), data.tokens, shape_of(spec.model, data)).attention
    )
    smallest = attention[:, :, [0, 2]].min(axis=2)  # (n, H): the operands stand at 0 and 2
    found = heads.summarise(run)
    by_head = [found[f"head_{place}_min"] for place in (1, 2, 3, 4)]
    assert by_head == pytest.approx(sorted(smallest.min(axis=0), reverse=True), rel=1e-5)
    assert found[heads.BEST] == by_head[0]
    assert found[heads.BY_INPUT] == pytest.approx(smallest.max(axis=1).min(), rel=1e-5)


@pytest.mark.parametrize(
    ("by_head", "pooled", "single"),
    [
        ([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0]] * 2, 1, 0),  # two heads for each operand
        ([[0.5, 0, 0.5, 0, 0], [0.5, 0, 0.4, 0.1, 0]] * 2, 1, 1),
        ([[0.4, 0.2, 0.4, 0, 0]] + [[0, 1, 0, 0, 0]] * 3, 0, 1),  # three heads are elsewhere
        ([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]] * 2, 0, 0),  # nobody sees the second operand
    ],
)
def test_work_is_shared_where_the_mean_is_right_and_no_head_is(
    monkeypatch, by_head, pooled, single
):
    spec = SMALL.replace(**{"model.heads": 4})
    monkeypatch.setattr(
        heads, "_attend", lambda shape, params, tokens: np.array([by_head] * len(tokens), float)
    )
    found = heads.summarise(fake_run(spec))
    assert (found["pooled_right"], found["best_head_right"]) == (pooled, single)
    assert found["shared"] == (100 if pooled and not single else None)
    assert heads.summarise(fake_run(spec, grokked=None))["shared"] is None


def test_a_shortcut_that_errs_is_found():
    """That the true one does not is a test of the model."""
    run = fake_run(SMALL.replace(**{"model.width": 16}))
    weights = run.weights()
    weights["readout"][:] = 0
    weights["readout_bias"][:] = np.arange(7)  # these are the logits, then

    def crooked(params, tokens, shape):
        bent = {**params, "readout_bias": params["readout_bias"].at[2].add(0.5)}
        return minimal.forward_fast(bent, tokens, shape)

    found = width.summarise(run, crooked)
    assert found["shortcut_error"] == pytest.approx(0.5 / 6)
    assert 1e-3 < found["shortcut_gradient_error"] < 1


def test_the_worst_ratio_is_of_all_snapshots(monkeypatch):
    monkeypatch.setattr(tasks, "inspect", lambda path: {"ratio_worst": np.array([0.1, 0.2, 0.1])})
    curve = pl.DataFrame({"epoch": [0, 50, 100], "structure_share": [0.1, 0.4, 0.9]})
    run = SimpleNamespace(path="run", curve=curve, outcome={"memorised": {"epoch": 50}})
    assert tasks.summarise(run) == {"bound_ratio": 0.2, "right_at_memorisation": 0.4}
    run.outcome["memorised"]["epoch"] = None
    assert tasks.summarise(run) == {"bound_ratio": 0.2}


def test_a_prior_is_judged_where_attention_is_misled():
    test = next(c.test for c in STUDIES["tasks"].claims if c.name == "prior accelerates the misled")

    def made(right):
        def make(item):
            grokked = 500 if item.spec.prior.kind == "oracle" else None
            return {**make_up(item.spec, grokked), "right_at_memorisation": right}

        return evidence_of("tasks", "laptop", make).samples["multiplication"]

    for wrong in (0.3, None):
        finding = test.judge(made(wrong))
        assert finding.estimate.value == np.inf
        assert "500 against 0 of 3 grok" in finding.remark
    finding = test.judge(made(1.0))
    assert finding.estimate is None
    assert finding.ruling == "untestable"
    assert "routing is not the bottleneck" in finding.remark


def test_tasks_are_as_the_page_says():
    settings = {setting.regime: setting.base for setting in tasks.STUDY.settings("laptop")}
    sizes = {}
    for name, spec in settings.items():
        data = build_task(spec.task, 0)
        sizes[name] = (len(data.train), data.length, int((data.oracle[0] > 0).sum()), data.classes)
    assert sizes == {
        "addition": (1109, 5, 2, 43),
        "multiplication": (1109, 5, 2, 43),
        "three operands": (1965, 7, 3, 17),
        "parity": (500, 21, 3, 2),
        "permutations": (5760, 5, 2, 120),
    }


def test_attention_spread_evenly_cannot_see_the_order_of_operands():
    """Why the oracle is not what composition needs."""
    spec = gs.RunSpec().replace(**{"task.kind": "permutation", "task.symbols": 3})
    data = build_task(spec.task, 0)
    shape = shape_of(spec.model, data)
    swapped = data.tokens.copy()
    swapped[:, [0, 2]] = data.tokens[:, [2, 0]]
    pool = partial(jax.jit(minimal.pool, static_argnums=3), random_weights(shape))
    oracle = data.oracle[:, None, :]
    pooled, other = (pool(tokens, oracle, shape) for tokens in (data.tokens, swapped))
    assert np.allclose(pooled, other, atol=1e-6)
    reverse = {tuple(pair): label for pair, label in zip(data.operands, data.labels, strict=True)}
    assert any(reverse[a, b] != reverse[b, a] for a, b in reverse)
    tilted = oracle * np.where(np.arange(data.length) == 0, 1.2, 0.8).astype(np.float32)
    pooled, other = (pool(tokens, tilted, shape) for tokens in (data.tokens, swapped))
    assert not np.allclose(pooled, other, atol=1e-2)


def test_heads_are_drawn_by_their_numbers_and_never_below_the_axis():
    def split(item):
        groks = item.spec.task.alphabet == 1
        row = make_up(item.spec, 300 if groks else None)
        return {**row, "weakest_min": 0.4 if groks else 0.0, "best_head_min": 0.01}

    scatter, epochs = STUDIES["heads"].draw(evidence_of("heads", "laptop", split))
    drawn = {(p["ending"], p["value"], p["place"]) for p in points(scatter.chart)}
    assert drawn == {(marks.REACHED, 0.4, 0.01), (marks.CENSORED, figures.LEAST, 0.01)}
    assert epochs.title == "grok epoch"
    assert len(points(epochs.chart)) == 5 * 3


def test_each_task_has_its_own_budget_and_gaps_where_there_is_no_number():
    def plain(item):
        ratio = None if item.setting.regime == "parity" else 0.1
        return {**make_up(item.spec, None), "starvation": 20.0, "bound_ratio": ratio}

    evidence = evidence_of("tasks", "laptop", plain)
    epochs, fall, bound = STUDIES["tasks"].draw(evidence)
    budgets = {sample.budget for sample in evidence.samples.values()}
    assert {p["value"] for p in points(epochs.chart)} == budgets
    assert len(points(fall.chart)) == 5 * 3  # without a prior alone
    assert len(points(bound.chart)) == 4 * 2 * 3
    assert "no number" in str(bound.chart.to_dict(validate=False))
