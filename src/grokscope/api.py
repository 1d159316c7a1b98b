"""What a user calls in Python. The engine trains in silence; here its progress is shown."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grokscope.errors import SpecError, suggest
from grokscope.notebook import draw_offline
from grokscope.spec import Spec, explain_idle, load_source, sweep
from grokscope.store import Run, Store

if TYPE_CHECKING:
    from grokscope.engine import Executor, Sink
    from grokscope.engine.orders import Execution

Source = Spec | str | Path
"""A spec, the name of a recipe, or a TOML file (with its sweep)."""


def train(
    specs: Source | Iterable[Source],
    store: Store | str | Path | None = None,
    *,
    progress: bool | None = None,
    processes: int | None = None,
    execution: Execution = "auto",
    executor: Executor | None = None,
    sinks: Sink | Iterable[Sink] = (),
    trust: bool = False,
) -> list[Run]:
    """Train what the store does not have yet, and return every run, in the order of the specs.

    Interrupt it at any moment: the same call resumes from the last resume point and, on the same
    machine with the same versions, comes to the same bits. `progress` shows bars; by default they
    are shown in terminals and notebooks. `processes` defaults to one per core where that pays, and
    to one for batches (`vmap`). A run whose numbers overflow is marked as failed and does not
    disturb the others; one that dies otherwise is named in the error at the end. `sinks` are called
    with every `Event`. `trust` allows loading parts (rules, models) that only the store names, in
    the spec of a teacher: their code is executed.
    """
    from grokscope import engine
    from grokscope.engine.events import fan_out
    from grokscope.parts import trusting
    from grokscope.terminal import Watch

    with trusting(trust):
        listed = [engine.pin_spec(spec) for spec in read_sources(specs)]
    for sentence in explain_idle(listed):
        warnings.warn(sentence, stacklevel=2)
    with Watch(listed, show=progress) as watch:
        try:
            return engine.train(
                listed,
                store,
                processes=processes,
                execution=execution,
                executor=executor,
                sinks=[watch, fan_out(sinks)],
                trust=trust,
            )
        except KeyboardInterrupt:
            if not watch.quiet:
                watch.console.print(f"{watch.kept()} The same call resumes.")
            raise


def fork(
    run: Run,
    epoch: int,
    store: Store | str | Path | None = None,
    *,
    progress: bool | None = None,
    trust: bool = False,
    **changes: Any,
) -> Run:
    """Go back to a row of a run, change something, and train on from there, bit for bit:
    `gs.fork(run, 500, **{"prior.kind": "oracle"})`. The result is a run like any other, by default
    in the same store; what the store has is not trained again."""
    from grokscope.engine import fork_spec

    _check_run(run)
    place = run.path.parent if store is None else store
    return train(fork_spec(run, epoch, **changes), place, progress=progress, trust=trust)[0]


def extend(run: Run, more: int, *, progress: bool | None = None, trust: bool = False) -> Run:
    """Train a run that has ended for so many more epochs, from its final state on. The result, in
    the same store, is the run that training so long from the start would have given, bit for
    bit, with that name; where the state was not kept, it is trained from the start."""
    from grokscope.engine import extend_spec, go_on
    from grokscope.parts import trusting

    _check_run(run)
    spec, store = extend_spec(run, more), Store(run.path.parent)
    with trusting(trust):
        if trouble := go_on(run, spec, store):
            warnings.warn(trouble, stacklevel=2)
    return train(spec, store, progress=progress, trust=trust)[0]


def read_sources(specs: Source | Iterable[Source]) -> Iterator[Spec]:
    """Specs, with recipes and files read."""
    if not isinstance(specs, Iterable | Spec):
        specs = [specs]  # refused below
    for source in [specs] if isinstance(specs, Spec | str | Path) else specs:
        if isinstance(source, Spec):
            yield source
        elif isinstance(source, str | Path):
            yield from sweep(*load_source(str(source)))
        else:
            raise SpecError(
                f"{source!r} cannot be trained; give a spec, the name of a recipe, a TOML file, or "
                "a list of them."
            )


def _check_run(run: object) -> None:
    if not isinstance(run, Run):
        raise SpecError(f"{run!r} is no run; get one by its name: gs.Store().get({str(run)!r}).")


def plot(
    runs: Run | Iterable[Run],
    kind: str = "accuracy",
    *,
    measure: str = "",
    x: str = "",
    y: str = "",
    log: Iterable[str] = (),
    title: str = "",
    width: int | None = None,
    height: int | None = None,
) -> Any:
    """A chart of runs, as `grokscope figure` draws it; notebooks show it, and `.save("a.svg")`
    writes it. Runs that differ only in their seed become one band.

    `measure` draws another column of the curve. `plot(runs, "times", x="prior.strength")` draws
    when each run grokked (or another event, or where a measure ended) against a field of the spec,
    `plot(runs, "map", x=..., y=...)` over two of them. `log` names axes: `log="x"`.
    """
    from grokscope.draw.charts import FIGURES, KINDS, Look, draw_figure
    from grokscope.draw.sweeps import draw_sweep
    from grokscope.pages.reading import group_runs

    if kind not in KINDS:
        raise SpecError(f"There is no figure {kind!r}.{suggest(kind, KINDS)}")
    if kind in FIGURES and (x or y):
        raise SpecError(f"The figure {kind} is drawn over training time; it takes no x and y.")
    if (kind == "map") != bool(y):
        raise SpecError(f"A map needs two fields, x and y, and times one; y is {y!r}.")
    draw_offline()
    measure, x, y = (name.replace("-", "_") for name in (measure, x, y))
    listed = [runs] if isinstance(runs, Run | str) else list(runs)
    for run in listed:
        _check_run(run)
    arms = group_runs(listed)
    look = Look(measure, tuple(log), title, width, height)
    return draw_figure(kind, arms, look) if kind in FIGURES else draw_sweep(arms, x, y, look)
