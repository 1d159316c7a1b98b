"""What the pages of a paper are made from: its studies with their evidence, figures and verdicts,
each read, drawn and judged once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from grokscope.claims.evidence import Evidence, Tables
from grokscope.claims.looks import LOOKS
from grokscope.claims.studies import SCALES, Claim, Comparison, Panel, Paper, ScaleName, Study
from grokscope.claims.verdicts import Finding, Ruling, discovery_rates
from grokscope.claims.words import kind_of, state_effect, state_finding
from grokscope.draw.words import capitalise, join
from grokscope.pages.files import render_svg

MIXED = "Supported in some settings, contradicted in others"
FATES = {  # of a claim, by the verdicts in all settings in which it could be tested
    frozenset({"supported"}): "Main figures, supported wherever it could be tested",
    frozenset({"supported", "inconclusive"}): "Supported in some settings, open in others",
    frozenset({"supported", "contradicted"}): MIXED,
    frozenset({"supported", "contradicted", "inconclusive"}): MIXED,
    frozenset({"contradicted", "inconclusive"}): "Contradicted in some settings, open in others",
    frozenset({"contradicted"}): "Contradicted wherever it could be tested",
    frozenset({"inconclusive"}): "Open",
    frozenset[str](): "Untestable",
}


@dataclass(frozen=True)
class Cell:
    """A claim in one setting."""

    scale: ScaleName
    regime: str
    claim: Claim
    finding: Finding

    @property
    def where(self) -> str:
        return f"{self.scale}, {self.regime}"

    @property
    def ruling(self) -> Ruling:
        return self.finding.ruling

    @property
    def effect(self) -> str:
        return state_effect(self.claim, self.finding.estimate)

    @property
    def detail(self) -> str:
        """The effect with what was asked for and the number of seeds."""
        return state_finding(self.claim, self.finding)


@dataclass(frozen=True)
class Drawing:
    """A panel of a figure, drawn when it is first looked at."""

    panel: Panel

    @cached_property
    def svg(self) -> str:
        return render_svg(self.panel.chart)


@dataclass(frozen=True)
class Part:
    """A study at one scale."""

    paper: Paper
    evidence: Evidence
    rows: Mapping[str, Mapping[str, Any]]  # its runs by name
    missing: int
    shared: int  # runs that other studies use, too

    @property
    def figure(self) -> str:
        return f"figures/{self.paper.name}-{self.evidence.study.name}-{self.evidence.scale}.svg"

    @cached_property
    def panels(self) -> Sequence[Panel]:
        return self.evidence.study.draw(self.evidence) if self.evidence.present else ()

    @cached_property
    def drawings(self) -> list[Drawing]:
        return [Drawing(panel) for panel in self.panels]

    @cached_property
    def reading(self) -> str:
        study = self.evidence.study
        return study.read(self.evidence) if study.read and self.evidence.present else ""

    @cached_property
    def table(self) -> Comparison | None:
        study = self.evidence.study
        return study.table(self.evidence) if study.table and self.evidence.present else None

    @property
    def commits(self) -> list[str]:
        return sorted({row["commit"] for row in self.rows.values()})


@dataclass(frozen=True)
class Book:
    """A paper with everything its pages need."""

    paper: Paper
    tables: Mapping[ScaleName, Tables]  # of the scales that are shown
    studies: Mapping[str, Mapping[ScaleName, Part]]  # by name of the study

    @classmethod
    def read(cls, paper: Paper, tables: Mapping[ScaleName, Tables]) -> Book:
        # Tables without runs are shown only where there are no others: everything is "not run".
        known = [scale for scale in SCALES if scale in tables]
        present = [scale for scale in known if len(tables[scale].runs)] or known
        shown = {s: tables[s] for s in present if s != "smoke" or present == ["smoke"]}
        studies: dict[str, dict[ScaleName, Part]] = {study.name: {} for study in paper.studies}
        for scale, table in shown.items():
            found = {s.name: table.evidence(s, scale) for s in paper.studies if s.settings(scale)}
            slots = {name: _slots(evidence) for name, evidence in found.items()}
            runs = {
                n: {i: row for i, row in s.items() if row is not None} for n, s in slots.items()
            }
            # A study of the appendix that has hardly begun would only fill pages.
            kept = [
                name
                for name, evidence in found.items()
                if not evidence.study.appendix or 2 * len(runs[name]) >= len(slots[name])
            ]
            users = Counter(run for name in kept for run in runs[name])
            for name in kept:
                shared = sum(users[run] > 1 for run in runs[name])
                missing = len(slots[name]) - len(runs[name])
                studies[name][scale] = Part(paper, found[name], runs[name], missing, shared)
        return cls(paper, shown, studies)

    @property
    def shown(self) -> list[Study]:
        """The studies that have a part."""
        return [study for study in self.paper.studies if self.studies[study.name]]

    @property
    def waiting(self) -> list[Study]:
        """The studies that have none because most of their runs are missing."""
        return [study for study in self.paper.studies if not self.studies[study.name]]

    def parts(self) -> Iterator[Part]:
        for parts in self.studies.values():
            yield from parts.values()

    @cached_property
    def verdicts(self) -> dict[tuple[str, str], list[Cell]]:
        """By study and claim: the claim in every setting where it is judged."""
        return {
            (study.name, claim.name): [
                Cell(scale, regime, claim, finding)
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
        common = [s for s in self.shown if self._regimes(s) <= set(self.paper.regimes)]
        groups = [[s for s in common if s.appendix == appendix] for appendix in (False, True)]
        blocks = []
        for studies in [*groups, *([s] for s in self.shown if s not in common)]:
            wheres = {
                f"{scale}, {regime}": None
                for scale in self.tables
                for study in studies
                if scale in self.studies[study.name]
                for regime in self.studies[study.name][scale].evidence.samples
            }
            if wheres and studies:
                blocks.append((list(wheres), studies))
        return blocks

    def _regimes(self, study: Study) -> set[str]:
        return {
            name for part in self.studies[study.name].values() for name in part.evidence.samples
        }

    def counts(self, scale: ScaleName, ours: bool, appendix: bool) -> Counter[Ruling]:
        """Verdicts at a scale by what they say."""
        return Counter(
            cell.ruling
            for study in self.paper.studies
            for claim in study.claims
            for cell in self.cells(study, claim)
            if (cell.scale, claim.ours, study.appendix) == (scale, ours, appendix)
        )

    def fates(self) -> dict[str, list[str]]:
        """Claims of the paper's main figures by what became of them over all settings."""
        groups: dict[str, list[str]] = {fate: [] for fate in FATES.values()}
        for study in self.paper.studies:
            for claim in study.claims:
                kinds = {kind_of(cell.ruling) for cell in self.cells(study, claim)} - {"not run"}
                if kinds and not (study.appendix or claim.ours):
                    groups[FATES[frozenset(kinds - {"untestable"})]].append(claim.name)
        return {fate: names for fate, names in groups.items() if names}

    @property
    def rulings(self) -> Counter[Ruling]:
        """All verdicts by what they say."""
        return Counter(cell.ruling for cells in self.verdicts.values() for cell in cells)

    @property
    def looks(self) -> str:
        """Numbers of seeds at which claims that are open are judged again, by scale."""
        most = {s: max(study.most_seeds[s] for study in self.paper.studies) for s in self.tables}
        seeds = {scale: [str(n) for n in LOOKS if n <= most[scale]] for scale in most}
        return ", ".join(f"{join(each)} at {scale} scale" for scale, each in seeds.items() if each)

    @property
    def first(self) -> Part | None:
        """The part whose figure is shown first."""
        parts = [part for part in self.studies.get(self.paper.picture, {}).values() if part.panels]
        return parts[0] if parts else None

    @property
    def story(self) -> list[dict[str, str]]:
        """The claims that carry the paper, each with one verdict over all settings."""
        told = []
        known = {study.name: study for study in self.paper.studies}
        for part in self.paper.story:
            cells, study = self.verdicts[part["study"], part["claim"]], known[part["study"]]
            words = {"verdict": sum_up(cells), "where": _where(cells), "source": study.source}
            told.append({**part, **words, "heading": head(study)})
        return told

    @cached_property
    def discoveries(self) -> Mapping[str, float]:
        """How many verdicts chance had a part in, how many are decided, and the share of those that
        Benjamini and Hochberg expect to be false."""
        findings = [cell.finding for cells in self.verdicts.values() for cell in cells]
        judged = [finding for finding in findings if finding.p is not None]
        rates = discovery_rates(np.array([finding.p for finding in judged], float))
        decided = [r for r, f in zip(rates, judged, strict=True) if f.ruling != "inconclusive"]
        return {
            "all": sum(finding.ruling != "not run" for finding in findings),
            "judged": len(judged),
            "decided": len(decided),
            "false": max(decided, default=0.0),
        }


def head(study: Study) -> str:
    """The heading of a study's section."""
    return f"{study.source}: {study.title}"


def sum_up(cells: Sequence[Cell]) -> str:
    """One word for a claim in several settings."""
    rulings = {cell.ruling for cell in cells} - {"not run", "untestable"}
    kinds = {kind_of(ruling) for ruling in rulings}
    if len(rulings) == 1:
        return next(iter(rulings))
    if kinds == {"contradicted"}:
        return "contradicted"
    if kinds >= {"supported", "contradicted"}:
        return "depends"
    decided = kinds - {"inconclusive"}
    if decided:
        return f"{next(iter(decided))} where decided"
    return "untestable" if any(cell.ruling == "untestable" for cell in cells) else "not run"


def _where(cells: Sequence[Cell]) -> str:
    """Which verdict in which settings: "Supported: laptop, noise; opposite: laptop, constant"."""
    groups: dict[str, list[str]] = {}
    for cell in cells:
        groups.setdefault(cell.ruling, []).append(f"{cell.scale} {cell.regime}")
    return capitalise("; ".join(f"{what}: {', '.join(places)}" for what, places in groups.items()))


def _slots(evidence: Evidence) -> dict[str, Mapping[str, Any] | None]:
    """Every planned run by name, None where it is missing; arms may share some."""
    return {
        spec.id: row
        for sample in evidence.samples.values()
        for arm in sample.arms.values()
        for spec, row in zip(arm.specs, arm.rows, strict=True)
    }
