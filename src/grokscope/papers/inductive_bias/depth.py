"""Figure 8: three layers."""

from __future__ import annotations

from grokscope.claims.judgements import Level
from grokscope.claims.studies import Claim, ScaleName, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.placement import order_claims
from grokscope.papers.inductive_bias.settings import (
    MOST,
    NO_NORM,
    PILOTS,
    RUNS,
    SIZES,
    TIMES,
    WHOLE,
    A,
    M,
    base,
    with_norm,
)
from grokscope.spec import RunSpec

LAYERS = 3
COMPARED = (M, A, NO_NORM)  # with one layer of the whole width, the runs of Figure 1


def settings(scale: ScaleName) -> list[Setting]:
    """Three layers of half the width."""
    if scale == "smoke":
        return []
    sizes = SIZES[scale]
    halved = {name: sizes[name] // 2 for name in ("model.width", "model.hidden")}
    return [Setting(scale, "three layers", base(scale, **halved, **{"model.layers": LAYERS}))]


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    single = base(setting.scale, seed=seed)
    return {
        **{name: setting.baseline(seed).replace(**with_norm(name)) for name in WHOLE},
        **{one_layer(name): single.replace(**with_norm(name)) for name in COMPARED},
    }


def one_layer(name: str) -> str:
    return f"{name}, one layer"


STUDY = Study(
    name="depth",
    source="Figure 8",
    title="Three layers of half the width",
    paper_says="With three layers of width 64 the order is the same, with more slingshots: losses "
    "leap up again after the network has generalised.",
    how="The placements of whole blocks in three layers of half the width. Slingshots are counted "
    "by the share of rows, after the first with a test loss of 0.01, that are above it again, and "
    "compared with one layer of the whole width (the runs of Figure 1).",
    settings=settings,
    arms=arms,
    claims=(
        *order_claims(),
        *(
            Claim(
                f"more slingshots, {name}",
                f"{name} is above a test loss of 0.01 again at more of the later rows than with "
                "one layer, by a twentieth of them or more.",
                Level(
                    name,
                    "relapse",
                    "share of later rows above 0.01",
                    low=0.05,
                    reference=one_layer(name),
                    ceiling=1.0,
                    absent="never have a test loss of 0.01 with one layer or with three",
                ),
            )
            for name in COMPARED
        ),
    ),
    draw=figures.draw_times,
    caption=TIMES,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
    appendix=True,
)
