"""What a reproduction shows: its pages, and plan and verdicts in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from grokscope.claims.evidence import Tables, read_frames
from grokscope.claims.reproduction import Work
from grokscope.claims.studies import Annex, Paper, Planned, ScaleName, Study
from grokscope.errors import StoreError
from grokscope.pages import paper as page
from grokscope.pages.book import state_effect
from grokscope.pages.files import save_chart
from grokscope.store.files import write_file
from grokscope.terminal import clock, plain_table


def write_pages(
    paper: Paper,
    tables: Mapping[ScaleName, Tables],
    results: Path,
    docs: Path,
    readme: Path | None = None,
) -> list[Path]:
    """Pages and figures from whatever tables there are, those of annexes included, and on request a
    README's table; the paths of what was written."""
    written = page.write(paper, tables, docs) if tables else []
    if readme is not None and tables:
        written.append(page.renew(readme, paper, tables))
    for annex in paper.annexes:
        frames, about = read_frames(results / annex.name)
        if frames:
            text, figures = annex.render(frames, about)
            for name, chart in figures.items():
                written.append(save_chart(chart, docs / "figures" / name))
            written.append(write_file(docs / f"{annex.name}.md", text.encode()))
    if not written:
        raise StoreError(f"There are no tables of {paper.name} in {results}.")
    return written


def plan_table(work: Work) -> Table:
    """A line per study and setting: how many runs, how many of them the store has."""
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


def describe_work(work: Work) -> str:
    """What is there, what is shared and how long it will take, in a few sentences."""
    text = f"{len(work.planned)} runs are asked for"
    if shared := len(work.planned) - len(work.specs):
        text += f", {shared} of them by several arms: {len(work.specs)} in all"
    text += "."
    if work.done:
        saved = clock(sum(run.seconds for run in work.done))
        text += f" The store has {len(work.done)}, which saves {saved} of one core's time."
    if not work.left:
        return text + " Nothing is left to train."
    return (
        f"{text} {len(work.left)} are left to train at {work.scale} scale: about "
        f"{clock(work.seconds_left())}. You can interrupt it; the same command resumes."
    )


RULING_STYLES = {"supported": "green", "contradicted": "red"}


def verdict_table(studies: Sequence[Study], tables: Tables, scale: ScaleName) -> Table:
    """A line per claim and regime: verdict, effect with interval, remark."""
    caption = f"{scale} scale; 95 % intervals over seeds, shares with bounds of 95 % each"
    headings = ("claim", "regime", "verdict", "effect", "n", "")
    table = plain_table(*headings, right=("n",), caption=caption)
    for study in studies:
        for claim in () if isinstance(study, Annex) else study.claims:
            for regime, finding in tables.evidence(study, scale).findings(claim).items():
                table.add_row(
                    claim.name,
                    regime,
                    Text(finding.ruling, RULING_STYLES.get(finding.ruling, "dim")),
                    state_effect(claim, finding.estimate),
                    "" if finding.estimate is None else str(finding.estimate.n),
                    finding.remark,
                )
    return table
