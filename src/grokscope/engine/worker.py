"""A worker process: reads one order from standard input, writes events to standard output.

It is told to stop by its standard input closing, which also happens when its master is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

from grokscope.engine.events import Event


def main() -> int:
    # Ctrl-C reaches the whole process group; the master decides, by closing our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGUSR2):  # of a cluster that wants its node back
        signal.signal(number, _leave)
    _limit_cores()
    with contextlib.suppress(OSError):  # where memory runs out, we go before our master
        Path("/proc/self/oom_score_adj").write_text("500")
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a user's rule prints is no event
    order = sys.stdin.readline()
    threading.Thread(target=_stop_with_master, daemon=True).start()
    from grokscope.engine.orders import Order, carry_out
    from grokscope.errors import GrokscopeError

    def tell(event: Event) -> None:
        print(event.to_json(), file=events, flush=True)

    try:
        carry_out(Order.from_json(order), tell)
    except GrokscopeError as error:
        tell(Event("warned", "", message=str(error), error=type(error).__name__))
        return 1
    return 0


def _stop_with_master() -> None:
    sys.stdin.read()
    _leave()


def _leave(number: int = 0, frame: object = None) -> None:
    """At any moment: the resume point is on disk. Others need not wait for us. Whoever did not
    expect it finds it in the exit code."""
    from grokscope.store.leases import give_all_back

    give_all_back()
    os._exit(128 + number if number == signal.SIGTERM else 0)


def _limit_cores() -> None:
    """Our share of the cores. XLA sizes its thread pools by it; without it two workers fight."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    share = int(os.environ["NPROC"])
    first = int(os.environ["GROKSCOPE_WORKER"]) * share
    mine = {cores[(first + offset) % len(cores)] for offset in range(share)}
    os.sched_setaffinity(0, mine)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads of a user's part, or of a library, must not keep us
