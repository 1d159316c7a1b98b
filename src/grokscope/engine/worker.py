"""A worker process: reads orders from standard input, writes events to standard output.

After each order it says so and waits for the next. It is told to stop by its standard
input closing, which also happens when its master is killed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from pathlib import Path

from grokscope.engine.events import DONE, TIRED, Event
from grokscope.store.provenance import share_cores

IDLE_SECONDS = 60.0  # without an order, after which it gives its memory back


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
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    from grokscope.engine.orders import Order, carry_out
    from grokscope.errors import GrokscopeError

    def tell(event: Event) -> None:
        print(event.to_json(), file=events, flush=True)

    while True:
        try:
            carry_out(Order.from_json(orders.get(timeout=IDLE_SECONDS)), tell)
        except queue.Empty:
            return TIRED
        except GrokscopeError as error:
            tell(Event("warned", "", message=str(error), error=type(error).__name__))
            return 1
        print(DONE, file=events, flush=True)


def _listen(orders: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        orders.put(line)
    _leave()


def _leave(number: int = 0, frame: object = None) -> None:
    """At any moment: the resume point is on disk. Others need not wait for us. Whoever did not
    expect it finds it in the exit code."""
    from grokscope.store.leases import give_all_back

    give_all_back()
    os._exit(128 + number if number == signal.SIGTERM else 0)


def _limit_cores() -> None:
    """Our share of the cores. XLA sizes its thread pools by it; without it two workers fight."""
    if hasattr(os, "sched_setaffinity"):
        share = share_cores(int(os.environ["GROKSCOPE_WORKER"]), int(os.environ["NPROC"]))
        os.sched_setaffinity(0, share)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # threads of a user's part, or of a library, must not keep us
