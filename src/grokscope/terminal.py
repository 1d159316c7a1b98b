"""What a person sees in the terminal: progress while it trains, tables afterwards. Where there is
no terminal, plain lines."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from grokscope.engine.events import Event
from grokscope.spec import ObservedSpec, RunSpec, Spec
from grokscope.store import Run, describe

if TYPE_CHECKING:
    import polars as pl

MOST_BARS = 12  # more runs than that share one bar
PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


def make_console(**options: Any) -> Console:
    """Text is shown as it is: names and values may hold brackets. Style comes with `Text`."""
    return Console(markup=False, emoji=False, **options)


def say(*things: RenderableType) -> None:
    console = make_console()
    if not console.is_terminal:
        console = make_console(width=180)  # no line of a table is broken in a file or a pipe
    for thing in things:
        console.print(thing)


class Watch:
    """Listens to the engine and shows how far it is: a bar a run, or one bar for many."""

    def __init__(
        self,
        specs: Sequence[RunSpec],
        names: dict[str, str] | None = None,
        quiet: bool = False,
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()
        if self.skipped and not self.quiet:
            runs = "1 run was" if len(self.skipped) == 1 else f"{len(self.skipped)} runs were"
            self.console.print(f"{runs} already in the store.")

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
            # What the store had took no time: counting it would make the rest look quick.
            done = sum(self.reached[name] for name in self.reached if name not in self.skipped)
            total = sum(self.epochs[name] for name in self.epochs if name not in self.skipped)
            self.progress.update(
                self.overall, completed=done, total=total, state=f"{self.ended} ended"
            )
            return
        if event.kind == "skipped":
            return
        if event.run not in self.bars:
            self.bars[event.run] = self.progress.add_task(
                self.names[event.run], total=event.epochs, state=""
            )
        self.progress.update(
            self.bars[event.run],
            completed=self.reached[event.run],
            state=state_of(event),
        )

    @property
    def many(self) -> bool:
        return len(self.epochs) > MOST_BARS

    @property
    def ended(self) -> int:
        return sum(self.reached[name] >= self.epochs[name] for name in self.reached)

    def _summary(self, now: float) -> str:
        """How many of many runs have ended, and how long the rest will take at this pace."""
        mine = [name for name in self.epochs if name not in self.skipped]
        share = sum(self.reached.get(name, 0) for name in mine) / sum(self.epochs[n] for n in mine)
        left = (now - self.began) * (1 - share) / share if share else 0.0
        text = f"{self.ended} of {len(self.epochs)} runs have ended"
        return f"{text}, about {clock(left)} to go" if share else text

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


def clock(seconds: float) -> str:
    """45 s, 12 min, 1 h 40 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def state_of(event: Event) -> str:
    """The latest row in a few words."""
    if not event.row:
        return ""
    row = event.row
    text = f"train {row['train_accuracy']:.2f}  test {row['test_accuracy']:.2f}"
    return text + f"  weakest {row['weakest_min']:.2f}"


def short_names(specs: Sequence[RunSpec]) -> dict[str, str]:
    """What sets each spec apart from the others."""
    changes = [{**spec.changed(), "seed": spec.seed} for spec in specs]
    keys = list(dict.fromkeys(key for change in changes for key in change))
    varied = [k for k in keys if len({str(change.get(k)) for change in changes}) > 1]
    return {
        spec.id: " ".join(f"{k.rpartition('.')[2]}={_cell(c[k])}" for k in varied if k in c)
        or "run " + spec.id[:8]
        for spec, c in zip(specs, changes, strict=True)
    }


def plain_table(*columns: tuple[str, str], caption: str | None = None) -> Table:
    """A table without lines; columns are (heading, left or right)."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=caption)
    table.caption_justify = "left"
    for heading, side in columns:
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    return table


def outcome_table(runs: Sequence[Run], names: dict[str, str] | None = None) -> Table:
    """A line a run: when it memorised, when it grokked, its plateau, its routing."""
    names = names or {}
    units = " or ".join(sorted({unit_of(run.about) for run in runs}))
    table = plain_table(
        ("run", "left"),
        ("memorised at", "right"),
        ("grokked at", "right"),
        ("plateau", "right"),
        ("test", "right"),
        ("structure", "right"),
        *([] if names else [("", "left")]),
        caption=f"times in {units}; test: final accuracy on unseen examples; structure: share of "
        "inputs that satisfy the structural condition",
    )
    for run in runs:
        first = names.get(run.id) or run.id[:8]
        last = [] if names else [describe(run.about)]
        if not run.ended:
            table.add_row(first, "under way", *[""] * 4, *last)
            continue
        outcome = run.outcome
        if outcome["status"] == "failed":
            reason = f"failed: not finite at epoch {outcome['failed_at']}"
            table.add_row(first, reason, *[""] * 4, *last)
            continue
        final = outcome["final"]
        table.add_row(
            first,
            event_text(outcome["memorised"]),
            event_text(outcome["grokked"]),
            plateau_text(outcome),
            _measured(final.get("test_accuracy"), ".3f"),
            _measured(final.get("structure_share"), ".0%"),
            *last,
        )
    return table


def phase_table(runs: Sequence[Run], names: dict[str, str]) -> Table:
    """A line a run: from when to when each of the four phases lasted."""
    order = ("memorisation", "plateau", "resurgence", "grokking")
    table = plain_table(
        ("phases", "left"), *[(f"{i} {name}", "right") for i, name in enumerate(order, start=1)]
    )
    for run in runs:
        if run.status == "finished":
            found = {phase["name"]: phase for phase in run.outcome["phases"]}
            table.add_row(names[run.id], *[phase_text(found[name]) for name in order])
    return table


def phase_text(phase: dict[str, Any]) -> str:
    if phase["start"] is None:
        return "not found"
    return f"{phase['start']} to {'...' if phase['end'] is None else phase['end']}"


def event_text(event: dict[str, Any]) -> str:
    if event["observed_until"] is None:
        return "not measured"
    return f"not by {event['observed_until']}" if event["epoch"] is None else str(event["epoch"])


def unit_of(spec: Spec) -> str:
    return "steps" if isinstance(spec, ObservedSpec) else "epochs"


def _measured(value: float | None, form: str) -> str:
    """A model of the user's own may lack a measure."""
    return "-" if value is None else format(value, form)


def plateau_text(outcome: dict[str, Any]) -> str:
    plateau = next(phase for phase in outcome["phases"] if phase["name"] == "plateau")
    if plateau["start"] is None:
        return "none"
    if plateau["end"] is None:
        return f"{outcome['epochs'] - plateau['start']}+"
    return str(plateau["end"] - plateau["start"])


def show_run(run: Run) -> list[RenderableType]:
    """One run in full."""
    heading = Text.assemble((run.id, "bold"), f"  {run.status}")
    parts: list[RenderableType] = [heading, describe(run.about), ""]
    if not run.ended:
        rows = run.curve
        unit = unit_of(run.about).rstrip("s")
        parts.append(f"{len(rows)} rows so far, the last at {unit} {rows['epoch'][-1]}.")
        latest = {n: v for n, v in rows.row(-1, named=True).items() if isinstance(v, float)}
        parts += ["", _measures("latest measure", latest)]
        return parts
    parts.append(outcome_table([run], {run.id: run.id[:8]}))
    outcome = run.outcome
    phases = plain_table(*[(name, "left") for name in ("phase", "from", "to", "rule")])
    for phase in outcome["phases"]:
        found = phase["start"] is not None
        start = str(phase["start"]) if found else "not found"
        end = "" if not found else "still going on" if phase["end"] is None else str(phase["end"])
        phases.add_row(phase["name"], start, end, phase["rule"])
    final = _measures("final measure", outcome["final"])
    last = run.provenance["segments"][-1]
    engine = "torch" if "torch" in last["versions"] else "jax"
    made = (
        f"Trained in {run.seconds:.1f} s, {last['execution']}, {last['threads']} thread(s), "
        f"{engine} {last['versions'][engine]}; ended by {outcome['ended_by']}."
    )
    return [*parts, "", phases, "", final, "", made]


def _measures(heading: str, values: Mapping[str, Any]) -> Table:
    table = plain_table((heading, "left"), ("value", "right"))
    for name, value in values.items():
        table.add_row(name, _cell(value))
    return table


def certificate_table(summary: pl.DataFrame) -> Table:
    """A line a certificate: how often it held, and by how much."""
    table = plain_table(
        ("certificate", "left"),
        ("holds", "right"),
        ("worst ratio", "right"),
        ("median ratio", "right"),
        ("remark", "left"),
        caption="ratio: measured / bound, at most 1 where the statement holds",
    )
    for row in summary.iter_rows(named=True):
        table.add_row(
            f"{row['statement']:>2} {row['name']}",
            f"{row['hold']} of {row['checks']}",
            _cell(row["worst_ratio"]),
            _cell(row["median_ratio"]),
            row["note"],
        )
    return table


def frame_table(frame: pl.DataFrame) -> Table:
    table = plain_table(*[(name, "left") for name in frame.columns])
    for row in frame.iter_rows():
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
