"""A real Ray cluster on this machine, a head and two nodes, by hand:

    python -m clusters.local_ray              (in the directory tests; needs the extra `ray`)

Trains runs on it while a worker process, a node, the driver and the head are killed, and compares
with training alone. Ray keeps nothing of a head that is killed, so it comes back empty. Ray may use
the machine's own address where it is told 127.0.0.1, so the cluster has a token that is made here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grokscope as gs
from clusters.checks import assert_same_as_alone, make_specs
from clusters.local_slurm import children, free_port

# The machine may be busy with other things.
PATIENCE = {"RAY_raylet_start_wait_time_s": "300", "RAY_health_check_failure_threshold": "20"}
RAY = str(Path(sys.executable).parent / "ray")
SECONDS = 600.0  # for anything to happen
RUNS = (8, 15_000)  # how many, of how many epochs


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self.start_head()
        for name in ("one", "two"):
            self.start_node(name)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start_head(self) -> None:
        place = [f"--port={self.port}", f"--temp-dir={self.folder}/ray"]
        self._start("head", "--head", "--num-cpus=0", "--include-dashboard=false", *place)

    def start_node(self, name: str) -> None:
        self._start(name, f"--address={self.address}", "--num-cpus=1")

    def _start(self, name: str, *options: str) -> None:
        command = [RAY, "start", "--block", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
        command += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000"]
        log = self.folder / f"{name}.out"
        with open(log, "wb") as file:
            started = subprocess.Popen([*command, *options], stdout=file, stderr=file)
        self.parts[name] = started
        up = b"Ray runtime started"
        wait_for(lambda: up in log.read_bytes() or started.poll() is not None, name)

    def kill(self, name: str) -> None:
        """All processes of a node, at once."""
        kill_tree(self.parts.pop(name))

    def workers(self, name: str) -> list[int]:
        """Processes that train on a node."""
        found = []
        for pid in children(self.parts[name].pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found += [pid] if b"grokscope.engine.worker" in words else []
        return found


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    for pid in [process.pid, *children(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    process.wait()


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        made: Cluster | None = None
        try:
            made = Cluster(Path(folder))
            yield made
        except BaseException:
            for log in Path(folder).glob("*.out"):
                print(log.name, *log.read_text(errors="replace").splitlines()[-8:], sep="\n  ")
            raise
        finally:
            for name in list(made.parts) if made else []:
                made.kill(name)


def wait_for(done: Callable[[], object], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > until:
            raise TimeoutError(f"Waited {SECONDS:.0f} s for {what}.")
        time.sleep(0.2)


class Driver:
    """A process that trains the runs on the cluster and writes down what it is told."""

    def __init__(self, address: str, store: gs.Store, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "clusters.local_ray", address, str(store.root), str(log)]
        self.process = subprocess.Popen(command)

    def told(self) -> list[gs.Event]:
        lines = self.log.read_bytes().rpartition(b"\n")[0].splitlines() if self.log.exists() else []
        return [gs.Event.from_json(line.decode()) for line in lines]

    def advances(self, since: int = 0) -> bool:
        """Do runs come further, after the first so many events?"""
        if self.process.poll() is not None:
            return True
        return sum(event.kind == "advanced" for event in self.told()[since:]) >= 2


def drive(address: str, root: str, log: str) -> None:
    with open(log, "a") as file:

        def tell(event: gs.Event) -> None:
            print(event.to_json(), file=file, flush=True)

        gs.train(make_specs(*RUNS), root, executor=gs.Ray(address=address), sinks=tell)


def main() -> None:
    os.environ |= {**PATIENCE, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if not shutil.which(RAY):
        sys.exit("There is no ray; install the extra `ray`.")
    began = time.monotonic()

    def say(*words: object) -> None:
        print(f"{time.monotonic() - began:6.1f} s ", *words, flush=True)

    with cluster() as ray, tempfile.TemporaryDirectory() as folder:
        store = gs.Store(Path(folder) / "runs")
        drivers: list[Driver] = []

        def drive_on() -> Driver:
            drivers.append(Driver(ray.address, store, Path(folder) / f"{len(drivers)}.events"))
            return drivers[-1]

        def ended() -> int:
            return sum(store.find(spec).ended for spec in make_specs(*RUNS))

        def disturb(what: str, how: Callable[[], object]) -> None:
            """In mid-run. A driver that is lost on the way is started again, as its user would."""
            if drivers[-1].process.poll() is not None and ended() < 8:
                say(f"the driver had ended with code {drivers[-1].process.returncode}; again")
                drive_on()
            since = len(drivers[-1].told())
            wait_for(lambda: drivers[-1].advances(since), "runs to advance")
            if drivers[-1].process.poll() is not None:
                say(f"the driver has ended with code {drivers[-1].process.returncode} before this:")
            before = ended()
            how()
            say(f"{what} when {before} of 8 runs had ended")

        def restart_head() -> None:
            for name in list(ray.parts):
                ray.kill(name)
            ray.start_head()
            for name in ("one", "two"):
                ray.start_node(name)

        say("the head is up")
        drive_on()
        disturb("a worker process was killed", lambda: kill_one(ray))
        disturb("node two was killed", lambda: ray.kill("two"))
        ray.start_node("two")
        disturb("the driver was killed", lambda: drivers[-1].process.kill())
        drivers[-1].process.wait()
        drive_on()
        disturb("the head was killed and started again", restart_head)
        while True:
            code = drivers[-1].process.wait(SECONDS)
            say(f"the driver ended with code {code}; {ended()} of 8 runs have ended")
            if ended() == 8:
                break
            drive_on()
        told = [event for driver in drivers for event in driver.told()]
        for event in told:
            if event.kind == "warned":
                say("told:", event.message[:150])
        assert_same_as_alone([store.find(spec) for spec in make_specs(*RUNS)], told, store)
        say(f"done, with {len(drivers)} drivers")


def kill_one(ray: Cluster) -> None:
    """A process that trains, as the kernel does it where memory runs out."""
    workers: Sequence[int] = [pid for name in ("one", "two") for pid in ray.workers(name)]
    os.kill(workers[0], 9)


if __name__ == "__main__":
    drive(*sys.argv[1:]) if sys.argv[1:] else main()
