"""What the README says is true of what is here."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from grokscope import cli
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
