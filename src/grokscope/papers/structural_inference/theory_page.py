"""The fifteen statements on real runs: docs/theory.md, from the tables in results/theory.

Every snapshot of runs of different kinds is checked against every statement, and Theorem 4.3 is
taken as a decision on a population of runs of different fate (`decoupling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from grokscope.claims.studies import Planned, Setting
from grokscope.draw.words import count
from grokscope.pages.files import template
from grokscope.pages.paper import slug, tidy
from grokscope.papers.structural_inference import decoupling
from grokscope.papers.structural_inference.certificates import certify, summarise
from grokscope.papers.structural_inference.certificates.inspection import PAIRS
from grokscope.papers.structural_inference.settings import ORACLE, PRIORS, PROSE, Changes, on_laptop
from grokscope.papers.structural_inference.theory.statements import STATEMENTS
from grokscope.spec import RunSpec

if TYPE_CHECKING:
    from polars.dataframe.group_by import GroupBy

    from grokscope.store import Run, Store

COMMAND = "grokscope reproduce structural-inference theory"
DECOUPLING = "theory-decoupling.svg"
PREDICTIONS = ("both conditions", "structural condition alone", "norm condition alone")
SNAPSHOTS = 40
POPULATION, CERTIFIED = "population", "certified"
LONG = {"training.epochs": 3000}
CLOSE = {"task.alphabet": 43, **ORACLE, "training.log_every": 2, "training.epochs": 2000}
ARMS: dict[str, Changes] = {  # whose every snapshot is checked
    "constant distractors": {},
    "distractors from 6 tokens": {"task.alphabet": 6},
    "noise": {"task.alphabet": 43},
    **{  # followed closely: the prior acts within tens of epochs
        f"noise, oracle prior of strength {strength:g}": {**CLOSE, "prior.strength": strength}
        for strength in (0.03, 0.1, 1.0)
    },
    "constant, adversarial prior": PRIORS["adversarial"],
    "linear-ReLU attention": {"model.attention": "linear_relu"},
    "four heads": {"model.heads": 4},
    "Lion": {"optimiser.kind": "lion", "optimiser.lr": 2e-4, "optimiser.weight_decay": 10.0},
    "Muon": {"optimiser.kind": "muon"},
}
PULLS: dict[str, Changes] = {
    "no prior": {},
    "oracle prior of strength 0.03": {**ORACLE, "prior.strength": 0.03},
    "oracle prior": ORACLE,
    "adversarial prior": PRIORS["adversarial"],
}


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    """The population has several seeds, the certified runs the first."""
    plain = setting.baseline(seed)
    if setting.regime == CERTIFIED:
        return {} if seed else {name: plain.replace(**change) for name, change in ARMS.items()}
    return {
        f"{name}, {alphabet} distractor tokens, decay {decay:g}": plain.replace(
            **{**prior, "task.alphabet": alphabet, "optimiser.weight_decay": decay}
        )
        for name, prior in PULLS.items()
        for alphabet in (1, 4, 8, 43)
        for decay in (0.0, 0.3, 1.0)
    }


def tabulate(runs: Sequence[tuple[Planned, Run]], store: Store) -> Mapping[str, pl.DataFrame]:
    from grokscope.engine.compilation import prepare

    prepare()
    checked = [
        certify(run, store).select(pl.lit(item.arm).alias("arm"), pl.all())
        for item, run in runs
        if item.setting.regime == CERTIFIED
    ]
    many = [run for item, run in runs if item.setting.regime == POPULATION]
    table = decoupling.add_conditions(decoupling.measure_population(many, store))
    return {"certificates": pl.concat(checked), "population": table}


def render(
    tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The page, from the template `theory.md`, which has its words, and its figures."""
    from grokscope.draw.certificates import certificate_chart, decoupling_chart

    population, certificates = tables["population"], tables["certificates"]
    met = {s: certificates.filter(statement=s.number) for s in STATEMENTS}
    met = {s: checks for s, checks in met.items() if len(checks)}
    named = {s.number: f"theory-{s.number:02d}-{s.key}.svg" for s in met}
    charts: dict[str, Any] = {DECOUPLING: decoupling_chart(population)}
    charts |= {named[s.number]: certificate_chart(checks) for s, checks in met.items()}
    columns = ("generalised", "structural_condition", "norm_condition")
    actual, structural, norm = (population[name].to_numpy() for name in columns)
    both = structural & norm
    rules = dict(zip(PREDICTIONS, (both, structural, norm), strict=True))
    ranked = decoupling.rank_thresholds(population).to_dicts()
    page = template("theory.md", __package__, number=_number, slug=slug, count=count)
    text = page.render(
        command=COMMAND,
        about=about,
        population=population,
        summary=summarise(certificates).to_dicts(),
        statements=STATEMENTS,
        titles={s.number: s.title for s in STATEMENTS},
        decoupling=DECOUPLING,
        predictions={name: _confusion(each, actual) for name, each in rules.items()},
        ranked=ranked,
        sharp=_measure_sharpness(population, structural, actual),
        pairs=certificates.filter(name="pair necessity")["holds"],
        routing=next(row for row in ranked if row["measure"].startswith("weakest")),
        theorem=decoupling.balanced_accuracy(both, actual),
        proved=decoupling.balanced_accuracy(structural, actual),
        figures=named,
        at_the_end={s.number: _by_arm(checks).last().to_dicts() for s, checks in met.items()},
        laws=_by_arm(certificates.filter(statement=12), "name")
        .agg(pl.col("holds").sum(), pl.len().alias("checks"))
        .to_dicts(),
        snapshots=SNAPSHOTS,
        sampled=PAIRS,
        arms="; ".join(certificates["arm"].unique(maintain_order=True)),
    )
    return tidy(text), charts


def _by_arm(checks: pl.DataFrame, *others: str) -> GroupBy:
    return checks.group_by(*others, "arm", maintain_order=True)


def _confusion(predicted: np.ndarray, actual: np.ndarray) -> str:
    right, n = int(np.sum(predicted == actual)), len(actual)
    low, high = decoupling.share_interval(right, n)
    counts = " | ".join(map(str, decoupling.confusion(predicted, actual)))
    balanced = decoupling.balanced_accuracy(predicted, actual)
    return f"{counts} | {right / n:.2f} ({low:.2f} to {high:.2f}) | {balanced:.2f}"


def _measure_sharpness(
    table: pl.DataFrame, structural: np.ndarray, actual: np.ndarray
) -> dict[str, float]:
    """Is the condition vacuous, and how much? Of runs that memorised, those that generalised
    (good) and the others (bad)."""
    slack = table["weakest_min"].to_numpy() / table["tau"].to_numpy()
    memorised = ~np.isnan(slack)
    good, bad = memorised & actual, memorised & ~actual
    return {
        "good": good.sum(),
        "violated": (good & ~structural).sum(),
        "bad": bad.sum(),
        "passed": (bad & structural).sum(),
        "good_slack": np.median(slack[good]),
        "bad_slack": np.median(slack[bad]),
    }


def _number(value: float) -> str:
    """Three digits; far off is said in words, since its size means nothing."""
    return f"{value:.3g}" if value < 1e6 else "over a million"


ANNEX = PROSE.annex(
    "theory",
    settings=on_laptop({POPULATION: LONG, CERTIFIED: {**LONG, "training.snapshots": SNAPSHOTS}}),
    arms=arms,
    tabulate=tabulate,
    render=render,
    seeds={"smoke": 1, "laptop": 2, "paper": 2},
)
