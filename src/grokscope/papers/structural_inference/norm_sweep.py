"""Figure 2 again: is there a norm of the MLP at which the network generalises without decay?"""

from __future__ import annotations

from grokscope.claims.judgements import ShareAtBest, field_of
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures, settings
from grokscope.spec import RunSpec

# The norm in runs that generalise with decay on every weight is 30 at laptop scale: a shell found
# there need not be the one in which a network without any decay can generalise.
NORMS = {"smoke": (8.0, 20.0), "laptop": (4.0, 8.0, 12.0, 16.0, 20.0, 30.0, 40.0)}
NORMS["paper"] = NORMS["laptop"]


def arm(norm: float, structure: str) -> str:
    return f"norm {norm:g}, {structure}"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    held = {"optimiser.weight_decay": 0.0}
    return {
        arm(norm, structure): setting.variant(
            seed, {**held, "interventions.mlp_norm": norm, **prior}
        )
        for structure, prior in settings.PRIORS.items()
        for norm in NORMS[setting.scale]
    }


# Among the arms with the oracle's prior the shell is looked for.
HELD_AT = field_of("interventions.mlp_norm", {"prior.kind": "oracle"})

STUDY = settings.study(
    "norm-sweep",
    tests={
        "a shell suffices": ShareAtBest(HELD_AT, "norm", "most"),
        "the shell needs structure": ShareAtBest(
            HELD_AT, "norm", "few", tested=lambda norm: arm(norm, "adversarial")
        ),
        "the shell alone suffices": ShareAtBest(
            HELD_AT, "norm", "most", tested=lambda norm: arm(norm, "no prior")
        ),
    },
    numbers={"NORMS": ", ".join(f"{norm:g}" for norm in NORMS["laptop"])},
    settings=settings.only(smoke=("noise",), paper=("bottleneck",)),
    arms=arms,
    draw=figures.draw_outcomes,
)
