"""A small version of the page on statistics: the rules err as rarely as they say, and decide."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from grokscope.claims import simulation
from grokscope.claims.looks import ERROR
from grokscope.pages.statistics import render

DRAWS = 50
CASES = [case for case in simulation.cases() if case.numbers not in ("censored", "upper end")]
NOISE = 3.5 * math.sqrt(ERROR * (1 - ERROR) / DRAWS)


@pytest.fixture(scope="module")
def table():
    return simulation.tabulate(DRAWS, CASES)


def test_no_rule_errs_too_often(table):
    rates = simulation.false_rates(table)
    assert rates["false_supported"].max() <= ERROR + NOISE
    assert rates["false_contradicted"].max() <= ERROR + NOISE
    # Each bound errs at most so often, so both hold the truth in nine cases of ten.
    assert rates["covered"].min() >= 1 - 2 * ERROR - 2 * NOISE


def test_looks_decide_what_one_look_at_five_seeds_does_not(table):
    rates = simulation.false_rates(table)
    five = rates.filter(design="5")["finds_none"].to_numpy()
    looks = rates.filter(design="looks")["finds_none"].to_numpy()
    assert (looks >= five - NOISE).all()
    assert looks.mean() > five.mean() + 0.2
    used = rates.filter(design="looks")
    assert (used["seeds_effect"].to_numpy() < 40).all()


def test_the_simulation_would_notice_a_rule_that_errs():
    """Bounds that are as likely wrong as right, put in place of the ones that are asked for."""

    case = next(each for each in simulation.cases() if each.rule == "level (at least 0.5)")

    class Careless(type(case.test)):
        def judge(self, sample):
            return super().judge(simulation.MadeUp(sample.setting, sample.arms, 0.5, sample.data))

    careless = Careless("arm", "x", "level", low=0.5)
    rows = simulation.simulate(dataclasses.replace(case, test=careless), DRAWS)
    worst = max(row["supported"] for row in rows if row["truth"] == "threshold")
    assert worst > ERROR + NOISE


def test_the_page_has_every_case(table):
    page = render(table, DRAWS)
    for case in CASES:
        assert page.count(f"| {case.rule} | {case.numbers} |") == 5
    assert f"--draws {DRAWS} " in page


def test_made_up_seeds_have_the_truth_that_they_say():
    rng = np.random.default_rng(5)
    for case in simulation.cases()[:7]:
        data = case.draw(rng, 500, 1.0)
        seen = np.isfinite(data["slow"]) | np.isfinite(data["fast"])
        earlier = data["fast"][seen] < data["slow"][seen]
        assert abs(np.mean(earlier) - 0.5) < 0.02, case.numbers
