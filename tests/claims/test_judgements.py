"""Every kind of test on made-up arms: it can support, contradict, leave open, and fail closed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grokscope as gs
from grokscope.claims.evidence import ArmRuns, Event, Sample
from grokscope.claims.judgements import (
    Everywhere,
    Faster,
    GainKept,
    InverseLaw,
    Level,
    Separation,
    Share,
    Trend,
)
from grokscope.claims.studies import Claim, Setting

BASE = gs.RunSpec().replace(**{"training.epochs": 5000})


def rows(times, **columns):
    """A finished run a time; None for one that did not grok."""
    return tuple(
        {
            "run": f"{seed:016x}",
            "status": "finished",
            "memorised": 100,
            "grokked": time,
            "test_accuracy": 0.1 if time is None else 1.0,
            **{name: values[seed] for name, values in columns.items()},
        }
        for seed, time in enumerate(times)
    )


def sample(**arms):
    made = {name: ArmRuns(name, (BASE,) * len(given), given) for name, given in arms.items()}
    return Sample(Setting("laptop", "constant", BASE), made)


def find(test, given):
    return given.finding(Claim("c", "says", test))


def ruling(test, given):
    return find(test, given).ruling


SLOW = rows([2000, 2100, 2200, 2300, 2400])
FAST = rows([800, 820, 840, 860, 880])
NEVER = rows([None] * 5)


def test_faster():
    test = Faster("fast", "slow", least=1.25)
    assert ruling(test, sample(fast=FAST, slow=SLOW)) == "supported"
    assert ruling(test, sample(fast=SLOW, slow=FAST)) == "contradicted"
    assert ruling(test, sample(fast=FAST, slow=NEVER)) == "supported"
    assert ruling(test, sample(fast=NEVER, slow=NEVER)) == "inconclusive"
    assert ruling(test, sample(fast=NEVER, slow=SLOW)) == "contradicted"
    finding = find(test, sample(fast=FAST, slow=NEVER))
    assert "840 against 0 of 5 grok" in finding.remark


def test_a_lead_is_compared_seed_by_seed():
    test = Level("more", "x", "gain", low=0.05, reference="less")
    low, high = rows([900] * 5, x=[0.1, 0.5, 0.9, 0.3, 0.7]), [0.2, 0.6, 1.0, 0.4, 0.8]
    given = sample(more=rows([900] * 5, x=high), less=low)
    finding = find(test, given)
    # The seeds differ more from each other than the arms do, but always in the same direction.
    assert finding.ruling == "supported"
    assert finding.estimate.value == pytest.approx(0.1)
    assert ruling(test, sample(more=low, less=rows([900] * 5, x=high))) == "contradicted"
    lacking = rows([900] * 5, x=[*high[:4], None])
    assert ruling(test, sample(more=lacking, less=low)) == "inconclusive"


def test_several_rivals_are_judged_by_the_hardest():
    test = Faster("arm", ("slow", "rival"), least=0.9)
    assert ruling(test, sample(arm=FAST, slow=SLOW, rival=NEVER)) == "supported"
    finding = find(test, sample(arm=SLOW, slow=SLOW, rival=FAST))
    assert finding.ruling == "contradicted"
    assert finding.remark.startswith("against “rival”: 2,200 against 840")
    assert ruling(test, sample(arm=NEVER, slow=SLOW, rival=NEVER)) == "contradicted"
    assert ruling(test, sample(arm=NEVER, slow=NEVER, rival=NEVER)) == "inconclusive"


def test_share_of_the_gain():
    test = GainKept("arm", "best", "slow", least=0.5)
    half = rows([1500, 1520, 1540, 1560, 1580])  # (2,200 - 1,540) / (2,200 - 840) = 0.49

    def finding(**arms):
        return find(test, sample(**arms))

    assert finding(arm=half, best=FAST, slow=SLOW).estimate.value == pytest.approx(660 / 1360)
    assert finding(arm=half, best=FAST, slow=SLOW).ruling == "inconclusive"
    assert finding(arm=FAST, best=FAST, slow=SLOW).estimate.value == 1
    assert finding(arm=FAST, best=FAST, slow=SLOW).ruling == "supported"
    assert finding(arm=SLOW, best=FAST, slow=SLOW).ruling == "contradicted"
    assert finding(arm=NEVER, best=FAST, slow=SLOW).ruling == "contradicted"
    # Nothing was saved, or nobody knows how much: the reference never groks within its budget.
    assert finding(arm=FAST, best=SLOW, slow=FAST).ruling == "inconclusive"
    assert "no gain" in finding(arm=FAST, best=SLOW, slow=FAST).remark
    late = rows([4000, 4100, 4200, 4300, 4400])
    assert finding(arm=FAST, best=FAST, slow=NEVER).ruling == "supported"
    assert finding(arm=late, best=FAST, slow=NEVER).estimate.high < 0.5
    assert finding(arm=late, best=FAST, slow=NEVER).ruling == "inconclusive"


def test_as_fast_needs_no_difference():
    test = Faster("one", "other", least=0.9)
    assert ruling(test, sample(one=FAST, other=FAST)) == "supported"
    assert "log-rank" not in test.describe()
    assert "log-rank" in Faster("one", "other", least=1.25).describe()


@pytest.mark.parametrize(
    "test",
    [Share("a", "few", control="c"), Faster("b", "a", least=1.25, control="c")],
)
def test_without_a_control_that_groks_nothing_is_shown(test):
    assert ruling(test, sample(a=NEVER, b=FAST, c=FAST)) == "supported"
    finding = find(test, sample(a=NEVER, b=FAST, c=NEVER))
    assert finding.ruling == "inconclusive"
    assert "nothing to compare with: 0 of 5 of “c” grok" in finding.remark
    assert finding.estimate is None
    assert ruling(test, sample(a=NEVER, b=FAST)) == "not run"
    assert "Inconclusive unless half of “c” grok" in test.describe()


def test_a_share_may_suppose_another_event():
    late, memorised = Event("delayed", "grok late"), Event("memorised", "memorise")
    test = Share("a", "most", late, given=memorised)
    late = rows([2000] * 5, memorised=[100] * 5, delayed=[2000] * 5)
    never = rows([None] * 5, memorised=[100] * 5, delayed=[None] * 5)
    blank = rows([None] * 5, memorised=[None] * 3 + [100] * 2, delayed=[None] * 5)
    assert ruling(test, sample(a=late)) == "supported"
    assert ruling(test, sample(a=never)) == "contradicted"
    finding = find(test, sample(a=blank))
    assert finding.ruling == "inconclusive"
    assert finding.remark == "fewer than half memorise: 0 of 5 grok late"
    assert "unless half memorise" in test.describe()


def test_runs_need_not_grok():
    """Any event that an outcome tells of can be timed, counted, ranked and told apart."""
    solving = Event("solved", "solve it", "epoch of the solution")

    def made(times):
        return tuple(
            {"status": "finished", "solved": time, "error": 0.1 if time else 0.9} for time in times
        )

    given = sample(a=made([10, 11, 12, 13, 14]), b=made([90, 95, 99, 93, 97]), c=made([None] * 5))
    finding = find(Faster("a", "b", least=2, event=solving), given)
    assert finding.ruling == "supported"
    assert finding.remark.startswith("12 against 95")
    assert "Median epoch of the solution" in Faster("a", "b", 2, event=solving).describe()
    assert ruling(Faster("a", ("b", "c"), 2, event=solving), given) == "supported"
    assert ruling(Share("c", "few", solving), given) == "supported"
    assert "0 of 5 solve it" in find(Share("c", "few", solving), given).remark
    order = {"a": 1.0, "b": 2.0, "c": 3.0}
    trend = Trend(lambda arm: order[arm.name], "order", solving, low=0.3)
    assert ruling(trend, given) == "supported"
    apart = Separation("error", "the error", 0.8, every, event=solving)
    assert ruling(apart, given) == "contradicted"  # the larger the error, the less is solved


def test_faster_needs_a_significant_log_rank():
    # Three against three seeds: no labelling is rarer than 2 in 20.
    few = sample(fast=FAST[:3], slow=SLOW[:3])
    finding = find(Faster("fast", "slow", least=1.25), few)
    assert finding.estimate.low > 1.25
    assert finding.ruling == "inconclusive"


def test_share():
    assert ruling(Share("a", "most"), sample(a=FAST)) == "supported"
    assert ruling(Share("a", "few"), sample(a=FAST)) == "contradicted"
    assert ruling(Share("a", "few"), sample(a=NEVER)) == "supported"
    mixed = rows([800, 800, 800, 800, None])
    assert ruling(Share("a", "most"), sample(a=mixed)) == "inconclusive"


def test_level():
    given = sample(a=rows([1] * 5, ratio=[20.0, 25.0, 30.0, 40.0, 50.0]))
    assert ruling(Level("a", "ratio", "ratio", low=10, logarithmic=True), given) == "supported"
    assert ruling(Level("a", "ratio", "ratio", low=100, logarithmic=True), given) == "contradicted"
    assert ruling(Level("a", "ratio", "ratio", low=30, logarithmic=True), given) == "inconclusive"
    finding = Level("a", "ratio", "ratio", low=10, logarithmic=True).judge(given)
    assert finding.estimate.value == pytest.approx((20 * 25 * 30 * 40 * 50) ** 0.2)
    lacking = sample(a=rows([1] * 5, ratio=[20.0, None, 30.0, 40.0, 50.0]))
    assert ruling(Level("a", "ratio", "ratio", low=10), lacking) == "inconclusive"


def strength(arm):
    return arm.spec.prior.strength if arm.spec.prior.kind == "oracle" else 0.0


def dosed(law):
    arms = {}
    for value in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0):
        kind = "oracle" if value else "none"
        spec = BASE.replace(**{"prior.kind": kind, "prior.strength": value or 1.0})
        # Seeds differ by a few per cent, each in its own way at every dose.
        rng = np.random.default_rng([int(1000 * value), 7])
        times = [law(value) and law(value) * factor for factor in rng.normal(1, 0.02, 5)]
        arms[f"{value:g}"] = ArmRuns(f"{value:g}", (spec,) * len(times), rows(times))
    return Sample(Setting("laptop", "constant", BASE), arms)


def test_trend():
    test = Trend(strength, "strength", high=-0.3)
    assert ruling(test, dosed(lambda s: int(1000 - 500 * s))) == "supported"
    assert ruling(test, dosed(lambda s: int(1000 + 500 * s))) == "contradicted"
    assert ruling(test, dosed(lambda s: None)) == "inconclusive"
    never_without = dosed(lambda s: int(1000 - 500 * s) if s else None)
    assert ruling(test, never_without) == "supported"
    bounded = Trend(strength, "strength", low=-0.3, high=0.3)
    assert ruling(bounded, dosed(lambda s: 1000 - 900 * s)) == "contradicted"
    strict = Trend(strength, "strength", high=-0.3, censored=False)
    assert ruling(strict, never_without) == "inconclusive"


def test_inverse_law():
    test = InverseLaw(strength)
    assert "0" not in test.needs(dosed(lambda s: 700))  # no prior has no inverse
    inverse = dosed(lambda s: 700 + 40 / s if s else None)
    assert ruling(test, inverse) == "supported"
    assert "more than half of the time above λ = 0.0" in test.judge(inverse).remark  # 40 / 700
    assert ruling(test, dosed(lambda s: 700 + 40 / s**0.4 if s else None)) == "contradicted"
    assert ruling(test, dosed(lambda s: 700)) == "inconclusive"
    assert ruling(test, dosed(lambda s: None)) == "inconclusive"


def test_everywhere():
    test = Everywhere("ratio", "ratio", 1.0)
    low = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 0.4, 1.0])
    assert ruling(test, sample(a=low, b=low)) == "supported"
    assert "largest of 10 runs 1" in test.judge(sample(a=low, b=low)).remark
    # One run of one arm is enough, whatever the others lack.
    high = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 1.5, None])
    finding = test.judge(sample(a=low, b=high))
    assert finding.ruling == "contradicted"
    assert "1 above the bound, largest of 9 runs 1.5" in finding.remark
    endless = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 0.4, math.inf])
    assert ruling(test, sample(a=low, b=endless)) == "contradicted"
    lacking = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 0.4, None])
    assert ruling(test, sample(a=low, b=lacking)) == "inconclusive"
    assert ruling(test, sample(a=rows([1] * 5))) == "inconclusive"  # no number at all


def every(arm):
    return True


def test_separation():
    high, low, level = [0.3, 0.31, 0.32, 0.33, 0.34], [0.1, 0.11, 0.12, 0.13, 0.14], [0.2] * 5
    given = sample(
        a=rows([800] * 5, good=high, flat=level, wrong=low),
        b=rows([None] * 5, good=low, flat=level, wrong=high),
    )
    assert ruling(Separation("good", "good", 0.8, every), given) == "supported"
    assert ruling(Separation("flat", "flat", 0.8, every), given) == "contradicted"
    assert Separation("flat", "flat", 0.8, every).judge(given).estimate.value == 0.5
    better = Separation("good", "good", 0.05, every, "flat", "flat")
    assert ruling(better, given) == "supported"
    assert better.judge(given).estimate.value == 0.5
    assert "5 of 10 grok; 1.00 for good; 0.50 for flat" in better.judge(given).remark
    as_good = Separation("good", "good", 0.05, every, "good", "good")
    assert ruling(as_good, given) == "contradicted"
    assert Separation("wrong", "wrong", 0.05, every, "good", "good").judge(given).estimate.low == -1


def test_separation_needs_both_outcomes_and_every_number():
    test = Separation("good", "good", 0.8, every)
    alike = sample(a=rows([800] * 5, good=[0.3] * 5))
    assert "5 of 5 grok: there is nothing to tell apart" in test.judge(alike).remark
    lacking = sample(
        a=rows([800] * 5, good=[0.3] * 5), b=rows([None] * 5, good=[0.1, 0.1, 0.1, 0.1, None])
    )
    assert ruling(test, lacking) == "inconclusive"
    # Where one seed alone has the other outcome, a resample may lack it: nothing is concluded.
    lone = sample(a=rows([800, 800, 800, 800, None], good=[0.3, 0.3, 0.3, 0.3, 0.1]))
    assert ruling(test, lone) == "inconclusive"
    # Arms that are not chosen do not count.
    narrow = Separation("good", "good", 0.8, lambda arm: arm.name == "a")
    assert narrow.needs(lacking) == ["a"]


@pytest.mark.parametrize("test", [Faster("a", "b", least=1.25), Share("a", "most")])
def test_missing_and_failed_runs_support_nothing(test):
    complete = sample(a=FAST, b=SLOW)
    assert ruling(test, complete) == "supported"
    assert ruling(test, sample(a=(*FAST[:4], None), b=SLOW)) == "not run"
    broken = {**FAST[4], "status": "failed"}
    assert ruling(test, sample(a=(*FAST[:4], broken), b=SLOW)) == "inconclusive"
    assert ruling(test, sample(b=SLOW)) == "not run"
    assert ruling(test, sample(a=(), b=())) == "not run"


@pytest.mark.parametrize(
    "test",
    [
        Faster("a", "b", least=1.25),
        Share("a", "most"),
        Level("a", "x", "ratio", low=10),
        Trend(strength, "strength", high=-0.3),
        InverseLaw(strength),
        Everywhere("x", "ratio", 1.0),
        Faster("a", ("b", "c"), 0.9),
        GainKept("a", "b", "c", 0.5),
        Level("a", "x", "gain", low=0.05, reference="b"),
        Separation("x", "one", 0.8, every),
        Separation("x", "one", 0.05, every, "y", "another"),
    ],
)
def test_every_test_states_its_rule(test):
    text = test.describe()
    assert "Supported if" in text
    assert "contradicted if" in text
    assert test.effect


def test_what_is_not_there_is_no_number_and_no_time():
    arm = ArmRuns("a", (BASE,) * 3, (*rows([100, None]), None))
    assert arm.times().tolist() == [100, math.inf, math.inf]
    assert not arm.sound  # so nobody may conclude from it
    assert np.isnan(arm.values("a column of tomorrow")).all()
