"""What a paper's reproduction is made of: papers have studies, studies have arms and claims.

A study asks one question in one or several settings (a regime of the task at a scale). Its arms are
specs, one for each seed; its claims fix their tests before anything is trained; its figure is drawn
from the same tables that the verdicts come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from grokscope.claims.verdicts import Finding
from grokscope.errors import SpecError, suggest
from grokscope.spec import RunSpec

if TYPE_CHECKING:
    import altair as alt
    import polars as pl

    from grokscope.claims.evidence import Evidence, Sample
    from grokscope.store import Run

ScaleName = Literal["smoke", "laptop", "paper"]
SCALES: tuple[ScaleName, ...] = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Setting:
    """Where a question is asked: a regime of the task at a scale."""

    scale: ScaleName
    regime: str
    base: RunSpec
    """The run without any intervention, seed 0."""

    def baseline(self, seed: int) -> RunSpec:
        """Trained to the end of its budget: figures follow it, tickets are cut from it."""
        return self.base.replace(seed=seed)

    def variant(self, seed: int, **changes: Any) -> RunSpec:
        """A run with something changed (`prior__kind="oracle"`). Its question is settled once it
        has grokked, so it stops then."""
        dotted = {name.replace("__", "."): value for name, value in changes.items()}
        return self.base.replace(seed=seed, **{"training.stop": "grokked", **dotted})


class Test(Protocol):
    """The test of a claim, fixed before the runs."""

    @property
    def effect(self) -> str:
        """What is estimated, in a few words: "speed-up"."""

    def describe(self) -> str:
        """Statistic and decision rule in words."""

    def judge(self, sample: Sample) -> Finding:
        """The finding in one setting. It is asked only if every run it needs has finished."""

    def needs(self, sample: Sample) -> Sequence[str]:
        """Names of the arms it uses."""


@dataclass(frozen=True)
class Claim:
    """One thing the paper says (or we ask), in our words, and how it is judged."""

    name: str
    says: str
    test: Test
    regimes: tuple[str, ...] = ()
    """Where it is judged; empty: in every regime of the study."""
    ours: bool = False
    """Not said by the paper, but needed to understand it."""


@dataclass(frozen=True)
class Panel:
    """A part of a figure. Pages set its words as text and lay panels out in a grid."""

    title: str
    chart: alt.LayerChart | alt.VConcatChart
    """Without configuration: the page puts the theme on it."""
    note: str = ""
    """How many runs it shows, and what became of the others."""


@dataclass(frozen=True)
class Study:
    """One figure of a paper: arms, claims, drawing. Each lives in a file of its own."""

    name: str
    source: str
    """Where in the paper: "Figure 3"."""
    title: str
    paper_says: str
    how: str
    """What we do, for someone who has not read the paper."""
    settings: Callable[[ScaleName], Sequence[Setting]]
    arms: Callable[[Setting, int], Mapping[str, RunSpec]]
    """Arms of a setting for one seed, by name, in the order of the figure."""
    claims: tuple[Claim, ...]
    draw: Callable[[Evidence], Sequence[Panel]]
    """The figure at one scale, from whatever runs there are; no panels if there are none."""
    caption: str
    read: Callable[[Evidence], str] | None = None
    """What the tables say beyond the verdicts, in sentences (fitted laws, counts)."""
    curves: tuple[str, ...] = ()
    """Columns of the curves that the figure needs, for the arms in `curve_arms`."""
    curve_arms: tuple[str, ...] = ()
    summarise: Callable[[Run], Mapping[str, float | None]] | None = None
    """Numbers that only this study reads off a run, beside the paper's."""
    trace: Callable[[Run], pl.DataFrame] | None = None
    """Rows by epoch that are computed from the kept weights of the runs in `curve_arms`."""
    appendix: bool = False
    """Does it stand in the paper's appendix? Those are selected and tabulated together."""
    seeds: Mapping[ScaleName, int] = field(
        default_factory=lambda: {"smoke": 1, "laptop": 5, "paper": 5}
    )


@dataclass(frozen=True)
class Paper:
    """A paper as studies."""

    name: str
    title: str
    reference: str
    summary: str
    """The paper's story in a few sentences, for the head of the page."""
    studies: tuple[Study, ...]
    regimes: Mapping[str, str]
    """Names of regimes and what they are."""
    deviations: tuple[str, ...]
    """What is done otherwise than in the paper, and why."""
    revisions: tuple[str, ...]
    """What was changed in the judging after runs had been seen, and what it changed: a test that
    was altered in sight of the result is weaker evidence."""
    glossary: Mapping[str, str]
    """Words that a newcomer needs for the verdict table."""
    summarise: Callable[[Run], Mapping[str, float | None]]
    """Numbers of a run that claims and figures use, beside outcome and final measures."""

    def select(self, names: Sequence[str]) -> tuple[Study, ...]:
        """Studies by name or figure number ("3", "figure3"), or all that are "main" or of the
        "appendix"; every study if none is named."""
        known: dict[str, list[Study]] = {}
        for study in self.studies:
            numbers = re.findall(r"\d+", study.source)
            part = "appendix" if study.appendix else "main"
            for name in (study.name, part, *numbers, *(f"figure{n}" for n in numbers)):
                known.setdefault(name, []).append(study)
        for name in names:
            if name.lower() not in known:
                hint = suggest(name, known)
                raise SpecError(f"{self.name} has no study {name!r}.{hint}")
        chosen = {study.name: study for name in names for study in known[name.lower()]}
        return tuple(chosen.values()) or self.studies


@dataclass(frozen=True)
class Planned:
    """One run of a plan, and what it is for."""

    study: Study
    setting: Setting
    arm: str
    seed: int
    spec: RunSpec


def plan(studies: Sequence[Study], scale: ScaleName, seeds: int | None = None) -> list[Planned]:
    """Every run that the studies ask for at a scale; shared runs occur once per study."""
    if seeds is not None and seeds < 1:
        raise SpecError(f"--seeds is {seeds}; it must be at least 1.")
    return [
        Planned(study, setting, arm, seed, spec)
        for study in studies
        for setting in study.settings(scale)
        for seed in range(study.seeds[scale] if seeds is None else seeds)
        for arm, spec in study.arms(setting, seed).items()
    ]
