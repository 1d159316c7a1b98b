"""Set-up and scales of the inductive-bias paper's studies, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from grokscope.claims.evidence import ArmRuns, Evidence
from grokscope.claims.prose import Prose, read_settings
from grokscope.claims.studies import SCALES, ScaleName, Setting, name_settings
from grokscope.spec import RunSpec

PROSE = Prose.read(__package__)
PLAIN, FEWER = PROSE.paper_words["regimes"]  # by their names in the prose

SEEDS = (456, 789, 111, 222, 333)  # the authors'
RUNS: dict[ScaleName, tuple[int, ...]] = {"smoke": SEEDS[:1], "laptop": SEEDS, "paper": SEEDS}
# Claims that the authors' five seeds leave open get a second look; a third would take the 400 runs
# on a laptop beyond 90 minutes. `--seeds 10 --dry-run` shows what the second can cost.
MOST: dict[ScaleName, int] = {"smoke": 1, "laptop": 10, "paper": 10}
PILOTS = (1, 2, 3, 4)  # the laptop setting was chosen on these
study = partial(PROSE.study, seeds=RUNS, most_seeds=MOST, pilots=PILOTS)

FIELDS = read_settings(__package__)

# What ends a run early is what is judged: its event `grokked` is then that of `generalised`.
ENDS: dict[str, Any] = {"training.test_threshold": 0.995, "training.persistence": 1}


def base(scale: ScaleName, **changes: Any) -> RunSpec:
    """The authors' set-up, or the same made small."""
    modulus = FIELDS[scale]["task.modulus"]
    tokens = {"task.alphabet": modulus, "model.outputs": modulus + 1}
    return RunSpec().replace(**{**FIELDS["common"], **FIELDS[scale], **tokens, **changes})


def changed(setting: Setting, seed: int, changes: Mapping[str, Any]) -> RunSpec:
    """A run with something changed. At paper scale it has the whole budget, as the authors' do; at
    others it ends 500 steps after it has generalised, when its time is known."""
    if not changes or setting.scale == "paper":
        return setting.baseline(seed).replace(**changes)
    return setting.variant(seed, {**ENDS, **changes})


regimes = partial(name_settings, base)
plain = regimes({PLAIN: {}}, SCALES)
fewer = regimes({FEWER: FIELDS["fewer"]})


def tell(evidence: Evidence, what: str, says: Callable[[ArmRuns], str]) -> str:
    """A sentence for each of these regimes, with what is said of every arm."""
    return " ".join(
        f"{regime.capitalize()}: {what}: "
        f"{'; '.join(f'{arm.name} {says(arm)}' for arm in sample.arms.values())}."
        for regime, sample in evidence.finished()
    )
