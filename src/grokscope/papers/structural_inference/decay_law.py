"""The abstract and eq. 5: is the delay proportional to the inverse of weight decay?"""

from __future__ import annotations

from grokscope.claims.judgements import InverseLaw, field_of
from grokscope.claims.studies import ScaleName, Setting
from grokscope.papers.structural_inference.settings import ORACLE, settings, study
from grokscope.spec import RunSpec

DECAYS = {"smoke": (1.0, 3.0), "laptop": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)}
EPOCHS = 20_000  # a tenth of the decay may take ten times as long
REGIMES = ("constant", "bottleneck")  # in noise no run without help groks


def where(scale: ScaleName) -> list[Setting]:
    if scale not in DECAYS:
        return []
    return settings(scale, REGIMES, {"training.epochs": EPOCHS} if scale == "laptop" else {})


def arm(decay: float, prior: bool) -> str:
    return f"decay {decay:g}, {'prior' if prior else 'no prior'}"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    return {
        arm(decay, prior): setting.variant(
            seed, {"optimiser.weight_decay": decay, **(ORACLE if prior else {})}
        )
        for prior in (False, True)
        for decay in DECAYS[setting.scale]
    }


def law_with(prior: str) -> InverseLaw:
    decay = field_of("optimiser.weight_decay", {"prior.kind": prior})
    return InverseLaw(decay, symbol="decay")


STUDY = study(
    "decay-law",
    tests={
        "delay is inverse in decay": law_with("none"),
        "delay is inverse in decay with the prior": law_with("oracle"),
    },
    numbers={"EPOCHS": EPOCHS},
    settings=where,
    arms=arms,
)
