"""Trackers as sinks, for lab runs and for models of your own:

    gs.train(spec, sinks=tensorboard("logs"))
    Observer(model, "my run", sinks=[wandb("grokking", mode="offline"), trackio("grokking")])

Every run becomes a run of the tracker, under the name that it has in the store, with its rows over
its epochs or steps. The store stays the source of truth: a tracker gets numbers, and short lists
of them as `name/0`, `name/1`, and so on. The libraries are imported when a sink is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from grokscope.engine.events import Event, Sink
from grokscope.errors import GrokscopeError, SpecError
from grokscope.store import Store

LONGEST = 32  # entries of a list that are sent; attention over long sequences is for the store


class Channel(NamedTuple):
    """A run of a tracker that is open."""

    log: Callable[[int, dict[str, float]], Any]  # epoch, numbers
    close: Callable[[], Any]


def wandb(project: str, store: Store | str | Path | None = None, **options: Any) -> Sink:
    """Weights & Biases; `options` are those of `wandb.init` (mode="offline", entity, tags, dir)."""
    library = _import("wandb")

    def open_run(name: str, config: dict[str, Any]) -> Channel:
        about = {"project": project, "id": name, "name": name, "config": config}
        run = library.init(**about | {"resume": "allow", "reinit": "create_new"} | options)
        # Rows come again when a run is resumed, and W&B drops steps that go back.
        run.define_metric("*", step_metric="epoch")
        return Channel(lambda epoch, row: run.log({"epoch": epoch, **row}), run.finish)

    return _track(open_run, store)


def tensorboard(folder: str | Path, store: Store | str | Path | None = None) -> Sink:
    """TensorBoard: a folder of event files per run. PyTorch and TensorFlow are not needed."""
    library = _import("tensorboard.summary")

    def open_run(name: str, config: dict[str, Any]) -> Channel:
        writer = library.Writer(str(Path(folder) / name))

        def log(epoch: int, row: dict[str, float]) -> None:
            for key, value in row.items():
                writer.add_scalar(key, value, epoch)
            writer.flush()

        return Channel(log, writer.close)

    return _track(open_run, store)


def trackio(project: str, store: Store | str | Path | None = None, **options: Any) -> Sink:
    """Trackio; `options` are those of `trackio.init` (space_id, group)."""
    library = _import("trackio")

    def open_run(name: str, config: dict[str, Any]) -> Channel:
        about = {"project": project, "name": name, "config": config, "resume": "allow"}
        quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        run = library.init(**about | quiet | options)
        return Channel(lambda epoch, row: run.log(row, step=epoch), run.finish)

    return _track(open_run, store)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        raise SpecError(f"This sink needs {package}. Install it: pip install {package}") from error


def _track(
    open_run: Callable[[str, dict[str, Any]], Channel], store: Store | str | Path | None
) -> Sink:
    """One sink for any number of runs, which may be trained at the same time."""
    home = store if isinstance(store, Store) else Store(store)
    channels: dict[str, Channel] = {}

    def tell(event: Event) -> None:
        if not event.rows and event.run not in channels:
            return  # skipped, warned of, or begun without rows
        if event.run not in channels:
            channels[event.run] = open_run(event.run, _describe(home, event.run))
        for row in event.rows:
            channels[event.run].log(int(row["epoch"]), _numbers(row))
        if event.kind in ("finished", "failed"):
            channels.pop(event.run).close()

    return tell


def _describe(store: Store, name: str) -> dict[str, Any]:
    """What sets the run apart, if the store has it."""
    try:
        return store.get(name).about.changed()
    except GrokscopeError:
        return {}


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, list) and len(value) <= LONGEST:
            found |= {f"{name}/{place}": part for place, part in enumerate(value)}
        elif isinstance(value, int | float) and name != "epoch":
            found[name] = value
    return found
