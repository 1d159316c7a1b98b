"""Figure 9, second part: four heads. Must one of them see everything, or do they share the work?

The comparison of the two conditions at their threshold was added after trial runs of one seed each
had shown that the numbers alone may separate equally well; everything else was fixed before.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from grokscope.claims.evidence import ArmRuns, Event, Evidence
from grokscope.claims.judgements import Faster, Separation
from grokscope.claims.studies import Setting
from grokscope.claims.verdicts import roc_areas
from grokscope.measures.attention import weakest_weight
from grokscope.models import minimal, shape_of
from grokscope.papers.structural_inference import figures, settings
from grokscope.papers.structural_inference.quantities import STRUCTURED
from grokscope.spec import RunSpec
from grokscope.store import Run
from grokscope.tasks import build_task

HEADS = 4
# Distractor tokens r and share of the pairs trained on, chosen on one run each so that both
# outcomes occur, at r = 2 by the share alone. A run takes twice the time of one with a single head,
# hence the shorter budget.
CASES = ((1, 0.6), (2, 0.6), (2, 0.8), (6, 0.6))
EPOCHS = 2500
REGIME = "four heads"
POOLED, BEST, BY_INPUT = "weakest_min", "best_head_min", "best_head_by_input_min"
BY_MEAN, BY_ONE = "the condition on the mean over heads", "the condition on some single head"
SHARED = Event("shared", "grok with the condition met only by the mean")
CONDITIONS = {
    "pooled_right": "the mean over heads",
    "sum_right": "their sum (the paper's form, four times as easy)",
    "best_head_right": "some single head",
}
NAMES = {
    POOLED: "the mean over heads",
    BEST: "the best single head",
    BY_INPUT: "the best head for each input",
}


def arm(alphabet: int, share: float = 0.6, prior: bool = False) -> str:
    return f"r = {alphabet}, {100 * share:.0f} % trained" + ", oracle" * prior


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    result = {
        arm(r, share): setting.variant(seed, {"task.alphabet": r, "task.train_fraction": share})
        for r, share in CASES
    }
    result[arm(6, prior=True)] = setting.variant(seed, {"task.alphabet": 6, **settings.ORACLE})
    return result


def alone(one: ArmRuns) -> bool:
    """The prior would pull every head to the same place, so it tells nothing about sharing."""
    return one.spec.prior.kind == "none"


def summarise(run: Run) -> dict[str, float | None]:
    """The structural condition by head, on the final weights: the smallest weight that an
    informative position has on any input, for each head (the strongest first), for the best of
    them, and with the best head chosen anew for each input. (The mean over heads has `weakest_min`
    already.) `pooled_right`, `sum_right` and `best_head_right` are 1 where the mean over heads,
    their sum, or some head satisfies the condition on 99 % of the inputs, else 0; `shared` is the
    grok epoch of a run where the mean does and no head, None for any other run."""
    data = build_task(run.spec.task, run.spec.seed)
    params = {name: jnp.asarray(array) for name, array in run.weights().items()}
    shape = shape_of(run.spec.model, data)
    attention = np.asarray(_attend(shape, params, jnp.asarray(data.tokens)))  # (n, H, T)
    weakest = weakest_weight(attention, data.oracle[:, None, :])  # (n, H)
    pooled = weakest_weight(attention.mean(axis=1), data.oracle)  # (n,)
    by_head = np.sort(weakest.min(axis=0))[::-1]
    tau = run.spec.structure_threshold
    one_right = bool(((weakest >= tau).mean(axis=0) >= STRUCTURED).any())
    pooled_right = bool((pooled >= tau).mean() >= STRUCTURED)
    return {
        **{f"head_{place}_min": float(value) for place, value in enumerate(by_head, 1)},
        BEST: float(by_head[0]),
        BY_INPUT: float(weakest.max(axis=1).min()),
        "pooled_right": float(pooled_right),
        "best_head_right": float(one_right),
        "sum_right": float((HEADS * pooled >= tau).mean() >= STRUCTURED),
        "shared": run.outcome["grokked"]["epoch"] if pooled_right and not one_right else None,
    }


@partial(jax.jit, static_argnums=0)
def _attend(shape: minimal.Shape, params: minimal.Params, tokens: jax.Array) -> jax.Array:
    # (n, T) -> (n, H, T)
    return minimal.normalise(minimal.score(params, tokens, shape), shape.attention)


def read(evidence: Evidence) -> str:
    """How often each condition goes with each outcome, and how well each number separates."""
    found = evidence.finished(*(arm(r, share) for r, share in CASES))
    if not found:
        return ""
    chosen = [one for one in found[0][1].arms.values() if alone(one)]
    grokked = np.isfinite(np.concatenate([one.times() for one in chosen]))  # (runs,)
    counts, areas = [], []
    for column, name in CONDITIONS.items():
        holds = np.concatenate([one.values(column) for one in chosen]) == 1
        counts.append(f"{name} in {holds[grokked].sum()} and {holds[~grokked].sum()}")
    for column, name in NAMES.items():
        values = np.concatenate([one.values(column) for one in chosen])
        if grokked.any() and not grokked.all():
            (area,) = roc_areas(grokked[:, None], values[:, None])
            areas.append(f"{area:.2f} for {name}")
    words = settings.PROSE.reading("heads")
    numbers = {"grok": grokked.sum(), "all": grokked.size, "rest": (~grokked).sum()}
    text = words["says"].format(**numbers, counts=" runs, by ".join(counts))
    return " ".join([text, *[words["areas"].format(areas=", ".join(areas))] * bool(areas)])


STUDY = settings.study(
    "heads",
    tests={
        "heads share the work": settings.most(arm(1), event=SHARED),
        "pooled mass separates": Separation(POOLED, NAMES[POOLED], 0.8, alone),
        "pooled beats best head": Separation(POOLED, NAMES[POOLED], 0.05, alone, BEST, NAMES[BEST]),
        "pooled condition beats best head's": Separation(
            "pooled_right", BY_MEAN, 0.05, alone, "best_head_right", BY_ONE
        ),
        "prior accelerates four heads": Faster(arm(6, prior=True), arm(6), least=1.25),
    },
    settings=settings.on_laptop({REGIME: {"model.heads": HEADS, "training.epochs": EPOCHS}}),
    arms=arms,
    draw=figures.draw_heads,
    read=read,
    summarise=summarise,
)
