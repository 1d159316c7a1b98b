"""Errors a user can act on. Each message is one or two sentences: what was given, what is
allowed, what to do. The command line prints them without a traceback and exits with their code."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable


class GrokscopeError(Exception):
    """Base of every error that is the input's or the machine's, not a bug of ours."""

    exit_code = 1


class SpecError(GrokscopeError, ValueError):
    """A specification that cannot be run: unknown field, wrong type, impossible task."""

    exit_code = 2


class StoreError(GrokscopeError):
    """The store cannot be read or written."""

    exit_code = 3


class LeaseLost(StoreError):
    """Another process works on the run by now."""


class TrainingError(GrokscopeError):
    """Training ended without every run being finished."""

    exit_code = 4


ODD = re.compile(r"[^\x20-\x7e\n\t]")


def plain(text: str) -> str:
    """Text for a terminal: control characters, and those that reverse its direction, are shown as
    escapes. A name in somebody else's store must not be able to steer the terminal."""
    return ODD.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    r"""\u001b, as JSON writes it, so that JSON stays what it is."""
    if unicodedata.category(found[0]) not in ("Cc", "Cf", "Cs", "Co"):
        return found[0]
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 0x10000 else json.dumps(found[0])[1:-1]


def first_line(error: object) -> str:
    """What an error says, in brief; its class if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def named_error(name: str, message: str) -> GrokscopeError:
    """The error of a class by its name, as it came from another process."""
    kinds = {kind.__name__: kind for kind in (SpecError, StoreError, TrainingError)}
    return kinds.get(name, TrainingError)(message)


def name_extra(name: str) -> str:
    """How to install an extra: the package lies in a clone, under no name that pip could find."""
    return f"Install the extra `{name}`: pip install '.[{name}]' in the clone of grokscope."


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """' Did you mean …?' for the names nearest to `name`, else `otherwise` or ' Known: …'."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f" Did you mean {' or '.join(near)}?"
    return otherwise or f" Known: {', '.join(known)}."
