"""What the README says is true of what is here."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from grokscope import cli
from grokscope.demo import demo_specs
from grokscope.draw.charts import KINDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
THEORY = (ROOT / "docs" / "theory-in-short.md").read_text()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", README):
        assert f"\n{target}:" in makefile, target
    for command in re.findall(r"^grokscope (\w+)", README, flags=re.MULTILINE):
        assert command in cli.COMMANDS, command
    assert set(re.findall(r"--kind (\w+)", README)) <= set(KINDS)


def test_the_gate_runs_the_readmes_test_command():
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in README


def test_the_example_is_python():
    code, _ = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    compile(code, "README", "exec")
    assert len([line for line in code.splitlines() if line]) <= 8


def test_the_caption_and_the_picture_are_of_the_demonstration():
    table = pl.read_parquet(ROOT / "results" / "demo.parquet").sort("run", "epoch")
    specs = {spec.id: name for name, spec in demo_specs().items()}
    curves = {specs[run]: curve for (run,), curve in table.group_by("run")}
    alone, helped = curves["no prior"], curves["structural prior"]

    def first(curve: pl.DataFrame, column: str, least: float) -> int:
        return curve.filter(pl.col(column) >= least)["epoch"].min()

    memorised = first(alone, "train_accuracy", 0.99)
    grokked, sooner = (first(curve, "test_accuracy", 0.95) for curve in (alone, helped))
    assert first(helped, "train_accuracy", 0.99) <= memorised
    then = alone.row(by_predicate=pl.col("epoch") == memorised, named=True)
    assert then["weakest_median"] < 0.25
    for words in (
        f"Both memorise within {memorised} epochs",
        f"get {then['mass_mean']:.0%} of".replace("%", " %"),
        f"in the worst case {then['weakest_min']:.0%}".replace("%", " %"),
        f"waits until epoch {grokked:,}",
        f"groks at {sooner}",
    ):
        assert words in README.replace("\n", " ")
    drawn = (ROOT / "docs/figures/demo.svg").read_text()
    assert re.findall(r"outcome: grokked: epoch ([\d,]+)", drawn) == [f"{sooner}", f"{grokked:,}"]


def test_the_small_gpt2_is_as_its_tables_say():
    table = pl.read_parquet(ROOT / "results/bridge/outcomes.parquet")
    noise, few = (table.filter(pl.col("distractors") == count) for count in (23, 2))
    grokked = {
        arm: frame.filter(pl.col("arm") == arm)["grokked"].count()
        for frame in (noise,)
        for arm in ("no prior", "oracle prior")
    }
    assert grokked == {"no prior": 0, "oracle prior": 4}
    assert "4 of 5 seeds grokked with the prior and none without it" in README.replace("\n", " ")
    assert few.group_by("arm").agg(pl.col("grokked").count())["grokked"].to_list() == [1, 1]


def test_theory_numbers_are_those_of_the_tables():
    table = pl.read_parquet(ROOT / "results/theory/population.parquet")
    right = (table["predicted"] == table["generalised"]).mean()
    assert f"{right:.0%}".replace("%", " %") + f" of {len(table)} runs" in THEORY
    bad = table.filter(~pl.col("generalised") & pl.col("tau").is_not_nan())
    fooled = bad["structural_condition"].sum()
    assert f"{fooled} of {len(bad)} runs that only memorised" in THEORY
    checks = pl.read_parquet(ROOT / "results/theory/certificates.parquet")
    away = checks.filter(pl.col("name") == "explaining away")
    assert away["holds"].all()
    assert f"all {len(away)} checks" in THEORY
    worst, median = away["ratio"].max(), away["ratio"].median()
    assert f"worst gradient was {worst:.0%}".replace("%", " %") in THEORY.replace("\n  ", " ")
    assert f"worst was {median:.0%}".replace("%", " %") in THEORY
    weak = pl.col("arm").str.ends_with("0.03")
    corrected = checks.filter(pl.col("name") == "prior's corrected decay")
    printed = checks.filter(pl.col("name") == "prior's exponential decay")
    text = THEORY.replace("\n  ", " ")
    strong = corrected.filter(~weak)
    assert f"held in {strong['holds'].sum()} of {len(strong)} checks on two runs" in text
    assert f"in {printed.filter(~weak)['holds'].sum()}. With a weak prior (0.03) both fail" in text
    assert corrected.filter(weak)["holds"].mean() < 0.1
    assert printed.filter(weak)["holds"].mean() < 0.1
