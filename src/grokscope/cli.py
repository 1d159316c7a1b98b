"""The command line. Options come from the dataclasses, so every field of a spec has its flag and
its help; errors are sentences with an exit code of their own."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tyro

from grokscope import interrupts, management
from grokscope import options as known
from grokscope.demo import run_demo
from grokscope.errors import GrokscopeError, SpecError, name_extra, plain, suggest
from grokscope.spec import RunSpec, Spec, explain_idle, field_type
from grokscope.spec.fields import check, field_types, flatten, is_section, plain_numbers, to_dict
from grokscope.spec.reading import load_source, parse_sweep, parse_value, sweep
from grokscope.store import Store, describe
from grokscope.terminal import OutcomeTable, Watch, certificate_table, say

if TYPE_CHECKING:
    from grokscope.engine.executors import Executor
    from grokscope.store import Run


# Of `grokscope train`, besides the fields of the usual kind of run.
OPTIONS = ("h", "help", "no_quiet", "no_dry_run", "no_trust", *known.Train.__dataclass_fields__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `grokscope` command."""
    with interrupts.obeyed():
        code = run(list(sys.argv[1:] if arguments is None else arguments))
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Carry out a command line; the exit code."""
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(_overview())
            return 0
        if arguments[0] == "--version":
            from grokscope import __version__

            print(f"grokscope {__version__}")
            return 0
        name, *rest = arguments
        if name not in COMMANDS:
            raise SpecError(f"There is no command {name!r}.{suggest(name, COMMANDS)}")
        return COMMANDS[name][1](_parse(name, rest))
    except GrokscopeError as error:
        print(f"grokscope: {plain(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as stop:
        terminated = isinstance(stop, interrupts.Terminated)
        number = signal.SIGTERM if terminated else signal.SIGINT
        print(f"\n{interrupts.sentence(number)}", file=sys.stderr)
        return interrupts.CODES[number]
    except BrokenPipeError:  # `grokscope runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _overview() -> str:
    lines = ["grokscope: see why, and when, a transformer groks.", ""]
    lines += ["usage: grokscope COMMAND [options]", ""]
    for name, (command, _) in COMMANDS.items():
        lines.append(f"  {name:<11}{(command.__doc__ or '').splitlines()[0]}")
    return "\n".join([*lines, "", "`grokscope COMMAND --help` lists the options of a command."])


def _parse(name: str, rest: list[str]) -> Any:
    command = COMMANDS[name][0]
    default: Any = None
    base: Spec | None = None
    if name == "train":
        # The overrides are laid over the recipe or file, so that has to be read first.
        source = rest[0] if rest and not _is_override(rest[0]) else "laptop"
        more = any(item.partition("=")[0] == "--more" for item in rest)
        base = _spec_of(rest) if more else load_source(source)[0]
        rest = _as_flags(rest, type(base))
        default = known.Train(source=source)
    if name == "fork":
        rest = _as_flags(rest)
        if rest and not rest[0].startswith("-"):
            # As with a recipe: what is not named stays as it is in the run.
            base = _spec_of(rest)
            default = known.Fork(run=rest[0], at=tyro.MISSING)
    if isinstance(base, RunSpec):
        default.spec = base
    options = tyro.cli(
        command,
        prog=f"grokscope {name}",
        description=inspect.getdoc(command),
        args=rest,
        default=default,
        registry=known.REGISTRY,
    )
    if name == "train":
        if options.source != default.source:
            raise SpecError(f"Name the recipe or file first: grokscope train {options.source} ...")
        flags = [item[2:].partition("=")[0] for item in rest if item.startswith("--")]
        options.named = tuple(flag.replace("-", "_") for flag in flags)
    return options


def _is_override(item: str) -> bool:
    return item.startswith("-") or ("=" in item and not item.endswith(".toml"))


def _as_flags(rest: list[str], kind: type[Spec] = RunSpec) -> list[str]:
    """`prior.kind=oracle` as a flag; `seed=0..4` and `lr=0.1,0.2` join those of --over, and so does
    every field of another kind of run, for which there are no flags."""
    flags: list[str] = []
    over: list[str] = []
    sweeping = False
    for place, item in enumerate(rest):
        name, equals, value = item.partition("=")
        if item.startswith("-"):
            flag = item.lstrip("-").partition("=")[0].replace("-", "_")
            if kind is not RunSpec and flag not in OPTIONS:
                raise SpecError(
                    f"{item} is no option of the kind {kind.kind_name}; its fields are given as "
                    "name=value, such as seed=1."
                )
            sweeping = item == "--over"
            flags += [] if sweeping else [item]
        elif sweeping:
            over.append(item)
        elif place and rest[place - 1] in ("--on", "--store"):  # whose values may have a `=`
            flags.append(item)
        elif equals and not (place == 0 and item.endswith(".toml")):
            field = name.replace("-", "_")
            if (hint := field_type(field, kind)) is None:
                known_fields = dict(flatten(to_dict(kind())))
                raise SpecError(f"Unknown field {name}.{suggest(field, known_fields)}")
            if is_section(hint):
                first = next(iter(field_types(hint)))
                raise SpecError(f"{name} is a group of fields; name one, such as {name}.{first}.")
            several = "," in value or re.fullmatch(r"\d+\.\.\d+", value)
            if not several:
                check(plain_numbers(parse_value(value, hint), hint), hint, field)
            if several or kind is not RunSpec:
                over.append(item)
            else:
                flags += [f"--{name}", value]
        else:
            flags.append(item)
    return [*flags, "--over", *over] if over else flags


def _spec_of(rest: list[str]) -> Spec:
    """The spec of the run that is named first."""
    place = [after for before, after in itertools.pairwise(rest) if before == "--store"]
    place += [item.partition("=")[2] for item in rest if item.startswith("--store=")]
    return Store(place[0] if place else None).get(rest[0]).spec


def do_train(options: known.Train) -> int:
    from grokscope.engine.planning import pin_spec

    if options.processes is not None and options.processes < 1:
        raise SpecError(f"--processes is {options.processes}; it must be at least 1.")
    store = Store(options.store)
    if options.more is not None:
        return _extend(options, store)
    asked, over = load_source(options.source)
    if isinstance(asked, RunSpec):  # the flags are of its fields
        asked = asked.replace(**to_dict(options.spec))
    given = parse_sweep(options.over, "--over", type(asked))
    over |= given
    specs = [pin_spec(spec) for spec in sweep(asked, over)]
    named = [*options.named, *given]
    if idle := explain_idle(specs, named):
        raise SpecError(" ".join(idle) + " Leave it out, or set what it needs.")
    for sentence in explain_idle(specs):  # of the file
        print(f"grokscope: {sentence}", file=sys.stderr)
    if options.dry_run:
        for spec in specs:
            state = store.find(spec).status if store.find(spec).path.exists() else "to train"
            print(plain(f"{spec.id}  {state:<9} {describe(spec)}"))
        return 0
    how: dict[str, Any] = {"processes": options.processes, "execution": options.execution}
    how["executor"] = _executor(options.on)
    return _train(specs, store, options, fields=list(over), **how)


def _train(
    specs: Sequence[Spec],
    store: Store,
    options: known.Train | known.Fork,
    beside: Sequence[Run] = (),
    fields: Sequence[str] = (),
    **how: Any,
) -> int:
    """Train under the eyes of the terminal, and tell what became of it, `beside` other runs."""
    from grokscope.engine import train

    with Watch(specs, quiet=options.quiet) as watch:
        runs = train(specs, store, sinks=watch, trust=options.trust, **how)
    if not options.quiet:
        say(OutcomeTable([*beside, *runs], fields=fields))
    return 4 if any(run.status == "failed" for run in runs) else 0


def _extend(options: known.Train, store: Store) -> int:
    from grokscope.engine import extend_spec, go_on
    from grokscope.parts import trusting

    run = store.get(options.source)
    fields = [name for name in options.named if field_type(name) is not None]
    if fields or options.over:
        raise SpecError(
            f"--more changes nothing but the number of epochs, and {(*fields, 'a sweep')[0]} was "
            "given; use `grokscope fork` to change something on the way."
        )
    spec = extend_spec(run, options.more or 0)
    if options.dry_run:
        print(f"{spec.id}  {run.spec.training.epochs} + {options.more} epochs of {run.id}")
        return 0
    with trusting(options.trust):
        if trouble := go_on(run, spec, store):
            print(f"grokscope: {trouble}", file=sys.stderr)
    return _train([spec], store, options, beside=[run], executor=_executor(options.on))


def _executor(text: str) -> Executor | None:
    from grokscope.engine.executors import parse_executor

    return parse_executor(text) if text else None


def do_fork(options: known.Fork) -> int:
    from grokscope.engine import fork_spec

    store = Store(options.store)
    run = store.get(options.run)
    changes = dict(flatten(to_dict(options.spec)))
    own = {n: v for n, v in changes.items() if v != dict(flatten(to_dict(run.spec))).get(n)}
    organ = {n.removeprefix("fork."): own.pop(n) for n in list(own) if n.startswith("fork.")}
    spec = fork_spec(run, options.at, **own, fork=organ)
    if idle := explain_idle([spec], own):
        raise SpecError(" ".join(idle))
    return _train([spec], store, options, beside=[run])


def do_lab(options: known.Lab) -> int:
    try:
        from grokscope.lab.server import Lab, serve
    except ModuleNotFoundError as error:
        raise SpecError(f"The lab needs {error.name}. {name_extra('lab')}") from error
    serve(Lab(Store(options.store), options.results, options.allow), options.port, options.open)
    return 0


def do_certify(options: known.Certify) -> int:
    from grokscope.draw.certificates import certificate_chart
    from grokscope.engine.compilation import prepare
    from grokscope.pages.files import SUFFIXES, save_chart
    from grokscope.papers.structural_inference.certificates import certify, inapplicable, summarise

    prepare()
    out = options.out
    if out is not None and out.suffix not in (*SUFFIXES, ".csv", ".parquet"):
        raise SpecError(f"--out is {out.name!r}; end it in .csv, .parquet, {', '.join(SUFFIXES)}.")
    store = Store(options.store)
    run = store.get(options.run)
    table = certify(run, store, trust=options.trust)
    say(certificate_table(summarise(table)))
    for statement, reason in inapplicable(run).items():
        print(f"{statement:>2} not applicable: {reason}")
    if out is not None and out.suffix in (".csv", ".parquet"):
        management.write_frame(table, out, out.suffix[1:])
    elif out is not None:
        print(save_chart(certificate_chart(table), out))
    return 0


def do_reproduce(options: known.Reproduce) -> int:
    from grokscope.claims.evidence import Tables
    from grokscope.claims.reproduction import Work, carry_out, read_all, survey, survey_next
    from grokscope.pages import reproduction as pages
    from grokscope.papers import PAPERS, find_paper

    scale, results = options.scale, options.results
    if options.paper == "all":
        # Pages are made of whatever there is; a paper without tables or pages has none.
        places = {n: (results / n, options.docs / f"{n}.md") for n in PAPERS}
        begun = [n for n in PAPERS if any(place.exists() for place in places[n])]
        names = list(PAPERS) if options.train or options.dry_run else begun
        return max((do_reproduce(replace(options, paper=name)) for name in names), default=0)
    paper = find_paper(options.paper)
    studies = paper.select(options.studies)
    tables = read_all(paper, results)
    failed, refused = 0, None
    if options.train or options.dry_run:
        store = Store(options.store)
        base = tables.get(scale) or Tables.empty()
        known = (None, None) if options.retrain else (base, results)
        work: Work | None = survey(studies, scale, options.seeds, store, *known)
        seen: set[str] = set()
        while work is not None:
            ids = {spec.id for spec in work.specs}
            if ids <= seen and not work.computed:
                break
            seen |= ids
            shown = not work.open or work.left  # a look that was taken before is not told again
            if not options.quiet and shown:
                say(pages.plan_table(work), pages.describe_work(work))
            if options.dry_run and (work.left or options.seeds is not None):
                return 0
            if not options.dry_run:
                with Watch(work.trained, quiet=options.quiet) as watch:
                    base, refused = carry_out(
                        paper, work, store, results, base, watch, _executor(options.on)
                    )
                failed += sum(store.find(spec).status == "failed" for spec in work.specs)
            if refused is not None or options.seeds is not None:
                break
            work = survey_next(studies, scale, store, base, options.retrain)
        if options.dry_run:
            return 0
        if len(base.runs):
            tables[scale] = base
    written = pages.write_pages(paper, tables, results, options.docs, options.readme)
    if not options.quiet:
        for each, found in tables.items():
            if each == scale or not options.train:
                say(pages.verdict_table(studies, found, each))
        print(*written, sep="\n")
    if refused is not None:
        raise refused  # only now: the pages show what there is
    return 4 if failed else 0


def do_statistics(options: known.Statistics) -> int:
    from grokscope.claims.simulation import tabulate
    from grokscope.pages.statistics import render
    from grokscope.store.files import write_file

    if options.draws < 1:
        raise SpecError(f"--draws is {options.draws}; it must be at least 1.")
    print(write_file(options.out, render(tabulate(options.draws), options.draws).encode()))
    return 0


def do_verify(options: known.Verify) -> int:
    store = Store(options.store)
    problems = store.verify(options.set_aside)
    troubled = {problem.path.relative_to(store.root).parts[0] for problem in problems}
    sound = len([name for name in store.ids() if name not in troubled])
    for problem in problems:
        print(plain(f"{problem.kind:<8} {problem.path}: {problem.sentence}."))
        if problem.moved:
            print(plain(f"         moved to {problem.moved}"))
    bad = [problem for problem in problems if problem.kind in ("damaged", "foreign")]
    partial = sum(problem.kind == "partial" for problem in problems)
    print(f"{sound} sound, {partial} partial, {len(bad)} bad.")
    if bad and not options.set_aside:
        print("`grokscope verify --set-aside` moves the bad entries out of the way.")
    return 3 if any(not problem.moved for problem in bad) else 0


COMMANDS: dict[str, tuple[type, Callable[[Any], int]]] = {
    "demo": (known.Demo, run_demo),
    "train": (known.Train, do_train),
    "fork": (known.Fork, do_fork),
    "lab": (known.Lab, do_lab),
    "runs": (known.Runs, management.do_runs),
    "show": (known.Show, management.do_show),
    "diff": (known.Diff, management.do_diff),
    "name": (known.Name, management.do_name),
    "tag": (known.Tag, management.do_tag),
    "note": (known.Note, management.do_note),
    "rm": (known.Remove, management.do_remove),
    "export": (known.Export, management.do_export),
    "figure": (known.Figure, management.do_figure),
    "report": (known.Report, management.do_report),
    "certify": (known.Certify, do_certify),
    "reproduce": (known.Reproduce, do_reproduce),
    "statistics": (known.Statistics, do_statistics),
    "verify": (known.Verify, do_verify),
    "recipes": (known.Recipes, management.do_recipes),
    "columns": (known.Columns, management.do_columns),
}

if __name__ == "__main__":
    main()
