"""A paper of two studies that train in a second: what `reproduce` is tested with."""

from __future__ import annotations

import altair as alt

import grokscope as gs
from grokscope.claims.judgements import Faster, Share
from grokscope.claims.studies import Claim, Panel, Paper, Setting, Study
from grokscope.papers.structural_inference.quantities import summarise

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


def settings(scale):
    return [Setting(scale, "constant", BASE)] if scale != "paper" else []


def first_arms(setting, seed):
    return {"plain": setting.baseline(seed)}


def second_arms(setting, seed):
    return {
        "plain": setting.baseline(seed),  # shared with the first study
        "prior": setting.variant(seed, prior__kind="oracle"),
    }


def draw(evidence):
    return [Panel("constant", alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q"))]


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
        seeds={"smoke": 1, "laptop": 2, "paper": 2},
    )


PAPER = Paper(
    name="tiny",
    title="A Tiny Paper",
    reference="arXiv 0000.00000",
    summary="Small things happen.",
    studies=(
        study("first", "Figure 1", first_arms, Claim("groks", "It groks.", Share("plain", "grok"))),
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
    summarise=summarise,
)
