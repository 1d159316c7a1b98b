"""What a reproduction shows: its pages, and plan and verdicts in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from grokscope.claims.evidence import Tables, read_frames
from grokscope.claims.reproduction import Work
from grokscope.claims.studies import Annex, Paper, Planned, ScaleName, Study
from grokscope.claims.words import COLOURS, state_effect, state_interest
from grokscope.draw.words import clock, count
from grokscope.errors import StoreError
from grokscope.pages import paper as page
from grokscope.pages.files import save_chart
from grokscope.store.files import write_file
from grokscope.terminal import plain_table


def write_pages(
    paper: Paper,
    tables: Mapping[ScaleName, Tables],
    results: Path,
    docs: Path,
    readme: Path | None = None,
) -> list[Path]:
    """Pages and figures from whatever tables there are, those of annexes included, and on request a
    README's table; the paths of what was written. A page that is there already is renewed even if
    there are no tables: then it says that nothing was run."""
    begun = tables or (docs / f"{paper.name}.md").exists()
    shown = tables or {"laptop": Tables.empty()}
    written = page.write(paper, shown, docs) if begun else []
    if readme is not None and begun:
        written.append(page.renew(readme, paper, shown))
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
    """A line per study and setting: seeds, how many runs, how many of them store and tables have,
    and the claims that another look may decide."""
    numbers = ("arms", "seeds", "runs", "in the store", "in the tables")
    waiting = [*["open claims"] * bool(work.open)]
    table = plain_table("study", "regime", *numbers, *waiting, right=numbers)
    have = {run.id for run in work.done}
    groups: dict[tuple[str, str], list[Planned]] = {}
    for item in work.planned:
        groups.setdefault((item.study.name, item.setting.regime), []).append(item)
    for (study, regime), items in groups.items():
        arms = len({item.arm for item in items})
        done = sum(item.spec.id in have for item in items)
        told = sum(item.spec.id in work.tabled for item in items)
        seeds = len({item.seed for item in items})
        still = [claim.name for s, r, claim in work.open if (s.name, r) == (study, regime)]
        counts = map(str, (arms, seeds, len(items), done, told))
        table.add_row(study, regime, *counts, *[", ".join(still)] * bool(work.open))
    return table


def describe_work(work: Work) -> str:
    """What is there, what is shared and how long it will take, in a few sentences."""
    text = f"{len(work.planned)} runs are asked for"
    if work.open:
        text = f"Open: {count(len(work.open), 'claim')}. For their next look {text}"
    if shared := len(work.planned) - len(work.specs):
        text += f", {shared} of them by several arms: {len(work.specs)} in all"
    text += "."
    if work.done:
        saved = clock(sum(run.seconds for run in work.done))
        text += f" The store has {len(work.done)}, which saves {saved} of one core's time."
    if told := len(work.specs) - len(work.trained):
        text += f" Known from the tables alone: {told}."
    if not work.left:
        return text + " Nothing is left to train."
    return (
        f"{text} Left to train at {work.scale} scale: {len(work.left)}, about "
        f"{clock(work.seconds_left())}. You can interrupt it; the same command resumes."
    )


def verdict_table(studies: Sequence[Study], tables: Tables, scale: ScaleName) -> Table:
    """A line per claim and regime: verdict, effect with interval, remark."""
    caption = f"{scale} scale; asked: the smallest effect that supports the claim"
    headings = ("claim", "regime", "verdict", "effect", "asked", "n", "")
    table = plain_table(*headings, right=("n",), caption=caption)
    for study in studies:
        for claim in () if isinstance(study, Annex) else study.claims:
            for regime, finding in tables.evidence(study, scale).findings(claim).items():
                table.add_row(
                    claim.name,
                    regime,
                    Text(finding.ruling, COLOURS.get(finding.ruling, "dim")),
                    state_effect(claim, finding.estimate),
                    state_interest(claim),
                    "" if finding.estimate is None else str(finding.estimate.n),
                    finding.remark,
                )
    return table
