"""How programs are compiled while tests run.

Most runs of the tests take less time to train than XLA takes to make their programs fast, so it
leaves that out, here and in the processes that tests start. What hangs on last bits or on recorded
numbers, and what trains for long, has its programs as users have them: `optimised`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
FULL = {"xla_backend_optimization_level": "3", "xla_cpu_use_fusion_emitters": "True"}


@contextmanager
def optimised() -> Iterator[None]:
    """Programs that are begun here, and those of processes that are started, are XLA's own."""
    import jax

    from grokscope.engine import compilation

    jax.jit(lambda: 0)()  # XLA reads its flags once, before the first program
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(compilation.OPTIONS, "cpu", compilation.OPTIONS["cpu"] | FULL)
        patch.setenv("XLA_FLAGS", "")
        yield
