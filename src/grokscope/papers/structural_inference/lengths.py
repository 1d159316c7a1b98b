"""Figure 8, second part: trained on short sequences, tested on longer ones."""

from __future__ import annotations

from collections.abc import Sequence

from grokscope.papers.evidence import Evidence
from grokscope.papers.judgements import Higher, Level
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.settings import base
from grokscope.papers.studies import Claim, ScaleName, Setting, Study
from grokscope.spec import RunSpec
from grokscope.store import Run

TRAINED = 6
LENGTHS = (7, 8, 10, 12, 16)
ENCODINGS = {"rotary": "rotary positions", "none": "no positions"}
BASELINE, PRIOR = "no prior", "prior"


def column(length: int) -> str:
    return f"accuracy_at_{length}"


def settings(scale: ScaleName) -> Sequence[Setting]:
    if scale != "laptop":
        return []
    return [
        Setting(
            scale,
            name,
            base(scale).replace(
                **{
                    "task.length": TRAINED,
                    "task.positions": "random",
                    "task.distractors": "own",
                    "task.alphabet": 8,
                    "model.kind": "transformer",
                    "model.positions": encoding,
                    "training.epochs": 3000,
                }
            ),
        )
        for encoding, name in ENCODINGS.items()
    ]


def arms(setting: Setting, seed: int) -> dict[str, RunSpec]:
    """Both go on to the end of the budget: who trains longer must not be what is compared."""
    plain = setting.baseline(seed)
    return {BASELINE: plain, PRIOR: plain.replace(**{"prior.kind": "oracle"})}


def summarise(run: Run) -> dict[str, float | None]:
    from grokscope.evaluation import held_out_accuracy

    return {column(length): held_out_accuracy(run, length=length) for length in (TRAINED, *LENGTHS)}


def read(evidence: Evidence) -> str:
    """Mean accuracy at the longest length, arm by arm."""
    parts = []
    for regime, sample in evidence.samples.items():
        if all(arm.sound for arm in sample.arms.values()):
            found = ", ".join(
                f"{arm.values(column(TRAINED)).mean():.0%} at length {TRAINED} and "
                f"{arm.values(column(LENGTHS[-1])).mean():.0%} at {LENGTHS[-1]} ({name})"
                for name, arm in sample.arms.items()
            )
            parts.append(f"{regime.capitalize()}: {found}.")
    return " ".join(parts)


STUDY = Study(
    name="lengths",
    source="Figure 8",
    title="Sequences longer than those trained on",
    paper_says="A network that was given the prior keeps more of its accuracy on sequences longer "
    "than those it was trained on.",
    how=f"Operands stand at random places among distractors that have eight tokens of their own, "
    f"so what is an operand can be told by its token alone. Trained at length {TRAINED}, tested "
    f"at {', '.join(map(str, LENGTHS))} on operands that were not trained on. Learned positions "
    "would mean nothing at unseen lengths, so one layer of the general transformer (residuals, no "
    "norms, causal) is trained with rotary positions and with none at all.",
    settings=settings,
    arms=arms,
    claims=(
        Claim(
            "prior keeps length",
            f"At length {LENGTHS[-1]} the network trained with the prior is more accurate.",
            Higher(PRIOR, BASELINE, column(LENGTHS[-1]), "gain of accuracy", least=0.05),
        ),
        Claim(
            "prior is right at length",
            f"… and still right on most examples at length {LENGTHS[-1]}.",
            Level(PRIOR, column(LENGTHS[-1]), "accuracy", low=0.5),
            ours=True,
        ),
        Claim(
            "wait is needed",
            f"Without the prior accuracy is lost at length {LENGTHS[-1]}.",
            Level(BASELINE, column(LENGTHS[-1]), "accuracy", high=0.9),
            ours=True,
        ),
    ),
    draw=figures.draw_lengths,
    read=read,
    caption="Accuracy on unseen operands against the length of the sequence; one mark a seed, "
    "lines through the medians.",
    summarise=summarise,
    appendix=True,
)
