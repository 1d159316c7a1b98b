"""The page of speed: what it says of measurements, and that the committed one is theirs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.figures import draw
from benchmarks.goals import Goal, list_goals
from benchmarks.growth import fit_exponent, split_columns
from benchmarks.teams import median_ratio
from fabricated import make

from benchmarks import page
from grokscope.errors import StoreError

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "performance"


@pytest.fixture(scope="module")
def measured():
    return make()


def test_goals(measured):
    """10 ms beside 20, 100, 14 and 8, twenty members for twenty times one, 14 of 200 s idle."""
    found = {goal.says: (goal.measured, goal.verdict) for goal in list_goals(measured)}
    assert list(found.values()) == [
        ("2.00× (2.00 to 2.00)", "**missed**"),
        ("10.00× (10.00 to 10.00)", "met"),
        ("1.40× (1.40 to 1.40)", "**missed**"),
        ("2.00× (2.00 to 2.00)", "met"),
        ("2.00× (2.00 to 2.00)", "met"),
        ("1.25× (1.25 to 1.25)", "met"),
        ("20.00× (20.00 to 20.00)", "met"),
        ("15.00× (15.00 to 15.00)", "met"),
        ("1.25× (1.25 to 1.25)", "met"),
        ("1.25× (1.25 to 1.25)", "met"),
        ("2.00× (2.00 to 2.00)", "**missed**"),  # the other papers' networks: 10 ms beside 20
        *[("2.00× (2.00 to 2.00)", "met")] * 4,
        *[("2.00× (2.00 to 2.00)", "**missed**")] * 2,  # at most
        ("2.00× (2.00 to 2.00)", "met"),
        ("2.00× (2.00 to 2.00)", "**missed**"),
        ("0.40 %", "met"),
        ("7.00 %", "**missed**"),
    ]


def test_rounds_may_disagree():
    goal = Goal("at least twice", 2.1, bound=2.0, least=True, rounds=[1.9, 2.1, 2.4])
    assert (goal.met, goal.verdict) == (True, "met; 2 of 3")
    goal = Goal("at most once", 1.1, bound=1.0, least=False, rounds=[0.9, 1.1, 1.2])
    assert (goal.met, goal.verdict) == (False, "**missed**; 1 of 3")


def test_a_missing_contender_meets_no_goal(measured):
    times = [r for r in measured["comparison"]["times"] if r["contender"] != "PyTorch loop"]
    without = {
        **measured,
        "comparison": {**measured["comparison"], "times": times},
        "agreement": {**measured["agreement"], "curves": []},
    }
    verdicts = [goal.verdict for goal in list_goals(without)]
    assert verdicts[1] == "not measured"
    assert verdicts[-2] == "not measured"
    lost = [r for r in times if r["contender"] != "PyTorch loop, all positions"]
    alone = {**without, "comparison": {**measured["comparison"], "times": lost}}
    assert "plain PyTorch loop" in page.speed_sentence(without)
    assert "plain PyTorch loop" not in page.speed_sentence(alone)
    assert "The same training" not in page.render(without)
    assert "losses" not in draw(without)


def test_one_member_alone_has_no_scaling(measured):
    times = [row for row in measured["comparison"]["times"] if row["members"] == 1]
    alone = {**measured, "comparison": {**measured["comparison"], "times": times}}
    (goal,) = [goal for goal in list_goals(alone) if "members cost" in goal.says]
    assert (goal.bound, goal.verdict) == (20, "not measured")
    assert draw(alone).keys() == draw(measured).keys()


def test_page(measured, tmp_path):
    for part, data in measured.items():
        page.save(tmp_path / "results", part, data)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    written = page.write(tmp_path / "results", tmp_path / "docs", readme)
    text = (tmp_path / "docs" / "performance.md").read_text()
    assert text.count("an abacus, 2 cores, 8 GB") == 1
    assert (
        "commit abc1234: comparison, general, block, networks, growth, storage, breakdown, fixed."
        in text
    )
    assert "commit def5678: agreement." in text
    assert "| grokscope | paper | 4.7 | 0.5 | 1.0e-06 | 4.0e-03 |" in text
    assert "| PyTorch loop | 110 (10.00×) | 550 (10.00×) | 2,200 (10.00×) | 2.0 s |" in text
    assert "| 2.00 (2.00 to 2.00) | 0.00 (0.00 to 0.00) | 1.00 (1.00 to 1.00) |" in text
    assert "7.00 = 2.8 % of 25 epochs" in text
    assert "| members, paper scale: an epoch of all | 1: 11 ms | 20: 220 ms | 1.00 (1.00 to" in text
    assert "| measures, laptop scale: a row | 2: 1 ms | 14: 7 ms | 1.00 (1.00 to 1.00)" in text
    assert "Whole processes took 700 to 700 MB" in text
    for path in written:
        assert path.exists()
        if path.suffix == ".svg":
            assert f"figures/{path.name}" in text
    assert readme.read_text().startswith(f"before\n{page.BEGIN}\nAn epoch of the paper's model ")
    assert re.search(r"with nothing measured, \d+\.\d times as long", readme.read_text())
    assert readme.read_text().endswith(f"{page.END}\nafter\n")


def test_missing_measurements_are_named(tmp_path):
    with pytest.raises(StoreError, match="has no comparison, agreement, general, block"):
        page.read(tmp_path)


def test_exponent():
    sizes = [1, 2, 4, 8]
    assert fit_exponent(sizes, [3 * x**1.5 for x in sizes]) == pytest.approx((1.5, 1.5, 1.5))
    # A hand-worked case: logs to base 2 are 0, 1, 2 against 0, 2, 3, so the slope is 3/2 and the
    # residuals -1/6, 1/3, -1/6 give it a standard error of sqrt(1/6 / 2) = 0.2887.
    slope, low, high = fit_exponent([1, 2, 4], [1, 4, 8])
    assert slope == pytest.approx(1.5)
    assert high - slope == pytest.approx(12.706 * 0.28868, rel=1e-3)
    assert slope - low == pytest.approx(high - slope)
    with pytest.raises(ValueError, match="2 sizes"):
        fit_exponent([1, 2], [1, 2])


def test_ratio_is_taken_round_by_round():
    assert median_ratio([1.0, 20.0, 3.0], [1.0, 10.0, 1.0]) == 2.0


def test_columns_that_no_group_names_come_last():
    groups = split_columns(["epoch", "divergence", "train_loss"])
    assert list(groups.values()) == [["epoch", "train_loss"], ["divergence"]]


def test_committed_page():
    """As soon as there is a page or a measurement, the page is what the measurements give."""
    committed = ROOT / "docs" / "performance.md"
    assert committed.exists() == RESULTS.exists()
    if not committed.exists():
        return
    measured = page.read(RESULTS)
    text = committed.read_text()
    assert text == page.render(measured)
    block = f"{page.BEGIN}\n{page.speed_sentence(measured)}{page.END}"
    assert block in (ROOT / "README.md").read_text()
    for name in draw(measured):
        assert (ROOT / "docs" / "figures" / f"performance-{name}.svg").exists()
        assert f"figures/performance-{name}.svg" in text
