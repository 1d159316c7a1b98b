"""What is shown in the terminal: progress during training, tables afterwards. Where the output is
no terminal, plain lines."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from grokscope.draw.glossary import MEASURES, measure_of
from grokscope.draw.reading import events_of, phases_of
from grokscope.draw.words import cell, clock, count, state_event, state_phase, state_plateau
from grokscope.engine.events import Event
from grokscope.spec import ObservedSpec, Spec
from grokscope.store import Run, describe

if TYPE_CHECKING:
    import polars as pl

MOST_BARS = 12  # more runs than that share one bar
PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


def make_console(**options: Any) -> Console:
    """Text is shown as it is, since names and values may hold brackets. `Text` brings style."""
    return Console(markup=False, emoji=False, **options)


def say(*things: RenderableType) -> None:
    console = make_console()
    if not console.is_terminal:
        console = make_console(width=180)  # no line of a table is broken in a file or a pipe
    for thing in things:
        console.print(thing)


class Watch:
    """Listens to the engine and shows progress: one bar per run, or one bar for many."""

    def __init__(
        self, specs: Sequence[Spec], names: dict[str, str] | None = None, quiet: bool = False
    ) -> None:
        self.epochs = {spec.id: spec.training.epochs for spec in specs}
        self.names = names or short_names(specs)
        self.quiet = quiet
        self.console = make_console(stderr=True)
        self.live = self.console.is_terminal and not quiet
        self.reached: dict[str, int] = {}
        self.skipped: set[str] = set()
        self.last_line = self.began = time.monotonic()
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=14),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[state]}"),
            console=self.console,
            disable=not self.live,
        )
        self.bars: dict[str, TaskID] = {}
        self.overall: TaskID | None = None

    def __enter__(self) -> Watch:
        self.progress.start()
        if self.many:
            total = sum(self.epochs.values())
            self.overall = self.progress.add_task(f"{len(self.epochs)} runs", total=total, state="")
        return self

    def __exit__(self, *trouble: object) -> None:
        self.progress.stop()
        if self.skipped and not self.quiet:
            verb = "was" if len(self.skipped) == 1 else "were"
            self.console.print(f"{count(len(self.skipped), 'run')} {verb} already in the store.")

    def __call__(self, event: Event) -> None:
        if event.kind == "skipped":
            self.skipped.add(event.run)
        if event.message:
            self.console.print(event.message, style="yellow", soft_wrap=True)
        self.reached[event.run] = event.epoch
        if event.kind in ("finished", "failed", "skipped"):
            self.reached[event.run] = self.epochs[event.run]
        if self.live:
            self._draw(event)
        elif not self.quiet and event.kind != "skipped":
            self._tell(event)

    def _draw(self, event: Event) -> None:
        if self.overall is not None:
            # Runs that the store had took no time; with them the rest would look quick.
            done, total = self._progress()
            state = f"{self.ended} ended"
            self.progress.update(self.overall, completed=done, total=total, state=state)
        elif event.kind != "skipped":
            if event.run not in self.bars:
                bar = self.progress.add_task(self.names[event.run], total=event.epochs, state="")
                self.bars[event.run] = bar
            done = self.reached[event.run]
            self.progress.update(self.bars[event.run], completed=done, state=state_of(event))

    def _progress(self) -> tuple[int, int]:
        """Epochs done and to do, of the runs that the store did not have."""
        mine = [name for name in self.epochs if name not in self.skipped]
        return sum(self.reached.get(name, 0) for name in mine), sum(self.epochs[n] for n in mine)

    @property
    def many(self) -> bool:
        return len(self.epochs) > MOST_BARS

    @property
    def ended(self) -> int:
        return sum(self.reached[name] >= self.epochs[name] for name in self.reached)

    def _summary(self, now: float) -> str:
        """How many of many runs have ended, and how long the rest will take at this pace."""
        done, total = self._progress()
        text = f"{self.ended} of {len(self.epochs)} runs have ended"
        left = (now - self.began) * (total - done) / max(done, 1)
        return f"{text}, about {clock(left)} to go" if done else text

    def _tell(self, event: Event) -> None:
        now = time.monotonic()
        if event.kind == "advanced" and now - self.last_line < PLAIN_SECONDS:
            return
        if self.many:
            if now - self.last_line >= PLAIN_SECONDS:
                self.last_line = now
                self.console.print(self._summary(now), highlight=False, soft_wrap=True)
            return
        self.last_line = now
        text = f"{event.run} {event.kind} at epoch {event.epoch} of {event.epochs}"
        line = f"{text}  {state_of(event)}".rstrip()
        self.console.print(line, highlight=False, soft_wrap=True)


def state_of(event: Event) -> str:
    """The latest row in a few words: the measures that the glossary has a short name for, or the
    first ones of a problem of one's own."""
    row = {name: value for name, value in event.row.items() if not isinstance(value, list)}
    known = [name for name in MEASURES if MEASURES[name].brief and name in row]
    if any(name.endswith("_accuracy") for name in known):
        known = [name for name in known if not name.endswith("_loss")]
    names = known or [name for name in row if name != "epoch"][:3]
    return "  ".join(f"{measure_of(name).brief} {row[name]:.2f}" for name in names)


def short_names(specs: Sequence[Spec]) -> dict[str, str]:
    """What sets each spec apart from the others."""
    changes = [{**spec.changed(), "seed": spec.seed} for spec in specs]
    keys = dict.fromkeys(key for change in changes for key in change)
    varied = [k for k in keys if len({str(change.get(k)) for change in changes}) > 1]
    return {
        spec.id: " ".join(f"{k.rpartition('.')[2]}={cell(c[k])}" for k in varied if k in c)
        or "run " + spec.id[:8]
        for spec, c in zip(specs, changes, strict=True)
    }


def plain_table(*headings: str, right: Sequence[str] = (), caption: str | None = None) -> Table:
    """A table without lines; the columns of these headings are set to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=caption)
    table.caption_justify = "left"
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    return table


FINAL = {"test_accuracy": ("test", ".3f"), "structure_share": ("structure", ".0%")}
"""Columns of the table of outcomes, where some run has the measure."""


def outcome_table(runs: Sequence[Run], names: dict[str, str] | None = None) -> Table:
    """A line per run: when each event happened, its plateau, its last measures."""
    return _outcome_table(runs, [run.outcome if run.ended else {} for run in runs], names or {})


def _outcome_table(
    runs: Sequence[Run], outcomes: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> Table:
    ended = [outcome for outcome in outcomes if outcome]
    events = list(dict.fromkeys(name for outcome in ended for name in events_of(outcome)))
    phased = any(outcome.get("phases") for outcome in ended)
    final = [name for name in FINAL if any(name in outcome["final"] for outcome in ended)]
    units = " or ".join(sorted({unit_of(run.about) for run in runs}))
    meanings = [f"{FINAL[n][0]}: {measure_of(n).definition.rstrip('.').lower()}" for n in final]
    columns = [f"{name} at" for name in events] or ["outcome"]
    columns += ["plateau"] * phased + [FINAL[name][0] for name in final]
    caption = "; ".join([f"times in {units}", *meanings])
    table = plain_table("run", *columns, *[""] * (not names), right=columns, caption=caption)
    for run, outcome in zip(runs, outcomes, strict=True):
        cells = ["under way"]
        if outcome.get("status") == "failed":
            cells = [f"failed: not finite at epoch {outcome['failed_at']}"]
        elif outcome:
            found = events_of(outcome)
            cells = [state_event(found[n]) if n in found else "-" for n in events] or ["finished"]
            if phased:
                cells.append(state_plateau(phases_of(outcome), outcome["epochs"]))
            for name in final:
                value = outcome["final"].get(name)
                cells.append("-" if value is None else format(value, FINAL[name][1]))
        last = [] if names else [describe(run.about)]
        first = names.get(run.id) or run.id[:8]
        table.add_row(first, *cells, *[""] * (len(columns) - len(cells)), *last)
    return table


def phase_table(runs: Sequence[Run], names: dict[str, str]) -> Table:
    """A line per run: from when to when each phase lasted."""
    outcomes = {run.id: run.outcome for run in runs if run.ended}
    found = {name: phases_of(outcome) for name, outcome in outcomes.items()}
    order = list(dict.fromkeys(phase.name for phases in found.values() for phase in phases))
    headings = [f"{i} {name}" for i, name in enumerate(order, start=1)]
    table = plain_table("phases", *headings, right=headings)
    for run, phases in found.items():
        if outcomes[run]["status"] == "finished":
            last = outcomes[run]["epochs"]
            table.add_row(names[run], *[state_phase(phase, last) for phase in phases])
    return table


def unit_of(spec: Spec) -> str:
    return "steps" if isinstance(spec, ObservedSpec) else "epochs"


def show_run(run: Run) -> list[RenderableType]:
    """One run in full."""
    outcome = run.outcome if run.ended else {}
    heading = Text.assemble((run.id, "bold"), f"  {outcome.get('status', 'partial')}")
    parts: list[RenderableType] = [heading, describe(run.about), ""]
    if not outcome:
        rows = run.curve
        unit = unit_of(run.about).rstrip("s")
        parts.append(f"{len(rows)} rows so far, the last at {unit} {rows['epoch'][-1]}.")
        latest = {n: v for n, v in rows.row(-1, named=True).items() if isinstance(v, float)}
        return [*parts, "", _measures("latest measure", latest)]
    parts.append(_outcome_table([run], [outcome], {run.id: run.id[:8]}))
    if found := phases_of(outcome):
        phases = plain_table("phase", "from and to", "rule")
        for phase in found:
            phases.add_row(phase.name, state_phase(phase, outcome["epochs"]), phase.rule)
        parts += ["", phases]
    segments = run.provenance["segments"]
    last = segments[-1]
    engine = "torch" if "torch" in last["versions"] else "jax"
    seconds = sum(segment["seconds"] for segment in segments)
    made = (
        f"Trained in {seconds:.1f} s, {last['execution']}, {last['threads']} thread(s), "
        f"{engine} {last['versions'][engine]}; ended by {outcome['ended_by']}."
    )
    return [*parts, "", _measures("final measure", outcome["final"]), "", made]


def _measures(heading: str, values: Mapping[str, Any]) -> Table:
    table = plain_table(heading, "value", right=("value",))
    for name, value in values.items():
        table.add_row(name, cell(value))
    return table


def certificate_table(summary: pl.DataFrame) -> Table:
    """A line per certificate: how often it held, and by how much."""
    numbers = ("holds", "worst ratio", "median ratio")
    caption = "ratio: measured / bound, at most 1 where the statement holds"
    table = plain_table("certificate", *numbers, "remark", right=numbers, caption=caption)
    for row in summary.iter_rows(named=True):
        held = f"{row['hold']} of {row['checks']}"
        ratios = cell(row["worst_ratio"]), cell(row["median_ratio"])
        table.add_row(f"{row['statement']:>2} {row['name']}", held, *ratios, row["note"])
    return table


def frame_table(frame: pl.DataFrame) -> Table:
    table = plain_table(*frame.columns)
    for row in frame.iter_rows():
        table.add_row(*map(cell, row))
    return table
