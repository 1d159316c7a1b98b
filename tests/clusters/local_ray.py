"""A real Ray cluster of two nodes on this machine, by hand:

    python -m clusters.local_ray node         (in the directory tests)

    node     a node is killed in mid-run
    memory   a worker is killed for want of memory
    head     the head is killed, the cluster started again, and the driver with it
    driver   the driver is killed and started again
    apart    nodes do not see the store (needs root); one of them is killed

Every run must finish exactly once, to the bits that it has when it is trained alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import grokscope as gs
from clusters.checks import assert_same_as_alone, make_specs

PORT = 26379
RAY = str(Path(sys.executable).parent / "ray")
DRIVER = """
import sys, grokscope as gs
from clusters.checks import make_specs
def tell(event):
    print(event.to_json(), flush=True)
gs.train(make_specs(), sys.argv[1], executor=gs.Ray(address=sys.argv[2], minutes=0.2), sinks=tell)
"""


class Cluster:
    """A head without cores, and two nodes with one each."""

    def __init__(self, folder: Path, hidden: Path | None = None) -> None:
        self.folder, self.hidden = folder, hidden
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.start_head()
        for name in ("one", "two"):
            self.start_node(name)

    def start_head(self) -> None:
        ports = [f"--port={PORT}", f"--temp-dir={self.folder}", "--include-dashboard=false"]
        self._start("head", "--head", "--num-cpus=0", "--node-ip-address=127.0.0.1", *ports)

    def start_node(self, name: str) -> None:
        self._start(name, f"--address=127.0.0.1:{PORT}", "--num-cpus=1")

    def _start(self, name: str, *words: str) -> None:
        command = [RAY, "start", "--block", "--disable-usage-stats", *words]
        if self.hidden and name != "head":  # an empty disk of its own in that place
            hide = f'mount -t tmpfs none {self.hidden} && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", hide, "sh", *command]
        with open(self.folder / f"{name}.out", "wb") as log:
            self.nodes[name] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        time.sleep(6)

    def kill(self, name: str) -> None:
        """All processes of a node at once."""
        os.killpg(self.nodes[name].pid, signal.SIGKILL)
        self.nodes[name].wait()

    def stop(self) -> None:
        for name, node in self.nodes.items():
            if node.poll() is None:
                self.kill(name)


class Trial:
    def __init__(self, folder: Path, seen: bool) -> None:
        self.store = gs.Store(folder / "runs")
        self.store.root.mkdir()
        (folder / "ray").mkdir()
        self.cluster = Cluster(folder / "ray", None if seen else self.store.root)
        self.told: list[gs.Event] = []
        self.began = time.monotonic()

    def say(self, words: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {words}", flush=True)

    def drive(self, disturb: Callable[[], None] | None = None) -> int:
        """A driver of its own; `disturb` is called once runs have advanced. Its exit code."""
        address = f"127.0.0.1:{PORT}"
        command = [sys.executable, "-c", DRIVER, str(self.store.root), address]
        self.driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout is not None
        advanced = 0
        for line in self.driver.stdout:
            try:
                event = gs.Event.from_json(line)
            except (ValueError, TypeError):
                continue
            self.told.append(event)
            if event.message:
                self.say(event.message)
            advanced += event.kind == "advanced"
            if advanced >= 4 and disturb is not None:
                disturb()
                disturb = None
        return self.driver.wait()


def node(trial: Trial) -> None:
    def disturb() -> None:
        trial.cluster.kill("two")
        trial.say("node two was killed")
        trial.cluster.start_node("two")
        trial.say("node two is back")

    assert trial.drive(disturb) == 0


def memory(trial: Trial) -> None:
    def disturb() -> None:
        """As the kernel does it: SIGKILL to the process that has a run."""
        held = [trial.store.holder(spec.id) for spec in make_specs()]
        victim = next(holder.worker for holder in held if holder is not None)
        os.kill(victim, signal.SIGKILL)
        trial.say(f"worker {victim} was killed")

    assert trial.drive(disturb) == 0


def head(trial: Trial) -> None:
    def disturb() -> None:
        trial.cluster.kill("head")
        trial.say("the head was killed")
        trial.driver.kill()  # it would wait a minute for the head

    assert trial.drive(disturb) != 0
    trial.cluster.stop()
    again = Cluster(trial.cluster.folder)
    trial.cluster = again
    trial.say("the cluster is back")
    assert trial.drive() == 0


def driver(trial: Trial) -> None:
    def disturb() -> None:
        trial.driver.kill()
        trial.say("the driver was killed")

    assert trial.drive(disturb) != 0
    assert trial.drive() == 0


TRIALS = {"node": node, "memory": memory, "head": head, "driver": driver, "apart": node}


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), seen=name != "apart")
        try:
            TRIALS[name](trial)
            trial.say("all have ended")
        finally:
            trial.cluster.stop()
        runs = [trial.store.find(spec) for spec in make_specs()]
        assert_same_as_alone(runs, trial.told, trial.store)


if __name__ == "__main__":
    main(sys.argv[1])
