"""Plan, tests of the paper's own, numbers read off curves, and the tables beside the authors'."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from grokscope.claims.evidence import ArmRuns, Event, Evidence, Sample, Tables
from grokscope.claims.studies import Claim, Setting, plan
from grokscope.papers.inductive_bias import doses, figures, placement, quantities, side_by_side
from grokscope.papers.inductive_bias.judgements import Association, Few, HelpsMore, Slope
from grokscope.papers.inductive_bias.paper import PAPER
from grokscope.papers.inductive_bias.places import PLACES, with_norm
from grokscope.papers.inductive_bias.settings import SEEDS, base

X, Y = Event("x", "do x", "x"), Event("y", "do y", "y")


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_arm_is_a_sound_run(scale):
    by_id = {}
    for item in plan(PAPER.studies, scale):
        assert by_id.setdefault(item.spec.id, item.spec) == item.spec
        assert item.spec.seed in SEEDS
        assert item.spec.training.snapshots


def test_every_claim_is_asked_except_those_named():
    missing = {"laptop": set(), "paper": set()}
    for scale, names in missing.items():
        for study in PAPER.studies:
            for regime, sample in Tables.empty().evidence(study, scale).samples.items():
                for claim in study.claims:
                    if not sample.asks(claim):
                        names.add((study.name, regime, claim.name))
                    assert claim.test.describe()
    assert missing["laptop"] == set()
    assert {name for _, _, name in missing["paper"]} == {
        "subtracting does not delay",
        "subtracting does not speed up",
        "larger α is faster, subtracted",
        "the gradient grows like α, subtracted",
    }
    for study in PAPER.studies:  # five seeds that leave a claim open are not the last word
        assert study.most_seeds["paper"] == 2 * len(study.seeds_at("paper")) == 10


def test_paper_scale_has_what_the_issue_names():
    runs = {study.name: len({i.spec.id for i in plan([study], "paper")}) for study in PAPER.studies}
    assert (runs["placement"], runs["decay"], runs["readout"]) == (35, 30, 25)


def sample(**arms):
    """Rows by column for each arm, a list over seeds; None is never."""
    made = {}
    for name, columns in arms.items():
        count = len(next(iter(columns.values())))
        rows = tuple(
            {"run": f"{name}{i}", "status": "finished", **{c: v[i] for c, v in columns.items()}}
            for i in range(count)
        )
        made[name] = ArmRuns(name, (base("smoke"),) * count, rows)
    return Sample(Setting("laptop", "r", base("smoke")), made)


def ruling(test, given):
    found = given.finding(Claim("c", "says", test))
    return "contradicted" if found.contradicted else found.ruling


def test_association():
    seeds = range(5)
    up = {
        f"arm{k}": {"x": [k + s for s in seeds], "y": [10 * k + s for s in seeds]}
        for k in range(1, 5)
    }
    assert ruling(Association(X, Y, low=0.5), sample(**up)) == "supported"
    assert ruling(Association(X, Y, high=0.3), sample(**up)) == "contradicted"
    down = {name: {"x": cols["x"], "y": [-v for v in cols["y"]]} for name, cols in up.items()}
    assert ruling(Association(X, Y, low=0.5), sample(**down)) == "contradicted"
    never = {name: {"x": cols["x"], "y": [None] * 5} for name, cols in up.items()}
    assert ruling(Association(X, Y, low=0.5), sample(**never)) == "untestable"
    late = {**up, "arm5": {"x": [9] * 5, "y": [None] * 5}}  # never is last
    assert ruling(Association(X, Y, low=0.5), sample(**late)) == "supported"
    assert ruling(Association(X, Y, low=0.5, censored=False), sample(**late)) == "untestable"


def test_helps_more():
    test = HelpsMore(("a+", "a"), ("b+", "b"), 1.25, X)
    arms = {"a+": [100] * 5, "a": [200] * 5, "b+": [100] * 5, "b": [110] * 5}
    given = {name: {"x": times} for name, times in arms.items()}
    found = sample(**given).finding(Claim("c", "says", test))
    assert found.ruling == "supported"
    assert found.estimate.value == pytest.approx(math.log(2 / 1.1))
    never = {**given, "a": {"x": [None] * 5}}  # later than the budget of 300
    assert ruling(test, sample(**never)) == "supported"
    alike = {**given, "b": {"x": [200] * 5}}
    assert ruling(test, sample(**alike)) == "contradicted"
    unknown = {**never, "b": {"x": [None] * 5}}
    assert ruling(test, sample(**unknown)) == "untestable"


def test_few_has_a_control_with_the_same_event():
    rows = {"a": {"generalised": [None] * 5}, "b": {"generalised": [900] * 3 + [None] * 2}}
    test = Few("a", control="b")
    assert "Untestable unless half of “b” generalise." in test.describe()
    assert ruling(test, sample(**rows)) == "supported"
    lasting = {"generalised": [900] * 2 + [None] * 3, "grokked": [800] * 5}
    found = sample(a=rows["a"], b=lasting).finding(Claim("c", "says", test))
    assert found.ruling == "untestable"
    assert "2 of 5 generalise of “b”; 0 of 5 generalise of “a”" in found.remark
    assert ruling(test, sample(a={"generalised": [900] * 5}, b=rows["b"])) == "contradicted"


def test_slope():
    doses = {"a": 0.5, "b": 1.0, "c": 2.0}
    made = {n: {"x": [3 * d**1.5 * (1 + 0.01 * s) for s in range(5)]} for n, d in doses.items()}
    test = Slope("x", "x", lambda arm: doses.get(arm.name), "dose", 1.4, 1.6)
    found = sample(**made).finding(Claim("c", "says", test))
    assert found.ruling == "supported"
    assert found.estimate.value == pytest.approx(1.5)
    flat = Slope("x", "x", lambda arm: doses[arm.name], "dose", high=1.0)
    assert ruling(flat, sample(**made)) == "contradicted"
    lost = sample(a={"x": [None] * 5}, b={"x": [1.0] * 5})
    assert ruling(test, lost) == "untestable"


class FakeRun:
    """A run as a curve."""

    def __init__(self, **columns):
        rows = len(columns["epoch"])
        filled = {
            name: np.zeros(rows)
            for name in (
                "train_loss",
                "test_loss",
                "test_accuracy",
                "fourier_concentration",
                "attention_entropy",
                "divergence",
                "test_accuracy_mirrored",
                "test_accuracy_unmirrored",
                "update_norm",
            )
        }
        self.curve = pl.DataFrame({**filled, **columns})
        self.spec = base("paper")


def test_times_are_those_of_the_curve():
    run = FakeRun(
        epoch=[0, 25, 50, 75, 100],
        train_loss=[4.0, 1.9, 0.009, 0.0, 0.0],
        test_loss=[4.0, 9.0, 5.0, 0.01, 0.3],
        test_accuracy=[0.0, 0.1, 0.5, 0.994, 0.995],
        fourier_concentration=[0.0, 0.5, 0.9, 1.0, 0.4],
        attention_entropy=[1.0, 1.0, 0.8, 0.6, 0.1],
        test_accuracy_mirrored=[0.0, 0.2, 0.9, 1.0, 1.0],
        test_accuracy_unmirrored=[0.0, 0.1, 0.3, 1.0, 1.0],
        update_norm=[0.0, 0.5, 0.4, 0.3, 0.2],
    )
    found = quantities.summarise(run)
    assert (found["low_loss"], found["generalised"]) == (75, 100)
    assert (found["fitted"], found["fourier"]) == (50, 75)
    assert found["relapse"] == pytest.approx(0.5)
    assert found["wait_entropy"] == pytest.approx(0.5)  # rows 50 to 100
    assert found["wait_mirror_gain"] == pytest.approx(0.2)
    assert found["early_update"] == pytest.approx(0.35)  # within 200 of 10,000 steps, without row 0
    assert found["peak_test_loss"] == 9.0


def test_never_is_none():
    found = quantities.summarise(
        FakeRun(epoch=[0, 25], train_loss=[4.0, 3.0], test_loss=[4.0, 4.0])
    )
    for name in ("generalised", "low_loss", "fitted", "relapse", "wait_entropy"):
        assert found[name] is None


def test_sr_train_climbs_from_the_first_look(monkeypatch):
    loss = [4.0, 7.0, 6.0, 9.0]
    forms = ("plain", "authors", "unit", "mean", "global")
    looks = {f"sr_{form}_{what}": loss for form in forms for what in ("loss", "accuracy")}
    table = pl.DataFrame({"epoch": [0, 50, 100, 150], **looks})
    monkeypatch.setattr(quantities, "look", lambda run, probe: table)
    curve = {"epoch": [0, 50, 100, 150], "train_loss": [4.0, 0.0, 0.0, 0.0]}
    found = quantities.summarise_scale(FakeRun(**curve, test_accuracy=[0.0, 0.0, 1.0, 1.0]))
    assert (found["rise_unit"], found["climb_unit"]) == (0.0, 3.0)  # until it generalises
    assert quantities.summarise_scale(FakeRun(**curve))["climb_unit"] == 5.0


def test_onset_is_among_the_looks_that_count():
    epochs, rank = np.array([0, 10, 20, 30]), np.array([1.0, 40.0, 8.7, 8.0])
    assert quantities._onset(epochs, rank, epochs > 0) == 20
    assert quantities._onset(epochs, rank, epochs > 20) == 30
    assert quantities._onset(epochs, rank, epochs > 30) is None


def test_runs_that_do_not_generalise_have_no_onset(monkeypatch):
    looks = {"rank": [9.0, 5.0, 4.0, 4.0], "exponent": [3.0, 2.0, 2.0, 1.0]}
    table = {f"{name}_test": values for name, values in looks.items()}
    table |= {"epoch": [0, 25, 50, 75], "rank_train": [3.0] * 4}
    table |= {"tail_test": [8.0] * 4, "distance_test": [0.1] * 4}
    monkeypatch.setattr(quantities, "look", lambda run, probe: pl.DataFrame(table))
    curve = {"epoch": [0, 25, 50, 75], "train_loss": [4.0, 0.0, 0.0, 0.0]}
    found = quantities.summarise_rank(FakeRun(**curve))
    assert [found[f"rank_{n}"] for n in ("onset", "lag", "least")] == [None] * 3
    assert (found["exponent_onset"], found["rank_onset_authors"]) == (None, 50)
    found = quantities.summarise_rank(FakeRun(**curve, test_accuracy=[0.0, 0.0, 1.0, 1.0]))
    assert [found[f"rank_{n}"] for n in ("onset", "lag", "least")] == [50, 0.0, 4.0]
    assert found["exponent_onset"] == 75


def evidence_of(times, losses=()):
    rows = [{"run": f"r{i}", "status": "finished", "low_loss": t} for i, t in enumerate(times)]
    spec = base("paper")
    arm = ArmRuns("M", (spec,) * len(rows), tuple(rows))
    curves = pl.DataFrame(
        losses, schema={"run": pl.String, "epoch": pl.Int32, "test_loss": pl.Float32}, orient="row"
    )
    return Evidence(
        placement.STUDY, "paper", {"r": Sample(Setting("paper", "r", spec), {"M": arm})}, curves
    )


def test_side_by_side():
    losses = [("r0", 100, 0.1), ("r1", 100, 0.001), ("r0", 200, 0.01), ("r1", 200, 0.005)]
    losses += [(f"r{i}", 200, 0.002) for i in range(2, 5)] + [
        (f"r{i}", 100, 0.002) for i in range(2, 5)
    ]
    table = side_by_side.compare_placements(evidence_of([800, 900, 1500, 1600, 2000], losses))
    row = dict(zip(table.headings, table.rows[0], strict=True))
    assert (row["our median"], row["our fastest"], row["our slowest"]) == ("1,500", "800", "2,000")
    assert (row["their mean curve"], row["their fastest"], row["their last"]) == (
        "1,425",
        "809",
        "2,055",
    )
    assert row["our mean curve"] == "200"  # at 100 the mean is 0.021
    assert row["theirs in our range"] == "yes"
    assert row["our median in theirs"] == "yes"
    late = side_by_side.compare_placements(evidence_of([4000, 5000, 6000, 7000, None]))
    row = dict(zip(late.headings, late.rows[0], strict=True))
    assert (row["our slowest"], row["theirs in our range"], row["our median in theirs"]) == (
        "never",
        "no",
        "no",
    )
    whole = placement.tabulate(evidence_of([900]))
    row = dict(zip(whole.headings, whole.rows[0], strict=True))
    assert (row["their last"], row["accuracy 0.95 that lasts"]) == ("2,055", "never")
    one = side_by_side.compare_placements(evidence_of([900]))
    assert "one seed: no range" in one.rows[0]


def test_series_are_read_at_their_steps():
    losses = [("r0", 190, 2.0), ("r1", 190, 2.0), ("r0", 1010, 4.0), ("r1", 1010, 5.0)]
    evidence = evidence_of([800, 900], losses)
    arm = evidence.samples["r"].arms["M"]
    tells = side_by_side.series("loss", "test_loss", "loss", (200, 1000), ".1f")
    assert {step: tell(evidence, arm, {"loss_200": 3.0}) for step, tell in tells.items()} == {
        "loss at 200": "2.0 / 3.0",
        "loss at 1,000": "4.5 / –",
    }


def test_table_of_placements():
    made = sample(
        **{
            name: {
                "low_loss": [None] * 5,
                "generalised": [100, 200, 300, None, None],
                "grokked": [100] * 5,
                "fitted": [50] * 5,
                "fourier": [100] * 5,
                "fourier_concentration": [0.5, 0.5, 1.0, 2.0, 0.8],
                "wait_mirrored": [1.0, 0.5, None, None, None],
                "wait_divergence": [0.1] * 5,
            }
            for name in PLACES
        }
    )
    evidence = Evidence(placement.STUDY, "laptop", {"r": made}, pl.DataFrame())
    table = placement.tabulate(evidence)
    row = dict(zip(table.headings, table.rows[0], strict=True))
    assert (row["test loss 0.01"], row["test accuracy 0.995"]) == ("never", "300")
    assert row["C_Fourier at the end (1 or more)"] == "0.8 (2 of 5)"
    assert row["accuracy while it waits, mirror trained on"] == "0.75"
    assert "no LN 3 of 5" in placement.read(evidence)


def test_doses_have_a_panel_for_every_number():
    rates = {
        f"rate {r:g}": {
            "generalised": [100, None],
            "grokked": [100, None],
            "epochs": [300, 300],
            "early_update": [r, 2 * r],
        }
        for r in (0.1, 1.0)
    }
    evidence = Evidence(doses.STUDIES[0], "laptop", {"r": sample(**rates)}, pl.DataFrame())
    draw = figures.over(lambda arm: float(arm.name.split()[1]), "Rate", doses.UPDATES)
    assert [panel.title for panel in draw(evidence)] == ["r", "mean update norm"]


def test_authors_numbers_are_about_our_arms():
    known = side_by_side.authors()
    names = {
        "placement": "placement",
        "rates": "rates",
        "decay": "decay",
        "readout": "readout",
        "rescaled": "readout-rescaled",
        "compression": "compression",
        "shortcut": "shortcut",
    }
    for section, study in names.items():
        (chosen,) = PAPER.select([study])
        (sample,) = Tables.empty().evidence(chosen, "paper").samples.values()
        assert known[section].keys() == sample.arms.keys(), section
    speed_up = known["placement"]["no LN"]["mean"] / known["placement"]["M"]["mean"]
    assert speed_up == pytest.approx(5.5, abs=0.05)  # as the specification states it
    assert math.isinf(side_by_side._time(known["placement"]["A^qk"], "mean"))


def test_unused_norms_are_not_held():
    assert set(with_norm("no LN")) == set()
    assert with_norm("M")["model.norm_epsilon"] == 0.0
