"""Ctrl-C and SIGTERM: obeyed soon, whatever the process is doing, with a word on what was kept.

Python raises KeyboardInterrupt between two steps of its own. In the middle of compiled code that
may be late, and in a callback of a library it is swallowed. Since being killed at any moment is
safe here, a command that has not come to its end a second after it was asked to is ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

PATIENCE = 1.0  # seconds
MOST_PATIENCE = 30.0  # for work that was announced by `closing`
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}

_asked, _closing = threading.Event(), threading.Event()
_reports: list[Callable[[], str]] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does."""


def report_with(describe: Callable[[], str]) -> None:
    """What says in a sentence what would be kept if we were stopped now."""
    _reports[:] = [describe]


def sentence(number: int) -> str:
    """What a stopped command says."""
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    resumes = "The same command resumes from the last resume point."
    return f"grokscope: {what}." + "".join(f" {describe()} {resumes}" for describe in _reports)


@contextlib.contextmanager
def noticed() -> Iterator[None]:
    """Within, `check` raises what a callback of a library may have swallowed; Python does not tell
    of it in between."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        _asked.set()
        raise KeyboardInterrupt

    def tell(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)

    _asked.clear()
    before, sys.unraisablehook = sys.unraisablehook, tell
    signal.signal(signal.SIGINT, note)
    try:
        yield
        check()
    finally:
        sys.unraisablehook = before
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _asked.clear()


def check() -> None:
    if _asked.is_set():
        raise KeyboardInterrupt


@contextlib.contextmanager
def closing() -> Iterator[None]:
    """Within, a command that was stopped may write down what it has."""
    _closing.set()
    try:
        yield
    finally:
        _closing.clear()


@contextlib.contextmanager
def obeyed() -> Iterator[None]:
    """Within, a command that is asked to stop has stopped `PATIENCE` seconds later."""
    if os.name != "posix":
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        _asked.set()
        raise Terminated

    ear, mouth = os.pipe()
    os.set_blocking(mouth, False)
    threading.Thread(target=_stop_late, args=(ear,), daemon=True).start()
    before = signal.signal(signal.SIGTERM, terminate)
    signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, before)
        os.close(mouth)


def _stop_late(ear: int) -> None:
    """Wait for a signal's number; the interpreter writes it at once, even if it can do nothing else
    at the moment."""
    while number := os.read(ear, 1):
        if number[0] in CODES:
            # A second signal ends what is being put in order.
            then = _hear(ear, PATIENCE)
            if then is None and _closing.is_set():
                then = _hear(ear, MOST_PATIENCE)
            if then == b"":  # the command has come to its end, and said so itself
                break
            with contextlib.suppress(OSError, ValueError):
                print(f"\n{sentence(number[0])}", file=sys.stderr, flush=True)
            os._exit(CODES[signal.Signals(number[0])])
    os.close(ear)


def _hear(ear: int, seconds: float) -> bytes | None:
    """What comes within so many seconds: a signal, nothing more ever (b""), or None."""
    heard, _, _ = select.select([ear], [], [], seconds)
    return os.read(ear, 1) if heard else None
