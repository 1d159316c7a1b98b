"""How JAX is set up for us: programs kept on disk, calls that run where they are made."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from functools import cache
from pathlib import Path

# Small reductions, such as a softmax over five positions, cost more in XLA's YNN kernels than in
# the fused loops that those replace: a tenth of an epoch (docs/log.md). Other options, other
# last bits, so a run keeps those that it was begun with.
OPTIONS = {"cpu": {"xla_cpu_experimental_ynn_fusion_type": ""}}


def default_options() -> dict[str, str]:
    """Of new runs on this machine."""
    import jax

    return OPTIONS.get(jax.default_backend(), {})


@cache
def prepare() -> None:
    """Call before the first use of JAX in a process that trains."""
    import jax

    # Two of our loops in flight at once can exhaust XLA's thread pool and wait for each other
    # forever (seen with jax 0.10.2 on two cores). A call that runs in its caller's thread cannot.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    _keep_programs()


def _keep_programs() -> None:
    """Let JAX keep what it compiles in $GROKSCOPE_CACHE, by default the user's cache directory.

    Machine code fits one kind of processor, so each kind has a directory of its own. An empty
    $GROKSCOPE_CACHE, or a place that cannot be written, means that nothing is kept.
    """
    import jax

    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = os.environ.get("GROKSCOPE_CACHE", str(Path(home) / "grokscope"))
    if not chosen or jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return
    directory = Path(chosen) / f"xla-{_processor()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(directory, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(directory))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _processor() -> str:
    features = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    text = f"{platform.machine()} {platform.processor()} {features}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]
