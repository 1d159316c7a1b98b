"""It really learns: the core story of the paper at smoke scale, seconds a run."""

from __future__ import annotations

import pytest

import grokscope as gs
from programs import optimised


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    smoke, noise = gs.find_recipe("smoke"), gs.find_recipe("smoke-noise")
    specs = {
        "constant": smoke,
        "noise": noise,
        "noise with prior": noise.replace(**{"prior.kind": "oracle"}),
        "constant, adversarial": smoke.replace(**{"prior.kind": "adversarial"}),
    }
    with optimised():
        trained = gs.train(specs.values(), tmp_path_factory.mktemp("learning"), processes=1)
    return dict(zip(specs, trained, strict=True))


def test_constant_distractors_grok(runs):
    outcome = runs["constant"].outcome
    assert outcome["memorised"]["epoch"] < outcome["grokked"]["epoch"]
    assert outcome["final"]["structure_share"] == 1


def test_noise_memorises_through_the_wrong_tokens(runs):
    outcome = runs["noise"].outcome
    assert outcome["memorised"]["epoch"] is not None
    assert outcome["grokked"]["epoch"] is None
    assert outcome["final"]["test_accuracy"] < 0.15
    assert outcome["final"]["mass_mean"] < 0.6
    assert outcome["final"]["weakest_min"] < 0.1


def test_the_prior_does_not_wait(runs):
    outcome = runs["noise with prior"].outcome
    assert outcome["grokked"]["epoch"] is not None
    assert outcome["final"]["weakest_min"] > 0.4


def test_an_adversarial_prior_keeps_it_at_chance(runs):
    outcome = runs["constant, adversarial"].outcome
    assert outcome["grokked"]["epoch"] is None
    assert outcome["final"]["test_accuracy"] < 3 / 29
    assert outcome["final"]["mass_mean"] < 0.05


def test_memorisation_starves_attention(runs):
    """The task's gradient on the routing spikes while it memorises, then falls severalfold."""
    curve = runs["noise"].curve
    memorised = runs["noise"].outcome["memorised"]["epoch"]
    early = curve.filter(curve["epoch"] <= memorised)["interaction_gradient"].max()
    late = curve.filter(curve["epoch"] > 2 * memorised)["interaction_gradient"].median()
    assert late < early / 3
