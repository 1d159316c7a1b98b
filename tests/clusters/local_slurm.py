"""A real SLURM with two nodes on this machine, by hand and as root:

    apt-get install slurmctld slurmd slurm-client munge
    python -m clusters.local_slurm            (in the directory tests)

Trains runs on it while jobs are pre-empted and a node is killed, and compares with training alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grokscope as gs
from clusters.checks import assert_same_as_alone, make_specs

CONFIG = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=10
KillWait=2
MinJobAge=30
JobRequeue=1
MaxArraySize=11
MpiDefault=none
MailProg=/bin/true
SlurmctldParameters=enable_configless
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs=1 RealMemory=4000
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs=1 RealMemory=4000
PartitionName=main Nodes=one,two Default=YES MaxTime=60 State=UP
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool-one", "spool-two"):
            (folder / name).mkdir()
        self.conf = folder / "slurm.conf"
        ports = {name: free_port() for name in ("port", "one", "two")}
        host = socket.gethostname().partition(".")[0]
        self.conf.write_text(CONFIG.format(folder=folder, host=host, **ports))
        os.environ["SLURM_CONF"] = str(self.conf)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        os.chmod(folder, 0o755)  # munge wants its socket to be reached
        self.start(
            "munged",
            *("munged", "--foreground", "--force", f"--key-file={key}"),
            *(f"--socket={folder}/munge.socket", f"--pid-file={folder}/munge.pid"),
            *(f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"),
        )
        time.sleep(1)
        self.start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        time.sleep(2)
        for name in ("one", "two"):
            self.start_node(name)

    def start(self, name: str, *command: str) -> None:
        log = open(self.folder / f"{name}.out", "wb")  # noqa: SIM115
        self.daemons[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_node(self, name: str) -> None:
        self.start(name, "slurmd", "-D", "-N", name, "-f", str(self.conf))

    def kill_node(self, name: str) -> None:
        """The daemon, and all that runs under it."""
        roots = [self.daemons[name].pid, *steps_of(name)]
        for pid in [*roots, *(child for root in roots for child in children(root))]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.daemons[name].wait()

    def stop(self) -> None:
        subprocess.run(["scancel", "--user=root"], capture_output=True)
        time.sleep(1)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


def steps_of(node: str) -> list[int]:
    """Processes that look after a job on a node."""
    found = subprocess.run(
        ["squeue", "-h", f"--nodelist={node}", "-o", "%A"], capture_output=True, text=True
    ).stdout.split()
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
    lines = [line.split(None, 1) for line in listed.splitlines() if "slurmstepd: [" in line]
    return [int(pid) for pid, what in lines if any(f"[{job}." in what for job in found)]


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
    return [c for word in found for c in (int(word), *children(int(word)))]


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder:
        made = Cluster(Path(folder))
        try:
            yield made
        except BaseException:
            for log in Path(folder).glob("*.log"):
                print(log.name, *log.read_text(errors="replace").splitlines()[-8:], sep="\n  ")
            raise
        finally:
            made.stop()


def squeue(*words: str) -> list[str]:
    return subprocess.run(
        ["squeue", "-h", *words], capture_output=True, text=True
    ).stdout.splitlines()


def main() -> None:
    for command in ("slurmctld", "slurmd", "munged"):
        if not shutil.which(command):
            sys.exit(f"There is no {command}; install Debian's slurmctld, slurmd and munge.")
    specs = make_specs()
    with cluster() as slurm, tempfile.TemporaryDirectory() as folder:
        store = gs.Store(Path(folder) / "runs")
        told: list[gs.Event] = []
        began = time.monotonic()

        def disturb() -> None:
            """Once jobs train: pre-empt one as SLURM does, then take the other's node away."""
            while sum(event.kind == "advanced" for event in told) < 2:
                time.sleep(0.1)
            jobs = squeue("-t", "R", "-o", "%A %N")
            print(f"{time.monotonic() - began:5.1f} s  running: {jobs}", flush=True)
            first = jobs[0].split()[0]
            subprocess.run(["scontrol", "requeue", first], check=True)
            print(f"{time.monotonic() - began:5.1f} s  job {first} was sent back to the queue")
            time.sleep(5)
            slurm.kill_node("two")
            print(f"{time.monotonic() - began:5.1f} s  node two was killed", flush=True)
            time.sleep(15)
            slurm.start_node("two")
            print(f"{time.monotonic() - began:5.1f} s  node two is back", flush=True)

        thread = threading.Thread(target=disturb, daemon=True)
        thread.start()
        executor = gs.Slurm(workers=2, minutes=5, gigabytes=1, cap=1)

        def tell(event: gs.Event) -> None:
            told.append(event)
            if event.kind != "advanced":
                now = time.monotonic() - began
                print(f"{now:5.1f} s  {event.run} {event.kind} {event.message}")

        runs = gs.train(specs, store, executor=executor, sinks=tell)
        print(f"{time.monotonic() - began:5.1f} s  all have ended")
        thread.join(60)
        assert_same_as_alone(runs, told, store)


if __name__ == "__main__":
    main()
