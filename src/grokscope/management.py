"""Commands about runs that are there: list, show, compare, annotate, discard, export, draw."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grokscope import options as known
from grokscope.draw.words import count
from grokscope.errors import GrokscopeError, SpecError, plain, suggest
from grokscope.spec import RECIPES, find_recipe, to_dict, to_toml
from grokscope.store import Moment, Run, Store, describe
from grokscope.store.files import write_file
from grokscope.terminal import OutcomeTable, diff_table, plain_table, say, show_run, tell_row

if TYPE_CHECKING:
    import polars as pl

MOST_LISTED = 50  # runs that `grokscope runs` shows unless told otherwise
FOLLOW_SECONDS = 0.5


def select_runs(options: known.Chosen) -> list[Run]:
    """The named runs, or those of the store that fit a condition; at least one."""
    store, names, where = Store(options.store), options.runs, options.where
    if not names and not where:
        raise SpecError('Name at least one run, or choose some with --where "...".')
    runs = [store.get(name) for name in names]
    if where:
        fitting = _fitting(store, where, store.table())
        chosen = [run.id for run in runs if run.id in fitting] if names else fitting
        runs = [store.get(name) for name in chosen]
        if not runs:
            raise SpecError(f"No run of {store.root} fits {where!r}.")
    return runs


def _fitting(store: Store, where: str, table: pl.DataFrame) -> list[str]:
    """Names of the runs of a table that fit a condition."""
    return list(store.sql(f"select run from runs where {where}", table)["run"])


def do_runs(options: known.Runs) -> int:
    if options.sql and (options.where or options.follow):
        raise SpecError(f"Give --sql or {'--where' if options.where else '--follow'}, not both.")
    if options.limit is not None and options.limit < 1:
        raise SpecError(f"--limit is {options.limit}; it must be at least 1.")
    store = Store(options.store)
    seen = store.changes().until if options.follow else None  # before it is listed: none is missed
    _list_runs(store, options)
    if seen is not None:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(store, seen, options)
    return 0


def _list_runs(store: Store, options: known.Runs) -> None:
    frame = store.table()
    empty = not len(frame)
    if options.sql and not empty:
        frame = store.sql(options.sql, frame)
    elif not empty:
        frame = _sorted(frame, options.sort, options.reverse)
        if options.where:
            frame = frame.filter(frame["run"].is_in(_fitting(store, options.where, frame)))
    for path, sentence in store.left_out.items():
        print(plain(f"Left out: {path}: {sentence}"), file=sys.stderr)
    if empty:
        if not options.json:
            print(plain(f"No runs in {store.root}. `grokscope train` makes some."))
        return
    frame = frame if options.limit is None else frame.head(options.limit)
    if options.json:
        print(plain(frame.write_ndjson()), end="")
    elif options.sql:
        say(plain_table(*frame.columns, rows=frame.iter_rows()))
    elif not len(frame):
        print("No run fits.")
    elif options.limit is not None or len(frame) <= MOST_LISTED:
        say(OutcomeTable([store.get(name) for name in frame["run"]], dated=True))
    else:
        shown, which = frame.head(MOST_LISTED), f"first {MOST_LISTED}"
        if options.sort == "started":
            newest = [run.id for run in store.newest(frame["run"], MOST_LISTED)]
            shown, which = frame.filter(frame["run"].is_in(newest)), f"{MOST_LISTED} newest"
        say(OutcomeTable([store.get(name) for name in shown["run"]], dated=True))
        print(
            f"These are the {which} of {len(frame):,} runs. --where narrows them down, --limit "
            "shows more, --json writes all."
        )


def _follow(store: Store, seen: Moment, options: known.Runs) -> None:
    """A line per run that has changed, as soon as it has."""
    condition = f" where {options.where}" if options.where else ""
    while True:
        changes = store.changes(seen)
        seen = changes.until
        table = store.table(changes.changed)
        try:
            table = store.sql(f"select * from runs{condition}", table) if len(table) else table
        except SpecError:
            if not set(table["status"]) <= {"partial"}:
                raise
            table = table.clear()  # of an empty store: no run has any measure yet
        for row in table.iter_rows(named=True):
            with contextlib.suppress(GrokscopeError):  # it is gone, or was damaged just now
                text = json.dumps(row, default=str) if options.json else tell_row(store, row)
                print(plain(text), flush=True)
        for name in sorted(changes.gone) if not options.json else ():
            print(f"{name[:8]}  gone", flush=True)
        time.sleep(FOLLOW_SECONDS)


def _sorted(frame: pl.DataFrame, column: str, reverse: bool) -> pl.DataFrame:
    name = column.replace(".", "_").replace("-", "_")
    if name not in frame.columns:
        raise SpecError(f"There is no column {name!r} to sort by.{suggest(name, frame.columns)}")
    return frame.sort(name, descending=reverse, nulls_last=True, maintain_order=True)


def do_show(options: known.Show) -> int:
    run = Store(options.store).get(options.run)
    if options.json:
        data = {
            "run": run.id,
            **run.annotation._asdict(),
            "spec": to_dict(run.about),
            "outcome": run.outcome if run.ended else None,
            "provenance": run.provenance if run.ended else None,
        }
        print(json.dumps(data, indent=1))
    else:
        say(*show_run(run))
    return 0


def do_diff(options: known.Diff) -> int:
    store = Store(options.store)
    say(diff_table(store.get(options.first), store.get(options.second)))
    return 0


def do_name(options: known.Name) -> int:
    run = Store(options.store).get(options.run)
    run.annotate(name=options.name)
    print(f"{run.id} {f'is now {options.name!r}' if options.name else 'has no name any more'}.")
    return 0


def do_tag(options: known.Tag) -> int:
    if not options.add and not options.remove:
        raise SpecError("Give tags with --add or --remove.")
    for run in select_runs(options):
        said = run.annotate(tag=options.add, untag=options.remove)
        print(plain(f"{run.id}  {', '.join(said.tags) or 'no tags'}"))
    return 0


def do_note(options: known.Note) -> int:
    run = Store(options.store).get(options.run)
    run.annotate(note=options.text)
    print(f"{run.id} has {'a note' if options.text else 'no note any more'}.")
    return 0


def do_remove(options: known.Remove) -> int:
    store = Store(options.store)
    if options.empty_trash:
        if options.runs or options.where:
            raise SpecError("--empty-trash takes no runs: it deletes all that is in the trash.")
        if _agreed(f"Delete all in {store.root / 'trash'} for good?", options.yes):
            store.empty_trash()
        return 0
    runs = select_runs(options)
    for run in runs:
        print(plain(f"{run.id}  {run.status:<9} {describe(run.about)}"))
    needed = {name: run.id for run in store.runs() for name in run.about.needs()}
    for run in runs:
        if run.id in needed:
            print(f"Run {needed[run.id]} names {run.id} as its teacher, source or parent.")
    if not _agreed(f"Move {count(len(runs), 'run')} to the trash?", options.yes):
        return 0
    for run in runs:
        print(store.discard(run))
    which = "the directory" if len(runs) == 1 else "a directory"
    print(f"To undo, move {which} back into the store under the run's 16-digit name.")
    return 0


def _agreed(question: str, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise SpecError(f"{question} There is no terminal to ask on; add --yes.")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def do_export(options: known.Export) -> int:
    import polars as pl

    targets = {"csv": options.csv, "parquet": options.parquet, "json": options.json}
    if not any(targets.values()):
        raise SpecError("Name a file: --csv FILE, --parquet FILE or --json FILE.")
    store = Store(options.store)
    frame = store.table()
    if options.runs or options.where:
        frame = frame.filter(frame["run"].is_in([run.id for run in select_runs(options)]))
    if options.curves:
        runs = [store.get(name) for name in frame["run"]]
        parts = [run.curve.select(pl.lit(run.id).alias("run"), pl.all()) for run in runs]
        frame = pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()
    for kind, path in targets.items():
        if path is not None:
            write_frame(frame, path, kind)
    return 0


def write_frame(frame: pl.DataFrame, path: Path, kind: str) -> None:
    """As CSV, Parquet or JSON. CSV has no lists: a column of them would have to be a text."""
    import polars as pl

    flat = frame.select(pl.exclude(pl.List, pl.Struct)) if kind == "csv" else frame
    if left := [name for name in frame.columns if name not in flat.columns]:
        print(f"Left out, since CSV has no lists: {', '.join(left)}.", file=sys.stderr)
    method = {"csv": "write_csv", "parquet": "write_parquet", "json": "write_ndjson"}[kind]
    getattr(flat, method)(buffer := io.BytesIO())
    print(write_file(path, buffer.getvalue()))


def do_figure(options: known.Figure) -> int:
    from grokscope.api import plot
    from grokscope.draw.charts import KINDS
    from grokscope.pages.files import save_chart

    if options.kind == "help":
        width = max(map(len, KINDS))
        print("\n".join(f"{kind:<{width}}  {what}" for kind, what in KINDS.items()))
        return 0
    if options.kind not in KINDS:
        raise SpecError(f"There is no figure {options.kind!r}.{suggest(options.kind, KINDS)}")
    names = ("measure", "x", "y", "log", "title", "width", "height")
    look: dict[str, Any] = {name: getattr(options, name) for name in names}
    print(save_chart(plot(select_runs(options), options.kind, **look), options.out))
    return 0


def do_report(options: known.Report) -> int:
    from grokscope.pages.reading import group_runs
    from grokscope.pages.run import write_page

    write_page(options.out, group_runs(select_runs(options)), title=options.title)
    print(options.out)
    return 0


def do_recipes(options: known.Recipes) -> int:
    if options.name:
        print(to_toml(find_recipe(options.name)) or "# every field has its default", end="")
        return 0
    for name, (what, _) in RECIPES.items():
        print(f"{name:<14} {what}")
    return 0


def do_columns(options: known.Columns) -> int:
    from grokscope.draw.glossary import columns

    rows = [(name, what) for name, what in columns().items() if options.name in name]
    if not rows:
        raise SpecError(f"No column has {options.name!r} in its name.")
    if options.markdown:
        print("# Columns\n\n*Made by `grokscope columns --markdown`; not edited by hand.*\n")
        print("| column | what it is |\n|---|---|")
        print("\n".join(f"| `{name}` | {what.replace('|', '¦')} |" for name, what in rows))
        return 0
    say(plain_table("column", "what it is", rows=rows))
    return 0
