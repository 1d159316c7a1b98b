"""Studies: their plan, what they read off runs, their own test, and their figures."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest

import grokscope as gs
from grokscope.claims.evidence import ArmRuns, Evidence, Sample, Tables, collect, read_frames
from grokscope.claims.studies import SCALES, Planned, Setting, plan
from grokscope.cli import main
from grokscope.optim.ivon import Ivon, IvonState
from grokscope.pages.book import Book
from grokscope.pages.paper import render_markdown
from grokscope.papers import find_paper
from grokscope.papers.epistemic_icl import comparison, quantities, theory_page
from grokscope.papers.epistemic_icl.decay import SHRUNK, decay_arms
from grokscope.papers.epistemic_icl.judgements import AlarmLead, OverArms, lead_of
from grokscope.papers.epistemic_icl.lookup import has_multiple
from grokscope.papers.epistemic_icl.settings import (
    ADAMW,
    BOTH,
    FEW_ADAMW,
    FEW_IVON,
    IVON,
    by_ivon,
    kept_hessian,
)
from grokscope.problems.incontext import build
from small_incontext import IVON as BY_IVON
from small_incontext import SMALL

ROOT = Path(__file__).parents[3]
STUDIES = find_paper("epistemic-icl").studies


def test_the_plan():
    """Studies share their main runs, and every arm of a claim is in the plan."""
    for scale in SCALES:
        planned = plan(STUDIES, scale)
        assert len({item.spec.id for item in planned}) < len(planned)
        assert {item.spec.task.seed for item in planned} == {0}  # seeds make an ensemble
        for study in STUDIES:
            for setting in study.settings(scale):
                arms = study.arms(setting, 0)
                sample = Sample(setting, {n: ArmRuns(n, (s,), (None,)) for n, s in arms.items()})
                for claim in study.claims:
                    assert sample.asks(claim), (study.name, claim.name)
                    assert claim.test.describe()


def test_paper_scale_is_the_paper_s():
    (setting,) = STUDIES[0].settings("paper")
    arms = STUDIES[0].arms(setting, 0)
    spec, ivon = arms[ADAMW], arms[IVON]
    assert (spec.task.modulus, spec.task.tasks, spec.task.triples) == (29, 512, 32)
    assert spec.task.sample_size == 344_576 == ivon.optimiser.sample_size
    assert (spec.optimiser.weight_decay, ivon.optimiser.weight_decay) == (1.0, 1e-6)


def test_both_methods_shrink_alike_at_first():
    """Where no gradient says anything, IVON's own step shrinks a weight as AdamW's decay does while
    h is as it began; once h is what beta2^steps leaves of it, by 1 / h as much."""
    setting, longer = STUDIES[0].settings("laptop")
    arms = decay_arms(setting, 0)
    plain, ivon = arms[ADAMW].optimiser, arms[SHRUNK].optimiser
    kept = kept_hessian(arms[SHRUNK])
    assert kept == pytest.approx(np.exp(-2), rel=1e-3)

    def shrink(hessian):
        numbers = SimpleNamespace(**{**asdict(ivon), "warmup": 0, "horizon": 0, "clip_radius": 0.0})
        weight = jax.numpy.ones(1)
        state = IvonState(0 * weight, hessian * weight)
        moved, _ = Ivon().update(0 * weight, weight, weight, state, numbers, 10)
        return float(1 - moved[0])

    assert shrink(1.0) == pytest.approx(plain.lr * plain.weight_decay, rel=0.01)
    assert shrink(kept) == pytest.approx(plain.lr * plain.weight_decay / kept, rel=0.02)
    (paper,) = STUDIES[0].settings("paper")
    of_paper, of_longer = (STUDIES[0].arms(s, 0)[IVON].optimiser for s in (paper, longer))
    assert (of_paper.beta2, of_paper.warmup) == (pytest.approx(0.99999), 2000)
    assert of_paper.clip_radius == pytest.approx(0.001)
    assert ivon.clip_radius == pytest.approx(0.001 * 0.002 / 0.00015)
    assert of_longer.clip_radius == 0.02


def test_arms_that_were_not_run_have_no_numbers():
    decay = next(study for study in STUDIES if study.name == "decay")
    (setting,) = decay.settings("laptop")
    ended = {
        "status": "finished",
        "grokked": 90,
        "carried": None,
        "ood_val_final_accuracy": 0.5,
    }
    failed = {**ended, "status": "failed", "ood_val_final_accuracy": None}  # does not count
    arms = {
        name: ArmRuns(name, (spec,) * 2, (ended, failed) if name == ADAMW else (None, None))
        for name, spec in decay_arms(setting, 0).items()
    }
    evidence = Evidence(decay, "laptop", {"many tasks": Sample(setting, arms)}, pl.DataFrame())
    first, *others = decay.table(evidence).rows
    assert first[2:5] == ("1 of 1", "0 of 1", "0.50")
    assert len(others) == len(arms) - 1
    assert all(set(row[2:]) == {"not run"} for row in others)


def test_a_peak_needs_a_fall_and_a_height():
    epochs = np.arange(12.0)
    hill = np.array([0.1, 0.1, 0.2, 0.5, 0.9, 1, 0.9, 0.5, 0.2, 0.1, 0.1, 0.1])
    assert quantities.find_peak(epochs, hill) == 5.0
    assert quantities.find_peak(epochs, hill, floor=2.0) is None
    assert quantities.find_peak(epochs, epochs) is None
    assert quantities.find_peak(epochs, -epochs + 20) is None  # it only falls


def test_a_peak_is_relative():
    """How high it is in nats does not matter."""
    hill = np.array([0.1, 0.1, 0.2, 0.5, 0.9, 1, 0.9, 0.5, 0.2, 0.1, 0.1, 0.1])
    epochs = np.arange(12.0)
    assert quantities.find_peak(epochs, 1e-4 * hill) == 5.0
    hump = quantities.Hump.find(epochs, 1e-4 * hill)
    assert hump.epoch == 5.0
    assert hump.top == pytest.approx(0.76e-4)  # the mean of .5 .9 1 .9 .5
    assert hump.left == pytest.approx(0.1 / 0.76)
    assert quantities.find_peak(epochs, 1 + hill) is None  # it stays above a half


def test_the_usual_level_is_that_at_chance():
    values, epochs = np.array([9.0, 1, 2, 3, 50]), np.arange(5.0)
    assert quantities.usual_level(epochs, values, np.arange(5) < 4) == 2  # without step 0
    assert quantities.usual_level(epochs, values, np.zeros(5, bool)) == 0


def test_half_of_the_final_accuracy():
    accuracy = np.concatenate([np.full(10, 0.1), np.full(10, 0.9)])
    curve = pl.DataFrame({"epoch": np.arange(20), "ood_val_accuracy": accuracy})
    assert quantities.find_half(curve, "ood_val", 0.2) == 12  # three of five rows at 0.9
    assert quantities.find_half(curve, "ood_val", 0.5) is None


def test_alarms_by_hand():
    """A step from 2 to 0.9 at row 10: the mean of the last five rows goes 1.78, 1.56 ... 0.9."""
    values = np.concatenate([np.full(10, 2.0), np.full(10, 0.9)])
    no, never = np.inf, [np.inf] * 7
    assert quantities.alarm_times(np.arange(20.0), values) == [10, 10, 11, 12, 14, no, no, *never]
    rise = np.concatenate([values[10:], values[:10]])
    assert quantities.alarm_times(np.arange(20.0), rise) == [*never, 10, 10, 11, 11, 14, no, no]
    # What is still to come does not matter.
    assert quantities.alarm_times(np.arange(12.0), values[:12])[:3] == [10, 10, 11]


def test_late_alarms_do_not_see_the_warm_up(finished):
    """A signal that falls within the warm-up (5 steps) and rises from 1 to 2 after it."""
    values = np.array([9.0] * 5 + [1.0] * 5 + [2.0] * 10)
    times = quantities.read_alarms(finished[0], "eu", np.arange(20.0), values)
    falls, rises = (quantities.RULES.index((way, 0.3)) for way in ("falls", "rises"))
    assert times[f"alarm_eu_{falls}"] == 6  # means of five rows: 9, 7.4, 5.8
    assert times[f"late_alarm_eu_{falls}"] == np.inf
    assert times[f"late_alarm_eu_{rises}"] == 12  # 1, 1.2, 1.4, 1.6


def test_the_disagreement_of_seeds(finished):
    """The mutual information between answer and seed, against NumPy on the problem's own
    predictions."""
    plain, _, other = finished
    problem, data, numbers = build(SMALL)
    tokens, predict = data.cells["ood_val"], jax.jit(problem.predict)
    for epoch, kept in ((plain.snapshots[1], plain.snapshots[1]), (SMALL.training.epochs, None)):
        logs = [predict(run.weights(kept), tokens, numbers.model) for run in (plain, other)]
        p = np.exp(np.stack(logs, dtype=float)[:, :, -1])  # (2, n, C)
        mean = p.mean(axis=0)
        expected = (p * np.log(p / mean)).sum(axis=-1).mean()  # of the divergences from the mean
        found = quantities.trace_ensemble([plain, other]).filter(epoch=epoch, cell="ood_val")
        assert found["eu"].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)
        assert expected > 1e-4
    rows = quantities.trace_ensemble([plain, other]).filter(cell="ood_val")
    epochs, eu, au = (rows[name].to_numpy() for name in ("epoch", "eu", "au"))
    found = quantities.disagree([plain, other])
    alarms = [found[f"ood_val_alarm_disagreement_{n}"] for n in range(len(quantities.RULES))]
    assert alarms == quantities.alarm_times(epochs, eu) != quantities.alarm_times(epochs, au)
    with pytest.raises(gs.SpecError, match="share their task"):
        quantities.trace_ensemble([plain, SimpleNamespace(about=SMALL.replace(**{"task.seed": 1}))])


def test_every_seed_of_a_group_is_warned_by_the_same_curve(finished):
    """Groups have as many seeds as the study has at first. The second one lacks a run, and then
    nothing is known of its alarms."""
    plain, ivon, other = finished
    seeds = (SMALL, SMALL.replace(seed=1), BY_IVON, BY_IVON.replace(seed=1))
    study = replace(
        STUDIES[-1],
        settings=lambda scale: [Setting("laptop", "many tasks", SMALL)],
        arms=lambda setting, seed: {"many": seeds[seed]},
        seeds={"smoke": 1, "laptop": 2, "paper": 2},
    )
    paper = replace(find_paper("epistemic-icl"), studies=(study,), summarise=lambda run: {})
    planned, store = plan([study], "laptop", 4), gs.Store(plain.path.parent)
    runs = {item.spec.id: store.find(item.spec) for item in planned}
    tables = collect(paper, planned, runs, Tables.empty())
    expected = quantities.disagree([plain, other])
    assert len(expected) == 2 * 2 * len(quantities.RULES)
    for run in (plain, other):
        row = tables.by_id[run.id]
        assert {name: row[name] for name in expected} == expected
    assert {tables.by_id[ivon.id][name] for name in expected} == {None}
    alone = collect(paper, planned[:1], runs, Tables.empty())
    assert not expected.keys() & set(alone.runs.columns)


def test_leads_at_a_false_alarm_rate():
    """Two arms of three seeds, one that generalises at 100 and one that never does. Rule 0 cries
    wolf in the second; rule 1 does so in seed 2 alone."""
    never = np.inf
    times = np.array([[100.0] * 3, [never] * 3])
    alarms = np.array([[[30.0] * 3, [5.0] * 3], [[50.0, 60.0, 10.0], [never, never, 7.0]]])
    # For seeds 0 and 1 half of the other seeds' runs raise rule 1 in vain: no rule is left.
    np.testing.assert_allclose(lead_of(alarms, times), [0, 0, 0.9])
    np.testing.assert_allclose(lead_of(alarms[..., :2], times[:, :2]), [0.5, 0.4])
    failed = np.where([[True], [False]], times, np.nan)  # then nothing is in vain
    np.testing.assert_allclose(lead_of(alarms[..., :2], failed[:, :2]), 0.7)
    times[0, 0] = never
    assert np.isnan(lead_of(alarms, times)[0])


def fabricate(name, grokked, eu, norm):
    """An arm whose alarms go off at the given times, by every rule; those on the norm are not known
    if there are none."""
    rows = []
    for place, end in enumerate(grokked):
        row = {"status": "finished", "grokked": end, "memorised": 10}
        for rule in range(len(quantities.RULES)):
            row[f"ood_val_alarm_eu_{rule}"] = eu[place]
            if norm:
                row[f"ood_val_alarm_parameter_norm_{rule}"] = norm[place]
        rows.append(row)
    return ArmRuns(name, (SMALL,) * len(rows), tuple(rows))


def test_the_alarm_is_judged():
    setting = Setting("laptop", "many tasks", SMALL)
    many = fabricate("many", [100] * 5, [40, 50, 45, 50, 55], [90, 95, 90, 85, 95])
    few = fabricate("few", [None] * 5, [np.inf] * 5, [np.inf] * 5)
    sample = Sample(setting, {"many": many, "few": few})
    finding = AlarmLead(BOTH, "eu", "parameter_norm").judge(sample)
    assert finding.ruling == "supported"
    assert finding.estimate.value == pytest.approx(0.45, abs=0.05)
    assert AlarmLead(BOTH, "eu", least=0.8).judge(sample).ruling == "smaller than claimed"
    alone = Sample(setting, {"few": few})
    assert AlarmLead(BOTH, "eu").judge(alone).ruling == "untestable"
    unknown = Sample(setting, {"many": many, "few": fabricate("few", [None] * 5, [np.inf] * 5, [])})
    assert AlarmLead(BOTH, "eu").judge(unknown).ruling == "supported"
    for test in (AlarmLead(BOTH, "eu", "parameter_norm"), AlarmLead(BOTH, "eu", late=True)):
        assert test.judge(unknown).ruling == "not run"
    evidence = Evidence(STUDIES[-1], "laptop", {"many tasks": sample}, pl.DataFrame())
    (eu, norm) = STUDIES[-1].table(evidence).rows  # of other signals nothing is known
    assert eu == ("many tasks", "EU", "0.50 (0.45 to 0.60)", "0 of 5", "50", "never")
    assert norm[2:] == ("0.10 (0.05 to 0.15)", "0 of 5", "90", "never")


def test_runs_are_read_and_drawn(finished):
    """From two tiny runs to the page, with the optimum in every figure that sweeps."""
    paper = find_paper("epistemic-icl")
    specs = {ADAMW: SMALL, IVON: BY_IVON, FEW_ADAMW: SMALL, FEW_IVON: BY_IVON}
    setting = Setting("laptop", "many tasks", SMALL)
    studies = tuple(
        replace(
            study,
            settings=lambda scale: [setting] if scale == "laptop" else [],
            arms=lambda setting, seed: specs,
            seeds={"smoke": 1, "laptop": 1, "paper": 1},
        )
        for study in paper.studies
        if study.name not in ("decay", "diversity")
    )
    small = replace(paper, studies=studies, story=(), picture="")
    runs = {run.id: run for run in finished}
    tables = collect(small, plan(studies, "laptop"), runs, Tables.empty())
    rows = tables.runs.to_dicts()
    assert len(rows) == 2
    for row in rows:
        for cell in ("ood_train", "ood_val"):
            assert row[f"{cell}_context_peak"] is None  # forty steps do not generalise
            assert row[f"{cell}_eu_lead"] is None
            assert row[f"{cell}_absent_gain"] is None
            # The last of four questions is the only one with three examples.
            there = has_multiple(quantities.sequences(SMALL.task)[cell], 5)[:, -1].mean()
            whole = there * row[f"{cell}_there_accuracy"]
            whole += (1 - there) * row[f"{cell}_absent_accuracy"]
            assert whole == pytest.approx(row[f"{cell}_context_3_accuracy"])
            assert row[f"{cell}_noise_0_accuracy"] == row[f"{cell}_final_accuracy"]
        assert row["ood_val_final_tu"] == pytest.approx(
            row["ood_val_final_au"] + row["ood_val_final_eu_corrected"], abs=0.1
        )
    by_kind = {tables.by_id[run.id]["run"]: run.about.optimiser.kind for run in finished[:2]}
    ivon = next(row for row in rows if by_kind[row["run"]] == "ivon")
    assert ivon["hessian_forgotten"] == pytest.approx(0.999**40)
    assert ivon["hessian_left"] == pytest.approx(0.999**40, rel=0.1)
    assert ivon["id_val_eu_share_own"] is None
    for study in studies:
        panels = study.draw(tables.evidence(study, "laptop"))
        assert panels
        for panel in panels:
            assert panel.chart.to_dict(validate=False)
    text = render_markdown(Book.read(small, {"laptop": tables}))
    assert "optimal predictor" in text


def test_what_the_tables_say_of_humps_and_multiples():
    """Two runs whose EU at chance is 1: one rises to 4 and falls to 1, which is no peak in the
    tables' eyes unless it is measured; one only rises. Accuracy is above the rule with one
    example of three."""
    epochs = [float(n) for n in range(12)]
    hill = [1, 1, 1, 1, 4, 4, 4, 4, 4, 1, 1, 1]
    curves = pl.DataFrame(
        [
            {"run": name, "epoch": at, "ood_train_accuracy": right, "ood_val_accuracy": right}
            | {f"{cell}_posterior_eu_corrected": float(v) for cell in ("ood_train", "ood_val")}
            for name, eu in (("a", hill), ("b", sorted(hill)))
            for at, v in zip(epochs, eu, strict=True)
            for right in [0.2 if at < 4 else 0.9]
        ]
    )
    _, rule = (
        quantities.optimum(SMALL.task, "ood_train")
        .filter(pl.col("sweep") == "context", pl.col("prior").is_in(["all tasks", "look-up"]))
        .partition_by("prior", maintain_order=True)
    )
    accuracy = rule["accuracy"] + pl.Series([0.1, 0.1, -0.1, -0.1])
    row = {
        "status": "finished",
        "memorised": 3,
        "carried": 4,
        "grokked": None,
        "ood_train_there_accuracy": 0.75,
        "ood_train_absent_accuracy": 0.25,
        **{f"ood_train_context_{k}_accuracy": accuracy[k] for k in range(4)},
        **{f"ood_train_context_{k}_eu_corrected": 2.0 for k in range(4)},
        "hessian_left": None,
    }
    arm = ArmRuns(ADAMW, (SMALL,) * 2, ({**row, "run": "a"}, {**row, "run": "b", "carried": 2}))
    sample = Sample(Setting("laptop", "many tasks", SMALL), {ADAMW: arm})
    by_name = {study.name: study for study in STUDIES}
    trajectories, context = (
        Evidence(by_name[name], "laptop", {"many tasks": sample}, curves)
        for name in ("trajectories", "context")
    )
    told = by_name["trajectories"].read(trajectories)
    assert "in 2 of 4 curves of a run in a cell (lowest 0.25)" in told  # one in each of two cells
    assert "at most 4.0 times" in told
    assert "1 of 2 runs memorise before" in told
    listed = {r[0]: r for r in by_name["trajectories"].table(trajectories).rows}
    assert listed["many tasks, AdamW, unseen tasks with seen pairs"][4] == "0.62 (0.25 to 1.00)"
    told = by_name["context"].read(context)
    assert "at 1 of 6 numbers of examples" in told  # three in each of two cells
    assert "1.00 (many tasks, AdamW)" in told
    listed = {r[0]: r for r in by_name["context"].table(context).rows}
    seen = listed["many tasks, AdamW, unseen tasks with seen pairs"]
    assert seen[1:3] == ("0.75", "0.25")
    assert float(seen[3]) == pytest.approx(float(seen[4]) - 0.1, abs=0.011)


def test_posteriors_are_compared(finished):
    plain, ivon, other = finished
    setting = Setting("smoke", "many tasks", SMALL)
    runs = [
        (Planned(comparison.ANNEX, setting, arm, run.about.seed, run.about), run)
        for arm, run in ((ADAMW, plain), (ADAMW, other), (IVON, ivon))
    ]
    tables = comparison.tabulate(runs, None)
    final = tables["final"]
    assert final["posterior"].n_unique() == 8
    assert len(final) == 4 * 8
    np.testing.assert_allclose(final["tu"], final["au"] + final["eu"], atol=1e-4)
    assert tables["ensemble"]["epoch"].unique().sort().to_list() == [*plain.snapshots, 40]
    text, _ = comparison.render(tables, {"runs": 3, "minutes": 0})
    assert "ensemble of AdamW's seeds" in text


def test_the_optimum_answers_the_same_questions():
    table = quantities.optimum(SMALL.task, "ood_val")
    every = table.filter(prior="all tasks", sweep="context")
    assert every["at"].to_list() == [0, 1, 2, 3]
    assert every["accuracy"][3] > 0.8
    blind = table.filter(prior="all tasks", sweep="noise", at=1.0)
    assert blind["tu"][0] == pytest.approx(np.log(5), abs=0.2)


def test_the_theory_needs_no_runs(tmp_path, monkeypatch):
    """`reproduce epistemic-icl theory` computes its tables whenever it is asked, and the committed
    page is what the committed tables give."""
    few = partial(theory_page.audit_delays, nodes=200)
    monkeypatch.setattr(theory_page, "audit_delays", few)
    arguments = ["--results", str(tmp_path), "--docs", str(tmp_path), "--store", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "epistemic-icl", "theory", "--quiet", *arguments])
    assert ended.value.code == 0
    checks = read_frames(tmp_path / "epistemic-icl-theory")[0]["checks"]
    assert checks.filter(statement="T1")["agrees"].all()
    assert (tmp_path / "epistemic-icl-theory.md").exists()
    frames, about = read_frames(ROOT / "results" / "epistemic-icl-theory")
    text, _ = theory_page.render(frames, about)
    assert (ROOT / "docs" / "epistemic-icl-theory.md").read_text() == text


def test_there_is_no_lead_where_there_is_no_wait():
    """Accuracy may have half of its final value in the first row, at step 0."""
    assert quantities._lead(5.0, 0.0) is None
    assert quantities._lead(5.0, 20.0) == 0.75
    assert quantities._lead(None, 20.0) == -1


def test_failed_runs_are_in_no_comparison_of_methods():
    """Whatever their last rows say; without any number there is nothing to compare."""

    def compare(status):
        rows = ({"status": status, "ood_val_final_accuracy": 0.5},) * 3
        specs = {ADAMW: SMALL, IVON: by_ivon(SMALL)}
        arms = {name: ArmRuns(name, (spec,) * 3, rows) for name, spec in specs.items()}
        seen = Sample(Setting("laptop", "many tasks", SMALL), arms)
        return OverArms("ood_val_final_accuracy", "accuracy", least=-0.1).judge(seen)

    assert compare("finished").estimate.value == 0
    assert compare("failed").ruling == "untestable"
