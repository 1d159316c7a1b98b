"""Tasks of a Ray cluster (extra `ray`).

A task is a batch of runs of equal form that takes some minutes, trained by a worker process that
ends after a few batches (see `node`), so nothing grows in Ray's workers. Every node has grokscope
installed; no task has a `runtime_env`. A task that dies with its node is tried again elsewhere and
resumes. Where nodes do not see the store, runs are trained in a directory of the node and shipped
home when they end, and what they need (a teacher) is shipped there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grokscope.engine.events import Event, Sink
from grokscope.engine.executors.node import carry_out_here
from grokscope.engine.orders import Order, read_specs
from grokscope.errors import SpecError, StoreError, TrainingError, first_line, name_extra
from grokscope.spec import Spec
from grokscope.store import Store
from grokscope.store.contents import FILE
from grokscope.store.files import make_directory
from grokscope.store.run import OUTCOME

LOOK_SECONDS = 0.3
MOST_FRUITLESS = 2  # rounds in a row that brought no run to its end
SPARE = 5  # batches per worker that what is left makes at least
BACK_SECONDS = 60.0  # until a head that was lost is given up
DEAF_SECONDS = 30.0  # without a word from the cluster, after which it counts as lost
TRIES = 3  # of a task whose node or process has died, before the round ends without it

Files = Mapping[str, bytes]


@dataclass
class Ray:
    """`Ray()` connects to the running cluster, or starts one here; `Ray(address="10.0.0.1:6379")`
    connects to that one. `threads` cores per run, batches of about `minutes`."""

    address: str = ""
    threads: int = 1
    minutes: float = 5.0

    def __post_init__(self) -> None:
        if not (self.threads > 0 and self.minutes > 0):
            given = f"{self.threads} and {self.minutes}"
            raise SpecError(f"Ray's threads and minutes are {given}; both positive.")

    def with_threads(self, threads: int) -> Ray:
        return replace(self, threads=threads)

    def execute(self, order: Order, sink: Sink) -> None:
        ray = self._connect()
        store = Store(Path(order.store).resolve())
        order = replace(order, store=str(store.root))
        specs = {spec.id: spec for spec in read_specs(order)}
        mark = store.root / ".locks" / f"ray-{secrets.token_hex(6)}"
        make_directory(mark.parent)
        mark.touch()  # a node that sees it sees the store
        refused: set[str] = set()
        fruitless = 0
        try:
            while fruitless < MOST_FRUITLESS:
                left = [s for n, s in specs.items() if n not in refused and not _ended(store, n)]
                if order.reads:
                    left, fruitless = list(specs.values()), MOST_FRUITLESS  # once: they are cached
                if not left:
                    break
                try:
                    self._round(ray, order, left, store, mark, sink, refused)
                except (ray.exceptions.RayError, ConnectionError) as error:
                    words = first_line(error).rstrip(".")
                    sink(Event("warned", "", message=f"Ray was lost: {words}."))
                    ray = self._connect_again(ray)
                came = any(spec.id in refused or _ended(store, spec.id) for spec in left)
                fruitless = 0 if came and not order.reads else fruitless + 1
        finally:
            mark.unlink(missing_ok=True)

    def _round(
        self,
        ray: Any,
        order: Order,
        specs: Sequence[Spec],
        store: Store,
        mark: Path,
        sink: Sink,
        refused: set[str],
    ) -> None:
        """All that is left, once. The actor that hears what tasks tell goes with its round, since
        it may be lost with the head."""
        ears = ray.remote(num_cpus=0, max_restarts=-1)(_Ears).remote()
        cores = int(ray.cluster_resources().get("CPU", 1))
        batches = make_batches(specs, 60 * self.minutes, max(1, cores // self.threads))
        task = ray.remote(num_cpus=self.threads, max_retries=TRIES)(work)
        asked = {
            task.remote(
                replace(order, specs=[spec.to_dict() for spec in batch]).to_json(),
                self.threads,
                mark.name,
                ears,
                {n: pack(store.get(n).path) for s in batch for n in s.needs() if _ended(store, n)},
            ): batch
            for batch in batches
        }

        heard = time.monotonic()

        def listen() -> None:
            nonlocal heard
            try:
                lines = ray.get(ears.take.remote(), timeout=DEAF_SECONDS)
            except ray.exceptions.RayActorError:  # it is restarted, if its head still knows it
                if time.monotonic() - heard > DEAF_SECONDS:
                    raise
                return
            heard = time.monotonic()
            for line in lines:
                event = Event.from_json(line)
                if event.kind == "refused":
                    refused.add(event.run)
                sink(event)

        waiting = list(asked)
        arrived: dict[str, Files] = {}
        while waiting or arrived:
            done: list[Any] = []
            if waiting:
                done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_SECONDS)
            else:  # for those who work here on what has arrived
                time.sleep(LOOK_SECONDS)
            listen()
            for reference in done:
                try:
                    arrived |= ray.get(reference)
                except ray.exceptions.RayError as error:
                    names = ", ".join(spec.id for spec in asked[reference])
                    message = f"A task with {names} died: {first_line(error)}"
                    sink(Event("warned", "", message=message))
            for name, files in list(arrived.items()):
                try:
                    if not store.receive(name, files):
                        continue
                except StoreError as error:
                    sink(Event("warned", name, message=str(error)))
                del arrived[name]
        with contextlib.suppress(ray.exceptions.RayActorError):
            listen()
            ray.kill(ears)

    def _connect(self) -> Any:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise SpecError(f"Ray is not installed. {name_extra('ray')}") from error
        if ray.is_initialized():
            return ray
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        named = self.address or os.environ.get("RAY_ADDRESS")
        try:
            try:
                ray.init(address=self.address or "auto", **quiet)
            except ConnectionError:
                if named:
                    raise
                ray.init(include_dashboard=False, **quiet)
        except Exception as error:  # Ray's own words
            what = "There is no Ray cluster to connect to" if named else "Ray does not start"
            raise TrainingError(f"{what}: {first_line(error).rstrip('.')}.") from error
        return ray

    def _connect_again(self, ray: Any) -> Any:
        """The head may be on its way back."""
        until = time.monotonic() + BACK_SECONDS
        while True:
            with contextlib.suppress(Exception):  # of a connection that is gone
                ray.shutdown()
            try:
                return self._connect()
            except TrainingError:
                if time.monotonic() > until:
                    raise
            time.sleep(LOOK_SECONDS)


def make_batches(specs: Sequence[Spec], seconds: float, workers: int) -> list[list[Spec]]:
    """Runs of equal form, which share a compiled program, in batches that are estimated to take at
    most so long, the largest first. They become smaller as less is left, down to single runs:
    estimates are rough, and nobody should wait for another's last batch. The longest runs are
    placed first, whatever their form, so what is left for the small batches are short runs."""
    from grokscope.engine.planning import estimate_seconds  # which plans for executors

    estimated = [(estimate_seconds(spec), spec.family(), spec) for spec in specs]
    left = sum(each for each, _, _ in estimated)
    growing: dict[str, tuple[float, list[Spec]]] = {}  # by form: the batch that is not full yet
    full: list[tuple[float, list[Spec]]] = []
    for each, form, spec in sorted(estimated, key=lambda run: (-run[0], run[1])):
        total, batch = growing.get(form, (0.0, []))
        if batch and total + each > min(seconds, left / (SPARE * workers)):
            full.append((total, batch))
            total, batch = 0.0, []
        growing[form] = total + each, [*batch, spec]
        left -= each
    return [batch for _, batch in sorted([*full, *growing.values()], key=lambda pair: -pair[0])]


def work(
    text: str, threads: int, mark: str, ears: Any, needed: Mapping[str, Files]
) -> dict[str, Files]:
    """A task: train a batch; the runs to be shipped home, if this node does not see the store."""
    order = Order.from_json(text)

    def tell(event: Event) -> None:
        ears.hear.remote(event.to_json())

    if (Path(order.store) / ".locks" / mark).exists():
        carry_out_here(order, 1, threads, tell, mark)
        return {}
    if order.reads:
        raise StoreError("Probes need a store that every node sees.")
    with tempfile.TemporaryDirectory(prefix="grokscope-") as folder:
        store = Store(folder)
        for name, files in needed.items():
            store.receive(name, files)
        carry_out_here(replace(order, store=folder), 1, threads, tell, mark)
        names = [spec.id for spec in read_specs(order) if _ended(store, spec.id)]
        return {name: pack(store.get(name).path) for name in names}


def pack(folder: Path) -> dict[str, bytes]:
    """The files of a run that has ended, by their places in it."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")}
    return {n: p.read_bytes() for n, p in found.items() if n == OUTCOME or FILE.fullmatch(n)}


class _Ears:
    """Collects what tasks tell, until the driver takes it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def hear(self, line: str) -> None:
        self.lines.append(line)

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


def _ended(store: Store, name: str) -> bool:
    return (store.root / name / OUTCOME).exists()
