"""The placements once more: with RMSNorm in the place of LayerNorm (Figure 7), with three layers
(Figure 8), and beyond the paper without mirror images between training and test, and with other
parts of norm and MLP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from grokscope.claims.judgements import Level
from grokscope.claims.studies import ScaleName, Setting, Study, Test
from grokscope.papers.inductive_bias import figures, places
from grokscope.papers.inductive_bias.judgements import Few, faster
from grokscope.papers.inductive_bias.placement import ORDER
from grokscope.papers.inductive_bias.places import AQK, AV, NO_NORM, WHOLE, A, M, with_norm
from grokscope.papers.inductive_bias.settings import FIELDS, base, changed, regimes, study
from grokscope.spec import RunSpec

Changes = Mapping[str, Any]


def again(
    name: str,
    differs: Mapping[str, tuple[Changes, Changes]],
    tests: Mapping[str, Test] = ORDER,
    names: Sequence[str] = WHOLE,
) -> Study:
    """The placements in regimes that differ in the base, and in the norms of those arms that have
    one."""

    def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
        _, normed = differs[setting.regime]
        norms = {name: with_norm(name) for name in names}
        changes = {name: {**norm, **normed} if norm else {} for name, norm in norms.items()}
        return {name: changed(setting, seed, change) for name, change in changes.items()}

    return study(
        name,
        tests,
        settings=regimes({regime: changes for regime, (changes, _) in differs.items()}),
        arms=arms,
        draw=figures.draw_times,
    )


RMS = again("rms", {"RMSNorm": ({}, {"model.norm_kind": "rms"})})
SPLIT = again(
    "symmetric-split",
    {"mirror pairs together": ({"task.split": "mirror"}, {})},
    tests={
        **ORDER,
        "A^v accelerates": faster(AV, NO_NORM, 1.5),
        "A^qk does not generalise": Few(AQK, control=NO_NORM),
    },
    names=tuple(places.PLACES),
)
PARTS = again(
    "norm-parts",
    {
        "no gain": ({}, {"model.norm_gain": "no"}),
        "epsilon 1e-5": ({}, {"model.norm_epsilon": 1e-5}),
        "ReLU": ({"model.activation": "relu"}, {}),
    },
)

COMPARED = (M, A, NO_NORM)  # with one layer of the whole width, the runs of Figure 1


def deep(scale: ScaleName) -> list[Setting]:
    """Three layers of half the width."""
    if scale == "smoke":
        return []
    halved = {name: FIELDS[scale][name] // 2 for name in ("model.width", "model.hidden")}
    return [Setting(scale, "three layers", base(scale, **halved, **{"model.layers": 3}))]


def deep_arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    single = base(setting.scale, seed=seed)
    return {
        **places.place(setting, seed, WHOLE),
        **{one_layer(name): single.replace(**with_norm(name)) for name in COMPARED},
    }


def one_layer(name: str) -> str:
    return f"{name}, one layer"


slingshots = partial(
    Level,
    column="relapse",
    effect="share of later rows above 0.01",
    low=0.05,
    ceiling=1.0,
    absent="never have a test loss of 0.01 with one layer or with three",
)
DEPTH = study(
    "depth",
    {
        **ORDER,
        **{f"more slingshots, {n}": slingshots(n, reference=one_layer(n)) for n in COMPARED},
    },
    settings=deep,
    arms=deep_arms,
    draw=figures.draw_times,
)

STUDIES = (RMS, DEPTH, SPLIT, PARTS)
