"""Figure 7: RMSNorm in the place of LayerNorm."""

from __future__ import annotations

from grokscope.claims.studies import Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.placement import order_claims
from grokscope.papers.inductive_bias.settings import (
    MOST,
    PILOTS,
    RUNS,
    TIMES,
    WHOLE,
    changed,
    regimes,
    with_norm,
)
from grokscope.spec import RunSpec


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {name: changed(setting, seed, with_norm(name, "rms")) for name in WHOLE}


STUDY = Study(
    name="rms",
    source="Figure 7",
    title="RMSNorm instead of LayerNorm",
    paper_says="RMSNorm, which does not centre, gives the same picture: scale is what matters.",
    how="The placements of whole blocks with RMSNorm (a gain, no bias, no epsilon).",
    settings=regimes({"RMSNorm": {}}),
    arms=arms,
    claims=order_claims(),
    draw=figures.draw_times,
    caption=TIMES,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
    appendix=True,
)
