"""Figure 2: is it the norm, the structure, or both?"""

from __future__ import annotations

import numpy as np

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Setting
from grokscope.claims.verdicts import median_time
from grokscope.papers.structural_inference import figures, settings
from grokscope.spec import RunSpec

DECAY, FREE, MATCHED = "decay", "no decay", "norm matched"
# With decay on every other weight, so that nothing but the MLP's norm differs between these two.
INSIDE, OUTSIDE = "norm matched, decay elsewhere", "norm twice that, decay elsewhere"


def arm(norm: str, structure: str) -> str:
    return f"{norm}, {structure}"


QUERY_KEY = arm(MATCHED, "no prior, query-key penalty")
DECAYED, FREED, HELD = (arm(norm, "oracle") for norm in (DECAY, FREE, MATCHED))
MAIN_ARMS = (
    *(arm(DECAY, structure) for structure in settings.PRIORS),
    *(FREED, HELD, arm(MATCHED, "adversarial")),
)


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    shell = settings.SHELL[setting.scale]
    norms: dict[str, settings.Changes] = {
        DECAY: {},
        FREE: {"optimiser.weight_decay": 0.0},
        MATCHED: {"optimiser.weight_decay": 0.0, "interventions.mlp_norm": shell},
    }
    result = {
        arm(norm, structure): setting.variant(seed, {**how, **prior})
        for norm, how in norms.items()
        for structure, prior in settings.PRIORS.items()
    }
    result[arm(DECAY, "no prior")] = setting.baseline(seed)
    for name, norm in ((INSIDE, shell), (OUTSIDE, 2 * shell)):
        held = {**settings.ORACLE, "interventions.mlp_norm": norm}
        result[arm(name, "oracle")] = setting.variant(seed, held)
    penalised = {**norms[MATCHED], "interventions.query_key_penalty": 0.5}
    result[QUERY_KEY] = setting.variant(seed, penalised)
    if setting.scale == "paper":
        result = {name: result[name] for name in MAIN_ARMS}
    return result


def read(evidence: Evidence) -> str:
    """Is it the norm of the MLP, or decay on the other weights? In the regimes that can tell."""
    parts, clear = [], True
    names = [arm(norm, "oracle") for norm in (MATCHED, INSIDE, OUTSIDE)]
    for regime, sample in evidence.finished(*names):
        n = min(len(sample.arms[name].rows) for name in names)  # one may have been asked for more
        times = [sample.arms[name].times()[:n] for name in names]
        matched, inside, outside = (int(np.isfinite(each).sum()) for each in times)
        clear &= matched == 0 and inside == outside == n
        text = f"{regime} {matched}, {inside} and {outside} of {n}"
        if inside == outside == n:
            early, late = median_time(times[1]), median_time(times[2])
            text += f" (the last two at epoch {early:,.0f} and {late:,.0f})"
        parts.append(text)
    if not parts:
        return ""
    words = settings.PROSE.reading("norm-and-structure")
    return " ".join([words["says"].format(found="; ".join(parts)), *[words["clear"]] * clear])


def improves(arm: str, reference: str) -> Level:
    return Level(arm, "test_accuracy", "final test accuracy", low=0.05, reference=reference)


STUDY = settings.study(
    "norm-and-structure",
    tests={
        "decay and structure suffice": settings.most(DECAYED),
        "structure is necessary": settings.few(arm(DECAY, "adversarial"), control=DECAYED),
        "decay is necessary": settings.few(FREED, control=DECAYED),
        "structure alone improves": improves(FREED, arm(FREE, "no prior")),
        "matched norm suffices": settings.most(HELD),
        "matched norm needs structure": settings.few(arm(MATCHED, "adversarial"), control=HELD),
        "matched norm, decay elsewhere": settings.most(arm(INSIDE, "oracle")),
        "too large a norm": settings.few(arm(OUTSIDE, "oracle"), control=arm(INSIDE, "oracle")),
        "query-key control": settings.few(QUERY_KEY, control=arm(MATCHED, "no prior")),
    },
    numbers={"SHELL": settings.SHELL["laptop"]},
    settings=settings.only(smoke=("noise",), paper=("bottleneck",)),
    arms=arms,
    draw=figures.draw_outcomes,
    read=read,
)
