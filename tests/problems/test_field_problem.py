"""The problem of fields: what its losses teach, and that the mean stays its own."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import grokscope as gs
from grokscope.engine.program import make_member
from grokscope.papers.martingale_operators import evaluation, laws
from grokscope.problems.fields import pass_operations
from grokscope.spec.equations import FieldSpec
from programs import optimised

SMALL = FieldSpec().replace(
    **{
        "equation.points": 16,
        "equation.conditions": 64,
        "equation.noises": 8,
        "operator.width": 8,
        "operator.layers": 2,
        "operator.modes": 6,
        "operator.rank": 4,
        "training.epochs": 450,
        "training.log_every": 150,
    }
)
ARMS = {
    "diagonal": {},
    "joint": {"objective.kind": "joint"},
    "flow": {"operator.kind": "flow"},
    "mean": {"objective.kind": "mean", "operator.dropout": 0.0},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    specs = [SMALL.replace(**changes) for changes in ARMS.values()]
    store = gs.Store(tmp_path_factory.mktemp("fields"))
    with optimised():  # bits are compared between programs
        return dict(zip(ARMS, gs.train(specs, store, processes=1), strict=True))


def test_it_learns(runs):
    for name, run in runs.items():
        assert run.status == "finished"
        curve = run.curve
        assert curve["test_error"][-1] < 0.5 * curve["test_error"][0], name
        assert run.outcome["fitted"]["rising"] is False
    diagonal = runs["diagonal"].curve
    assert diagonal["spread_error"][-1] < min(0.35, diagonal["spread_error"][0])
    assert diagonal["test_loss"][-1] < diagonal["test_loss"][0]


def test_the_mean_is_that_of_squared_errors_alone(runs):
    """Bit for bit, whatever law is learned around it."""
    alone = runs["mean"].weights()
    for name in ("diagonal", "joint", "flow"):
        weights = runs[name].weights()
        for key in alone:
            if key.startswith("mean."):
                assert weights[key].tobytes() == alone[key].tobytes(), (name, key)


def test_numbers_are_data():
    """Rates, decay, weight and floor share one program; rank does not."""
    changes = ({"objective.floor": 1e-3}, {"objective.mean_weight": 2.0}, {"optimiser.lr": 1e-4})
    forms = {make_member(SMALL.replace(**change), None)[0] for change in changes}
    assert len(forms) == 1
    assert make_member(SMALL.replace(**{"operator.rank": 2}), None)[0] not in forms


def test_the_rate_falls_along_a_cosine():
    from grokscope.optim.decoupled import learning_rate

    _, member = make_member(SMALL.replace(**{"optimiser.warmup": 0}), None)
    rates = [float(learning_rate(member.optimiser, step)) for step in (0, 225, 450)]
    np.testing.assert_allclose(rates, [1e-2, 5e-3, 0], atol=1e-8)


def test_laws_and_baselines(runs, monkeypatch):
    """Every baseline gives moments and samples that agree, and the numbers of a run are those
    that its laws give."""
    monkeypatch.setattr(laws, "REFERENCE", 1000)
    monkeypatch.setattr(laws, "SAMPLES", 500)
    laws._truth.cache_clear()
    trained = laws.open_run(runs["joint"])
    truth = laws.find_truth(SMALL.equation)
    mean = trained.moments(truth.given)[0]
    found = {
        "operator": laws.operator_law(trained),
        "flow": laws.operator_law(laws.open_run(runs["flow"])),
        **laws.around_mean(mean, laws.residuals(trained), 4),
        "coarse": laws.coarse_solver(SMALL.equation, pass_operations(SMALL), truth),
        "oracle": laws.oracle_moments(truth, 8),
    }
    for name, law in found.items():
        assert np.isfinite(law.samples).all(), name
        centre = law.samples.mean(axis=1)
        unit = truth.unit * (1 + law.samples.shape[1] ** 0.5 / 5)
        assert np.abs(centre - law.mean).max() < unit, name
    row = evaluation.summarise(runs["joint"])
    assert row["dirac_bures"] == pytest.approx(
        np.sqrt(1 + row["dirac_mean_error"] ** 2), rel=0.05
    )  # T1
    assert row["dirac_coverage_90"] == 0
    assert row["constant_bures"] < row["global_bures"] < 2  # the noise is correlated
    assert row["floor_w2"] < row["w2"]
    laws._truth.cache_clear()


def test_transfer_to_finer_grids(runs):
    row = evaluation.transfer(runs["diagonal"])
    assert row["true_growth"] == pytest.approx(1, abs=0.02)  # coloured noise in one dimension
    assert row["mean_error_4x"] < 1
    assert set(row) >= {"std_error_1x", "std_error_2x", "std_error_4x", "deviation_4x"}


def test_dropout_draws_another_mean_each_time(store):
    spec = SMALL.replace(**{"operator.dropout": 0.2, "training.epochs": 2, "seed": 3})
    (run,) = gs.train(spec, store, processes=1)
    trained = laws.open_run(run)
    one, other = (
        trained.problem.predict(
            trained.params, trained.data.train.given[:2] * jax.numpy.ones(1), trained.numbers, key
        ).mean
        for key in jax.random.split(jax.random.key(0))
    )
    assert not np.allclose(one, other)


def test_speed_is_measured_beside_one_pass(runs):
    flow, joint = (evaluation.measure_speed(runs[name]) for name in ("flow", "joint"))
    assert flow["law_ms"] > flow["pass_ms"] > 0
    assert joint.keys() == {"law_ms"}


def test_samples_of_one_pass_have_its_moments(runs):
    trained = laws.open_run(runs["joint"])
    given = laws.find_truth(SMALL.equation).given
    mean, covariance = trained.moments(given)
    drawn = laws.from_samples(laws.pass_sampler(trained, 20_000)(given))
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    np.testing.assert_allclose((drawn.mean - mean) / spread, 0, atol=0.05)
    assert np.linalg.norm(drawn.covariance - covariance) < 0.05 * np.linalg.norm(covariance)


def test_a_constant_covariance_of_a_rank():
    """Its variances are those of the residuals, its correlations those of the first components."""
    rng = np.random.default_rng(0)
    around = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 16)) + 0.1 * rng.normal(
        size=(4000, 16)
    )
    mean = np.zeros((2, 16))
    found = laws.around_mean(mean, around, 3)
    whole, ranked = (found[name].covariance for name in ("constant", "ranked"))
    diagonals = (np.diagonal(each, axis1=1, axis2=2) for each in (whole, ranked))
    np.testing.assert_allclose(*diagonals, rtol=1e-10)
    np.testing.assert_allclose(ranked, whole, atol=0.02 * np.abs(whole).max())
    single = laws.around_mean(mean, around, 1)["ranked"].covariance
    assert np.linalg.norm(single - whole) > 0.1 * np.linalg.norm(whole)
    none = laws.around_mean(mean, around, 0)["ranked"].covariance
    np.testing.assert_array_equal(none, whole)
