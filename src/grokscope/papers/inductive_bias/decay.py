"""Figure 4, second half, and Figure 9: weight decay."""

from __future__ import annotations

from grokscope.claims.evidence import ArmRuns, Event
from grokscope.claims.judgements import Trend
from grokscope.claims.studies import Claim, Setting, Study
from grokscope.papers.inductive_bias import figures
from grokscope.papers.inductive_bias.quantities import summarise_rank
from grokscope.papers.inductive_bias.settings import GENERALISED, MOST, PILOTS, RUNS, TIMES, plain
from grokscope.papers.inductive_bias.side_by_side import compare_decays
from grokscope.spec import RunSpec

DECAYS = (0.1, 0.2, 0.5, 0.75, 1.0, 1.5)
RANK = Event("rank_end", "have a rank", "effective rank at the end")
EXPONENT = Event("exponent_end", "have an exponent", "power-law exponent at the end")


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    chosen = DECAYS[2:5:2] if setting.scale == "smoke" else DECAYS
    one = setting.baseline(seed)
    return {f"decay {d:g}": one.replace(**{"optimiser.weight_decay": d}) for d in chosen}


def decay(arm: ArmRuns) -> float:
    return arm.spec.optimiser.weight_decay


NAME = "weight decay"
STUDY = Study(
    name="decay",
    source="Figures 4c, 4d and 9",
    title="Weight decay: time, and compressibility of the features",
    paper_says="Higher weight decay generalises earlier, and ends with a lower effective rank and "
    "a lower power-law exponent of the features.",
    how="No LN with six strengths of decay, trained to the end of the budget. Effective rank and "
    "exponent are those of the pre-logits on test examples, as in the authors' released numbers.",
    settings=plain,
    arms=arms,
    claims=(
        Claim(
            "higher decay is faster",
            "The higher weight decay, the earlier the network generalises.",
            Trend(decay, NAME, GENERALISED, high=-0.4),
        ),
        Claim(
            "higher decay, lower rank",
            "The higher weight decay, the lower the effective rank at the end.",
            Trend(decay, NAME, RANK, high=-0.3, censored=False),
        ),
        Claim(
            "higher decay, lower exponent",
            "The higher weight decay, the lower the power-law exponent at the end.",
            Trend(decay, NAME, EXPONENT, high=-0.2, censored=False),
        ),
    ),
    draw=figures.over(decay, "Weight decay"),
    caption=TIMES,
    table=compare_decays,
    curves=("test_loss",),
    curve_arms=tuple(f"decay {d:g}" for d in DECAYS),
    summarise=summarise_rank,
    seeds=RUNS,
    most_seeds=MOST,
    pilots=PILOTS,
)
