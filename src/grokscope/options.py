"""What can be said on the command line: a dataclass a command, every field an option with help."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from grokscope.spec import RunSpec


@dataclass(kw_only=True)
class InStore:
    store: Path | None = None
    """The store of runs. Default: $GROKSCOPE_STORE or ./runs."""


@dataclass(kw_only=True)
class Train(InStore):
    """Train a recipe or a TOML spec, with overrides; what the store has is not trained again.

    grokscope train laptop --prior.kind oracle --over seed=0..4 prior.strength=0.1,1,10
    """

    source: Positional[str] = "laptop"
    """A recipe (see `grokscope recipes`) or a TOML file."""
    over: tuple[str, ...] = ()
    """Sweep: name=value,value or name=first..last, as many as you like. It is added to the sweep of
    a TOML file, whose values give way where both name a field."""
    processes: int | None = None
    """Worker processes. Default: one per core where that pays."""
    execution: Literal["auto", "one-by-one", "vmap"] = "auto"
    """How runs of equal shape are trained."""
    quiet: bool = False
    """Print nothing but errors."""
    dry_run: bool = False
    """List the runs and what the store has of them, and stop."""
    spec: Annotated[RunSpec, arg(name="")] = field(default_factory=RunSpec)


@dataclass(kw_only=True)
class Demo(InStore):
    """Two transformers on the same task: one waits, one is given the structural prior."""

    page: Path = Path("demo/index.html")
    """The page to write."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclass(kw_only=True)
class Runs(InStore):
    """List the runs of a store, filtered; or ask in SQL.

    grokscope runs --where "task_alphabet = 8 and grokked is not null"
    grokscope runs --sql "select run, max(test_accuracy) from curves group by run"
    """

    where: str = ""
    """SQL condition over the columns of the run table (fields with underscores)."""
    sql: str = ""
    """A whole query over the tables `runs` and `curves`."""
    json: bool = False
    """One JSON object a row instead of a table."""


@dataclass(kw_only=True)
class Show(InStore):
    """One run: what it was, what became of it, its phases."""

    run: Positional[str]
    """Name of the run, or enough of its first digits."""
    json: bool = False
    """Spec, outcome and provenance as JSON."""


@dataclass(kw_only=True)
class Figure(InStore):
    """Draw runs: PNG, SVG, HTML or Vega-Lite JSON, by the suffix of the file."""

    runs: Positional[tuple[str, ...]] = ()
    """Runs to draw; runs that differ only in their seed become one band."""
    kind: str = "accuracy"
    """Which figure; `--kind help` lists them."""
    out: Path = Path("figure.svg")
    """The file to write."""


@dataclass(kw_only=True)
class Report(InStore):
    """A self-contained HTML page about runs: figures, phases, how sure we are."""

    runs: Positional[tuple[str, ...]]
    """Runs to report on."""
    out: Path = Path("report.html")
    """The page to write."""
    title: str = "Grokking under the scope"
    """Its title."""


@dataclass(kw_only=True)
class Certify(InStore):
    """Check a run against the paper's statements: measured, bound, ratio, holds or not."""

    run: Positional[str]
    """Name of the run. Its snapshots (training.snapshots) are checked, and its final weights."""
    out: Path | None = None
    """Also write every check: as a table (.parquet, .csv) or as a figure (.svg, .png, .html)."""


@dataclass(kw_only=True)
class Reproduce(InStore):
    """Reproduce a paper: train what the store lacks, judge every claim, write the pages.

    grokscope reproduce structural-inference
    grokscope reproduce structural-inference 3 map --scale laptop --dry-run
    grokscope reproduce structural-inference theory
    """

    paper: Positional[str]
    """Which paper: structural-inference."""
    studies: Positional[tuple[str, ...]] = ()
    """Its studies, by figure (1, 2 ...) or name; `main` and `appendix` stand for several. Default:
    all of them."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """smoke: a minute and one seed, to see that it runs; laptop: small models, five seeds; paper:
    the paper's own sizes."""
    seeds: int | None = None
    """Seeds per arm. Default: what the study asks for at this scale."""
    results: Path = Path("reproduction")
    """Where the tables go, in one directory per paper and scale."""
    docs: Path = Path("reproduction")
    """Where the pages go."""
    readme: Path | None = None
    """A Markdown file whose verdict table, between its two marks, is updated as well."""
    dry_run: bool = False
    """Show the plan and how long it would take, then stop."""
    train: bool = True
    """`--no-train` only remakes the pages from the tables."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclass(kw_only=True)
class Verify(InStore):
    """Check every entry of a store: damaged, partial and foreign ones, and what to do."""

    set_aside: bool = False
    """Move what is damaged or foreign into set-aside/ (nothing is deleted)."""


@dataclass(kw_only=True)
class Recipes:
    """List the recipes; with a name, print it as a TOML spec."""

    name: Positional[str] = ""
    """A recipe."""
