"""Figure 8, second part: trained on short sequences, tested on longer ones."""

from __future__ import annotations

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level
from grokscope.claims.studies import Setting
from grokscope.papers.structural_inference import figures, settings
from grokscope.spec import RunSpec
from grokscope.store import Run

SETTINGS = {name: settings.FIELDS[name] for name in ("rotary positions", "no positions")}
TRAINED = settings.FIELDS["no positions"]["task.length"]
LENGTHS = (7, 8, 10, 12, 16)
BASELINE, PRIOR = "no prior", "prior"
KEPT = "share of the accuracy that is kept"
TOO_LITTLE = "have not generalised at the trained length"


def column(length: int) -> str:
    return f"{figures.COLUMN}{length}"


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    """Both train to the end of the budget, so that neither has trained longer than the other."""
    plain = setting.baseline(seed)
    return {BASELINE: plain, PRIOR: plain.replace(**settings.ORACLE)}


def summarise(run: Run) -> dict[str, float | None]:
    """Accuracy at every length, and how much of it is kept at the longest; no number where there
    was too little to keep."""
    from grokscope.probes.held_out import held_out_accuracy

    found = {length: held_out_accuracy(run, length=length) for length in (TRAINED, *LENGTHS)}
    general = found[TRAINED] >= run.spec.training.test_threshold
    kept = found[LENGTHS[-1]] / found[TRAINED] if general else None
    return {**{column(length): value for length, value in found.items()}, "kept": kept}


def read(evidence: Evidence) -> str:
    """Mean accuracy at the longest length, arm by arm."""
    parts = []
    for regime, sample in evidence.finished():
        found = ", ".join(
            f"{100 * arm.values(column(TRAINED)).mean():.0f} % at length {TRAINED} and "
            f"{100 * arm.values(column(LENGTHS[-1])).mean():.0f} % at {LENGTHS[-1]} ({name})"
            for name, arm in sample.arms.items()
        )
        parts.append(f"{regime.capitalize()}: {found}.")
    return " ".join(parts)


STUDY = settings.study(
    "lengths",
    tests={
        "prior keeps length": Level(PRIOR, "kept", KEPT, low=0.05, reference=BASELINE, ceiling=1.0),
        "most is kept with it": Level(PRIOR, "kept", KEPT, low=0.5, absent=TOO_LITTLE),
        "length is lost without it": Level(BASELINE, "kept", KEPT, high=0.9, absent=TOO_LITTLE),
    },
    numbers={"TRAINED": TRAINED, "EVERY": ", ".join(map(str, LENGTHS)), "LAST": LENGTHS[-1]},
    settings=settings.on_laptop(SETTINGS),
    arms=arms,
    draw=figures.draw_lengths,
    read=read,
    summarise=summarise,
)
