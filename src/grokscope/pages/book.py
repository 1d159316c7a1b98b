"""What the pages of a paper say: verdicts in words, tallies, how everything was obtained."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grokscope.claims.evidence import Evidence, Tables
from grokscope.claims.judgements import Faster, Share
from grokscope.claims.studies import SCALES, Claim, Panel, Paper, ScaleName, Study
from grokscope.claims.verdicts import Estimate, Finding, Ruling

RULINGS: tuple[Ruling, ...] = ("supported", "contradicted", "inconclusive", "not run")
KEY = (
    "In every figure a dot is a run that grokked, a triangle one that had not when its budget "
    "ended, a cross one that failed."
)
NOTE = (
    "Effects stand with their 95 % intervals (shares of seeds with bounds of 95 % each, so the two "
    "make a 90 % interval); n is the number of seeds. In an empty field the question is not asked."
)
GROUPS = (  # of the main figures' claims, over the settings in which they were run
    "Main figures, supported wherever run",
    "Supported in some settings, open in others",
    "Supported in some settings, contradicted in others",
    "Contradicted in some settings, open in others",
    "Contradicted wherever run",
    "Open",
)
RULES = (
    "Every claim names an effect, and the smallest value of it that would matter, before any run "
    "is trained. Supported: the whole 95 % interval is at or beyond that value. Contradicted: the "
    "whole interval falls short of it. Inconclusive: the interval holds it, or a run failed, or "
    "has no such number (no plateau to measure, say), or the control without which there is "
    "nothing to compare failed as well. Not run: a run is missing.",
    "Intervals of medians, means and fits come from resampling seeds, all arms of a seed together, "
    "since they share their data. Five seeds have 3,125 resamples and each is taken. The plain "
    "percentile interval of so few is too short; the expanded one (Hesterberg 2015) and Student's, "
    "with the spread of the resamples, are both taken, and the wider end counts. Shares of seeds "
    "have Clopper-Pearson bounds of 95 % each.",
    "A run that did not grok within its budget is censored: its grok time counts as later than any "
    "other, and is neither dropped nor set to the budget (but for the share of a gain, which needs "
    "a number: there a median that was never reached stands at the budget, and decides nothing "
    "that this could have made easier). A claim of being faster must also pass a log-rank "
    "test by all permutations of the labels; one of being as fast need not.",
    "Each claim is judged on its own in each setting. No correction is made for their number, so "
    "of many verdicts a few will be wrong by chance.",
)


@dataclass(frozen=True)
class Cell:
    """A claim in one setting."""

    scale: ScaleName
    regime: str
    finding: Finding
    effect: str

    @property
    def where(self) -> str:
        return f"{self.scale}, {self.regime}"

    @property
    def ruling(self) -> Ruling:
        return self.finding.ruling

    @property
    def seeds(self) -> str:
        return f"n\u00a0{self.finding.estimate.n}" if self.finding.estimate else ""

    @property
    def short(self) -> str:
        """The effect, or in a word why there is none."""
        return self.effect or self.finding.remark.partition(";")[0]

    @property
    def detail(self) -> str:
        """The same with the number of seeds."""
        return f"{self.effect}, {self.seeds}" if self.effect else self.short


@dataclass(frozen=True)
class Part:
    """A study at one scale."""

    paper: Paper
    evidence: Evidence
    elsewhere: frozenset[str]
    """Runs that other studies use."""

    @property
    def figure(self) -> str:
        return f"figures/{self.paper.name}-{self.evidence.study.name}-{self.evidence.scale}.svg"

    @cached_property
    def panels(self) -> Sequence[Panel]:
        return self.evidence.study.draw(self.evidence) if self.evidence.present else ()

    @cached_property
    def reading(self) -> str:
        study = self.evidence.study
        return study.read(self.evidence) if study.read and self.evidence.present else ""

    @property
    def command(self) -> str:
        return (
            f"grokscope reproduce {self.paper.name} {self.evidence.study.name} "
            f"--scale {self.evidence.scale}"
        )

    @property
    def obtained(self) -> str:
        """Runs, how many are shared, compute and commits, in a sentence or two."""
        rows, missing = _rows(self.evidence)
        total = len(rows) + len(missing)
        if not rows:
            return f"None of {total} runs has been trained."
        shared = sum(name in self.elsewhere for name in rows)
        minutes = sum(row["seconds"] for row in rows.values()) / 60
        commits = ", ".join(sorted({row["commit"] for row in rows.values()}))
        if "+" in commits:
            commits += " (+: and changes that were not committed)"
        count = f"{total} runs" if not missing else f"{len(rows)} of {total} runs"
        return (
            f"{count}, {shared} of them shared with other studies; {minutes:,.0f} core-minutes of "
            f"training; commit {commits}."
        )


@dataclass(frozen=True)
class Book:
    """A paper with everything its pages need."""

    paper: Paper
    tables: Mapping[ScaleName, Tables]  # of the scales that are shown
    studies: Mapping[str, Mapping[ScaleName, Part]]  # by name of the study

    @classmethod
    def read(cls, paper: Paper, tables: Mapping[ScaleName, Tables]) -> Book:
        present = [scale for scale in SCALES if scale in tables and len(tables[scale].runs)]
        shown = {s: tables[s] for s in present if s != "smoke" or present == ["smoke"]}
        studies: dict[str, dict[ScaleName, Part]] = {study.name: {} for study in paper.studies}
        for scale, table in shown.items():
            found = {s.name: table.evidence(s, scale) for s in paper.studies if s.settings(scale)}
            # A study of the appendix that has hardly been begun would only fill pages.
            found = {n: e for n, e in found.items() if not e.study.appendix or _half_run(e)}
            used = {name: set(_rows(evidence)[0]) for name, evidence in found.items()}
            for name, evidence in found.items():
                others = [runs for other, runs in used.items() if other != name]
                studies[name][scale] = Part(paper, evidence, frozenset().union(*others))
        return cls(paper, shown, studies)

    @property
    def shown(self) -> list[Study]:
        """The studies that have a part."""
        return [study for study in self.paper.studies if self.studies[study.name]]

    @property
    def waiting(self) -> str:
        """The studies that have none since most of their runs are missing, in a sentence."""
        names = [f"{s.source} ({s.name})" for s in self.paper.studies if not self.studies[s.name]]
        return f"Not run yet: {', '.join(names)}." if names else ""

    def parts(self) -> Iterator[Part]:
        for parts in self.studies.values():
            yield from parts.values()

    @cached_property
    def verdicts(self) -> dict[tuple[str, str], list[Cell]]:
        """By study and claim: the claim in every setting where it is judged."""
        return {
            (study.name, claim.name): [
                Cell(scale, regime, finding, state_effect(claim, finding.estimate))
                for scale, part in self.studies[study.name].items()
                for regime, finding in part.evidence.findings(claim).items()
            ]
            for study in self.paper.studies
            for claim in study.claims
        }

    def cells(self, study: Study, claim: Claim) -> list[Cell]:
        return self.verdicts[study.name, claim.name]

    def blocks(self) -> list[tuple[list[str], list[Study]]]:
        """Tables of verdicts: settings as columns, and the studies that have them. The appendix
        has tables of its own, and so has a study with settings of its own."""
        common = [s for s in self.paper.studies if self._regimes(s) <= set(self.paper.regimes)]
        others = [[s] for s in self.paper.studies if s not in common]
        main = [study for study in common if not study.appendix]
        appendix = [study for study in common if study.appendix]
        blocks = []
        for studies in [main, appendix, *others]:
            wheres = {
                f"{scale}, {regime}": None
                for scale in self.tables
                for study in studies
                if scale in self.studies[study.name]
                for regime in self.studies[study.name][scale].evidence.samples
            }
            if wheres:
                blocks.append((list(wheres), studies))
        return blocks

    def _regimes(self, study: Study) -> set[str]:
        return {
            regime for part in self.studies[study.name].values() for regime in part.evidence.samples
        }

    def counts(self, scale: ScaleName, ours: bool, appendix: bool) -> Counter[str]:
        return Counter(
            cell.ruling
            for study in self.paper.studies
            if study.appendix == appendix
            for claim in study.claims
            if claim.ours == ours
            for cell in self.cells(study, claim)
            if cell.scale == scale
        )

    def tally(self) -> list[str]:
        """What became of the claims, a sentence a scale, and one for its appendix."""
        lines = []
        for scale in self.tables:
            for appendix, where in ((False, ""), (True, ", appendix")):
                theirs, ours = (self.counts(scale, mine, appendix) for mine in (False, True))
                line = f"{scale.capitalize()} scale{where}: {_enumerate(theirs)} on claims of the "
                line += "paper" + (f"; {_enumerate(ours)} on questions of ours." if ours else ".")
                if theirs or ours:
                    lines.append(line)
        return lines

    def uniform(self) -> dict[str, list[str]]:
        """Claims of the paper's main figures by what became of them over all settings in which they
        were run."""
        everywhere, partly, mixed, failing, nowhere, undecided = GROUPS
        groups: dict[str, list[str]] = {name: [] for name in GROUPS}
        for study in self.paper.studies:
            for claim in study.claims:
                rulings = {cell.ruling for cell in self.cells(study, claim)} - {"not run"}
                if study.appendix or claim.ours or not rulings:
                    continue
                if {"supported", "contradicted"} <= rulings:
                    group = mixed
                elif "supported" in rulings:
                    group = everywhere if len(rulings) == 1 else partly
                elif "contradicted" in rulings:
                    group = nowhere if len(rulings) == 1 else failing
                else:
                    group = undecided
                groups[group].append(claim.name)
        return {group: names for group, names in groups.items() if names}

    def provenance(self) -> list[str]:
        lines = []
        for scale, table in self.tables.items():
            minutes = table.runs["seconds"].sum() / 60
            versions = table.about.get("versions", {})
            named = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
            lines.append(
                f"{scale.capitalize()} scale: {len(table.runs)} runs, {minutes:,.0f} core-minutes"
                + (f"; {named}." if named else ".")
            )
        return lines


def state_effect(claim: Claim, estimate: Estimate | None) -> str:
    """An effect with its interval in words; empty if there is none."""
    if estimate is None:
        return ""
    value, low, high = estimate.value, estimate.low, estimate.high
    if isinstance(claim.test, Share):
        return f"{value:.0%} ({100 * low:.0f} to {100 * high:.0f} %)".replace("%", " %", 1)
    if isinstance(claim.test, Faster):
        if math.isnan(value):
            return "neither median is reached"
        if math.isinf(value):
            least = f"at least {low:.2g}: " if 0 < low < math.inf else ""
            return f"{least}the slower arm's median is never reached"
        if value == 0:
            most = f"at most {high:.2g}: " if 0 < high < math.inf else ""
            return f"{most}the median of the arm that ought to be faster is never reached"
    return str(estimate)


def _enumerate(counts: Counter[str]) -> str:
    total = sum(counts.values())
    named = ", ".join(f"{counts[ruling]} {ruling}" for ruling in RULINGS if counts[ruling])
    return f"{named} of {total} verdicts"


def _half_run(evidence: Evidence) -> bool:
    rows, missing = _rows(evidence)
    return len(rows) >= len(missing)


def _rows(evidence: Evidence) -> tuple[dict[str, Mapping[str, Any]], set[str]]:
    """The runs that a study has, by name, and those that it lacks; arms may share some."""
    slots = {
        spec.id: row
        for sample in evidence.samples.values()
        for arm in sample.arms.values()
        for spec, row in zip(arm.specs, arm.rows, strict=True)
    }
    present = {name: row for name, row in slots.items() if row is not None}
    return present, slots.keys() - present.keys()
