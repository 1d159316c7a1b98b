"""Jobs of a SLURM cluster, submitted with submitit (extra `slurm`).

All jobs are identical. Each claims runs from the store, which every node must see under the same
path, trains them, and ends when others do all that is left. So an array needs no task per run, a
site's cap on arrays only means several arrays, and a job that is pre-empted, times out or loses its
node has lost at most a second of work: it is queued again, and whoever comes next resumes its runs.
Jobs tell what they do in files beside the order; this process reads them, and submits anew while
runs are left that nobody works on.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grokscope.engine.events import Event, Sink
from grokscope.engine.executors.node import carry_out_here
from grokscope.engine.orders import Order, read_specs
from grokscope.errors import GrokscopeError, SpecError, TrainingError, name_extra
from grokscope.store import Store
from grokscope.store.files import make_directory, write_file
from grokscope.store.run import OUTCOME

LOOK_SECONDS = 0.5
LAST_WORDS_SECONDS = 5.0  # for a job to tell that the last run has ended
AGAIN_SECONDS = 60.0  # between two submissions while jobs are alive
MOST_FRUITLESS = 3  # submissions in a row after which no run has come any further


@dataclass
class Slurm:
    """`Slurm(workers=20, partition="long", minutes=120)`. A job has `processes` worker processes
    with `threads` cores each; `cap` is the most tasks that the site allows per array."""

    workers: int = 10
    processes: int = 1
    threads: int = 1
    minutes: float = 60
    gigabytes: float = 4
    partition: str = ""
    cap: int = 100
    cluster: str = "slurm"
    """`local` runs the jobs as processes of this machine, for tests."""
    setup: str = ""
    """A line of shell for each job before it starts, such as `module load cuda`."""

    def __post_init__(self) -> None:
        for name in ("workers", "processes", "threads", "cap", "minutes", "gigabytes"):
            if not getattr(self, name) > 0:
                raise SpecError(f"Slurm's {name} is {getattr(self, name)}; it must be positive.")

    def with_threads(self, threads: int) -> Slurm:
        return replace(self, threads=threads)

    def execute(self, order: Order, sink: Sink) -> None:
        store = Store(Path(order.store).resolve())
        folder = store.root / ".locks" / "jobs" / secrets.token_hex(6)
        make_directory(folder)
        order = replace(order, store=str(store.root), stay=False)
        write_file(folder / "order.json", order.to_json().encode())
        left = {spec.id for spec in read_specs(order)}
        ears = _Ears(folder)
        jobs: list[Any] = []
        submitted, fruitless = -AGAIN_SECONDS, 0
        untold: set[str] = set()  # runs that a job has begun, and whose end it has not told yet
        patience = math.inf
        try:
            while True:
                for event in ears.hear():
                    fruitless = 0
                    if event.kind == "refused":
                        left.discard(event.run)
                    if event.kind in ("started", "resumed"):
                        untold.add(event.run)
                    elif event.kind in ("finished", "failed", "refused"):
                        untold.discard(event.run)
                    sink(event)
                alive = self._count_alive(jobs)
                if order.reads:  # taken once; who asked takes what is missing then
                    left = left if alive or not jobs else set()
                else:
                    left = {n for n in left if not (store.root / n / OUTCOME).exists()}
                if not left and (not untold or time.monotonic() > patience):
                    break
                if not left:  # the outcome of a run is written before its job can tell of it
                    patience = min(patience, time.monotonic() + LAST_WORDS_SECONDS)
                    time.sleep(LOOK_SECONDS)
                    continue
                free = [name for name in left if not store.is_held(name)]
                wanted = min(self.workers, -(-len(free) // self.processes)) - alive
                if wanted > 0 and (not alive or time.monotonic() - submitted > AGAIN_SECONDS):
                    if fruitless == MOST_FRUITLESS:
                        raise TrainingError(
                            f"{fruitless} times in a row jobs ended without bringing a run any "
                            f"further. {_last_words(jobs)}"
                        )
                    for name in free:  # a job would have to watch a dead holder as long as we did
                        with store.claim(name):
                            pass
                    jobs += self._submit(folder, wanted)
                    submitted, fruitless = time.monotonic(), fruitless + 1
                time.sleep(LOOK_SECONDS)
        finally:
            for job in jobs:
                with contextlib.suppress(Exception):  # it has ended, or SLURM is out of reach
                    job.cancel(check=False)
            for event in ears.hear():
                sink(event)

    def _submit(self, folder: Path, count: int) -> list[Any]:
        submitit = _import()
        options: dict[str, Any] = {
            "name": "grokscope",
            "timeout_min": max(1, round(self.minutes)),
            "cpus_per_task": self.processes * self.threads,
            "mem_gb": self.gigabytes,
            "slurm_array_parallelism": self.cap,
        }
        if self.setup:
            options["slurm_setup"] = [self.setup]
        if self.partition:
            options["slurm_partition"] = self.partition
        jobs: list[Any] = []
        try:
            executor = submitit.AutoExecutor(folder, cluster=self.cluster)
            executor.update_parameters(**options)
            while len(jobs) < count:
                with executor.batch():
                    some = min(self.cap, count - len(jobs))
                    task = Task(str(folder), self.processes, self.threads)
                    array = [executor.submit(task) for _ in range(some)]
                jobs += array
        except Exception as error:  # SLURM's own words
            lines = str(error).strip().splitlines() or [type(error).__name__]
            words = f"{lines[-1].rstrip('.?')}."
            if self.cluster == "slurm" and shutil.which("srun") is None:
                words = "`srun` was not found; is this a SLURM cluster?"
            raise TrainingError(f"SLURM did not accept the job: {words}") from error
        return jobs

    def _count_alive(self, jobs: Sequence[Any]) -> int:
        """Queued or running. SLURM's queue is asked, since many sites keep no accounts."""
        if self.cluster != "slurm":
            return sum(not job.done() for job in jobs)
        if not jobs:
            return 0
        names = ",".join(sorted({job.job_id.partition("_")[0] for job in jobs}))
        command = ["squeue", "--noheader", "--array", "--format=%T", f"--jobs={names}"]
        found = subprocess.run(command, capture_output=True, text=True)
        if found.returncode and "Invalid job id" not in found.stderr:
            return 1  # SLURM does not answer; we ask again
        return len(found.stdout.split())


@dataclass(frozen=True)
class Task:
    """What a job does. submitit calls `checkpoint` when SLURM wants the node back."""

    folder: str
    processes: int
    threads: int

    def __call__(self) -> None:
        name = _import().JobEnvironment().job_id
        order = Order.from_json((Path(self.folder) / "order.json").read_text())
        with open(Path(self.folder) / f"{name}.events", "a") as events:

            def tell(event: Event) -> None:
                print(event.to_json(), file=events, flush=True)

            try:
                carry_out_here(order, self.processes, self.threads, tell)
            except GrokscopeError as error:
                tell(Event("warned", "", message=str(error)))
                raise

    def checkpoint(self) -> Any:
        return _import().helpers.DelayedSubmission(self)


class _Ears:
    """Reads what the jobs of an order have written since the last time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, int] = {}

    def hear(self) -> list[Event]:
        events = []
        for path in sorted(self.folder.glob("*.events")):
            with open(path, "rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                with contextlib.suppress(ValueError, TypeError):  # of one that was killed
                    events.append(Event.from_json(line.decode()))
        return events


def _last_words(jobs: Sequence[Any]) -> str:
    for job in reversed(jobs):
        with contextlib.suppress(OSError):
            lines = Path(job.paths.stderr).read_text(errors="replace").strip().splitlines()
            if lines:
                return f"The last one said: {lines[-1]}"
    return "They said nothing."


def _import() -> Any:
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise SpecError(f"SLURM needs submitit. {name_extra('slurm')}") from error
    return submitit
