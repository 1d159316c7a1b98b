"""What can be said on the command line: one dataclass per command, one field per option."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, get_type_hints

import tyro
from tyro import constructors
from tyro.conf import Positional, arg

from grokscope.spec import RunSpec
from grokscope.spec.fields import field_help

REGISTRY = constructors.ConstructorRegistry()


@REGISTRY.struct_rule
def _read_options(info: constructors.StructTypeInfo) -> constructors.StructConstructorSpec | None:
    """A dataclass as tyro reads it, but for the help: tyro breaks a text where its lines end."""
    if not dataclasses.is_dataclass(info.type):
        return None
    hints = get_type_hints(info.type, include_extras=True)
    given = [
        constructors.StructFieldSpec(
            item.name,
            hints[item.name],
            getattr(info.default, item.name, _default_of(item)),
            partial(_help_of, info.type, item.name),
        )
        for item in dataclasses.fields(info.type)
    ]
    return constructors.StructConstructorSpec(info.type, tuple(given))


def _default_of(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return tyro.MISSING if item.default is dataclasses.MISSING else item.default


def _help_of(cls: type, name: str) -> str | None:
    """The text below a field, of the class that declares it."""
    owners = (one for one in cls.__mro__ if name in vars(one).get("__annotations__", {}))
    return next((field_help(one).get(name) for one in owners), None)


@dataclass(kw_only=True)
class InStore:
    # Not `Path | None`: for that tyro imports typeguard, which takes a tenth of a second.
    store: Optional[Path] = None  # noqa: UP045
    """The store of runs. Default: $GROKSCOPE_STORE; else `store` in the nearest grokscope.toml,
    here or above, or in ~/.config/grokscope; else ./runs."""


@dataclass(kw_only=True)
class Chosen(InStore):
    runs: Positional[tuple[str, ...]] = ()
    """Runs, by their names or enough of their first digits."""
    where: str = ""
    """SQL condition over the columns of the run table, such as "grokked is not null and seed < 3";
    `grokscope columns` explains them. Together with names: those of them that fit."""


@dataclass(kw_only=True)
class OneRun(InStore):
    run: Positional[str]
    """Name of the run, or enough of its first characters to identify it."""


@dataclass(kw_only=True)
class Train(InStore):
    """Train a recipe or a TOML spec, with overrides; what the store has is not trained again.

    Examples:
        grokscope train laptop --prior.kind oracle --over seed=0..4 prior.strength=0.1,1,10
        grokscope train laptop prior.kind=oracle seed=0..4
        grokscope train 3f2a --more 5000
    """

    source: Positional[str] = "laptop"
    """A recipe (see `grokscope recipes`), a TOML file or, with --more, a run. Overrides may follow
    as name=value, too; name=value,value is a sweep."""
    more: int | None = None
    """Train a finished run for this many more epochs."""
    over: tuple[str, ...] = ()
    """Sweep: name=value,value or name=first..last, as many as you like. It is added to the sweep of
    a TOML file; where both name a field, this one counts."""
    processes: int | None = None
    """Worker processes. Default: one per core where that pays."""
    execution: Literal["auto", "one-by-one", "vmap"] = "auto"
    """How runs of equal shape are trained."""
    on: str = ""
    """A cluster, with options: slurm:workers=20,partition=long or ray (docs/clusters.md)."""
    quiet: bool = False
    """Print nothing but errors."""
    dry_run: bool = False
    """List the runs and what the store has of them, and stop."""
    trust: bool = False
    """Execute the files of rules and models that a teacher in the store names."""
    named: Annotated[tuple[str, ...], tyro.conf.Suppress] = ()
    """Fields that were named on the command line."""
    spec: Annotated[RunSpec, arg(name="")] = field(default_factory=RunSpec)


@dataclass(kw_only=True)
class Demo(InStore):
    """Two transformers on the same task: one waits, one is given the structural prior."""

    page: Path = Path("demo/index.html")
    """The page to write."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclass(kw_only=True)
class Fork(OneRun):
    """Another future: go back to a row of a run, change something, train on from there.

    Example:
        grokscope fork 3f2a --at 500 --prior.kind oracle --prior.strength 3
    """

    at: int
    """Epoch of the row from which the fork continues."""
    quiet: bool = False
    """Print nothing but errors."""
    trust: bool = False
    """Execute the files of rules and models that the run names. Only for stores that you trust."""
    spec: Annotated[RunSpec, arg(name="")] = field(default_factory=RunSpec)


@dataclass(kw_only=True)
class Lab(InStore):
    """Open the live lab: start, watch, compare and explain runs in the browser.

    Examples:
        grokscope lab
        grokscope lab --allow my_rule.py my_data.csv
    """

    port: int = 8321
    """Where it listens, on this machine only. If it is taken, another one is used."""
    allow: tuple[Path, ...] = ()
    """Files of your own (rules, measures, data) that runs started from the page may use."""
    results: Path = Path("results")
    """Where the tables of reproduced papers are."""
    open: bool = True
    """`--no-open` only prints the link."""


@dataclass(kw_only=True)
class Runs(InStore):
    """List the runs of a store, filtered and sorted; or ask in SQL.

    Examples:
        grokscope runs --where "task_alphabet = 8 and grokked is not null" --sort seed
        grokscope runs --sql "select run, max(test_accuracy) from curves group by run"
    """

    where: str = ""
    """SQL condition over the columns of the run table (fields with underscores)."""
    sort: str = "started"
    """Column to sort by, such as test_accuracy."""
    reverse: bool = False
    """Largest first."""
    limit: Optional[int] = None  # noqa: UP045
    """At most this many runs; a table shows the 50 newest by default."""
    sql: str = ""
    """A whole query over the tables `runs` and `curves`."""
    json: bool = False
    """One JSON object per row instead of a table."""
    follow: bool = False
    """Keep running and print a line for every run that starts, advances or ends; Ctrl-C stops."""


@dataclass(kw_only=True)
class Show(OneRun):
    """One run: what it was, what became of it, its phases."""

    json: bool = False
    """Spec, outcome and provenance as JSON."""


@dataclass(kw_only=True)
class Diff(InStore):
    """Two runs side by side: in which fields they differ, and what became of each."""

    first: Positional[str]
    """A run."""
    second: Positional[str]
    """Another run."""


@dataclass(kw_only=True)
class Name(OneRun):
    """Give a run a name; commands find it by that, too."""

    name: Positional[str] = ""
    """Its name. Empty: take the name away."""


@dataclass(kw_only=True)
class Tag(Chosen):
    """Give runs tags, or take tags away.

    Examples:
        grokscope tag 3f2a 77c0 --add figure-2
        grokscope runs --where "tags like '%figure-2%'"
    """

    add: tuple[str, ...] = ()
    """Tags to add, each one word."""
    remove: tuple[str, ...] = ()
    """Tags to take away."""


@dataclass(kw_only=True)
class Note(OneRun):
    """Write a note about a run; `grokscope show` shows it."""

    text: Positional[str] = ""
    """The note. Empty: take it away."""


@dataclass(kw_only=True)
class Remove(Chosen):
    """Move runs to the trash of the store, after asking; or empty the trash.

    Examples:
        grokscope rm 3f2a
        grokscope rm --where "status = 'failed'"
    """

    yes: bool = False
    """Do not ask."""
    empty_trash: bool = False
    """Delete what is in the trash, for good."""


@dataclass(kw_only=True)
class Export(Chosen):
    """Write the table of runs, or their curves, to a file for other programs.

    Examples:
        grokscope export --where "grokked is not null" --csv runs.csv
        grokscope export 3f2a 77c0 --curves --parquet curves.parquet
    """

    csv: Path | None = None
    """The file to write as CSV."""
    parquet: Path | None = None
    """... as Parquet."""
    json: Path | None = None
    """... as JSON, one object per line."""
    curves: bool = False
    """The rows of the curves, each with its run, instead of one row per run."""


@dataclass(kw_only=True)
class Figure(Chosen):
    """Draw runs: PNG, SVG, PDF, HTML or Vega-Lite JSON, by the suffix of the file.

    Runs that differ only in their seed become one band.

    Examples:
        grokscope figure 3f2a --kind structure --out structure.svg
        grokscope figure --where "seed < 5" --kind times --x prior.strength --log x --out times.pdf
        grokscope figure --where "seed < 5" --kind map --x task.alphabet --y prior.strength
    """

    kind: str = "accuracy"
    """Which figure; `--kind help` lists them. `times` is an event or a measure against one field of
    the spec, `map` is it over two."""
    measure: str = ""
    """What is drawn, if not what the figure usually shows: a column (`grokscope columns`), or for
    times and map an event such as grokked."""
    x: str = ""
    """times, map: the field across."""
    y: str = ""
    """map: the field upwards."""
    log: tuple[Literal["x", "y"], ...] = ()
    """Axes with a logarithmic scale."""
    title: str = ""
    """Another title."""
    width: int | None = None
    """Of each plot, in pixels."""
    height: int | None = None
    """Of each plot, in pixels."""
    out: Path = Path("figure.svg")
    """The file to write."""


@dataclass(kw_only=True)
class Report(Chosen):
    """A self-contained HTML page about runs: figures, phases, how sure we are."""

    out: Path = Path("report.html")
    """The page to write."""
    title: str = "Grokking under the scope"
    """Its title."""


@dataclass(kw_only=True)
class Certify(OneRun):
    """Check a run against the paper's statements: measured, bound, ratio, holds or not.

    Its snapshots (training.snapshots) are checked, and its final weights.
    """

    out: Path | None = None
    """Also write every check: as a table (.parquet, .csv) or as a figure (.svg, .png, .html)."""
    trust: bool = False
    """Execute the files of rules and models that the run names. Only for stores that you trust."""


@dataclass(kw_only=True)
class Reproduce(InStore):
    """Reproduce a paper: train what is missing, judge every claim, write the pages.

    Examples:
        grokscope reproduce structural-inference
        grokscope reproduce structural-inference 3 map --scale laptop --dry-run
        grokscope reproduce structural-inference theory
    """

    paper: Positional[str]
    """Which paper, for example structural-inference, or `all` of them."""
    studies: Positional[tuple[str, ...]] = ()
    """Its studies, by figure (1, 2 ...) or name; `main` and `appendix` stand for several. Default:
    all of them."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """smoke: a minute and one seed, to see that it runs; laptop: small models, five seeds; paper:
    the paper's own sizes."""
    seeds: int | None = None
    """Seeds per arm. Default: what the study asks for at this scale."""
    results: Path = Path("reproduction")
    """Where the tables are, in one directory per paper and scale. A run that they already have is
    not trained again, even if the store lacks it."""
    docs: Path = Path("reproduction")
    """Where the pages go."""
    readme: Path | None = None
    """A Markdown file whose verdict table, between its two marks, is updated as well."""
    dry_run: bool = False
    """Show the plan and how long it would take, then stop."""
    retrain: bool = False
    """Train every run that the store lacks, even if the tables have it."""
    train: bool = True
    """`--no-train` only remakes the pages from the tables."""
    on: str = ""
    """A cluster, with options: slurm:workers=20,partition=long or ray (docs/clusters.md)."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclass(kw_only=True)
class Statistics:
    """Simulate every rule that judges claims: how often it errs, how often it decides."""

    draws: int = 1000
    """Simulated studies per rule and truth; a thousand take a few minutes."""
    out: Path = Path("statistics.md")
    """The page to write."""


@dataclass(kw_only=True)
class Verify(InStore):
    """Check every entry of a store; list damaged, partial and foreign ones, and what to do."""

    set_aside: bool = False
    """Move what is damaged or foreign into set-aside/ (nothing is deleted)."""


@dataclass(kw_only=True)
class Recipes:
    """List the recipes; with a name, print it as a TOML spec."""

    name: Positional[str] = ""
    """A recipe."""


@dataclass(kw_only=True)
class Columns:
    """What each column of the tables means: measures, events, fields of the spec."""

    name: Positional[str] = ""
    """Only columns whose name has this in it."""
    markdown: bool = False
    """As a page in Markdown."""
