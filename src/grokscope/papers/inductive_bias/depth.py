"""Figure 8: three layers."""

from __future__ import annotations

from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.placement import order_claims
from grokscope.papers.inductive_bias.settings import (
    MOST,
    PILOTS,
    RUNS,
    SIZES,
    TIMES,
    WHOLE,
    M,
    base,
    with_norm,
)
from grokscope.spec import RunSpec

LAYERS = 3


def settings(scale: ScaleName) -> list[Setting]:
    """Three layers of half the width."""
    if scale == "smoke":
        return []
    sizes = SIZES[scale]
    halved = {name: sizes[name] // 2 for name in ("model.width", "model.hidden")}
    return [Setting(scale, "three layers", base(scale, **halved, **{"model.layers": LAYERS}))]


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {name: setting.baseline(seed).replace(**with_norm(name)) for name in WHOLE}


STUDY = Study(
    name="depth",
    source="Figure 8",
    title="Three layers of half the width",
    paper_says="With three layers of width 64 the order is the same, with more slingshots: losses "
    "leap up again after the network has generalised.",
    how="The placements of whole blocks in three layers of half the width.",
    settings=settings,
    arms=arms,
    claims=(
        *order_claims(),
        Claim(
            "slingshots",
            "After M has generalised, its test loss is above 0.01 again at a tenth of the rows or "
            "more.",
            Level(M, "relapse", "share of later rows above 0.01", low=0.1),
        ),
    ),
    draw=figures.draw_times,
    caption=TIMES,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
    appendix=True,
)
