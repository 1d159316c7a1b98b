"""Where and with what a run was trained. Kept with the run, never part of its identity."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import grokscope


@cache
def describe_machine() -> dict[str, Any]:
    import jax

    host = describe_host("grokscope", "jax", "jaxlib", "numpy", "optax")
    return {**host, "backend": jax.default_backend(), "threads": count_threads()}


def describe_host(*packages: str) -> dict[str, Any]:
    """The machine, and the versions of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "versions": versions,
        "commit": find_commit(),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def count_threads() -> int:
    """Threads that a matrix product may use: XLA obeys NPROC, else the cores we may run on."""
    return int(os.environ.get("NPROC", 0)) or count_cores()


def count_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_cores(index: int, count: int) -> set[int]:
    """Those of the worker process of that index, among the cores that the caller may use."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[(index * count + offset) % len(cores)] for offset in range(count)}


def new_segment(
    epoch: int, execution: str, machine: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One uninterrupted stretch of training. A run that was resumed has several."""
    return {
        "from_epoch": epoch,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "execution": execution,
        "seconds": 0.0,
        **(machine or describe_machine()),
    }


def find_commit() -> str | None:
    """Commit of the grokscope checkout in use, with a + where it has been edited."""
    commit = _ask_git("rev-parse", "--short", "HEAD")
    edited = commit and _ask_git("status", "--porcelain", "--untracked-files=no")
    return f"{commit}+" if edited else commit


def _ask_git(*words: str) -> str | None:
    """What git answers, without a lock: if we were killed while we had one (as `git describe
    --dirty` does), the user's own git would refuse to work."""
    here = str(Path(grokscope.__file__).parent)
    command = ["git", "--no-optional-locks", "-C", here, *words]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return text.stdout.strip() if text.returncode == 0 else None
