"""A paper of two studies and an annex, trained in a second; it shares nothing with any other."""

from __future__ import annotations

import altair as alt
import polars as pl

import grokscope as gs
from grokscope.claims.judgements import Faster, Share
from grokscope.claims.studies import Annex, Claim, Panel, Paper, Setting, Study

BASE = gs.RunSpec().replace(
    **{
        "task.modulus": 11,
        "task.train_fraction": 0.6,
        "model.width": 8,
        "model.hidden": 16,
        "training.epochs": 100,
        "training.log_every": 10,
    }
)
SEEDS = {"smoke": 1, "laptop": 2, "paper": 2}


def settings(scale):
    return [Setting(scale, "constant", BASE)] if scale != "paper" else []


def first_arms(setting, seed):
    return {"plain": setting.baseline(seed)}


def second_arms(setting, seed):
    return {
        "plain": setting.baseline(seed),  # shared with the first study
        "prior": setting.variant(seed, {"prior.kind": "oracle"}),
    }


def chart():
    return alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q")


def draw(evidence):
    return [Panel("constant", chart())]


def study(name, source, arms, *claims):
    return Study(
        name=name,
        source=source,
        title=f"The {name} question",
        paper_says="It says so.",
        how="We look.",
        settings=settings,
        arms=arms,
        claims=claims,
        draw=draw,
        caption="A dot.",
        curves=("test_accuracy",),
        curve_arms=("plain",),
        summarise=lambda run: {"steps": float(run.outcome["epochs"])},
        seeds=SEEDS,
    )


def tabulate(runs, store):
    rows = [{"arm": item.arm, "norm": run.curve["mlp_norm"][-1]} for item, run in runs]
    return {"norms": pl.DataFrame(rows)}


def render(tables, about):
    lines = [f"- {arm}: {norm:.2f}" for arm, norm in tables["norms"].iter_rows()]
    text = "\n".join([f"# Norms of {about['runs']} runs", "![Norms](figures/norms.svg)", *lines])
    return text, {"norms.svg": chart()}


NORMS = Annex(
    name="norms",
    source="Appendix",
    title="Norms",
    paper_says="Nothing.",
    how="We measure.",
    settings=settings,
    arms=first_arms,
    tabulate=tabulate,
    render=render,
    appendix=True,
    seeds=SEEDS,
)
PAPER = Paper(
    name="tiny",
    title="A Tiny Paper",
    reference="arXiv 0000.00000",
    summary="Small things happen.",
    studies=(
        study("first", "Figure 1", first_arms, Claim("groks", "It groks.", Share("plain", "most"))),
        study(
            "second",
            "Figure 2",
            second_arms,
            Claim("faster", "The prior is faster.", Faster("prior", "plain", least=1.25)),
        ),
    ),
    regimes={"constant": "Nothing disturbs."},
    deviations=("Everything is smaller.",),
    revisions=("Nothing worth mentioning.",),
    glossary={"grokked": "It got there."},
    annexes=(NORMS,),
)
