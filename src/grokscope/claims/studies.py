"""What a paper's reproduction is made of: papers have studies, studies have arms and claims.

A study asks one question in one or several settings (a regime at a scale). Its arms are specs, one
for each seed; its claims fix their tests before anything is trained; its figure is drawn from the
same tables that the verdicts come from. Nothing here knows what a run learns: a run has a spec with
a seed and a budget, event times, final measures and a curve.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from grokscope.claims.looks import LAST, ScaleName
from grokscope.claims.verdicts import Finding
from grokscope.errors import SpecError, suggest
from grokscope.spec import Spec

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from grokscope.claims.evidence import Evidence, Sample, Tables
    from grokscope.store import Run, Store

SCALES: tuple[ScaleName, ...] = ("smoke", "laptop", "paper")
SEEDS: Mapping[ScaleName, int] = {"smoke": 1, "laptop": 5, "paper": 5}


@dataclass(frozen=True)
class Setting:
    """Where a question is asked: a regime at a scale."""

    scale: ScaleName
    regime: str
    base: Spec  # the run without any intervention, of whatever kind
    stop: str = "grokked"
    """The event that settles a variant's question, in the words of `training.stop`."""

    def baseline(self, seed: int) -> Any:  # a spec of the kind of `base`
        """Trained to the end of its budget."""
        return self.base.replace(seed=seed)

    def variant(self, seed: int, changes: Mapping[str, Any] | None = None) -> Any:
        """A run with something changed (`{"prior.kind": "oracle"}`), which stops once its question
        is settled."""
        return self.base.replace(**{"seed": seed, "training.stop": self.stop, **(changes or {})})


def name_settings(
    base: Callable[[ScaleName], Spec],
    changes: Mapping[str, Mapping[str, Any]],
    scales: Sequence[ScaleName] = ("laptop",),
) -> Callable[[ScaleName], list[Setting]]:
    """At some scales, settings by name: what differs from the base."""
    return lambda scale: [
        Setting(scale, name, base(scale).replace(**fields))
        for name, fields in (changes if scale in scales else {}).items()
    ]


class Test(Protocol):
    """The test of a claim, fixed before the runs."""

    @property
    def effect(self) -> str: ...  # what is estimated, in a few words: "speed-up"
    @property
    def interest(self) -> tuple[float, float]: ...  # between which an effect supports the claim
    def describe(self) -> str: ...  # statistic and decision rule in words
    def needs(self, sample: Sample) -> Sequence[str]: ...  # names of the arms it uses
    def judge(self, sample: Sample) -> Finding: ...  # called if every run it needs has ended


@dataclass(frozen=True)
class Claim:
    """One thing the paper says (or we ask), in our words, and how it is judged."""

    name: str
    says: str
    test: Test
    ours: bool = False  # not said by the paper, but needed to understand it


@dataclass(frozen=True)
class Panel:
    """A part of a figure. Pages set its words as text and lay panels out in a grid."""

    title: str
    chart: (
        alt.LayerChart | alt.VConcatChart | alt.HConcatChart
    )  # without configuration: the page adds the theme
    note: str = ""  # how many runs it shows, and what became of the others

    @property
    def heading(self) -> str:
        """The title with a capital; those inside it stay."""
        first = self.title[:1]  # φ has no capital here
        return (first.upper() if first.isascii() else first) + self.title[1:]


class Comparison(NamedTuple):
    """A table beside a figure, such as our numbers beside the paper's."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Answer(NamedTuple):
    """What the tables say to a central question of the paper."""

    question: str
    says: str
    table: Comparison


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """One figure of a paper: arms, claims, drawing. Each lives in a file of its own."""

    name: str
    source: str  # where in the paper: "Figure 3"
    title: str
    paper_says: str
    how: str  # what we do, for someone who has not read the paper
    settings: Callable[[ScaleName], Sequence[Setting]]
    arms: Callable[[Setting, int], Mapping[str, Spec]]
    """Arms of a setting for one seed, by name, in the order of the figure."""
    claims: tuple[Claim, ...] = ()
    draw: Callable[[Evidence], Sequence[Panel]] = lambda evidence: ()
    """The figure at one scale, from whatever runs there are; no panels if there are none."""
    caption: str = ""
    read: Callable[[Evidence], str] | None = None
    """What the tables say beyond the verdicts, in sentences (fitted laws, counts)."""
    table: Callable[[Evidence], Comparison | None] | None = None
    """The same as a table, say of our numbers beside the authors'; None where there is nothing."""
    curves: tuple[str, ...] = ()
    """Columns of the curves that the figure needs, for the arms in `curve_arms`."""
    curve_arms: tuple[str, ...] = ()
    summarise: Callable[[Run], Mapping[str, float | None]] | None = None
    """Numbers that only this study reads off a run, in addition to the paper's."""
    together: Callable[[Sequence[Run]], Mapping[str, float | None]] | None = None
    """Numbers that an arm's seeds only have together, such as how much they disagree: each of them
    gets the same. Groups are as large as the number of seeds at first, so that seeds which are
    added later form groups of their own and change no earlier number."""
    trace: Callable[[Run], pl.DataFrame] | None = None
    """Rows by epoch, computed from the kept weights of the runs in `curve_arms`."""
    appendix: bool = False
    """Is it in the paper's appendix? Those are selected and tabulated together."""
    seeds: Mapping[ScaleName, int | Sequence[int]] = field(default_factory=lambda: dict(SEEDS))
    """How many seeds a scale has at first (0, 1, 2 ...), or which ones. Where that is the first of
    the looks, more are added while claims are open."""
    most_seeds: Mapping[ScaleName, int] = field(default_factory=lambda: dict(LAST))
    """Beyond this many no look is taken."""
    pilots: tuple[int, ...] = ()
    """Seeds on which the setting was chosen: they are never added."""

    def seeds_at(self, scale: ScaleName, count: int | None = None) -> list[int]:
        """The first `count` seeds, by default as many as the study asks for. Beyond those that it
        names come the smallest numbers that it does not."""
        asked = self.seeds[scale]
        named = list(range(asked)) if isinstance(asked, int) else list(asked)
        count = len(named) if count is None else count
        apart = {*named, *self.pilots}
        others = (seed for seed in range(count + len(apart)) if seed not in apart)
        return [*named, *others][:count]


@dataclass(frozen=True, eq=False, kw_only=True)
class Annex(Study):
    """A study with tables and a page of its own: `results/<name>/*.parquet` and `docs/<name>.md`.
    It has no row in the paper's table of verdicts."""

    tabulate: Callable[[Sequence[tuple[Planned, Run]], Store], Mapping[str, pl.DataFrame]]
    """Its tables by name, once all of its runs have finished."""
    render: Callable[
        [Mapping[str, pl.DataFrame], Mapping[str, Any]], tuple[str, Mapping[str, alt.TopLevelMixin]]
    ]
    """Markdown and charts (by file name, in `figures/`), from the tables and from how they came
    about (runs, minutes, commits, versions)."""
    runs: bool = True
    """False: its tables are computed without any run, whenever it is asked for."""


@dataclass(frozen=True)
class Paper:
    """A paper as studies."""

    name: str
    title: str
    reference: str
    summary: str  # the paper's story in a few sentences, for the head of the page
    studies: tuple[Study, ...]
    regimes: Mapping[str, str]  # names of regimes and what they are
    deviations: tuple[str, ...]  # what is done differently from the paper, and why
    revisions: tuple[str, ...]
    """What was changed in the judging after runs had been seen, and what difference it made: a test
    that was changed with the result in sight is weaker evidence."""
    glossary: Mapping[str, str]  # words that a newcomer needs for the verdict table
    summarise: Callable[[Run], Mapping[str, float | None]] = lambda run: {}
    """Numbers of a run that claims and figures use, besides event times and final measures."""
    annexes: tuple[Annex, ...] = ()
    story: tuple[Mapping[str, str], ...] = ()
    """The claims that carry the paper, for readers who have five minutes: each the names of its
    `study` and `claim`, what it `says` in brief, and `why` the verdict is what it is."""
    picture: str = ""  # the study whose figure is shown first
    brief: bool = False  # one line in the README, without the story
    marks: str = (
        "In every figure a dot is a run that grokked, a triangle one that had not when its budget "
        "ended, a cross one that failed."
    )
    """How to read the figures, wherever their captions do not say otherwise."""
    status: str = "reproduced"
    """What the page is to the paper."""
    answer: Callable[[Mapping[ScaleName, Tables]], Sequence[Answer]] = lambda tables: ()
    """For the first screen of a paper without a story."""

    def select(self, names: Sequence[str]) -> tuple[Study, ...]:
        """Studies by name or figure number ("3", "figure3"), or all that are "main" or in the
        "appendix"; every study if none is named."""
        everything = (*self.studies, *self.annexes)
        known: dict[str, list[Study]] = {}
        for study in everything:
            numbers = re.findall(r"\d+", study.source)
            part = "appendix" if study.appendix else "main"
            # An annex stands beside those of other papers: `epistemic-icl-theory` is `theory` here.
            own = {study.name, study.name.removeprefix(f"{self.name}-")}
            for name in (*own, part, *numbers, *(f"figure{n}" for n in numbers)):
                known.setdefault(name, []).append(study)
        for name in names:
            if name.lower() not in known:
                raise SpecError(f"{self.name} has no study {name!r}.{suggest(name, known)}")
        chosen = {study.name: study for name in names for study in known[name.lower()]}
        return tuple(chosen.values()) or everything


@dataclass(frozen=True)
class Planned:
    """One run of a plan, and what it is for."""

    study: Study
    setting: Setting
    arm: str
    seed: int
    spec: Spec


def plan(studies: Sequence[Study], scale: ScaleName, seeds: int | None = None) -> list[Planned]:
    """Every run that the studies ask for at a scale; a run that several share occurs in each."""
    if seeds is not None and seeds < 1:
        raise SpecError(f"--seeds is {seeds}; it must be at least 1.")
    return [
        item
        for study in studies
        for setting in _settings(study, scale)
        for item in plan_setting(study, setting, seeds)
    ]


def plan_setting(study: Study, setting: Setting, seeds: int | None = None) -> list[Planned]:
    """The same for one study in one setting."""
    return [
        item
        for seed in study.seeds_at(setting.scale, seeds)
        for item in _arms(study, setting, seed)
    ]


# Thousands of specs are checked and hashed in a plan, and survey, tables and pages all need it.
@cache
def _settings(study: Study, scale: ScaleName) -> Sequence[Setting]:
    return study.settings(scale)


@cache
def _arms(study: Study, setting: Setting, seed: int) -> Sequence[Planned]:
    arms = study.arms(setting, seed)
    return [Planned(study, setting, arm, seed, spec) for arm, spec in arms.items()]
