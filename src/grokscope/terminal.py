"""What is shown in the terminal: progress during training, tables afterwards. Where the output is
no terminal, plain lines."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from grokscope import interrupts
from grokscope.draw import words as wording
from grokscope.draw.glossary import MEASURES, measure_of
from grokscope.draw.reading import Phase, events_of, phases_of
from grokscope.draw.words import cell, clock, count, list_varying
from grokscope.errors import StoreError, plain
from grokscope.pages.labels import label_specs
from grokscope.spec import ObservedSpec, RunSpec, Spec
from grokscope.store import Run, Store, describe, shorten

if TYPE_CHECKING:
    import polars as pl

    from grokscope.engine.events import Event

MOST_BARS = 12  # more runs than that share one bar
TOLD_FROM = 0.01  # of all epochs: the rest of the time can be told from them
MOST_WORDS = 28  # of what differs: columns are left out of a narrow table until so much fits
MOST_VALUE = 24  # letters of a field's value among these words
PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


class PlainConsole(Console):
    """Shows control characters in names and values instead of sending them to the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else plain(segment.text)
            yield segment if text == segment.text else segment._replace(text=text)


def make_console(**options: Any) -> Console:
    """Text is shown as it is, since names and values may hold brackets. `Text` brings style."""
    return PlainConsole(markup=False, emoji=False, **options)


def say(*things: RenderableType) -> None:
    console = make_console()
    if not console.is_terminal:
        console = make_console(width=180)  # no line of a table is broken in a file or a pipe
    for thing in things:
        console.print(thing)


class NotebookProgress(Progress):
    """Rich redraws in notebooks with the help of ipywidgets; IPython alone can do it as well."""

    shown: Any = None

    def start(self) -> None:
        from IPython.display import display

        if not self.disable:
            self.shown = display(self, display_id=True)

    def stop(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        if self.shown is not None:
            self.shown.update(self)


class Watch:
    """Listens to the engine and shows progress: one bar for all, and one per run unless they are
    many. `show` says whether anything is shown; None: in terminals and notebooks."""

    def __init__(
        self,
        specs: Sequence[Spec],
        names: dict[str, str] | None = None,
        quiet: bool = False,
        show: bool | None = True,
    ) -> None:
        self.epochs = {spec.id: spec.training.epochs for spec in specs}
        labels = zip(specs, label_specs(specs), strict=True)
        self.names = names or {spec.id: name for spec, name in labels}
        self.console = make_console(stderr=True)
        self.notebook = self.console.is_jupyter
        seen = self.console.is_terminal or self.notebook
        self.quiet = quiet or not (seen if show is None else show)
        self.live = seen and not self.quiet
        self.reached: dict[str, int] = {}
        self.skipped: set[str] = set()
        self.last_line = self.began = time.monotonic()
        self.progress = (NotebookProgress if self.notebook else Progress)(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[state]}"),
            console=self.console,
            disable=not self.live,
        )
        self.bars: dict[str, TaskID] = {}
        self.overall: TaskID | None = None

    def __enter__(self) -> Watch:
        interrupts.report_with(self.kept)
        self.progress.start()
        if len(self.epochs) > 1:
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
        if event.message and event.kind != "refused":  # those are told at the end
            self.console.print(event.message, style="yellow", soft_wrap=True)
        if event.run not in self.epochs or event.kind in ("refused", "warned"):
            return
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
            waiting = len(self.epochs) - len(self.reached)
            parts = [f"{self.ended} ended"] + [f"{waiting} waiting"] * bool(waiting)
            parts += ["compiling"] * (self.many and not done)
            state = ", ".join(parts)
            self.progress.update(self.overall, completed=done, total=total, state=state)
        if event.kind != "skipped" and not self.many:
            if event.run not in self.bars:
                bar = self.progress.add_task(self.names[event.run], total=event.epochs, state="")
                self.bars[event.run] = bar
            done = self.reached[event.run]
            # The program is compiled between these events and the first rows.
            begins = event.kind in ("started", "resumed")
            most = 3 if self.console.width >= 120 else 2  # measures that leave room for the rest
            state = "compiling" if begins else state_of(event, most)
            self.progress.update(self.bars[event.run], completed=done, state=state, refresh=begins)
        if self.notebook:
            self.progress.refresh()

    def _progress(self) -> tuple[int, int]:
        """Epochs done and to do, of the runs that the store did not have."""
        mine = [name for name in self.epochs if name not in self.skipped]
        return sum(self.reached.get(name, 0) for name in mine), sum(self.epochs[n] for n in mine)

    def kept(self) -> str:
        """What is safe if we are stopped now."""
        begun = [epoch for name, epoch in self.reached.items() if 0 < epoch < self.epochs[name]]
        saved = f", {len(begun)} saved at epoch {', '.join(map(str, begun[:6]))}" if begun else ""
        return f"Kept: {self.ended} of {count(len(self.epochs), 'run')} ended{saved}."

    @property
    def many(self) -> bool:
        return len(self.epochs) > MOST_BARS

    @property
    def ended(self) -> int:
        return sum(self.reached[name] >= self.epochs[name] for name in self.reached)

    def _summary(self, now: float) -> str:
        """How many of many runs have ended, and how long the rest will take at this pace: at first
        most of the time goes into compiling, which says nothing of it."""
        done, total = self._progress()
        text = f"{self.ended} of {len(self.epochs)} runs have ended"
        left = (now - self.began) * (total - done) / max(done, 1)
        return f"{text}, about {clock(left)} to go" if done > TOLD_FROM * total else text

    def _tell(self, event: Event) -> None:
        now = time.monotonic()
        if now - self.last_line < PLAIN_SECONDS and (self.many or event.kind == "advanced"):
            return
        self.last_line = now
        place = f"{event.run} {event.kind} at epoch {event.epoch} of {event.epochs}"
        text = self._summary(now) if self.many else f"{place}  {state_of(event)}".rstrip()
        self.console.print(text, highlight=False, soft_wrap=True)


def state_of(event: Event, most: int | None = None) -> str:
    """The latest row in a few words: the measures that the glossary has a short name for, or the
    first ones of a problem of one's own; at most so many."""
    row = {name: value for name, value in event.row.items() if not isinstance(value, list)}
    known = [name for name in MEASURES if MEASURES[name].brief and name in row]
    if any(name.endswith("_accuracy") for name in known):
        known = [name for name in known if not name.endswith("_loss")]
    names = known or [name for name in row if name != "epoch"][:3]
    return "  ".join(f"{measure_of(name).brief} {row[name]:.2f}" for name in names[:most])


def plain_table(
    *headings: str,
    rows: Iterable[Sequence[Any]] = (),
    right: Sequence[str] = (),
    caption: str | None = None,
) -> Table:
    """A table without lines; the columns of these headings are set to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=caption)
    table.caption_justify = "left"
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


FINAL = {"test_accuracy": ("test", ".3f"), "structure_share": ("structure", ".0%")}
"""Columns of the table of outcomes, where some run has the measure."""


class OutcomeTable:
    """A line per run: the fields in which the runs differ (`fields` always), when each event
    happened, its plateau, its last measures. Where the fields do not fit as columns, they are one
    column of words, cut at the end: those first that tell most runs apart."""

    def __init__(
        self,
        runs: Sequence[Run],
        names: Mapping[str, str] | None = None,
        fields: Sequence[str] = (),
        dated: bool = False,
    ) -> None:
        self.runs, self.names, self.dated = runs, names or {}, dated
        self.outcomes = [_outcome(run) for run in runs]
        specs = [run.about for run in runs]
        self.said = []
        for run in runs:
            name, tags = run.annotation.name or _own_name(run.about), run.annotation.tags
            self.said.append(" ".join([name, *(f"#{tag}" for tag in tags)]).strip())
        self.fields = {} if names else _differing(specs, fields)
        self.words = [] if names else _tell_apart(specs, fields)
        self.common = "" if names else _in_common(specs)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        table = self.draw(self.fields)
        wide = options.update(width=10_000)
        if table.__rich_measure__(console, wide).maximum > console.width and any(self.words):
            wanted = min(MOST_WORDS, max(map(len, self.words)))
            for spared in ((), ("structure",), ("structure", "started")):
                table = self.draw({"what differs": [" " * wanted] * len(self.runs)}, True, spared)
                if table.__rich_measure__(console, wide).maximum <= console.width:
                    break
            table = self.draw({"what differs": self.words}, True, spared)
            place = next(i for i, c in enumerate(table.columns) if c.header == "what differs")
            table.columns[place].ratio = 1
            table.expand = True
        yield table
        yield Text(self.caption, style="dim")  # a table's own caption is as narrow as the table

    def draw(
        self, fields: Mapping[str, Sequence[str]], brief: bool = False, spared: Sequence[str] = ()
    ) -> Table:
        """With these columns of fields, without those that are spared."""
        dated = self.dated and "started" not in spared
        ended = [outcome for outcome in self.outcomes if outcome]
        events = list(dict.fromkeys(name for outcome in ended for name in events_of(outcome)))
        phased = not brief and any(outcome.get("phases") for outcome in ended)
        kept = [name for name in FINAL if FINAL[name][0] not in spared]
        final = [name for name in kept if any(name in outcome["final"] for outcome in ended)]
        units = " or ".join(sorted({f"{run.about.unit}s" for run in self.runs}))
        meanings = [f"{FINAL[n][0]}: {measure_of(n).definition.rstrip('.').lower()}" for n in final]
        columns = [f"{name} at" for name in events] or ["outcome"]
        columns += ["plateau"] * phased + [FINAL[name][0] for name in final]
        self.caption = "; ".join([f"times in {units}", *meanings]) + self.common
        first = ["run"] + ["started"] * dated + ["name"] * any(self.said)
        table = plain_table(*first, *fields, *columns, right=columns)
        for column in table.columns:
            column.no_wrap = True
        for index, (run, outcome) in enumerate(zip(self.runs, self.outcomes, strict=True)):
            cells = [_unfinished(run)] if not outcome else []
            if outcome.get("status") == "failed":
                cells = [f"failed: not finite at epoch {outcome['failed_at']}"]
            elif outcome:
                found = events_of(outcome)
                cells = [wording.state_event(found[n]) if n in found else "-" for n in events]
                cells = cells or ["finished"]
                if phased:
                    cells.append(wording.state_plateau(phases_of(outcome), outcome["epochs"]))
                for name in final:
                    value = outcome["final"].get(name)
                    cells.append("-" if value is None else format(value, FINAL[name][1]))
            values = [column[index] for column in fields.values()]
            date = [_day(run.started)] if dated else []
            date += [self.said[index]] if any(self.said) else []
            name = self.names.get(run.id) or run.id[:8]
            table.add_row(name, *date, *values, *cells, *[""] * (len(columns) - len(cells)))
        return table


def _outcome(run: Run) -> dict[str, Any]:
    return run.outcome if run.ended else {}


def _day(moment: str | None) -> str:
    """18 Nov 03:10, of the clock on the wall"""
    try:
        return f"{datetime.fromisoformat(moment or '').astimezone():%d %b %H:%M}"
    except ValueError:
        return "-"


def _unfinished(run: Run) -> str:
    """How far a run without an outcome has come, and whether somebody trains it now."""
    state = "under way" if Store(run.path.parent).is_held(run.id) else "interrupted"
    return f"{state} at {run.last_epoch:,}"


def tell_row(store: Store, row: Mapping[str, Any]) -> str:
    """One run in a line, as `grokscope runs --follow` writes it."""
    run = store.get(row["run"])
    state = f"at {run.last_epoch:,} of {run.about.training.epochs:,}"
    words = [f"{run.id[:8]}  {row['status'] if run.ended else state}"]
    events = [rule.name for rule in run.about.events()]
    words += [f"{name} at {row[name]:,}" for name in events if row[name] is not None]
    words += [f"{FINAL[n][0]} {row[n]:{FINAL[n][1]}}" for n in FINAL if row.get(n) is not None]
    return f"{', '.join(words)}  {describe(run.about)}"


def _in_common(specs: Sequence[Spec]) -> str:
    """What all specs change of the defaults, as a line of its own."""
    changes = [spec.changed() for spec in specs]
    shared = {k: v for k, v in changes[0].items() if all(c.get(k) == v for c in changes)}
    shared.pop("task.fingerprint", None)
    if _own_name(specs[0]):
        shared.pop("name", None)  # it has a column
    words = " ".join(f"{name}={shorten(value)}" for name, value in shared.items())
    return f"\n{'all' if len(specs) > 1 else 'run'}: {words}" if words else ""


def _own_name(spec: Spec) -> str:
    """Of a model of the user's own, which is named in its loop."""
    return spec.name if isinstance(spec, ObservedSpec) else ""


def _flatten(specs: Sequence[Spec], always: Sequence[str]) -> tuple[list[dict[str, Any]], set[str]]:
    """The fields of each spec, and the names of those in which they differ."""
    flat = [spec.effective() for spec in specs]
    if len(kinds := {spec.kind_name for spec in specs}) > 1:
        flat = [{"kind": spec.kind_name, **one} for spec, one in zip(specs, flat, strict=True)]
    hidden = {"name"} if "observed" in kinds else set()  # it has a column
    varying = {*always, *list_varying(flat)} - hidden
    return flat, {name for name in varying if not name.endswith("fingerprint")}


def _short_names(flat: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Fields by their last part, if no other field has it."""
    known = dict.fromkeys(name for one in flat for name in one)
    last = Counter(name.rpartition(".")[2] for name in known)
    return {n: end if last[end := n.rpartition(".")[2]] == 1 else n for n in known}


def _differing(specs: Sequence[Spec], always: Sequence[str] = ()) -> dict[str, list[str]]:
    """Columns of the fields in which specs differ. A field without effect is a dash."""
    flat, shown = _flatten(specs, always)
    short = _short_names(flat)
    return {short[n]: [cell(one.get(n)) for one in flat] for n in short if n in shown}


def _tell_apart(specs: Sequence[Spec], always: Sequence[str] = ()) -> list[str]:
    """The same as a line per spec: seed and prior first, then the fields with the most values in
    runs of one kind. Defaults are left out, except of these two and of fields that were swept."""
    flat, shown = _flatten(specs, always)
    short = _short_names(flat)
    kinds: dict[str, list[dict[str, Any]]] = {}
    for spec, one in zip(specs, flat, strict=True):
        kinds.setdefault(spec.kind_name, []).append(one)
    many = {n: max(len({repr(one.get(n)) for one in of}) for of in kinds.values()) for n in short}
    first = [n for n in ("seed", "prior.kind") if n in shown and many[n] > 1]
    telling = {n for n in short if many[n] > 1 or n in always or n == "kind"}
    rest = sorted((n for n in short if n in telling - {*first}), key=lambda n: -many[n])
    lines = []
    for spec, one in zip(specs, flat, strict=True):
        changed = spec.changed()
        said = {n for n in one if n.removeprefix("settings.") in changed}
        said |= {*always, *(first if spec.problem else ["seed"])}
        if spec.kind_name != RunSpec.kind_name:
            said.add("kind")
        lines.append(
            " ".join(
                f"{short[n].removesuffix('.kind')}={_clip(cell(one[n]))}"
                for n in (*first, *rest)
                if n in said & shown and one.get(n) is not None
            )
        )
    return lines


def _clip(text: str) -> str:
    return text if len(text) <= MOST_VALUE else f"{text[: MOST_VALUE - 1]}…"


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
            table.add_row(names[run], *[wording.state_phase(phase, last) for phase in phases])
    return table


def show_run(run: Run) -> list[RenderableType]:
    """One run in full."""
    outcome = _outcome(run)
    heading = Text.assemble((run.id, "bold"), f"  {outcome.get('status') or _unfinished(run)}")
    said = run.annotation
    words = " ".join(filter(None, [said.name, *(f"#{tag}" for tag in said.tags), said.note]))
    parts: list[RenderableType] = [heading, words, describe(run.about), ""]
    if not outcome:
        rows = run.curve
        last = f"{run.about.unit} {rows['epoch'][-1]}"
        parts.append(f"{len(rows)} rows so far, the last at {last}.")
        latest = {n: v for n, v in rows.row(-1, named=True).items() if isinstance(v, float)}
        with contextlib.suppress(StoreError):
            for segment in run.provenance["segments"][-1:]:
                parts += wording.state_watching(segment)
        table = plain_table("latest measure", "value", rows=latest.items(), right=("value",))
        return [*parts, "", table]
    parts.append(OutcomeTable([run], {run.id: run.id[:8]}))
    phases = [(p.name, _explain_phase(p, outcome), p.rule) for p in phases_of(outcome)]
    if phases:
        parts += ["", plain_table("phase", "from and to", "rule", rows=phases)]
    segments = run.provenance["segments"]
    last = segments[-1] if segments else {"versions": {}}
    engine = "torch" if "torch" in last["versions"] else "jax"
    made = [f"Trained in {run.seconds:.1f} s", str(last.get("execution"))]
    made += [count(threads, "thread")] if (threads := last.get("threads")) else []
    made += [f"{engine} {last['versions'].get(engine)}; {_why_ended(outcome)}."]
    measures = outcome["final"].items()
    final = plain_table("final measure", "value", rows=measures, right=("value",))
    return [*parts, "", final, "", ", ".join(made), *wording.state_watching(last)]


def _explain_phase(phase: Phase, outcome: Mapping[str, Any]) -> str:
    """From when to when it lasted. A run may have grokked without a phase of grokking."""
    found = events_of(outcome)
    memorised, grokked = (found[name].epoch for name in ("memorised", "grokked"))
    text = wording.state_phase(phase, outcome["epochs"])
    if phase.found or phase.name != "grokking" or grokked is None:
        return text
    if memorised is None:
        return f"{text}: it never memorised"
    if grokked <= memorised:
        return f"{text}: it had grokked when it memorised"
    return f"{text}: no rise after memorisation"


def _why_ended(outcome: Mapping[str, Any]) -> str:
    reason = outcome["ended_by"]
    said = {"budget": "stopped at the end of its budget", "not finite": "stopped: not finite"}
    return said.get(reason, f"ended by {reason}")


def diff_table(first: Run, second: Run) -> Table:
    """Fields in which two runs differ, then what became of them."""
    runs = (first, second)

    def beside(*found: Mapping[str, Any]) -> list[tuple[str, ...]]:
        names = dict.fromkeys(name for one in found for name in one)
        return [(name, *(cell(one.get(name)) for one in found)) for name in names]

    fields = [
        (name, *values)
        for name, *values in beside(*(run.about.effective() for run in runs))
        if values[0] != values[1] and not name.endswith("fingerprint")
    ]
    outcomes = [_outcome(run) for run in runs]
    events = [{n: wording.state_event(e) for n, e in events_of(each).items()} for each in outcomes]
    rows = [
        *(fields or [("all fields", "the same", "the same")]),
        (),
        ("status", *(run.status if run.ended else _unfinished(run) for run in runs)),
        *beside(*events),
        *beside(*(outcome.get("final", {}) for outcome in outcomes)),
    ]
    return plain_table("", first.id[:8], second.id[:8], rows=rows)


def certificate_table(summary: pl.DataFrame) -> Table:
    """A line per certificate: how often it held, and by how much."""
    numbers = ("holds", "worst ratio", "median ratio")
    caption = "ratio: measured / bound, at most 1 where the statement holds"
    rows = []
    for row in summary.iter_rows(named=True):
        name, held = f"{row['statement']:>2} {row['name']}", f"{row['hold']} of {row['checks']}"
        rows.append((name, held, row["worst_ratio"], row["median_ratio"], row["note"]))
    headings = ("certificate", *numbers, "remark")
    return plain_table(*headings, rows=rows, right=numbers, caption=caption)
