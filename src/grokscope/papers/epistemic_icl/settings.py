"""Scales of the in-context studies, and how their networks are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from grokscope.claims.evidence import Event
from grokscope.claims.judgements import Level
from grokscope.claims.prose import Prose, read_settings
from grokscope.claims.studies import ScaleName, Setting, Study, Test
from grokscope.spec import InContextSpec

PROSE = Prose.read(__package__)
MANY, MORE = PROSE.paper_words["regimes"]  # by their names in the prose
ADAMW, IVON, FEW_ADAMW, FEW_IVON = "AdamW", "IVON", "AdamW, few tasks", "IVON, few tasks"
# By method: its arm with few tasks, its kind of optimiser.
FEWER = {ADAMW: FEW_ADAMW, IVON: FEW_IVON}
KINDS = {ADAMW: "adamw", IVON: "ivon"}
GENERALISE = Event("grokked", "generalise to unseen tasks", "step of generalisation")
CARRY = Event("carried", "generalise to unseen tasks with seen pairs", "step of generalisation")


class Question(NamedTuple):
    """Generalisation in one of the cells: when it has happened, and what the names of claims say
    of it."""

    cell: str
    words: str
    event: Event
    note: str = ""

    def name(self, claim: str, arm: str = "") -> str:
        told = ", ".join(filter(None, (arm, self.note)))
        return f"{claim} ({told})" if told else claim

    def level(self, arm: str, column: str, effect: str, **options: Any) -> Level:
        """A test of what is read in this cell off runs that generalise."""
        options = {"absent": "do not generalise to unseen tasks", **options}
        return Level(arm, f"{self.cell}_{column}", effect, **options)


# The paper's, and the one that is within reach of a laptop.
BOTH = Question("ood_val", "unseen tasks with unseen pairs", GENERALISE)
TASKS = Question("ood_train", "unseen tasks with seen pairs", CARRY, "seen pairs")
QUESTIONS = (BOTH, TASKS)

FIELDS = read_settings(__package__)
SAMPLE_SIZE = FIELDS["ivon"]["optimiser.sample_size"]  # N of both posteriors in every run
# Seen tasks of the arms that see few and some; the share of pairs of those that see fewer.
FEW: dict[ScaleName, int] = {"smoke": 4, "laptop": 6, "paper": 32}
SOME: dict[ScaleName, int] = {"smoke": 8, "laptop": 20, "paper": 128}
LESS: dict[ScaleName, float] = {"smoke": 0.5, "laptop": 0.4, "paper": 0.4}
# IVON's largest step of the mean is to AdamW's rate as it is in the paper. With this share of pairs
# it was chosen from pilots of different lengths (0.013, 0.02, 0.03).
RADIUS = {FIELDS["longer"]["task.train_fraction"]: 0.02}


def base(scale: ScaleName) -> InContextSpec:
    """By AdamW; the tasks, the split and the measured sequences are the same for all seeds, so that
    seeds make an ensemble."""
    return InContextSpec().replace(**{**FIELDS[scale], "task.seed": 0})


def by_ivon(spec: InContextSpec) -> InContextSpec:
    """The same by IVON with the paper's numbers. Of what it knew at first, its estimate of the
    Hessian forgets as much as in the paper: (1 - beta2) steps is 2. Warm-up is twice AdamW's."""
    like_the_paper = 1e-3 * spec.optimiser.lr / FIELDS["paper"]["optimiser.lr"]
    return spec.replace(
        **{
            **FIELDS["ivon"],
            "optimiser.beta2": 1 - 2 / spec.training.epochs,
            "optimiser.warmup": 2 * spec.optimiser.warmup,
            "optimiser.clip_radius": RADIUS.get(spec.task.train_fraction, like_the_paper),
        }
    )


def kept_hessian(spec: InContextSpec) -> float:
    """What is left of IVON's initial h at the end if its gradients say nothing: beta2^steps, e^-2
    by the rule above. The variance of its draws, 1 / (N (h + delta)), grows accordingly."""
    return float(spec.optimiser.beta2**spec.training.epochs)


def with_tasks(spec: InContextSpec, tasks: int) -> InContextSpec:
    """Another number of seen tasks. The batch stays as large as equal turns allow."""
    size = spec.optimiser.batch // tasks * tasks
    return spec.replace(**{"task.tasks": tasks, "optimiser.batch": size})


def settings(scale: ScaleName) -> Sequence[Setting]:
    return [Setting(scale, MANY, base(scale))]


def both_settings(scale: ScaleName) -> Sequence[Setting]:
    """At laptop scale also with more pairs and more steps."""
    if scale != "laptop":
        return settings(scale)
    return [*settings(scale), Setting(scale, MORE, base(scale).replace(**FIELDS["longer"]))]


def by_both(spec: InContextSpec, note: str = "") -> dict[str, InContextSpec]:
    """A run by either method; the names of arms say what is different."""
    return {ADAMW + note: spec, IVON + note: by_ivon(spec)}


def main_arms(setting: Setting, seed: int) -> dict[str, InContextSpec]:
    """Both methods with many and with few tasks; all train to the end of the budget."""
    many = setting.baseline(seed)
    return by_both(many) | by_both(with_tasks(many, FEW[setting.scale]), ", few tasks")


def headings(name: str) -> tuple[str, ...]:
    """Of the table of a study."""
    return tuple(PROSE.study_words[name]["reading"]["headings"])


COMMON: dict[str, Any] = {
    "settings": settings,
    "most_seeds": {"smoke": 1, "laptop": 10, "paper": 5},
    "pilots": tuple(range(100, 140)),  # the laptop settings were chosen on these
}
Asked = Iterator[tuple[str, str, Test]]  # a claim, the arm in its name if there is one, its test


def study(name: str, ask: Callable[[Question], Asked], **parts: Any) -> Study:
    """A study that asks the same in both cells: of the main runs in both settings, unless it has
    `arms` of its own. Its claims are in the order of the questions."""
    tests = {q.name(claim, arm): test for q in QUESTIONS for claim, arm, test in ask(q)}
    main = {} if "arms" in parts else {"arms": main_arms, "settings": both_settings}
    return PROSE.study(name, tests, **{**COMMON, **main, **parts})
