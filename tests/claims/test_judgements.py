"""Every kind of test on made-up arms: it can support, contradict, leave open, and fail closed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import grokscope as gs
from grokscope.claims.evidence import ArmRuns, Event, Sample
from grokscope.claims.judgements import (
    Ahead,
    Everywhere,
    Faster,
    GainKept,
    InverseLaw,
    Level,
    Separation,
    Share,
    ShareAtBest,
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
    assert ruling(test, sample(fast=SLOW, slow=FAST)) == "opposite"
    assert ruling(test, sample(fast=FAST, slow=NEVER)) == "supported"
    assert ruling(test, sample(fast=NEVER, slow=NEVER)) == "untestable"
    assert ruling(test, sample(fast=NEVER, slow=SLOW)) == "opposite"
    a_little = rows([int(1.1 * row["grokked"]) for row in FAST])
    assert ruling(test, sample(fast=FAST, slow=a_little)) == "smaller than claimed"
    finding = find(test, sample(fast=FAST, slow=NEVER))
    assert "840 against 0 of 5 grok" in finding.remark
    assert finding.p == 1 / 32
    assert finding.seeds == 5
    # Seeds are compared with themselves: they differ more than the arms do.
    apart = [500, 1000, 2000, 3000, 4000]
    both = sample(fast=rows(apart), slow=rows([1.5 * time for time in apart]))
    assert ruling(test, both) == "supported"
    assert find(test, both).estimate.value == pytest.approx(1.5)


def test_a_seed_that_groks_in_neither_arm_does_not_void_the_others():
    test = Faster("fast", "slow", least=1.25)
    most = rows([800, 820, 840, 860, None])
    finding = find(test, sample(fast=NEVER, slow=most))
    assert finding.ruling == "opposite"  # 0 of 5 against 4 of 5
    assert finding.p == pytest.approx(5 / 210)
    assert "1 of 5 seeds grok in neither arm" in finding.remark
    assert ruling(test, sample(fast=most, slow=NEVER)) == "supported"
    few = rows([800, None, None, None, None])
    assert ruling(test, sample(fast=NEVER, slow=few)) == "untestable"


def test_a_censored_run_counts_as_far_as_it_was_seen():
    """Never within 5,000 epochs is at least 1.25 times 3,900, and may not be 1.25 times 4,100."""
    test = Faster("fast", "slow", least=1.25)
    assert ruling(test, sample(fast=rows([3900] * 5), slow=NEVER)) == "supported"
    finding = find(test, sample(fast=rows([4100] * 5), slow=NEVER))
    assert finding.ruling == "inconclusive"
    assert finding.estimate.low == pytest.approx(5000 / 4100)
    assert finding.estimate.high == math.inf


def test_looks_are_taken_in_turn_and_the_first_that_decides_counts():
    test = Share("a", "most")
    good, bad = rows([800] * 5), rows([None] * 5)

    def judged(*parts):
        return find(test, sample(a=tuple(row for part in parts for row in part)))

    assert (judged(good).ruling, judged(good).seeds) == ("supported", 5)
    # What comes later is no longer looked at.
    assert (judged(good, bad).ruling, judged(good, bad).seeds) == ("supported", 5)
    mixed = rows([800, 800, 800, 800, None])
    assert judged(mixed).ruling == "inconclusive"
    later = judged(mixed, good)
    assert (later.ruling, later.seeds, later.estimate.n) == ("supported", 10, 10)
    assert later.p == pytest.approx(11 / 1024 + 0.032)  # what the first look may have spent
    # A look that is not complete has not been taken.
    half = judged(mixed, good[:3], (None, None))
    assert (half.ruling, half.seeds) == ("inconclusive", 5)
    # With six seeds there is one look, which may spend everything: 6 of 6, or 5 % and no less.
    six = judged(mixed, good[:1])
    assert (six.ruling, six.seeds) == ("inconclusive", 6)
    assert judged(good, good[:1]).p == 1 / 64


def test_a_lead_is_compared_seed_by_seed():
    test = Level("more", "x", "gain", low=0.05, reference="less")
    low, high = rows([900] * 5, x=[0.1, 0.5, 0.9, 0.3, 0.7]), [0.2, 0.6, 1.0, 0.4, 0.8]
    given = sample(more=rows([900] * 5, x=high), less=low)
    finding = find(test, given)
    # The seeds differ more from each other than the arms do, but always in the same direction.
    assert finding.ruling == "supported"
    assert finding.estimate.value == pytest.approx(0.1)
    assert ruling(test, sample(more=low, less=rows([900] * 5, x=high))) == "opposite"
    lacking = rows([900] * 5, x=[*high[:4], None])
    assert ruling(test, sample(more=lacking, less=low)) == "inconclusive"
    roomless = Level("more", "x", "gain", low=0.05, reference="less", ceiling=1.0)
    assert ruling(roomless, given) == "supported"
    full = rows([900] * 5, x=[0.97, 0.98, 0.99, 0.5, 1.0])
    finding = find(roomless, sample(more=full, less=full))
    assert finding.ruling == "untestable"
    assert "no room for a lead of 0.05: 0.98 against 0.98" in finding.remark
    ratio = Level("more", "x", "ratio", low=1.05, reference="less", logarithmic=True)
    assert find(ratio, given).estimate.value == pytest.approx(1.2)


def test_several_rivals_are_judged_by_the_hardest():
    test = Faster("arm", ("slow", "rival"), least=0.9)
    assert ruling(test, sample(arm=FAST, slow=SLOW, rival=NEVER)) == "supported"
    finding = find(test, sample(arm=2 * SLOW, slow=2 * SLOW, rival=2 * FAST))
    assert finding.ruling == "smaller than claimed"
    assert finding.remark.startswith("against “rival”: 2,200 against 840")
    assert find(test, sample(arm=NEVER, slow=SLOW, rival=NEVER)).contradicted
    assert ruling(test, sample(arm=NEVER, slow=NEVER, rival=NEVER)) == "untestable"


def test_share_of_the_gain():
    test = GainKept("arm", "best", "slow", least=0.5)
    # A little more than half in one seed, a little less in the others: (2,200 - 1,540) / 1,360.
    half = rows([1380, 1520, 1540, 1560, 1680])

    def finding(**arms):
        return find(test, sample(**arms))

    assert finding(arm=half, best=FAST, slow=SLOW).estimate.value == pytest.approx(660 / 1360)
    assert finding(arm=half, best=FAST, slow=SLOW).ruling == "inconclusive"
    assert finding(arm=FAST, best=FAST, slow=SLOW).estimate.value == 1
    assert finding(arm=FAST, best=FAST, slow=SLOW).ruling == "supported"
    assert finding(arm=SLOW, best=FAST, slow=SLOW).ruling == "smaller than claimed"
    assert finding(arm=NEVER, best=FAST, slow=SLOW).ruling == "opposite"
    # Nothing was saved, or nobody knows how much: the reference never groks within its budget.
    assert finding(arm=FAST, best=SLOW, slow=FAST).ruling == "untestable"
    assert "no gain" in finding(arm=FAST, best=SLOW, slow=FAST).remark
    late = rows([4000, 4100, 4200, 4300, 4400])
    assert finding(arm=FAST, best=FAST, slow=NEVER).ruling == "supported"
    assert finding(arm=late, best=FAST, slow=NEVER).estimate.high == 1
    assert finding(arm=late, best=FAST, slow=NEVER).ruling == "inconclusive"


def test_as_fast_needs_no_difference():
    test = Faster("one", "other", least=0.9)
    assert ruling(test, sample(one=FAST, other=FAST)) == "supported"


def test_to_lose_against_one_of_many_takes_more():
    """Five seeds that agree are 1 in 32: enough against one rival, too little where four could
    have been the lucky one."""
    names = ("first", "second", "third", "fourth")
    given = sample(arm=FAST, **dict.fromkeys(names, FAST))
    alone = find(Faster("arm", "first", least=1.25), given)
    among = find(Faster("arm", names, least=1.25), given)
    assert (alone.ruling, among.ruling) == ("smaller than claimed", "inconclusive")
    assert among.p == 4 * alone.p
    assert ruling(Faster("arm", names, least=0.9), given) == "supported"  # each is beaten


@pytest.mark.parametrize(
    "test",
    [Share("a", "few", control="c"), Faster("b", "a", least=1.25, control="c")],
)
def test_without_a_control_that_groks_nothing_is_shown(test):
    assert ruling(test, sample(a=NEVER, b=FAST, c=FAST)) == "supported"
    finding = find(test, sample(a=NEVER, b=FAST, c=NEVER))
    assert finding.ruling == "untestable"
    assert "nothing to compare with: 0 of 5 of “c” grok" in finding.remark
    assert finding.estimate is None
    assert ruling(test, sample(a=NEVER, b=FAST)) == "not run"
    assert "Untestable unless half of “c” grok" in test.describe()


def test_a_share_may_suppose_another_event():
    late, memorised = Event("delayed", "grok late"), Event("memorised", "memorise")
    test = Share("a", "most", late, given=memorised)
    late = rows([2000] * 5, memorised=[100] * 5, delayed=[2000] * 5)
    never = rows([None] * 5, memorised=[100] * 5, delayed=[None] * 5)
    blank = rows([None] * 5, memorised=[None] * 3 + [100] * 2, delayed=[None] * 5)
    assert ruling(test, sample(a=late)) == "supported"
    assert ruling(test, sample(a=never)) == "opposite"
    finding = find(test, sample(a=blank))
    assert finding.ruling == "untestable"
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
    assert "Epoch of the solution" in Faster("a", "b", 2, event=solving).describe()
    assert ruling(Faster("a", ("b", "c"), 2, event=solving), given) == "supported"
    assert ruling(Share("c", "few", solving), given) == "supported"
    assert "0 of 5 solve it" in find(Share("c", "few", solving), given).remark
    order = {"a": 1.0, "b": 2.0, "c": 3.0}
    trend = Trend(lambda arm: order[arm.name], "order", solving, low=0.3)
    assert ruling(trend, given) == "supported"
    apart = Separation("error", "the error", 0.8, every, event=solving)
    assert ruling(apart, given) == "opposite"  # the larger the error, the less is solved


def test_share():
    assert ruling(Share("a", "most"), sample(a=FAST)) == "supported"
    assert ruling(Share("a", "few"), sample(a=FAST)) == "opposite"
    assert ruling(Share("a", "most"), sample(a=NEVER)) == "opposite"
    assert ruling(Share("a", "few"), sample(a=NEVER)) == "supported"
    mixed = rows([800, 800, 800, 800, None])
    assert ruling(Share("a", "most"), sample(a=mixed)) == "inconclusive"


def test_level():
    given = sample(a=rows([1] * 5, ratio=[20.0, 25.0, 30.0, 40.0, 500.0]))

    def at_least(low):
        return find(Level("a", "ratio", "ratio", low=low, logarithmic=True), given)

    assert at_least(10).ruling == "supported"
    assert at_least(1000).ruling == "smaller than claimed"
    assert at_least(30).ruling == "inconclusive"
    assert at_least(10).estimate.value == 30
    negative = sample(a=rows([1] * 5, ratio=[-3.0, -2.0, -1.0, -2.5, -0.5]))
    assert ruling(Level("a", "ratio", "rate", low=0.5, high=2), negative) == "opposite"
    high = Level("a", "ratio", "ratio", high=10)
    assert ruling(high, given) == "larger than claimed"


def test_one_missing_number_does_not_void_the_others():
    test = Level("a", "x", "ratio", low=10, absent="have no plateau")
    given = sample(a=rows([1] * 10, x=[20.0] * 9 + [None]))
    finding = find(test, given)
    assert finding.ruling == "supported"
    assert (finding.estimate.n, finding.remark) == (5, "")  # the first five had decided
    six = rows([1] * 6, x=[20.0] * 5 + [None])
    assert find(test, sample(a=six)).remark == "1 of 6 seeds have no plateau"
    assert ruling(test, sample(a=six)) == "supported"
    half = rows([1] * 5, x=[20.0, 20.0, None, None, None])
    finding = find(test, sample(a=half))
    assert finding.ruling == "untestable"
    assert finding.remark == "3 of 5 seeds have no plateau"


def test_the_best_dose_is_chosen_on_other_seeds():
    """The first five seeds choose, later ones judge."""

    def made(pattern):
        arms = {}
        for norm, times in pattern.items():
            spec = BASE.replace(**{"interventions.mlp_norm": norm})
            arms[f"{norm:g}"] = ArmRuns(f"{norm:g}", (spec,) * len(times), rows(times))
        return Sample(Setting("laptop", "constant", BASE), arms)

    def judged(test, pattern):
        return made(pattern).finding(Claim("a claim", "It is so.", test))

    test = ShareAtBest(lambda arm: arm.spec.interventions.mlp_norm, "norm", "most")
    shell = {4.0: [None] * 5, 12.0: [900] * 5, 16.0: [900] * 5, 20.0: [900] * 5, 40.0: [None] * 5}
    finding = judged(test, shell)
    assert (finding.ruling, finding.estimate, finding.seeds) == ("inconclusive", None, 5)
    assert "first 5 seeds: 16" in finding.remark  # the middle of the shell
    assert test.needs(made(shell)) == ["16"]  # nobody has to train the other norms again
    # What the seeds that chose did does not count.
    for later, expected in ((900, "supported"), (None, "opposite")):
        finding = judged(test, shell | {16.0: [900] * 5 + [later] * 5})
        assert (finding.ruling, finding.seeds, finding.estimate.n) == (expected, 10, 5)
    mixed = [900] * 5 + [900, 900, 900, 900, None]
    assert judged(test, shell | {16.0: mixed}).ruling == "inconclusive"
    elsewhere = replace(test, expected="few", tested=lambda norm: "4")
    assert judged(elsewhere, shell | {4.0: [900] * 5 + [None] * 5}).ruling == "supported"
    nowhere = {norm: [None] * 5 for norm in shell}
    assert judged(elsewhere, nowhere).ruling == "untestable"
    assert judged(test, nowhere | {12.0: [None] * 4 + [900]}).ruling == "inconclusive"
    # A failed run tells nothing, least of all that few succeed.
    arms = dict(made(shell | {4.0: [None] * 10}).arms)
    failed = tuple({**row, "status": "failed"} for row in arms["4"].rows[5:8])
    arms["4"] = replace(arms["4"], rows=(*arms["4"].rows[:5], *failed, *arms["4"].rows[8:]))
    finding = find(elsewhere, Sample(Setting("laptop", "constant", BASE), arms))
    assert finding.ruling == "untestable"
    assert finding.remark.startswith("3 of 5 runs failed")


def test_one_event_ahead_of_another():
    right, memorised = Event("right", "get it right", "right"), Event("memorised", "memorise")
    test = Ahead("a", right, Event("grokked", "grok", "grok epoch"), 0.05, memorised)

    def judged(right, grokked):
        return find(test, sample(a=rows(grokked, right=right)))

    assert judged([500] * 5, [1000] * 5).ruling == "supported"
    assert judged([500] * 5, [1000] * 5).estimate.value == 0.5
    assert judged([980] * 5, [1000] * 5).ruling == "smaller than claimed"
    assert judged([None] * 5, [1000] * 5).ruling == "opposite"
    assert judged([500] * 5, [None] * 5).ruling == "untestable"
    early = judged([50, 100, 90, 500, 500], [1000] * 5)  # memorised at 100
    assert early.ruling == "untestable"
    assert early.remark == "3 of 5 get it right before they memorise"


def test_a_measure_that_the_tables_do_not_have_yet_was_not_run():
    finding = find(Level("a", "new", "level", low=1), sample(a=FAST))
    assert finding.ruling == "not run"
    assert "do not have “new” yet" in finding.remark


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
    assert ruling(test, dosed(lambda s: int(1000 + 500 * s))) == "opposite"
    assert ruling(test, dosed(lambda s: None)) == "untestable"
    never_without = dosed(lambda s: int(1000 - 500 * s) if s else None)
    assert ruling(test, never_without) == "supported"
    bounded = Trend(strength, "strength", low=-0.3, high=0.3)
    assert ruling(bounded, dosed(lambda s: 1000 - 900 * s)) == "smaller than claimed"
    strict = Trend(strength, "strength", high=-0.3, censored=False)
    assert ruling(strict, never_without) == "untestable"


def test_inverse_law():
    test = InverseLaw(strength)
    assert "0" not in test.needs(dosed(lambda s: 700))  # no prior has no inverse
    inverse = dosed(lambda s: 700 + 40 / s if s else None)
    assert ruling(test, inverse) == "supported"
    assert "more than half of the time above λ = 0.0" in test.judge(inverse).remark  # 40 / 700
    weak = dosed(lambda s: 700 + 300 / s**0.4 if s else None)
    assert ruling(test, weak) == "smaller than claimed"
    assert ruling(test, dosed(lambda s: 700)) == "untestable"
    assert ruling(test, dosed(lambda s: None)) == "untestable"


def test_a_law_is_fitted_to_the_seeds_that_all_arms_have():
    """Another claim may be open and have asked two of the arms for more."""
    test, given = InverseLaw(strength), dosed(lambda s: 700 + 40 / s if s else None)
    law, _ = test.fit(given)
    longer = {name: ArmRuns(name, 2 * arm.specs, 2 * arm.rows) for name, arm in given.arms.items()}
    one = test.needs(given)[0]
    assert test.fit(replace(given, arms={**given.arms, one: longer[one]}))[0] == law


def test_everywhere():
    test = Everywhere("ratio", "ratio", 1.0)
    low = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 0.4, 1.0])
    assert ruling(test, sample(a=low, b=low)) == "supported"
    assert "largest of 10 runs 1" in test.judge(sample(a=low, b=low)).remark
    # One run of one arm is enough, whatever the others lack.
    high = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 1.5, None])
    finding = test.judge(sample(a=low, b=high))
    assert finding.ruling == "larger than claimed"
    assert "1 above the bound, largest of 9 runs 1.5" in finding.remark
    endless = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 0.4, math.inf])
    assert ruling(test, sample(a=low, b=endless)) == "larger than claimed"
    lacking = rows([1] * 5, ratio=[0.1, 0.2, 0.3, 0.4, None])
    assert ruling(test, sample(a=low, b=lacking)) == "supported"
    assert "largest of 9 runs" in find(test, sample(a=low, b=lacking)).remark
    nothing = rows([1] * 5, ratio=[None] * 5)
    assert ruling(test, sample(a=nothing)) == "untestable"  # no number at all


def every(arm):
    return True


def test_separation():
    high, low, level = [0.3, 0.31, 0.32, 0.33, 0.34], [0.1, 0.11, 0.12, 0.13, 0.14], [0.2] * 5
    given = sample(
        a=rows([800] * 5, good=high, flat=level, wrong=low),
        b=rows([None] * 5, good=low, flat=level, wrong=high),
    )
    assert ruling(Separation("good", "good", 0.8, every), given) == "supported"
    assert ruling(Separation("flat", "flat", 0.8, every), given) == "smaller than claimed"
    assert ruling(Separation("wrong", "wrong", 0.8, every), given) == "opposite"
    assert Separation("flat", "flat", 0.8, every).judge(given).estimate.value == 0.5
    better = Separation("good", "good", 0.05, every, "flat", "flat")
    assert ruling(better, given) == "supported"
    assert better.judge(given).estimate.value == 0.5
    assert "5 of 10 grok; 1.00 for good; 0.50 for flat" in better.judge(given).remark
    as_good = Separation("good", "good", 0.05, every, "good", "good")
    assert ruling(as_good, given) == "smaller than claimed"
    assert Separation("wrong", "wrong", 0.05, every, "good", "good").judge(given).estimate.low == -1


def test_separation_needs_both_outcomes():
    test = Separation("good", "good", 0.8, every)
    alike = sample(a=rows([800] * 5, good=[0.3] * 5))
    assert "5 of 5 seeds have nothing to tell apart" in test.judge(alike).remark
    assert ruling(test, alike) == "untestable"
    lacking = sample(
        a=rows([800] * 5, good=[0.3] * 5), b=rows([None] * 5, good=[0.1, 0.1, 0.1, 0.1, None])
    )
    assert ruling(test, lacking) == "inconclusive"  # four seeds are too few
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
        ShareAtBest(lambda arm: 1.0, "norm", "few"),
        Ahead("a", Event("x", "do x", "x"), Event("y", "do y", "y"), 0.1),
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
