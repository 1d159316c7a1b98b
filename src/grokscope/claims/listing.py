"""Plan and verdicts as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from grokscope.claims.evidence import Tables
from grokscope.claims.reproduction import Work
from grokscope.claims.studies import Planned, ScaleName, Study
from grokscope.draw.words import state_effect
from grokscope.terminal import plain_table


def plan_table(work: Work) -> Table:
    """A line per study and setting: how many runs, and how many of them the store has."""
    numbers = ("arms", "runs", "in the store")
    table = plain_table("study", "regime", *numbers, right=numbers)
    have = {run.id for run in work.done}
    groups: dict[tuple[str, str], list[Planned]] = {}
    for item in work.planned:
        groups.setdefault((item.study.name, item.setting.regime), []).append(item)
    for (study, regime), items in groups.items():
        arms = len({item.arm for item in items})
        done = sum(item.spec.id in have for item in items)
        table.add_row(study, regime, str(arms), str(len(items)), str(done))
    return table


RULING_STYLES = {"supported": "green", "contradicted": "red"}


def verdict_table(studies: Sequence[Study], tables: Tables, scale: ScaleName) -> Table:
    """A line per claim and regime: verdict, effect with interval, remark."""
    caption = f"{scale} scale; intervals of 95 % over seeds, shares with bounds of 95 % each"
    headings = ("claim", "regime", "verdict", "effect", "n", "")
    table = plain_table(*headings, right=("n",), caption=caption)
    for study in studies:
        evidence = tables.evidence(study, scale)
        for claim in study.claims:
            for regime, finding in evidence.findings(claim).items():
                style = RULING_STYLES.get(finding.ruling, "dim")
                table.add_row(
                    claim.name,
                    regime,
                    Text(finding.ruling, style),
                    state_effect(claim, finding.estimate),
                    "" if finding.estimate is None else str(finding.estimate.n),
                    finding.remark,
                )
    return table
